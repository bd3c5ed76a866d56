//! What the number a process ends with means.

use std::process::{self, Termination};

use super::Signal;

/// What a Pilothouse process ends with. Service managers and scripts may rely on these.
///
/// | Code | Variant | Meaning |
/// |---:|---|---|
/// | 0 | [`Stopped`](Self::Stopped) | asked to stop, by a signal or from inside, and everything finished in time |
/// | 1 | [`NotStarted`](Self::NotStarted) | could not start: configuration, a port that is taken, a store that does not answer |
/// | 2 | – | wrong use of the command line; the argument parser ends the process itself |
/// | 3 | [`TaskEnded`](Self::TaskEnded) | a task without which the process makes no sense ended, failed or panicked |
/// | 4 | [`StillRunning`](Self::StillRunning) | asked to stop, but some tasks had not finished in time and were aborted, or something could not be closed; the log names them |
/// | 130, 143 | [`Forced`](Self::Forced) | a second `SIGINT` or `SIGTERM` came while stopping: ended at once, nothing waited for |
///
/// Where two apply, the cause of the stop wins over how it went: a process whose task failed ends with 3 even
/// when another task then overstayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExitCode {
    /// Asked to stop, and everything finished in time.
    Stopped,
    /// Could not start.
    NotStarted,
    /// A task without which the process makes no sense ended.
    TaskEnded,
    /// Asked to stop, but some tasks had not finished in time, or something could not be closed.
    StillRunning,
    /// A second signal came while stopping.
    Forced(Signal),
}

impl ExitCode {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::Stopped => 0,
            Self::NotStarted => 1,
            Self::TaskEnded => 3,
            Self::StillRunning => 4,
            // 128 plus the signal's number, as shells report it.
            Self::Forced(Signal::Hangup) => 129,
            Self::Forced(Signal::Interrupt) => 130,
            Self::Forced(Signal::Terminate) => 143,
        }
    }
}

impl From<ExitCode> for process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.code())
    }
}

impl Termination for ExitCode {
    fn report(self) -> process::ExitCode {
        self.into()
    }
}
