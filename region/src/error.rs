//! Why a region does not run.

use std::path::PathBuf;

use pilothouse_pki::FileError;

use crate::control_plane::ControlPlaneError;
use crate::credentials::CredentialsError;
use crate::data_dir::DataDirError;
use crate::kubernetes::ClientError;
use crate::node::NodeError;
use crate::ports::PortsError;

/// Why a region does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Its folder cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// Its ports are not known.
    #[error(transparent)]
    Ports(#[from] PortsError),
    /// Its credentials cannot be made.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// A name cannot be in a certificate.
    #[error("a certificate of the region cannot be made")]
    Name(#[from] pilothouse_pki::InvalidName),
    /// The management cluster does not run.
    #[error("the management cluster did not start")]
    Management(#[from] ControlPlaneError),
    /// The node does not run.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// A part has no way to the management cluster.
    #[error("a part of the region cannot reach the management cluster")]
    Client(#[from] ClientError),
    /// The management cluster refused something it must have.
    #[error("the management cluster could not be furnished with {what}")]
    Furnish {
        /// What it should have.
        what: String,
        /// What it said.
        #[source]
        source: Box<kube::Error>,
    },
    /// A custom resource is not served in time.
    #[error("the management cluster does not serve {0}")]
    NotServed(String),
    /// A custom resource is somebody else's, in other versions than ours.
    #[error(
        "the management cluster has a definition {0} that does not serve the version we use; install a release of that \
         project which does, or remove the definition"
    )]
    ForeignDefinition(String),
    /// A store cannot be opened.
    #[error("the store `{}` cannot be opened", .path.display())]
    Store {
        /// Its file.
        path: PathBuf,
        /// Why.
        #[source]
        source: pilothouse_store::Error,
    },
    /// A service does not start.
    #[error("{name} did not start")]
    Service {
        /// Which one.
        name: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A port cannot be had.
    #[error(transparent)]
    Bind(#[from] pilothouse_http::BindError),
    /// It was asked to stop while it started.
    #[error("the region was stopped while it started")]
    Stopping,
    /// A file with the endpoints of an earlier start is in the way.
    #[error("`{}`, of an earlier start, cannot be removed; is its folder writable?", .path.display())]
    OldEndpoints {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The endpoints cannot be written down.
    #[error("the endpoints were not saved")]
    Endpoints(#[from] FileError),
}
