//! The one way a Pilothouse process stops.
//!
//! Every binary's `main` ends the same way, so that stopping is written, and tested, once:
//!
//! 1. [`Process::install`] takes over `SIGINT`, `SIGTERM` and `SIGHUP` before anything else is built. The last one counts only
//!    when the terminal was closed that the process was started from.
//! 2. Something requests [`Shutdown`]: the first signal, a task that must not end, or a command.
//! 3. Listeners watch the switch and stop accepting; loops finish what they are at.
//! 4. Every group of [`Tasks`] is drained, all within one grace period. What overstays is named and aborted.
//! 5. What was registered with [`Process::on_drained`] is closed, last registered first: the store, telemetry.
//! 6. The [`ExitCode`] says how it went.
//!
//! A second signal at any moment from 2 on ends the process at once: whoever presses Ctrl-C twice means it.
//!
//! ```no_run
//! use std::time::Duration;
//! use pilothouse_runtime::{ExitCode, OnExit, Process, block_on};
//!
//! fn main() -> ExitCode {
//!     block_on(async {
//!         let Ok(mut process) = Process::install(Duration::from_secs(20)) else {
//!             return ExitCode::NotStarted;
//!         };
//!         let tasks = process.tasks("frontend");
//!         let shutdown = process.shutdown().clone();
//!         tasks.spawn("service", OnExit::StopProcess, async move {
//!             shutdown.requested().await;
//!             Ok(())
//!         });
//!         process.run().await
//!     })
//! }
//! ```

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use futures::future::join_all;
use tokio::runtime;
use tokio::time::{Instant, timeout_at};
use tracing::{debug, error, info};

use crate::chain::Chain;
use crate::descriptors;
use crate::instant;
use crate::shutdown::{ExitCode, Reason, Shutdown};
use crate::tasks::{OnExit, TaskError, Tasks};

mod rest;
mod signals;
#[cfg(test)]
mod tests;

use signals::Signals;

/// How long [`block_on`] waits for blocking calls that are still on a thread of the runtime.
const BLOCKED_THREADS: Duration = Duration::from_secs(1);

/// A process that can be asked to stop. See the module's own words for the order of things.
pub struct Process {
    shutdown: Shutdown,
    grace: Duration,
    groups: Vec<Tasks>,
    closings: Vec<Closing>,
}

struct Closing {
    name: String,
    future: Pin<Box<dyn Future<Output = Result<(), TaskError>> + Send>>,
}

// === impl Process ===

impl Process {
    /// Takes over `SIGINT`, `SIGTERM` and `SIGHUP`. Draining may take `grace`, and closing as long again.
    ///
    /// # Errors
    ///
    /// If the signals cannot be taken over.
    pub fn install(grace: Duration) -> io::Result<Self> {
        Ok(Self::with_signals(grace, Signals::install()?, |signal| {
            end_at_once(ExitCode::Forced(signal));
        }))
    }

    fn with_signals(
        grace: Duration,
        mut signals: Signals,
        on_second: impl FnOnce(crate::shutdown::Signal) + Send + 'static,
    ) -> Self {
        let shutdown = Shutdown::new();
        // A group of its own that nobody drains: signals must be heard while everything else is drained.
        let tasks = Tasks::new("process", shutdown.clone());
        let heard = shutdown.clone();
        tasks.spawn("signals", OnExit::LogError, async move {
            let Some(first) = signals.next().await else { return Ok(()) };
            heard.request(Reason::Signal(first));
            let second = loop {
                match signals.next().await {
                    // A terminal that is closed may say so twice: the system does, and the shell.
                    Some(crate::shutdown::Signal::Hangup) => {}
                    Some(second) => break second,
                    None => return Ok(()),
                }
            };
            error!(signal = %second, "second signal while stopping, ending at once");
            on_second(second);
            Ok(())
        });
        Self { shutdown, grace, groups: Vec::new(), closings: Vec::new() }
    }

    /// The switch that stops this process.
    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// A group of tasks that is drained when the process stops.
    pub fn tasks(&mut self, owner: impl Into<String>) -> Tasks {
        let tasks = Tasks::new(owner, self.shutdown.clone());
        self.groups.push(tasks.clone());
        tasks
    }

    /// Closes something once every task has ended, or overstayed: what was registered last is closed first.
    pub fn on_drained<F>(&mut self, name: impl Into<String>, future: F)
    where
        F: Future<Output = Result<(), TaskError>> + Send + 'static,
    {
        self.closings.push(Closing { name: name.into(), future: Box::pin(future) });
    }

    /// Runs until shutdown is requested, then drains, closes, and says how it went.
    pub async fn run(self) -> ExitCode {
        tokio::select! {
            () = self.shutdown.requested() => {}
            () = rest::give_back_at_rest() => {}
        }
        let drained = drain(&self.groups, self.grace).await;
        let closed = close(self.closings, self.grace).await;
        // Read after draining: a failure on the way out counts.
        let code = self.shutdown.reason().map_or(ExitCode::Stopped, |reason| reason.exit_code());
        let code =
            if code == ExitCode::Stopped && !(drained && closed) { ExitCode::StillRunning } else { code };
        info!(code = code.code(), "stopped");
        code
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owners: Vec<_> = self.groups.iter().map(Tasks::owner).collect();
        let closings: Vec<_> = self.closings.iter().map(|closing| &closing.name).collect();
        formatter
            .debug_struct("Process")
            .field("shutdown", &self.shutdown)
            .field("grace", &self.grace)
            .field("groups", &owners)
            .field("closings", &closings)
            .finish()
    }
}

/// All groups at once, since they all stop at once; so the log names everything that is stuck.
async fn drain(groups: &[Tasks], grace: Duration) -> bool {
    let mut drained = true;
    for outcome in join_all(groups.iter().map(|tasks| tasks.drain(grace))).await {
        if let Err(error) = outcome {
            error!(%error, "aborted what did not finish");
            drained = false;
        }
    }
    drained
}

/// One after the other, since the later may rest on the earlier, and within one deadline.
async fn close(closings: Vec<Closing>, grace: Duration) -> bool {
    let deadline = instant::after(Instant::now(), grace);
    let mut closed = true;
    for Closing { name, future } in closings.into_iter().rev() {
        match timeout_at(deadline, future).await {
            Ok(Ok(())) => debug!(closing = name, "closed"),
            Ok(Err(error)) => {
                error!(closing = name, error = %Chain(error.as_ref()), "cannot close");
                closed = false;
            }
            Err(_elapsed) => {
                error!(closing = name, "closing took too long");
                closed = false;
            }
        }
    }
    closed
}

/// Runs a `main` on a multi-threaded runtime, with as many descriptors as the process may have.
///
/// Unlike the usual attribute, it does not wait for ever for a thread that is stuck in a blocking call: the
/// exit code is known by then, and tasks that overstayed have been named.
pub fn block_on(main: impl Future<Output = ExitCode>) -> ExitCode {
    descriptors::raise_limit();
    let runtime = match runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            error!(%error, "cannot start the runtime's threads");
            return ExitCode::NotStarted;
        }
    };
    let code = runtime.block_on(main);
    runtime.shutdown_timeout(BLOCKED_THREADS);
    code
}

#[expect(clippy::exit, reason = "whoever sends a second signal does not want to wait for destructors")]
fn end_at_once(code: ExitCode) {
    std::process::exit(i32::from(code.code()));
}
