//! Stopping a region from outside.

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

/// Stops the region in `data_dir`, if it runs, and otherwise removes the processes of one that was killed.
///
/// # Errors
///
/// If it does not end within `limit`.
pub async fn stop(data_dir: &DataDir, limit: Duration) -> Result<Stopped, StopError> {
    if let Some(process) = data_dir.running() {
        kill(Pid::from_raw(process.id), Signal::SIGTERM)
            .map_err(|error| StopError::Refused { process: process.id, source: error.into() })?;
        let deadline = Instant::now() + limit;
        while process.is_alive() {
            if Instant::now() >= deadline {
                return Err(StopError::Late { process: process.id, after: limit });
            }
            sleep(LOOK).await;
        }
        return Ok(Stopped::Ended);
    }
    if !data_dir.node().exists() {
        return Ok(Stopped::Nothing);
    }
    // Nobody may start it in the meantime.
    let _held = data_dir.hold()?;
    let removed = pilothouse_kubelet::remove(&NodeFiles::new(data_dir.node()).root())
        .map_err(|error| StopError::Remains(Box::new(error)))?;
    Ok(if removed > 0 { Stopped::Removed } else { Stopped::Nothing })
}
