use pilothouse_http::BindError;
use pilothouse_runtime::StillRunning;
use pilothouse_runtime::config::SecretError;

/// Why the service does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Its port cannot be had.
    #[error("Clusters Service cannot listen")]
    Bind(#[from] BindError),
    /// Its configuration makes no sense.
    #[error("the configuration of Clusters Service is not usable: `{key}` {problem}")]
    Config {
        /// Which key.
        key: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The pull secret cannot be read.
    #[error("the pull secret for clusters cannot be read")]
    PullSecret(#[from] SecretError),
    /// The store does not answer.
    #[error("Clusters Service cannot read its store")]
    Store(#[from] pilothouse_store::Error),
    /// Something would not stop in time.
    #[error("Clusters Service did not come to rest")]
    Drain(#[from] StillRunning),
}

/// Something that cannot happen, said in words rather than by a panic.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Impossible(pub(crate) &'static str);
