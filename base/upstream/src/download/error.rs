use pilothouse_http::{CallError, ClientBuildError};

/// Why a file of a release was not brought.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The client could not be built.
    #[error("this machine's authorities cannot be used; a mirror on the loopback (`--from`) needs none")]
    Client(#[source] Box<ClientBuildError>),
    /// There was no answer, or it broke off.
    #[error(
        "the host does not answer as it should; run again to go on where it stopped, or name a mirror with `--from`"
    )]
    Call(#[source] Box<CallError>),
    /// Nothing came for too long.
    #[error(
        "nothing has come for {seconds} seconds; run again to go on where it stopped, or name a mirror with `--from`"
    )]
    Stalled {
        /// For how long.
        seconds: u64,
    },
    /// The answer is another than the file.
    #[error("the host answered {status}; is the file there?")]
    Status {
        /// Its status.
        status: u16,
    },
    /// It goes on elsewhere, where nobody should go.
    #[error("the host sends the caller on to `{to}`, {why}")]
    Redirect {
        /// Where to.
        to: String,
        /// Why not.
        why: &'static str,
    },
    /// It does not end.
    #[error("the file is larger than {limit} MiB, and no release is")]
    TooLarge {
        /// How much it may be.
        limit: u64,
    },
    /// It is something else.
    #[error(
        "its {kind} is {found}, and {pinned} is that of the release: it was removed. Run again, or from another place; if that does not \
         help, somebody serves something else, and without `--download` it is built"
    )]
    Sum {
        /// The kind of sum.
        kind: &'static str,
        /// What it should be.
        pinned: String,
        /// What it is.
        found: String,
    },
    /// Somebody else is at it.
    #[error("another run is downloading it; wait until that has ended")]
    Busy,
    /// The archive cannot be unpacked.
    #[error("it cannot be unpacked")]
    Unpack(#[source] std::io::Error),
    /// The archive lacks a program.
    #[error("there is no `{member}` in it")]
    Lacks {
        /// What was looked for.
        member: String,
    },
}
