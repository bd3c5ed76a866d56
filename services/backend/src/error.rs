use std::path::PathBuf;

use pilothouse_clusters_service_api as clusters_service;
use pilothouse_http::ClientBuildError;
use pilothouse_records as records;
use pilothouse_runtime::StillRunning;

/// Why the backend could not be started, or did not stop in order.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operations could not be followed.
    #[error("the operations cannot be followed")]
    Records(#[from] records::Error),
    /// The authorities for notifications could not be read.
    #[error("the authorities in {}, which notifications are to trust, cannot be read", file.display())]
    Authorities {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        #[source]
        source: std::io::Error,
    },
    /// The client for notifications could not be built.
    #[error("nobody can be told of the end of operations")]
    Client(#[from] ClientBuildError),
    /// Passes were still running at the end.
    #[error("the backend did not stop in time")]
    Drain(#[from] StillRunning),
}

/// Why a pass did not come to its end; the next one is the retry.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PassError {
    #[error("the records cannot be used")]
    Records(#[from] records::Error),
    #[error("the part of the work cannot be leased")]
    Lease(#[source] pilothouse_store::Error),
    #[error("Clusters Service cannot be asked")]
    ClustersService(#[source] clusters_service::Error),
}
