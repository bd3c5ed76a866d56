//! Stopping a region from outside.

use std::error::Error;
use std::io;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep};

use crate::data_dir::{DataDir, DataDirError};
use crate::node::NodeFiles;

/// How often to look whether a process has ended: the system does not tell strangers.
const LOOK: Duration = Duration::from_millis(20);

/// What stopping came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The region ran, and ended in order.
    Ended,
    /// The region ran, and ended before it had stopped all of its processes. They are gone now.
    EndedEarly,
    /// It did not run, but something of it did.
    Removed,
    /// Nothing was running.
    Nothing,
}

/// Why a region did not stop.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// It takes longer than allowed.
    #[error("process {process} has not ended after {}s", .after.as_secs())]
    Late {
        /// The region's process.
        process: i32,
        /// How long was waited.
        after: Duration,
    },
    /// It has ended, and somebody removes what it left, for longer than allowed.
    #[error("somebody else has been stopping it for {}s", .0.as_secs())]
    Busy(Duration),
    /// It belongs to somebody else.
    #[error("process {process} cannot be told to stop")]
    Refused {
        /// The region's process.
        process: i32,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Its folder cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// What it had left running cannot be removed.
    #[error("what the region had left running is still there")]
    Remains(#[source] Box<pilothouse_kubelet::Error>),
}

/// Stops the region in `data_dir`, if it runs, and removes the processes of one that was killed.
///
/// One that is stopping already is not told again, which would end it at once: it is waited for.
///
/// # Errors
///
/// If it does not end within `limit`.
pub async fn stop(data_dir: &DataDir, limit: Duration) -> Result<Stopped, StopError> {
    // A folder that no region was ever in stays as it is.
    if data_dir.running().is_none() && !data_dir.node().exists() {
        return Ok(Stopped::Nothing);
    }
    let deadline = Instant::now() + limit;
    let late = |process: i32| {
        if Instant::now() >= deadline { Err(StopError::Late { process, after: limit }) } else { Ok(()) }
    };
    let mut ended = false;
    let _stopping = loop {
        if let Some(lock) = data_dir.hold_stop()? {
            break lock;
        }
        // Somebody else is stopping it.
        match data_dir.running() {
            Some(process) => {
                ended = true;
                late(process.id)?;
            }
            None if Instant::now() >= deadline => return Err(StopError::Busy(limit)),
            None => {}
        }
        sleep(LOOK).await;
    };
    if let Some(process) = data_dir.running() {
        if !process.stopping {
            kill(Pid::from_raw(process.id), Signal::SIGTERM)
                .map_err(|error| StopError::Refused { process: process.id, source: error.into() })?;
        }
        while process.is_alive() {
            late(process.id)?;
            sleep(LOOK).await;
        }
        ended = true;
    }
    let removed = loop {
        match remains(data_dir) {
            // It was started again in the meantime, and has what there was.
            Err(StopError::DataDir(DataDirError::Taken { by: Some(_), .. })) if ended => break 0,
            Err(error) if is_about_to_pass(&error) && Instant::now() < deadline => sleep(LOOK).await,
            removed => break removed?,
        }
    };
    Ok(match (ended, removed) {
        (true, 0) => Stopped::Ended,
        (true, _) => Stopped::EndedEarly,
        (false, 0) => Stopped::Nothing,
        (false, _) => Stopped::Removed,
    })
}

/// Whether nobody runs it, and only locks are in the way. Threads of a process may outlive what the system shows as its end, and
/// its kubelet is ended by the system a moment after it.
fn is_about_to_pass(error: &StopError) -> bool {
    match error {
        StopError::DataDir(DataDirError::Taken { by, .. }) => by.is_none(),
        StopError::Remains(error) => is_locked(error),
        _ => false,
    }
}

fn is_locked(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Ends what a region that does not run has left running, and counts it.
fn remains(data_dir: &DataDir) -> Result<usize, StopError> {
    if !data_dir.node().exists() {
        return Ok(0);
    }
    // Nobody may start it in the meantime.
    let held = data_dir.hold_at_rest()?;
    held.forget_endpoints();
    pilothouse_kubelet::remove(&NodeFiles::new(data_dir.node()).root())
        .map_err(|error| StopError::Remains(Box::new(error)))
}
