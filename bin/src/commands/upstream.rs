//! `upstream`: Kubernetes' own programs, which control planes of payload `upstream` consist of.

use std::path::PathBuf;

use clap::Subcommand;
use pilothouse_upstream::{Version, cache};

use crate::{Failure, Hint, Output};

mod install;
mod list;

/// Install Kubernetes' own programs, for clusters of payload `upstream`, and list those that are there.
///
/// A version is etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl in one folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pilothouse upstream list                              Which versions there are, and what is missing of each
  pilothouse upstream install                           The newest: found on this machine, or built with Go
  pilothouse upstream install --version 1.33            Another
  pilothouse upstream install --download                From the files of the official release, without Go
  pilothouse upstream install --bin-dir ./bin           From programs in a folder, if they have the version
  pilothouse up --payload upstream --cluster real       A region with a first cluster of them")]
pub struct Args {
    /// Where they are kept, one folder per version [default: `pilothouse/upstream` in the user's cache directory]
    #[arg(long, global = true, value_name = "DIR")]
    cache: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Install(install::Args),
    List(list::Args),
}

impl Args {
    /// Carries out what was asked.
    ///
    /// # Errors
    ///
    /// If a program is nowhere and cannot be built.
    pub fn run(self, output: &mut Output) -> Result<(), Failure> {
        let root = cache(self.cache.as_deref(), "upstream")?;
        match self.verb {
            Verb::Install(args) => args.run(&root, output),
            Verb::List(args) => args.run(&root, output),
        }
    }
}

/// The releases that run a version, such as `4.21`.
fn releases(version: &Version) -> String {
    format!("4.{}", version.minor().saturating_sub(pilothouse_hypershift::KUBERNETES_MINOR_AHEAD))
}

/// The version that was asked for.
fn version(asked: Option<&str>) -> Result<Version, Failure> {
    Version::find(asked).hint("`pilothouse upstream list` shows them")
}
