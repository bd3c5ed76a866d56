use crate::object::ObjectId;

/// Why a pass over a work could not be finished. What is wrong with one manifest is no such reason: it is in the status.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The record of what was applied cannot be read or written.
    #[error("the record of work `{work}` cannot be {verb}")]
    Record {
        /// The work.
        work: String,
        /// What was tried.
        verb: &'static str,
        /// What the API server said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The work was deleted, and what it applied is not all gone yet.
    #[error("what was applied for work `{0}` before it was deleted is still being removed")]
    BeingRemoved(String),
    /// An object that has to go does not.
    #[error("{object} cannot be deleted")]
    Delete {
        /// Which one.
        object: ObjectId,
        /// What the API server said.
        #[source]
        source: Box<kube::Error>,
    },
    /// A resource that something was applied of is not there at the moment.
    #[error("`{resource}` cannot be found among the API server's resources")]
    Discover {
        /// The resource.
        resource: String,
        /// What the API server said.
        #[source]
        source: Box<kube::Error>,
    },
}
