use pilothouse_runtime::StillRunning;

use crate::link::LinkSetupError;

/// Why the agent does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The connection to the broker cannot be set up.
    #[error(transparent)]
    Broker(#[from] LinkSetupError),
    /// What the agent remembers cannot be read.
    #[error(
        "what the Maestro agent remembers cannot be read; without its store it asks the server for everything"
    )]
    Store(#[from] pilothouse_store::Error),
    /// A name that cannot be part of a topic.
    #[error("`{0}` cannot be the name of a source or consumer; use lower-case letters, digits and hyphens")]
    Name(String),
    /// Something did not end in time.
    #[error("the Maestro agent was stopped before everything had ended")]
    Drain(#[from] StillRunning),
}
