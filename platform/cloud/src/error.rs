use pilothouse_http::BindError;
use pilothouse_runtime::StillRunning;

/// Why the cloud does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What it was told makes no sense.
    #[error("`{key}` of the cloud: {problem}")]
    Config {
        /// Which setting.
        key: &'static str,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// Its port cannot be had.
    #[error("the cloud cannot listen")]
    Bind(#[from] BindError),
    /// The region's own zone could not be made.
    #[error("the cloud could not make the region's DNS zone: {0}")]
    BaseZone(String),
    /// Something would not stop in time.
    #[error("the cloud did not come to rest")]
    Drain(#[from] StillRunning),
}
