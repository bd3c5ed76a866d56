//! Waiting on a condition, with a generous limit and the last thing seen in the failure.

use std::fmt::Display;
use std::future::Future;
use std::panic::Location;
use std::time::Duration;

use tokio::time::{self, Instant};

/// First pause between two looks. It doubles up to [`LONGEST_PAUSE`]: most conditions hold almost at once, and
/// those that do not should leave the processor to whatever is being waited for.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Looks again and again until `probe` answers `Ok`, and gives that answer back. `Err` carries what was seen
/// instead, which the failure shows.
///
/// ```
/// # use std::time::Duration;
/// # use pilothouse_test_support::eventually;
/// # async fn example(replicas: impl Fn() -> u32) {
/// eventually("all replicas are up", Duration::from_secs(30), || async {
///     match replicas() {
///         3 => Ok(()),
///         other => Err(format!("{other} of 3")),
///     }
/// })
/// .await;
/// # }
/// ```
///
/// # Panics
///
/// If `limit` passes first. A probe that hangs counts as one that saw nothing.
#[track_caller]
pub fn eventually<T, E, F, Fut>(what: &str, limit: Duration, mut probe: F) -> impl Future<Output = T>
where
    E: Display,
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    // An async function would lose its caller, and the failure should point at the test.
    let caller = Location::caller();
    async move {
        let deadline = Instant::now() + limit;
        let mut pause = FIRST_PAUSE;
        let mut looks = 0_u32;
        let mut last_seen = None;
        loop {
            looks += 1;
            let hung = match time::timeout_at(deadline, probe()).await {
                Ok(Ok(answer)) => return answer,
                Ok(Err(seen)) => {
                    last_seen = Some(seen.to_string());
                    false
                }
                Err(_) => true,
            };
            if Instant::now() >= deadline {
                let last_seen = last_seen.as_deref().unwrap_or("nothing");
                let hung = if hung { "; the last look did not return" } else { "" };
                panic!(
                    "{what}: not within {limit:?} ({looks} looks, waiting at {caller}); \
                     last seen: {last_seen}{hung}"
                );
            }
            // The last look is at the deadline itself, not a pause before it.
            time::sleep_until((Instant::now() + pause).min(deadline)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn first_success_is_the_answer() {
        let looks = Cell::new(0);
        let answer = eventually("the third look succeeds", LIMIT, || async {
            looks.set(looks.get() + 1);
            if looks.get() == 3 { Ok("done") } else { Err("not yet") }
        })
        .await;
        assert_eq!((answer, looks.get()), ("done", 3));
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "all replicas are up: not within 60s")]
    async fn failure_names_the_condition() {
        eventually("all replicas are up", LIMIT, || async { Err::<(), _>("2 of 3") }).await;
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "last seen: 2 of 3")]
    async fn failure_shows_what_was_seen_last() {
        eventually("all replicas are up", LIMIT, || async { Err::<(), _>("2 of 3") }).await;
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "last seen: nothing; the last look did not return")]
    async fn hanging_probe_does_not_hang_the_test() {
        eventually("somebody answers", LIMIT, future::pending::<Result<(), &str>>).await;
    }
}
