use pilothouse_access::{self as access, AuditError};
use pilothouse_http::BindError;
use pilothouse_runtime::{StillRunning, TaskError};

/// Why the frontend could not be started, or did not stop in order.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Its port could not be had.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Its callers could not be told apart.
    #[error(transparent)]
    Access(#[from] access::Error),
    /// What they do could not be recorded.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// A mesh would be told that everybody may do everything.
    #[error("`authorization` needs callers that can be told apart; set `access.jwt`")]
    AuthorizationOfNobody,
    /// Its socket failed.
    #[error("the frontend's listener failed")]
    Serve(#[source] TaskError),
    /// Connections were still open at the end.
    #[error("the frontend did not stop in time")]
    Drain(#[from] StillRunning),
}
