//! How much of a processor idle processes use.

use std::fs;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Long enough for timers of seconds to show.
const WINDOW: Duration = Duration::from_secs(5);

/// The share of one processor, in percent, that these processes use for a while.
pub(crate) async fn share(processes: &[i32]) -> f64 {
    let start = Instant::now();
    let before = seconds(processes);
    sleep(WINDOW).await;
    (seconds(processes) - before) / start.elapsed().as_secs_f64() * 100.0
}

/// The time that the threads of these processes had a processor, all in all.
fn seconds(processes: &[i32]) -> f64 {
    let threads = processes.iter().filter_map(|id| fs::read_dir(format!("/proc/{id}/task")).ok()).flatten();
    let texts = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("schedstat")).ok());
    texts.filter_map(|text| nanoseconds(&text)).sum::<f64>() / 1e9
}

/// The first number of a thread's `schedstat`. Its `stat` has the same in hundredths of a second, rounded down: twenty
/// processes that each use a little would use nothing.
fn nanoseconds(schedstat: &str) -> Option<f64> {
    schedstat.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_on_a_processor_comes_first() {
        assert_eq!(nanoseconds("544949 2215356 1\n"), Some(544_949.0));
        assert_eq!(nanoseconds(""), None);
        assert!(seconds(&[std::process::id().try_into().unwrap()]) > 0.0);
    }
}
