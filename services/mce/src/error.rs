use std::{fmt, io};

use pilothouse_http::BindError;
use pilothouse_runtime::StillRunning;

/// Whose fields these are, where several may write.
pub(crate) const FIELD_MANAGER: &str = "pilothouse-mce";

/// Why a pass could not be finished. The next one tries again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The cluster did not do what it was asked.
    #[error("the cluster refused to {action} {object}")]
    Cluster {
        /// What it was asked to do.
        action: &'static str,
        /// Kind, namespace and name.
        object: String,
        /// What it said.
        #[source]
        source: Refused,
    },
    /// A work could not be carried out.
    #[error("ManifestWork {work} was not carried out")]
    Work {
        /// Namespace and name.
        work: String,
        /// Why.
        #[source]
        source: pilothouse_work::Error,
    },
    /// The port for downloads cannot be had.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// It is not known where `hcp` would be.
    #[error("the folder of this program is not known; name the program in `downloads.program`")]
    Program(#[source] io::Error),
    /// The service did not stop in time.
    #[error("the multicluster engine did not stop in time")]
    Drain(#[from] StillRunning),
}

/// What an API server said. Its library's errors repeat themselves when they are written with their causes; this
/// does not.
#[derive(Debug)]
pub struct Refused(Box<kube::Error>);

// === impl Error ===

impl Error {
    pub(crate) fn cluster(action: &'static str, object: impl Into<String>, source: kube::Error) -> Self {
        Self::Cluster { action, object: object.into(), source: Refused(Box::new(source)) }
    }

    /// Whether the object had changed since it was read: the change itself brings the next pass.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Cluster { source, .. } if source.code() == Some(409))
    }

    /// Whether the object is there already.
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self, Self::Cluster { source, .. } if source.reason() == Some("AlreadyExists"))
    }

    /// Whether the object is gone.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Cluster { source, .. } if source.code() == Some(404))
    }
}

// === impl Refused ===

impl Refused {
    fn code(&self) -> Option<u16> {
        match self.0.as_ref() {
            kube::Error::Api(status) => Some(status.code),
            _ => None,
        }
    }

    fn reason(&self) -> Option<&str> {
        match self.0.as_ref() {
            kube::Error::Api(status) => Some(&status.reason),
            _ => None,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_ref() {
            kube::Error::Api(status) => {
                write!(formatter, "{} ({} {})", status.message, status.code, status.reason)
            }
            // The innermost cause is the one that says something.
            other => {
                let mut innermost: &dyn std::error::Error = other;
                while let Some(cause) = innermost.source() {
                    innermost = cause;
                }
                fmt::Display::fmt(innermost, formatter)
            }
        }
    }
}

impl std::error::Error for Refused {}
