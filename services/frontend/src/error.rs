use pilothouse_http::BindError;
use pilothouse_runtime::{StillRunning, TaskError};

/// Why the frontend could not be started, or did not stop in order.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Its port could not be had.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Its socket failed.
    #[error("the frontend's listener failed")]
    Serve(#[source] TaskError),
    /// Connections were still open at the end.
    #[error("the frontend did not stop in time")]
    Drain(#[from] StillRunning),
}
