//! The one switch that stops a process, and why it was thrown.
//!
//! Whoever accepts work holds a [`Shutdown`] and watches it; nobody is told to stop in any other way. The
//! first request throws the switch, later ones change nothing but the record: a failure reported while the
//! process is already stopping replaces a harmless reason, so that the exit code never hides it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info};

mod exit_code;

pub use exit_code::ExitCode;

/// Asks everything that shares it to stop. One per process, or per test; a cheap handle.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    token: CancellationToken,
    reason: Mutex<Option<Reason>>,
}

/// Why a process stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The process was sent a signal.
    Signal(Signal),
    /// A task without which the process makes no sense has ended.
    TaskEnded {
        /// Whose task it was.
        owner: String,
        /// Its name.
        task: String,
        /// How it ended.
        ending: Ending,
    },
    /// Somebody inside asked, for the cause given: a command came in, a one-off job is done.
    Asked(String),
}

/// The signals that ask for an orderly stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// `SIGINT`: Ctrl-C.
    Interrupt,
    /// `SIGTERM`: service managers, `kill`.
    Terminate,
    /// `SIGHUP` of a terminal that was closed.
    Hangup,
}

/// How a task came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It returned without an error, though it was meant to run until shutdown.
    Returned,
    /// It returned this error, written with its causes.
    Failed(String),
    /// It panicked with this message.
    Panicked(String),
}

// === impl Shutdown ===

impl Shutdown {
    /// A switch that nobody has thrown.
    pub fn new() -> Self {
        Self::default()
    }

    /// Throws the switch. The first reason stays on record unless it was harmless and this one is a failure.
    pub fn request(&self, reason: Reason) {
        let mut recorded = self.lock();
        match &*recorded {
            None => {
                if reason.is_failure() {
                    error!(%reason, "stopping");
                } else {
                    info!(%reason, "stopping");
                }
                *recorded = Some(reason);
            }
            Some(first) if reason.is_failure() && !first.is_failure() => {
                error!(%reason, "failed while stopping");
                *recorded = Some(reason);
            }
            Some(_) => debug!(%reason, "already stopping"),
        }
        drop(recorded);
        // Only now: whoever is woken finds the reason.
        self.inner.token.cancel();
    }

    /// Whether the switch was thrown.
    pub fn is_requested(&self) -> bool {
        self.inner.token.is_cancelled()
    }

    /// Returns once the switch is thrown. Safe to use in `select!`.
    pub async fn requested(&self) {
        self.inner.token.cancelled().await;
    }

    /// Why the switch was thrown; `None` while it is not.
    pub fn reason(&self) -> Option<Reason> {
        self.lock().clone()
    }

    /// A token cancelled with the switch, for code that knows only tokens. It is a child: cancelling it stops
    /// what it was given to, not the process.
    pub fn token(&self) -> CancellationToken {
        self.inner.token.child_token()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Reason>> {
        // The value is replaced whole, so a panic elsewhere cannot have left it half-written.
        self.inner.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Reason ===

impl Reason {
    /// Whether the process should end with a code that says something went wrong.
    pub fn is_failure(&self) -> bool {
        match self {
            Self::Signal(_) | Self::Asked(_) => false,
            Self::TaskEnded { .. } => true,
        }
    }

    /// The code a process ends with when this was why, and everything drained in time.
    pub fn exit_code(&self) -> ExitCode {
        if self.is_failure() { ExitCode::TaskEnded } else { ExitCode::Stopped }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal(signal) => write!(formatter, "received {signal}"),
            Self::TaskEnded { owner, task, ending } => {
                write!(formatter, "task `{task}` of `{owner}` {ending}")
            }
            Self::Asked(cause) => formatter.write_str(cause),
        }
    }
}

// === impl Signal ===

impl fmt::Display for Signal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
            Self::Hangup => "SIGHUP",
        })
    }
}

// === impl Ending ===

impl fmt::Display for Ending {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Returned => formatter.write_str("returned before shutdown"),
            Self::Failed(error) => write!(formatter, "failed: {error}"),
            Self::Panicked(message) => write!(formatter, "panicked: {message}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn task_ended() -> Reason {
        Reason::TaskEnded {
            owner: "gateway".into(),
            task: "accept".into(),
            ending: Ending::Failed("no more descriptors".into()),
        }
    }

    #[tokio::test]
    async fn request_wakes_waiters_and_tokens() {
        let shutdown = Shutdown::new();
        let token = shutdown.token();
        let other = shutdown.clone();
        let mut waiting = Box::pin(other.requested());
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(!shutdown.is_requested());
        assert_eq!(shutdown.reason(), None);

        shutdown.request(Reason::Asked("done".into()));

        assert!(waiting.as_mut().now_or_never().is_some());
        assert!(token.is_cancelled());
        assert!(shutdown.is_requested());
    }

    #[test]
    fn cancelling_a_token_does_not_stop_the_process() {
        let shutdown = Shutdown::new();
        shutdown.token().cancel();
        assert!(!shutdown.is_requested());
    }

    #[test]
    fn first_reason_is_kept_unless_a_failure_follows() {
        let shutdown = Shutdown::new();
        shutdown.request(Reason::Signal(Signal::Terminate));
        shutdown.request(Reason::Asked("again".into()));
        assert_eq!(shutdown.reason(), Some(Reason::Signal(Signal::Terminate)));

        shutdown.request(task_ended());
        assert_eq!(shutdown.reason(), Some(task_ended()));

        shutdown.request(Reason::Signal(Signal::Terminate));
        assert_eq!(shutdown.reason(), Some(task_ended()));
    }

    #[test]
    fn reasons_read_as_sentences() {
        assert_eq!(Reason::Signal(Signal::Interrupt).to_string(), "received SIGINT");
        assert_eq!(task_ended().to_string(), "task `accept` of `gateway` failed: no more descriptors");
    }
}
