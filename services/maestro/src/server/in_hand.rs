//! Whether statuses may have been left out while others waited for the store.
//!
//! Brokers keep so much for who does not read, and leave out what comes then without a word. So once statuses have waited, and so
//! many that the broker may have had to keep others, all agents are asked, as after a connection that was lost; but not before
//! nothing is in hand any more: until then the broker may still have no room, and what is said in answer would be left out in turn.
//! However many have waited, that is one question; and since answers are work as well, the next one comes a while later.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// What may hold a status up without the broker running out of room. Not a number of attempts: a single one waits for a
/// connection to the database for many seconds, and may then even go well.
const HICCUP: Duration = Duration::from_secs(2);

/// As long as fewer are in hand, the broker has no reason to keep any back: those that are known have at least so many on their way
/// to a client at once.
const MANY: usize = 8;

/// Statuses that have arrived and have not been dealt with. A cheap handle.
#[derive(Clone, Debug, Default)]
pub(super) struct InHand(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    /// Told when all agents have to be asked.
    may_lack_some: Notify,
}

#[derive(Debug, Default)]
struct State {
    count: usize,
    /// How many there were at once, since there were none.
    most: usize,
    /// One has waited since then.
    one_waited: bool,
}

// === impl InHand ===

impl InHand {
    /// One has arrived.
    pub(super) fn add(&self) {
        let mut state = self.lock();
        state.count += 1;
        state.most = state.most.max(state.count);
    }

    /// One has been dealt with, which took so long.
    pub(super) fn remove(&self, took: Duration) {
        let mut state = self.lock();
        state.one_waited |= took > HICCUP;
        state.count -= 1;
        if state.count == 0 && std::mem::take(&mut *state).is_doubtful() {
            self.0.may_lack_some.notify_one();
        }
    }

    /// Until all agents have to be asked.
    pub(super) async fn may_lack_some(&self) {
        self.0.may_lack_some.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_doubtful(&self) -> bool {
        self.one_waited && self.most >= MANY
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn with(count: usize) -> InHand {
        let all = InHand::default();
        (0..count).for_each(|_| all.add());
        all
    }

    fn doubts(all: &InHand) -> bool {
        all.may_lack_some().now_or_never().is_some()
    }

    #[test]
    fn one_of_many_who_has_waited_has_everybody_asked_when_all_are_dealt_with() {
        let all = with(MANY);
        all.remove(HICCUP * 2);
        (2..MANY).for_each(|_| all.remove(HICCUP / 2));
        assert!(!doubts(&all), "one is still in hand");
        all.remove(HICCUP / 2);
        assert!(doubts(&all));
        all.add();
        all.remove(HICCUP * 2);
        assert!(!doubts(&all), "they have been asked");
    }

    #[test]
    fn hiccup_or_a_few_that_waited_have_nobody_asked() {
        let all = with(MANY);
        (0..MANY).for_each(|_| all.remove(HICCUP));
        assert!(!doubts(&all));
        let few = with(MANY - 1);
        (1..MANY).for_each(|_| few.remove(HICCUP * 2));
        assert!(!doubts(&few));
    }
}
