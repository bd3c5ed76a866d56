//! What can keep a node from running. Failures of single pods are in their status instead.

use std::path::PathBuf;

use crate::failure::Failure;
use crate::join::JoinError;

/// Why a node does not start, or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The node's namespaces could not be entered.
    #[error("cannot enter the node's namespaces")]
    Enter(#[source] SystemFailure),
    /// A setting is wrong.
    #[error("`{key}` of the node's configuration cannot be used: {reason}")]
    Config {
        /// The setting.
        key: &'static str,
        /// What is wrong with it and what to write instead.
        reason: String,
    },
    /// The kubeconfig cannot be used.
    #[error("the kubeconfig `{}` cannot be used", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The node could not join its cluster.
    #[error("the node cannot join the cluster")]
    Join(#[from] JoinError),
    /// A part of the node could not be set up.
    #[error("cannot set up {part}")]
    Setup {
        /// Which part.
        part: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A call of the system that failed, and what it was for.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SystemFailure(#[from] Failure);

impl Error {
    pub(crate) fn setup(part: &'static str) -> impl FnOnce(Box<dyn std::error::Error + Send + Sync>) -> Self {
        move |source| Self::Setup { part, source }
    }
}
