//! Kubernetes' own programs, to run and to compare with.
//!
//! For each [`Version`] five programs end up in one folder of the cache. One that is there, in a folder the caller names or in
//! `PATH` is taken if it says that it has the version; the others are downloaded, if that is wanted ([`Download`]), or built
//! with Go. Which versions there are is written in the
//! Go modules of `tools/upstream`, one for each minor version; they are part of this crate, so that a program that is installed
//! somewhere needs nothing but Go and a module proxy. Each program is put in its place by a rename when it is complete, so a
//! run that was interrupted goes on where it stopped, and two runs at once do no harm.
//!
//! Kubernetes' own tests of whole clusters are built from the same modules, for whoever wants to see what they say of ours.

mod build;
mod conformance;
mod download;
mod error;
mod install;
mod place;
mod program;
mod release;
mod version;

#[cfg(test)]
mod tests;

pub use build::{Job, build};
pub use conformance::{TESTS, conformance};
pub use download::{Download, DownloadError};
pub use error::Error;
pub use install::{Installation, Origin, Provided};
pub use place::{cache, place_by};
pub use version::Version;

/// Who hears about progress, line by line.
pub type Progress<'a> = &'a (dyn Fn(&str) + Sync);
