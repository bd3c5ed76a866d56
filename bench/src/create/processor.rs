//! How much of a processor idle processes use.

use std::fs;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Long enough for timers of seconds to show.
const WINDOW: Duration = Duration::from_secs(5);
/// The kernel counts in hundredths of a second, for whoever asks through `/proc`.
const TICKS_A_SECOND: f64 = 100.0;

/// The share of one processor, in percent, that these processes use for a while.
pub(super) async fn share(processes: &[i32]) -> f64 {
    let start = Instant::now();
    let before = seconds(processes);
    sleep(WINDOW).await;
    (seconds(processes) - before) / start.elapsed().as_secs_f64() * 100.0
}

/// The time these processes had a processor, all in all.
fn seconds(processes: &[i32]) -> f64 {
    processes
        .iter()
        .filter_map(|id| ticks(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?))
        .sum::<f64>()
        / TICKS_A_SECOND
}

fn ticks(stat: &str) -> Option<f64> {
    // The name of the program is in parentheses and may contain anything, also parentheses.
    let (_, after) = stat.rsplit_once(')')?;
    let mut times = after.split_whitespace().skip(11).map(str::parse::<f64>);
    Some(times.next()?.ok()? + times.next()?.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_programs_and_in_the_kernel_is_added() {
        assert_eq!(ticks("7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 30 12 0 0 20 0"), Some(42.0));
        assert_eq!(ticks("7 (cut"), None);
    }
}
