use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use crate::DownloadError;

/// Why a program could not be put in its place.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody has written down how to build it.
    #[error("Kubernetes `{asked}` is none of the versions that can be installed, which are {known}")]
    UnknownVersion {
        /// What was asked for.
        asked: String,
        /// What could have been.
        known: String,
    },
    /// There is no folder to put it into.
    #[error("neither XDG_CACHE_HOME nor HOME is set; name a folder with --cache")]
    NoCache,
    /// A file or folder is not as it should be.
    #[error("cannot {verb} {}", path.display())]
    File {
        /// What was tried.
        verb: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is nowhere on this machine, and neither is what would build it.
    #[error(
        "{name} {version} is neither in the cache, nor in PATH, nor in a folder of --bin-dir, and `go`, which would build it, is \
         missing: install Go {go} or newer, or name a folder with the program"
    )]
    NoGo {
        /// The program.
        name: String,
        /// Its version.
        version: String,
        /// The version of Go that its module asks for.
        go: String,
    },
    /// The builder cannot be followed.
    #[error("cannot run `go build {package}`")]
    Go {
        /// What it was to build.
        package: String,
        /// What the system said.
        source: io::Error,
    },
    /// The builder gave up.
    #[error("`go build {package}` ended with {status}:\n{said}\n(run again to go on where it stopped)")]
    Build {
        /// What it was to build.
        package: String,
        /// How it ended.
        status: ExitStatus,
        /// The last of its words.
        said: String,
    },
    /// It could be anything.
    #[error(
        "no checksum of {project} {version} for {architecture} is known here, so nothing is downloaded; without --download it is built with Go, \
         and --bin-dir takes programs that you already have"
    )]
    NoSum {
        /// Whose it is.
        project: &'static str,
        /// Its version.
        version: String,
        /// The machine that it is for.
        architecture: String,
    },
    /// Nothing can or should be fetched from there.
    #[error("`{0}` is no place to download from: name one by https, or by http on the loopback")]
    Mirror(String),
    /// A file of a release was not brought.
    #[error("cannot download {url}")]
    Download {
        /// Where it should be.
        url: String,
        /// Why not.
        source: DownloadError,
    },
    /// What was downloaded is the release, and does not run here.
    #[error("{name} of the release does not say that it is {wanted}: {said}")]
    NotTheRelease {
        /// The program.
        name: String,
        /// The version it should have.
        wanted: String,
        /// What it says.
        said: String,
    },
    /// What was built is something else.
    #[error("{} was built, but does not say that it is {wanted}: {said}", path.display())]
    NotWhatWasAsked {
        /// The file.
        path: PathBuf,
        /// The version it should have.
        wanted: String,
        /// What it says.
        said: String,
    },
}

// === impl Error ===

impl Error {
    pub(crate) fn file(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { verb, path: path.to_owned(), source }
    }
}
