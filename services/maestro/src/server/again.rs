//! Trying again what the store could not do when an agent said something.
//!
//! What an agent says over MQTT is acknowledged by the broker, and nobody says it a second time by himself: neither the agent,
//! which has connected once and asked once, nor the broker. So whoever deals with it tries until it is done, or until the same
//! was asked anew.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pilothouse_runtime::{Chain, Policy, Shutdown, TaskError};
use pilothouse_store::Error as StoreError;
use tokio::sync::Semaphore;
use tracing::warn;

use crate::link::LinkError;
use crate::server::metrics::Metrics;

/// Attempts that are made at once.
const PLACES: usize = 32;

/// What is being tried. A cheap handle.
#[derive(Clone, Debug)]
pub(super) struct Again {
    shutdown: Shutdown,
    metrics: Metrics,
    latest: Arc<Mutex<Latest>>,
    /// Of attempts that are made at once: however many agents have asked, statuses need the store as well.
    places: Arc<Semaphore>,
}

/// Of everything that is at work, who was the last to begin with it.
#[derive(Debug, Default)]
struct Latest {
    /// The next number. None is given twice: who has been at it for long would take another's turn for his own.
    next: u64,
    of: HashMap<About, u64>,
}

/// What tells that two attempts come to the same, so that one of them is enough.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum About {
    /// Asking all agents for what is not known here.
    Statuses,
    /// Answering a question of an agent. A number stands for its words: an agent whose connections break often asks the same
    /// with each, and one whose question was too large for one message asks in parts, each of which has to be answered.
    Question { consumer: String, words: u64 },
    /// Taking back a bundle.
    Removal { consumer: String, id: String },
}

/// Somebody's turn; given up when dropped.
struct Turn<'a> {
    again: &'a Again,
    about: About,
    number: u64,
}

// === impl Again ===

impl Again {
    pub(super) fn new(shutdown: Shutdown, metrics: Metrics) -> Self {
        Self { shutdown, metrics, latest: Arc::default(), places: Arc::new(Semaphore::new(PLACES)) }
    }

    /// Makes attempts until one comes to something else than that it might go well later; or until shutdown, or until somebody
    /// else has begun with the same.
    pub(super) async fn insist<F>(
        &self,
        about: About,
        mut attempt: impl FnMut() -> F,
    ) -> Result<(), TaskError>
    where
        F: Future<Output = Result<(), TaskError>>,
    {
        let turn = self.begin(about);
        let mut delays = Policy::RECONNECT.delays();
        loop {
            let place = self.places.acquire().await?;
            if !turn.is_the_last() {
                return Ok(());
            }
            match attempt().await {
                Err(error) if may_pass(&error) => {
                    warn!(about = ?turn.about, error = %Chain(error.as_ref()), "it is tried again");
                    self.metrics.put_off.inc();
                }
                outcome => return outcome,
            }
            drop(place);
            tokio::select! {
                () = self.shutdown.requested() => return Ok(()),
                () = tokio::time::sleep(delays.next().unwrap_or_default()) => {}
            }
        }
    }

    fn begin(&self, about: About) -> Turn<'_> {
        let mut latest = self.lock();
        let number = latest.next;
        latest.next += 1;
        latest.of.insert(about.clone(), number);
        Turn { again: self, about, number }
    }

    fn lock(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an attempt that came to nothing may go well later. Without a connection it does not: with the next one both sides
/// ask anew. Neither does what the broker has refused: it was asked, and that is its answer.
fn may_pass(error: &TaskError) -> bool {
    match (error.downcast_ref::<StoreError>(), error.downcast_ref::<LinkError>()) {
        (Some(error), _) => is_of_the_moment(error),
        (_, Some(error)) => matches!(error, LinkError::Unacknowledged { .. }),
        _ => false,
    }
}

/// Whether the store may do later what it did not do now. All that is tried here may be done twice.
pub(super) fn is_of_the_moment(error: &StoreError) -> bool {
    error.is_retryable() || matches!(error, StoreError::Conflict(_) | StoreError::Uncertain { .. })
}

// === impl Turn ===

impl Turn<'_> {
    fn is_the_last(&self) -> bool {
        self.again.lock().of.get(&self.about) == Some(&self.number)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut latest = self.again.lock();
        if latest.of.get(&self.about) == Some(&self.number) {
            latest.of.remove(&self.about);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use pilothouse_runtime::Reason;
    use prometheus_client::registry::Registry;
    use tokio::sync::Notify;

    use super::*;

    fn again() -> Again {
        Again::new(Shutdown::new(), Metrics::register(&mut Registry::default()))
    }

    fn away() -> TaskError {
        let source = std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into();
        StoreError::Unavailable { problem: "it is away".to_owned(), source }.into()
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_store_cannot_do_now_is_done_when_it_can() {
        let (again, attempts) = (again(), Cell::new(0));
        let attempt = || async {
            attempts.set(attempts.get() + 1);
            if attempts.get() < 4 { Err(away()) } else { Ok(()) }
        };
        again.insist(About::Statuses, attempt).await.unwrap();
        assert_eq!((attempts.get(), again.metrics.put_off.get()), (4, 3));
        assert!(again.lock().of.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_will_never_go_well_is_told_at_once() {
        let again = again();
        let refused = LinkError::Refused { topic: "t".to_owned(), reason: "NotAuthorized".to_owned() };
        let all = [StoreError::Closed.into(), LinkError::Down.into(), refused.into(), TaskError::from("odd")];
        for hopeless in all {
            let mut hopeless = Some(hopeless);
            let attempt = || std::future::ready(Err(hopeless.take().expect("one attempt")));
            assert!(again.insist(About::Statuses, attempt).await.is_err());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_overtaken_leaves_it_to_the_other() {
        let again = again();
        let about = About::Question { consumer: "c1".to_owned(), words: 7 };
        let (first, second) = (Cell::new(0), Cell::new(0));
        let of_first = again.insist(about.clone(), || async {
            first.set(first.get() + 1);
            Err(away())
        });
        let of_second = again.insist(about, || async {
            second.set(second.get() + 1);
            if second.get() < 5 { Err(away()) } else { Ok(()) }
        });
        let (one, other) = tokio::join!(of_first, of_second);
        assert!(one.is_ok() && other.is_ok());
        assert_eq!((first.get(), second.get()), (1, 5));
        assert!(again.lock().of.is_empty());
    }

    /// One in between had done it, so that nobody seemed to be at it.
    #[tokio::test(start_paused = true)]
    async fn who_began_last_goes_on_when_one_who_began_long_ago_ends() {
        let (again, may_end, attempts) = (again(), Notify::new(), Cell::new(0));
        let old = again.insist(About::Statuses, || async {
            may_end.notified().await;
            Ok(())
        });
        let others = async {
            again.insist(About::Statuses, || std::future::ready(Ok(()))).await.unwrap();
            let attempt = || async {
                attempts.set(attempts.get() + 1);
                may_end.notify_one();
                if attempts.get() < 2 { Err(away()) } else { Ok(()) }
            };
            again.insist(About::Statuses, attempt).await
        };
        let (one, other) = tokio::join!(old, others);
        assert!(one.is_ok() && other.is_ok());
        assert_eq!(attempts.get(), 2);
        assert!(again.lock().of.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_insists_when_the_process_stops() {
        let again = again();
        let attempt = || async {
            again.shutdown.request(Reason::Asked("the test wants it".to_owned()));
            Err(away())
        };
        again.insist(About::Statuses, attempt).await.unwrap();
    }
}
