//! How long to wait before trying again.
//!
//! Waiting has a policy, and a policy has a name, so that "how hard do we knock on a peer that is down?" is
//! answered in this file and nowhere else. All of them double a ceiling up to a cap and wait a random time
//! below it ("full jitter"): a thousand clients that lost the same server at the same moment must not come
//! back at the same moment.
//!
//! [`backon`] drives retries of calls; its own jitter only ever adds to the delay, so the delays are made here:
//!
//! ```
//! # async fn example() -> Result<(), std::io::Error> {
//! use backon::Retryable;
//! use pilothouse_runtime::backoff::Policy;
//!
//! async fn call() -> Result<(), std::io::Error> { Ok(()) }
//! call.retry(Policy::CALL).when(|error| error.kind() == std::io::ErrorKind::TimedOut).await
//! # }
//! ```

use std::time::Duration;

use backon::BackoffBuilder;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A named way to wait. There is no constructor: a new need is a new constant here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    name: &'static str,
    first: Duration,
    cap: Duration,
    retries: Option<u32>,
}

/// Where random delays come from; seeded in tests.
#[derive(Debug)]
pub struct Jitter {
    generator: StdRng,
}

/// The delays of one series of attempts, ended by [`reset`](Self::reset) when one succeeds.
#[derive(Debug)]
pub struct Delays {
    policy: Policy,
    attempt: u32,
    jitter: Jitter,
}

// === impl Policy ===

impl Policy {
    /// Coming back to a peer that a long-lived connection was lost to: never gives up, since without the
    /// peer there is nothing else to do.
    pub const RECONNECT: Self = Self {
        name: "reconnect",
        first: Duration::from_millis(200),
        cap: Duration::from_secs(30),
        retries: None,
    };

    /// The next pass over a key whose last pass failed. Begins low, because most failures are a neighbour
    /// that is a moment late, and never gives up, because the next pass is the retry.
    pub const RECONCILE_ERROR: Self = Self {
        name: "reconcile-error",
        first: Duration::from_millis(50),
        cap: Duration::from_secs(60),
        retries: None,
    };

    /// A single call to another process that somebody is waiting for: few attempts within seconds, then the
    /// caller is told.
    pub const CALL: Self = Self {
        name: "call",
        first: Duration::from_millis(100),
        cap: Duration::from_secs(2),
        retries: Some(4),
    };

    /// Reading and writing again after somebody else wrote in between: conflicts are over in milliseconds.
    pub const CONFLICT: Self = Self {
        name: "conflict",
        first: Duration::from_millis(5),
        cap: Duration::from_millis(250),
        retries: Some(8),
    };

    /// All of them.
    pub const ALL: [Self; 4] = [Self::RECONNECT, Self::RECONCILE_ERROR, Self::CALL, Self::CONFLICT];

    /// What it is called in logs.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The longest wait before the first retry.
    pub const fn first(&self) -> Duration {
        self.first
    }

    /// The longest wait of all.
    pub const fn cap(&self) -> Duration {
        self.cap
    }

    /// After how many retries to give up; `None` for never.
    pub const fn retries(&self) -> Option<u32> {
        self.retries
    }

    /// The longest wait before retry number `attempt`, counted from zero.
    pub fn ceiling(&self, attempt: u32) -> Duration {
        let factor = 1_u32.checked_shl(attempt).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.cap)
    }

    /// How long to wait before retry number `attempt`, counted from zero: anything up to the ceiling.
    pub fn delay(&self, attempt: u32, jitter: &mut Jitter) -> Duration {
        jitter.below(self.ceiling(attempt))
    }

    /// A fresh series of delays.
    pub fn delays(&self) -> Delays {
        self.delays_with(Jitter::random())
    }

    /// A fresh series of delays, the same for the same seed.
    pub fn delays_with(&self, jitter: Jitter) -> Delays {
        Delays { policy: *self, attempt: 0, jitter }
    }
}

impl BackoffBuilder for Policy {
    type Backoff = Delays;

    fn build(self) -> Delays {
        self.delays()
    }
}

// === impl Jitter ===

impl Jitter {
    /// Different in every process, which is the point.
    pub fn random() -> Self {
        Self { generator: StdRng::from_os_rng() }
    }

    /// The same for the same seed.
    pub fn seeded(seed: u64) -> Self {
        Self { generator: StdRng::seed_from_u64(seed) }
    }

    fn below(&mut self, ceiling: Duration) -> Duration {
        self.generator.random_range(Duration::ZERO..=ceiling)
    }
}

// === impl Delays ===

impl Delays {
    /// Begins again: the last attempt succeeded.
    pub fn reset(&mut self) {
        self.attempt = 0;
    }
}

impl Iterator for Delays {
    type Item = Duration;

    /// The next delay; `None` once the policy gives up.
    fn next(&mut self) -> Option<Duration> {
        if self.policy.retries.is_some_and(|retries| self.attempt >= retries) {
            return None;
        }
        let delay = self.policy.delay(self.attempt, &mut self.jitter);
        self.attempt = self.attempt.saturating_add(1);
        Some(delay)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use backon::Retryable;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ceilings_double_up_to_the_cap() {
        let ceilings: Vec<_> = (0..7).map(|attempt| Policy::CALL.ceiling(attempt).as_millis()).collect();
        assert_eq!(ceilings, [100, 200, 400, 800, 1600, 2000, 2000]);
        for policy in Policy::ALL {
            assert_eq!(policy.ceiling(u32::MAX), policy.cap());
        }
    }

    #[test]
    fn same_seed_gives_the_same_delays_and_another_seed_others() {
        let delays =
            |seed| -> Vec<_> { Policy::RECONNECT.delays_with(Jitter::seeded(seed)).take(10).collect() };
        assert_eq!(delays(1), delays(1));
        assert_ne!(delays(1), delays(2));
    }

    #[test]
    fn jitter_covers_the_whole_range() {
        let mut jitter = Jitter::seeded(1);
        let ceiling = Policy::RECONNECT.cap();
        let delays: Vec<_> = (0..1000).map(|_| Policy::RECONNECT.delay(100, &mut jitter)).collect();
        assert!(delays.iter().any(|delay| *delay < ceiling / 10));
        assert!(delays.iter().any(|delay| *delay > ceiling * 9 / 10));
    }

    #[test]
    fn reset_begins_again() {
        let mut delays = Policy::CALL.delays_with(Jitter::seeded(1));
        assert_eq!(delays.by_ref().count(), 4);
        assert_eq!(delays.next(), None);
        delays.reset();
        assert!(delays.next().unwrap() <= Policy::CALL.first());
    }

    #[tokio::test(start_paused = true)]
    async fn calls_are_retried_as_often_as_the_policy_says() {
        let calls = Cell::new(0);
        let call = || async {
            calls.set(calls.get() + 1);
            Err::<(), _>("down")
        };
        assert_eq!(call.retry(Policy::CALL).await, Err("down"));
        assert_eq!(calls.get(), 5);
    }

    proptest! {
        #[test]
        fn no_delay_exceeds_its_ceiling(seed: u64, attempt: u32, index in 0..Policy::ALL.len()) {
            let policy = Policy::ALL[index];
            let delay = policy.delay(attempt, &mut Jitter::seeded(seed));
            prop_assert!(delay <= policy.ceiling(attempt));
            prop_assert!(policy.ceiling(attempt) <= policy.cap());
        }
    }
}
