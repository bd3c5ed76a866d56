//! What every Pilothouse process is built on: time, tasks, a way to stop, a way to try again, a driver for
//! controllers, logs and traces, and configuration. It knows nothing about clusters or any service.
//!
//! # A page for `main`
//!
//! Parse arguments ([`config::ConfigArgs`]), load the configuration ([`config::load`]), set up telemetry
//! ([`telemetry::install`]), then hand an asynchronous main to [`block_on`]: it installs a [`Process`], builds its
//! services, which bind their ports and fail early, spawns them, and waits for [`Process::run`]. The [`ExitCode`]
//! that comes back is documented and may be relied on.
//!
//! # Nothing runs anonymously
//!
//! Tasks are spawned through [`Tasks`], which gives each a name, an owner, a span, and an [`OnExit`] that says
//! what it means when the task ends; panics included. All of them watch one [`Shutdown`], and [`Process`] is the
//! only path from a signal to the end: stop accepting, drain, close, exit code.
//!
//! # Time is passed in
//!
//! Moments come from a [`Clock`], which tests move by hand; durations from `tokio::time`, which tests pause. So
//! no test sleeps, and none depends on the machine's speed.
//!
//! # The next pass is the retry
//!
//! Controllers implement [`Reconcile`] and are driven by a [`Controller`]: by events and by a timer, one pass
//! per key at a time, failures backed off by a named [`Policy`]. Single calls retry by a named policy too; all
//! policies are in [`backoff`].
//!
//! # Killed anywhere
//!
//! What must survive being cut off says where it may be: [`fault::point`]. Tests go through all of these points; a
//! release build has none.
//!
//! # Files
//!
//! Whoever takes changes of a file while it runs waits for a [`FileWatch`].
//!
//! # Descriptors
//!
//! [`block_on`] raises the limit of descriptors; programs of others begin with the former one, by [`with_former_limit`]. A
//! listener that could not accept asks [`accept_failed`] whether that passes.
//!
//! # What this crate runs by itself
//!
//! - a task `signals` owned by `process`, for as long as a [`Process`] runs;
//! - per [`Controller`] one task of its name, and below it one per pass;
//! - if traces are exported, two threads: one that batches, one that sends.
//!
//! # Errors
//!
//! No `Display` of ours repeats its source; [`Chain`] writes an error with all of its causes, and is used where
//! an error ends.

mod accept;
pub mod backoff;
mod chain;
mod clock;
pub mod config;
mod descriptors;
pub mod fault;
mod file_watch;
mod instant;
mod process;
mod readable;
pub mod reconcile;
mod shutdown;
mod tasks;
pub mod telemetry;

pub use accept::accept_failed;
pub use backoff::Policy;
pub use chain::Chain;
pub use clock::{Clock, ManualClock};
pub use descriptors::{descriptor_limit, former_descriptor_limit, lower_descriptor_limit, with_former_limit};
pub use file_watch::FileWatch;
pub use process::{Process, block_on};
pub use reconcile::{Controller, Lane, Next, Reconcile};
pub use shutdown::{Ending, ExitCode, Reason, Shutdown, Signal};
pub use tasks::{OnExit, StillRunning, TaskError, TaskStatus, Tasks};
