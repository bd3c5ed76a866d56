//! Connections that have not said yet whom they want.
//!
//! They are nobody's, so no cluster's limit holds them. Whoever says it at once, as clients do, never comes here; the others
//! have seats, of which there are so many. Where they run out it is the one that has waited longest who has to go, and not the
//! one that comes: otherwise a few who say nothing would keep everybody out for as long as they may take.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The seats. A cheap handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitingRoom(Arc<Mutex<Seats>>);

#[derive(Debug, Default)]
struct Seats {
    next: u64,
    /// Those that are taken, in the order in which they were. To drop what is inside tells whoever sits there.
    taken: BTreeMap<u64, oneshot::Sender<()>>,
}

/// A seat, given back when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    room: WaitingRoom,
    number: u64,
    kept: oneshot::Receiver<()>,
}

// === impl WaitingRoom ===

impl WaitingRoom {
    /// Takes a seat, from whoever has had one longest if there are more than `most`.
    pub(crate) fn enter(&self, most: usize) -> Seat {
        let (keep, kept) = oneshot::channel();
        let mut seats = self.lock();
        let number = seats.next;
        seats.next += 1;
        seats.taken.insert(number, keep);
        while seats.taken.len() > most.max(1) {
            seats.taken.pop_first();
        }
        Seat { room: self.clone(), number, kept }
    }

    fn lock(&self) -> MutexGuard<'_, Seats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Seat ===

impl Seat {
    /// Returns when somebody else has it.
    pub(crate) async fn lost(&mut self) {
        // Nothing is ever sent.
        let _ = (&mut self.kept).await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.room.lock().taken.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn is_lost(seat: &mut Seat) -> bool {
        seat.lost().now_or_never().is_some()
    }

    #[test]
    fn whoever_has_waited_longest_has_to_go_and_seats_are_given_back() {
        let room = WaitingRoom::default();
        let (mut first, mut second) = (room.enter(2), room.enter(2));
        assert!(!is_lost(&mut first));
        let third = room.enter(2);
        assert!(is_lost(&mut first) && !is_lost(&mut second));
        drop((first, third));
        let mut fourth = room.enter(2);
        assert!(!is_lost(&mut second) && !is_lost(&mut fourth));
        drop((second, fourth));
        assert!(room.lock().taken.is_empty());
    }
}
