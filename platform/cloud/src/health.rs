//! What the readiness page says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use pilothouse_http::Verdict;

use crate::refusal::Refusal;

/// What was last seen of the store. A cheap handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreState(Arc<AtomicU8>);

const NOT_SERVED: u8 = 0;
const WELL: u8 = 1;
const FAILED: u8 = 2;

impl StoreState {
    /// From now on requests are answered. The region's zone was looked for before, so the store was there.
    pub(crate) fn begin(&self) {
        self.0.store(WELL, Ordering::Relaxed);
    }

    /// How a request ended.
    pub(crate) fn note(&self, refusal: Option<&Refusal>) {
        let seen = match refusal {
            None => WELL,
            Some(Refusal::Store(_)) => FAILED,
            // Most of these say nothing of the store.
            Some(_) => return,
        };
        self.0.store(seen, Ordering::Relaxed);
    }

    pub(crate) fn verdict(&self) -> Verdict {
        match self.0.load(Ordering::Relaxed) {
            NOT_SERVED => Verdict::failed("requests are not answered yet"),
            WELL => Verdict::ready("requests are answered"),
            // Who is asked nothing more does not see that the store is back, so it stays ready.
            _ => Verdict::warning("the store failed when it was last asked; see the log"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ready_once_it_answers_and_warns_while_the_store_fails() {
        let state = StoreState::default();
        assert!(!state.verdict().is_ready());
        state.begin();
        assert!(state.verdict().to_string().starts_with("[+]"));
        state.note(Some(&Refusal::Store(pilothouse_store::Error::Closed)));
        assert!(state.verdict().to_string().starts_with("[!]"));
        state.note(Some(&Refusal::NoSuchPath));
        assert!(state.verdict().to_string().starts_with("[!]"));
        state.note(None);
        assert!(state.verdict().to_string().starts_with("[+]"));
    }
}
