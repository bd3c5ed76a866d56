//! Named tasks with an owner.
//!
//! Nothing here runs anonymously. Each component makes one [`Tasks`] under its own name and spawns through
//! it; each task gets a name, a span carrying both, and an [`OnExit`] that answers "what if it ends?". A
//! panic is caught and treated as that answer says, so no task can die unnoticed.
//!
//! The group is also the door that shutdown waits at: [`Tasks::drain`] returns when the last task has left, or
//! names those still inside when time is up.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;
use tracing::{Instrument, debug, error, info_span};

use crate::chain::Chain;
use crate::shutdown::{Ending, Reason, Shutdown};

mod roster;
#[cfg(test)]
mod tests;

use roster::Roster;
pub use roster::TaskStatus;

/// What a task may fail with. It ends in the log and in [`Reason::TaskEnded`], so it needs no type.
pub type TaskError = Box<dyn Error + Send + Sync>;

/// A group of named tasks with one owner. A cheap handle; dropping it does not stop the tasks.
#[derive(Clone, Debug)]
pub struct Tasks {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    owner: String,
    shutdown: Shutdown,
    roster: Roster,
}

/// What it means when a task ends.
///
/// | | returns before shutdown | fails or panics | at [`drain`](Tasks::drain) |
/// |---|---|---|---|
/// | `StopProcess` | stops the process | stops the process | waited for |
/// | `LogError` | nothing | logged as an error | waited for |
/// | `Expendable` | nothing | logged as an error | aborted |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum OnExit {
    /// For what the process is there for: listeners, controllers, a service's main loop. Ending in any way
    /// before shutdown requests [`Shutdown`]; so does an error or a panic afterwards, which thereby shows in
    /// the exit code.
    StopProcess,
    /// For pieces of work that end by themselves: one connection, one delivery. An error or a panic is logged
    /// and the process goes on.
    LogError,
    /// Like `LogError`, but nothing is lost by stopping it anywhere: probes, pollers, watchers. It is not
    /// waited for at shutdown, but aborted as soon as draining begins.
    Expendable,
}

/// Some tasks had not finished when the time to drain was over. They have been aborted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{owner}` still had tasks running after {}: {}", humantime::format_duration(*.deadline), Counted(.tasks))]
pub struct StillRunning {
    /// Whose tasks they are.
    pub owner: String,
    /// Their names, and how many of each.
    pub tasks: BTreeMap<String, usize>,
    /// How long was waited.
    pub deadline: Duration,
}

struct Counted<'a>(&'a BTreeMap<String, usize>);

// === impl Tasks ===

impl Tasks {
    /// An empty group.
    pub fn new(owner: impl Into<String>, shutdown: Shutdown) -> Self {
        Self { inner: Arc::new(Inner { owner: owner.into(), shutdown, roster: Roster::default() }) }
    }

    /// Whose tasks these are.
    pub fn owner(&self) -> &str {
        &self.inner.owner
    }

    /// The switch the tasks are to watch.
    pub fn shutdown(&self) -> &Shutdown {
        &self.inner.shutdown
    }

    /// Runs `future` as a task.
    ///
    /// Names say what is done, not for whom: a thousand connections are a thousand tasks named `connection`,
    /// told apart by the fields of their own spans.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub fn spawn<F>(&self, name: impl Into<String>, on_exit: OnExit, future: F)
    where
        F: Future<Output = Result<(), TaskError>> + Send + 'static,
    {
        let name: Arc<str> = name.into().into();
        // Not a child of whatever span happens to spawn it: tasks outlive requests.
        let span = info_span!(parent: None, "task", owner = %self.inner.owner, task = %name);
        let inner = self.inner.clone();
        self.inner.roster.enter(name.clone(), on_exit, |leave| {
            let supervised = async move {
                // The future is dropped right after a panic, so nothing sees it half-way.
                let outcome = AssertUnwindSafe(future).catch_unwind().await;
                let ending = match outcome {
                    Ok(Ok(())) => Ending::Returned,
                    Ok(Err(error)) => Ending::Failed(Chain(error.as_ref()).to_string()),
                    Err(payload) => Ending::Panicked(panic_message(payload.as_ref())),
                };
                inner.ended(&name, on_exit, ending);
                // Last, so that whoever finds the group empty also finds the consequences. An aborted task
                // comes here too, by being dropped.
                drop(leave);
            };
            spawn_on_runtime(supervised.instrument(span))
        });
    }

    /// Waits until no task is left. Ask for [`Shutdown`] first, or tasks that wait for it are waited for in
    /// vain.
    ///
    /// # Errors
    ///
    /// When tasks are still running after `deadline`. They are aborted; one that never reaches an `.await` goes
    /// on until it does.
    pub async fn drain(&self, deadline: Duration) -> Result<(), StillRunning> {
        let roster = &self.inner.roster;
        roster.abort_expendable();
        if tokio::time::timeout(deadline, roster.empty()).await.is_ok() {
            return Ok(());
        }
        let tasks = roster.abort_all();
        if tasks.is_empty() {
            // The last one left between the time-out and the look.
            return Ok(());
        }
        Err(StillRunning { owner: self.inner.owner.clone(), tasks, deadline })
    }

    /// What runs and what failed, one row per name, for the debug page.
    pub fn status(&self) -> Vec<TaskStatus> {
        self.inner.roster.status(&self.inner.owner, Instant::now())
    }
}

impl Inner {
    fn ended(&self, task: &str, on_exit: OnExit, ending: Ending) {
        self.roster.ended(task, &ending);
        let expected = ending == Ending::Returned && self.shutdown.is_requested();
        match on_exit {
            _ if expected => debug!("task finished"),
            // Logged there, with the reason.
            OnExit::StopProcess => self.shutdown.request(Reason::TaskEnded {
                owner: self.owner.clone(),
                task: task.to_owned(),
                ending,
            }),
            OnExit::LogError | OnExit::Expendable => match ending {
                Ending::Returned => debug!("task finished"),
                Ending::Failed(error) => error!(error, "task failed"),
                Ending::Panicked(message) => error!(error = message, "task panicked"),
            },
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]
fn spawn_on_runtime(future: impl Future<Output = ()> + Send + 'static) -> tokio::task::AbortHandle {
    tokio::spawn(future).abort_handle()
}

/// What a panic said, if it said it in words.
pub(crate) fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    if let Some(message) = payload.downcast_ref::<&str>() {
        (*message).to_owned()
    } else if let Some(message) = payload.downcast_ref::<String>() {
        message.clone()
    } else {
        "without a message".to_owned()
    }
}

// === impl StillRunning ===

impl fmt::Display for Counted<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, count)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(formatter, "{separator}`{name}`")?;
            if *count > 1 {
                write!(formatter, " ({count} times)")?;
            }
        }
        Ok(())
    }
}
