//! Moments to come.

use std::time::Duration;

use tokio::time::Instant;

/// Beyond any process's life, and within what clocks can count.
const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// `delay` after `now`, where adding them would panic for "never" written as [`Duration::MAX`].
pub(crate) fn after(now: Instant, delay: Duration) -> Instant {
    now + delay.min(NEVER)
}
