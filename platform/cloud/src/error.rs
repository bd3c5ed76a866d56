use pilothouse_http::BindError;
use pilothouse_runtime::StillRunning;

/// Why the cloud does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Its port cannot be had.
    #[error("the cloud cannot listen")]
    Bind(#[from] BindError),
    /// Something would not stop in time.
    #[error("the cloud did not come to rest")]
    Drain(#[from] StillRunning),
}
