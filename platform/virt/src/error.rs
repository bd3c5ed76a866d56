use pilothouse_runtime::StillRunning;

/// Why a pass could not be finished. The next one tries again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The cluster did not do what it was asked.
    #[error("the cluster refused to {action} {object}: {reason}")]
    Refused {
        /// What it was asked to do.
        action: &'static str,
        /// Kind, namespace and name.
        object: String,
        /// What it said. Its library's errors repeat themselves when they are written with their causes.
        reason: String,
    },
    /// An object has no form that the API would take.
    #[error("{object} was not made")]
    Manifest {
        /// Kind, namespace and name.
        object: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The service did not stop in time.
    #[error("the controller of virtual machines did not stop in time")]
    Drain(#[from] StillRunning),
}

impl Error {
    pub(crate) fn refused(action: &'static str, object: impl Into<String>, error: &kube::Error) -> Self {
        let reason = match error {
            kube::Error::Api(status) => format!("{} ({} {})", status.message, status.code, status.reason),
            other => other.to_string(),
        };
        Self::Refused { action, object: object.into(), reason }
    }
}

/// Whether the object is not there.
pub(crate) fn is_missing(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether the object is there already, or another one than was meant.
pub(crate) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}
