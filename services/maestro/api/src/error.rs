use std::path::PathBuf;

use crate::event::InvalidEvent;

/// Why a call to Maestro failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is none.
    #[error("`{0}` is not an address of a Maestro server")]
    Address(String),
    /// The address says how much the connection is protected, and the settings say otherwise.
    #[error(
        "`{0}` does not go with the settings: `https` needs authorities, and a token needs `https` off this machine"
    )]
    Unprotected(String),
    /// The token that is to be shown is not there.
    #[error("the token in `{}` cannot be used: {problem}", .file.display())]
    Token {
        /// Where it should be.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// There is no answer over gRPC: the server is down or went away. Try again.
    #[error("the Maestro server did not answer")]
    Unavailable(#[source] Box<tonic::Status>),
    /// There is no answer over HTTP.
    #[error("the Maestro server did not answer")]
    Call(#[from] pilothouse_http::CallError),
    /// It is there already, or has changed in between: read it again.
    #[error("the work conflicts with what the Maestro server has: {0}")]
    Conflict(String),
    /// The server does not do it; trying again does not help.
    #[error("the Maestro server refused: {0}")]
    Refused(String),
    /// What was sent, or came back, is no valid event.
    #[error("the event cannot be used")]
    Event(#[from] InvalidEvent),
    /// The work cannot be written as JSON.
    #[error("the work cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

impl Error {
    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            // The file may be on its way.
            Self::Unavailable(_) | Self::Call(_) | Self::Token { .. } => true,
            Self::Address(_)
            | Self::Unprotected(_)
            | Self::Conflict(_)
            | Self::Refused(_)
            | Self::Event(_)
            | Self::Json(_) => false,
        }
    }

    pub(crate) fn of_status(status: tonic::Status) -> Self {
        let message = status.message();
        match status.code() {
            tonic::Code::Unavailable
            | tonic::Code::DeadlineExceeded
            | tonic::Code::Cancelled
            | tonic::Code::Internal => Self::Unavailable(Box::new(status)),
            tonic::Code::Unknown if message.contains("maestro-6:") => Self::Conflict(message.to_owned()),
            // A server whose store is away says so with the number of a general failure.
            tonic::Code::Unknown if message.contains("maestro-9:") || !message.contains("maestro-") => {
                Self::Unavailable(Box::new(status))
            }
            _ => Self::Refused(message.to_owned()),
        }
    }
}
