//! Wall-clock time that a test can hold in its hand.
//!
//! There are two kinds of time here. *Durations* (time-outs, back-off, resync periods) are measured with
//! [`tokio::time`], which a test pauses. *Moments* that are stored, shown or compared with a certificate's
//! expiry come from a [`Clock`], which is passed in like any other dependency; code that reads the system
//! time directly does not pass the lints.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

/// The longest uninterrupted sleep on the system clock. The wall clock may be set while we wait, and the
/// timer underneath does not notice; looking again every minute bounds the error.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Tells the time. A cheap handle: clone it freely.
#[derive(Clone, Debug)]
pub struct Clock {
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    System,
    Manual(Arc<watch::Sender<Timestamp>>),
}

/// Moves the [`Clock`] it was made with; time stands still otherwise.
#[derive(Clone, Debug)]
pub struct ManualClock {
    now: Arc<watch::Sender<Timestamp>>,
}

// === impl Clock ===

impl Clock {
    /// The machine's own clock.
    pub fn system() -> Self {
        Self { source: Source::System }
    }

    /// A clock that stands at `start` until its [`ManualClock`] moves it.
    pub fn manual(start: Timestamp) -> (Self, ManualClock) {
        let now = Arc::new(watch::Sender::new(start));
        (Self { source: Source::Manual(now.clone()) }, ManualClock { now })
    }

    /// The time now.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the system time")]
    pub fn now(&self) -> Timestamp {
        match &self.source {
            Source::System => Timestamp::now(),
            Source::Manual(now) => *now.borrow(),
        }
    }

    /// How long it is until `at`; zero if that has passed.
    pub fn until(&self, at: Timestamp) -> Duration {
        let remaining = at.duration_since(self.now());
        // Fails only for negative durations, that is, for moments in the past.
        Duration::try_from(remaining).unwrap_or(Duration::ZERO)
    }

    /// Returns once [`now`](Self::now) is `at` or later; at once if it already is.
    ///
    /// On a manual clock that is when the clock is moved there, and only then. On the system clock a paused
    /// [`tokio::time`] does not help: give tests a manual clock.
    pub async fn sleep_until(&self, at: Timestamp) {
        match &self.source {
            Source::System => loop {
                let remaining = self.until(at);
                if remaining.is_zero() {
                    return;
                }
                tokio::time::sleep(remaining.min(LOOK_AGAIN)).await;
            },
            Source::Manual(now) => {
                // Cannot fail: `self` keeps the sender alive.
                let _ = now.subscribe().wait_for(|now| *now >= at).await;
            }
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

// === impl ManualClock ===

impl ManualClock {
    /// Moves the clock forward and wakes everyone whose moment has come. Stops at the end of representable
    /// time.
    pub fn advance(&self, by: Duration) {
        let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
        self.now.send_modify(|now| *now = now.saturating_add(by).unwrap_or(Timestamp::MAX));
    }

    /// Sets the clock, backwards too: machines' clocks do jump.
    pub fn set(&self, to: Timestamp) {
        self.now.send_replace(to);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn start() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn manual_clock_stands_still_until_it_is_moved() {
        let (clock, manual) = Clock::manual(start());
        assert_eq!(clock.now(), start());
        manual.advance(Duration::from_secs(90));
        assert_eq!(clock.clone().now().to_string(), "2026-01-01T00:01:30Z");
        manual.set(start());
        assert_eq!(clock.now(), start());
    }

    #[test]
    fn advancing_past_the_end_of_time_stops_there() {
        let (clock, manual) = Clock::manual(start());
        manual.advance(Duration::MAX);
        assert_eq!(clock.now(), Timestamp::MAX);
    }

    #[tokio::test]
    async fn sleeper_wakes_when_the_clock_passes_its_moment_and_not_before() {
        let (clock, manual) = Clock::manual(start());
        let mut sleeper = Box::pin(clock.sleep_until(start() + SignedDuration::from_secs(10)));

        manual.advance(Duration::from_secs(9));
        assert!(sleeper.as_mut().now_or_never().is_none());
        manual.advance(Duration::from_secs(1));
        assert!(sleeper.as_mut().now_or_never().is_some());
    }

    #[tokio::test]
    async fn moments_in_the_past_do_not_wait() {
        let (clock, _manual) = Clock::manual(start());
        let past = start() - SignedDuration::from_secs(1);
        assert_eq!(clock.until(past), Duration::ZERO);
        assert!(clock.sleep_until(past).now_or_never().is_some());
        assert!(Clock::system().sleep_until(past).now_or_never().is_some());
    }

    #[tokio::test]
    async fn system_clock_reaches_a_moment_ahead() {
        let clock = Clock::system();
        let at = clock.now() + SignedDuration::from_millis(5);
        clock.sleep_until(at).await;
        assert!(clock.now() >= at);
    }
}
