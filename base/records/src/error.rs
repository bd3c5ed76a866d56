use pilothouse_store as store;

/// Why records could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody else wrote first, or the lease went to somebody else: read again.
    #[error("the records changed since they were read")]
    Conflict(#[source] store::Conflict),
    /// The list to be continued is not kept any more, or the token is not one of ours.
    #[error("the list cannot be continued; begin it again")]
    Continuation(#[source] store::Error),
    /// The store failed.
    #[error("the records' store failed")]
    Store(#[source] store::Error),
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Conflict(conflict) => Self::Conflict(conflict),
            error => Self::Store(error),
        }
    }
}

impl Error {
    /// Whether the same request may succeed later without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Conflict(_) => true,
            Self::Continuation(_) => false,
            Self::Store(error) => error.is_retryable(),
        }
    }
}
