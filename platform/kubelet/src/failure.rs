//! Errors of the system with what was being done.

use std::io;

/// What was being done, and what the system said.
#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub(crate) struct Failure {
    pub(crate) doing: String,
    #[source]
    pub(crate) source: io::Error,
}

/// Names what was being done when a call of the system failed.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| Failure { doing: what(), source: error.into() })
    }
}

impl Failure {
    /// The whole story, also where another process has told it.
    pub(crate) fn told(&self) -> String {
        match self.source.kind() == io::ErrorKind::Other && self.source.get_ref().is_none() {
            true => self.doing.clone(),
            false => pilothouse_runtime::Chain(self).to_string(),
        }
    }

    pub(crate) fn other(
        doing: impl Into<String>,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { doing: doing.into(), source: io::Error::other(cause) }
    }
}
