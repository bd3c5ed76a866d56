//! What the server itself keeps up to date: done again whenever what it depends on has changed.

use std::future::{self, Future};
use std::time::Duration;

use pilothouse_runtime::{Shutdown, TaskError};
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::warn;

use crate::status::Failure;

/// After a pass that failed. Nobody else may ever write again, so nothing else would wake it.
const RETRY: Duration = Duration::from_secs(1);

/// Does `pass` once, and again after every change in `through` that makes a new `stamp`, until shutdown. Between two passes
/// it rests, so that what is busy is not gone through on every write.
pub(crate) async fn follow<T, S: PartialEq, F: Future<Output = Result<(), Failure>>>(
    what: &'static str,
    mut through: watch::Receiver<T>,
    shutdown: Shutdown,
    rest: Duration,
    stamp: impl Fn() -> S,
    pass: impl Fn() -> F,
) -> Result<(), TaskError> {
    let mut seen = None;
    loop {
        through.mark_unchanged();
        let stamp = stamp();
        let mut failed = false;
        if seen.as_ref() != Some(&stamp) {
            match pass().await {
                Ok(()) => seen = Some(stamp),
                Err(failure) => {
                    warn!(%failure, what, "could not be kept up to date; trying again");
                    failed = true;
                }
            }
            sleep(rest).await;
        }
        let again = async { if failed { sleep(RETRY).await } else { future::pending().await } };
        tokio::select! {
            changed = through.changed() => changed?,
            () = again => {}
            () = shutdown.requested() => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use pilothouse_runtime::Reason;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pass_is_done_again_after_a_change_and_after_a_failure() {
        let (changes, through) = watch::channel(0);
        let shutdown = Shutdown::new();
        let passes = AtomicUsize::new(0);
        let pass = async || {
            let before = passes.fetch_add(1, Ordering::Relaxed);
            if before == 0 { Err(Failure::bad_request("the disk is full")) } else { Ok(()) }
        };
        let looking = through.clone();
        let stamp = || *looking.borrow();
        let following = follow("a test", through, shutdown.clone(), Duration::ZERO, stamp, pass);
        let story = async {
            // Nothing changes, and the second pass comes.
            sleep(RETRY * 2).await;
            assert_eq!(passes.load(Ordering::Relaxed), 2);
            changes.send(0).unwrap();
            sleep(RETRY).await;
            assert_eq!(passes.load(Ordering::Relaxed), 2, "nothing that matters has changed");
            changes.send(1).unwrap();
            sleep(RETRY).await;
            assert_eq!(passes.load(Ordering::Relaxed), 3);
            shutdown.request(Reason::Asked("the end".to_owned()));
        };
        let (ended, ()) = tokio::join!(following, story);
        ended.unwrap();
    }
}
