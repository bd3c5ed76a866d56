//! How many messages a client has not acknowledged.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Packet ids in use, as many as the client takes at once.
#[derive(Debug)]
pub(super) struct Window {
    size: usize,
    used: Mutex<Used>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Used {
    ids: HashSet<u16>,
    last: u16,
}

impl Window {
    pub(super) fn new(size: u16) -> Self {
        Self { size: usize::from(size.max(1)), used: Mutex::default(), freed: Notify::new() }
    }

    pub(super) fn is_open(&self) -> bool {
        self.lock().ids.len() < self.size
    }

    /// Returns once there is room.
    pub(super) async fn opened(&self) {
        loop {
            let freed = self.freed.notified();
            if self.is_open() {
                return;
            }
            freed.await;
        }
    }

    /// A free id. To be asked for only while there is room.
    pub(super) fn take(&self) -> u16 {
        let mut used = self.lock();
        loop {
            used.last = used.last.checked_add(1).unwrap_or(1);
            let id = used.last;
            if used.ids.insert(id) {
                return id;
            }
        }
    }

    /// An id is free again; `false` if it was not in use.
    pub(super) fn free(&self, id: u16) -> bool {
        let was_used = self.lock().ids.remove(&id);
        self.freed.notify_one();
        was_used
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn window_closes_when_full_and_opens_with_an_acknowledgement() {
        let window = Window::new(2);
        assert_eq!((window.take(), window.take()), (1, 2));
        assert!(!window.is_open());
        assert!(window.opened().now_or_never().is_none());
        assert!(window.free(1) && !window.free(1));
        window.opened().await;
        assert_eq!(window.take(), 3, "ids are not used again right away");
    }

    #[test]
    fn ids_start_over_without_meeting_one_in_use() {
        let window = Window::new(10);
        assert_eq!(window.take(), 1);
        for _ in 1..u16::MAX {
            let id = window.take();
            window.free(id);
        }
        assert_eq!(window.take(), 2);
    }
}
