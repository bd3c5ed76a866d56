use pilothouse_records as records;
use pilothouse_runtime::StillRunning;

/// Why the backend could not be started, or did not stop in order.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operations could not be followed.
    #[error("the operations cannot be followed")]
    Records(#[from] records::Error),
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
    #[error("Clusters Service cannot be asked about {object}")]
    ClustersService {
        object: String,
        #[source]
        source: pilothouse_clusters_service_api::Error,
    },
}
