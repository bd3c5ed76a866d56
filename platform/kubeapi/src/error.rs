use pilothouse_http::{BindError, CertificateError};
use pilothouse_runtime::TaskError;

/// Why the server could not start, or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration contradicts itself or the rules.
    #[error("`{option}` is not usable: {problem}")]
    Config {
        /// The option at fault.
        option: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// The port could not be had.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The serving certificate, or the authorities of clients, cannot be used.
    #[error("the API server has no usable certificate")]
    Certificate(#[from] CertificateError),
    /// The key for service account tokens cannot sign.
    #[error("the service account key cannot be used: {problem}")]
    TokenKey {
        /// What the library objected to.
        problem: &'static str,
    },
    /// The client certificate for kubelets cannot be used.
    #[error("the client certificate shown to kubelets was refused")]
    KubeletClient(#[source] rustls::Error),
    /// The store does not do what it must.
    #[error("the objects cannot be read or written")]
    Store(#[from] pilothouse_store::Error),
    /// What every cluster has could not be made.
    #[error("`{object}`, which every cluster has, could not be made: {problem}")]
    Bootstrap {
        /// The object.
        object: String,
        /// The answer to the attempt.
        problem: String,
    },
    /// Serving ended by itself.
    #[error("serving ended")]
    Serve(#[source] TaskError),
}
