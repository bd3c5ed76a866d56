//! `upstream install`.

use std::env;
use std::path::{Path, PathBuf};

use comfy_table::Table;
use pilothouse_upstream::{Download, Installation, Origin, Provided};
use serde::Serialize;

use super::super::say;
use crate::{Failure, Hint, Output, Render, output};

/// Put the programs of one version in their place.
///
/// A program that is in the cache, in a folder of `--bin-dir` or in PATH is taken if it says that it has the version; what
/// is nowhere is built with Go from the module proxy that Go is set up with, or, with `--download`, taken from the files of the
/// official release, whose checksums are part of this program. A run that was interrupted goes on where it stopped.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The version of Kubernetes, such as 1.33 or 1.34.1 [default: the newest]
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// A folder with programs that may be taken, looked into before PATH; repeatable
    #[arg(long, value_name = "DIR")]
    bin_dir: Vec<PathBuf>,
    /// Download what is nowhere instead of building it, if the release's checksums are known
    #[arg(long)]
    download: bool,
    /// A mirror to download from: it has `v1.34.1/kubernetes-server-linux-amd64.tar.gz` and so on; https, or http on the loopback
    #[arg(long, value_name = "URL", requires = "download")]
    from: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Installed {
    kubernetes: String,
    folder: PathBuf,
    programs: Vec<Program>,
}

#[derive(Debug, Serialize)]
struct Program {
    name: &'static str,
    version: String,
    from: String,
}

impl Args {
    pub(super) fn run(self, root: &Path, output: &mut Output) -> Result<(), Failure> {
        let version = super::version(self.version.as_deref())?;
        let path = env::var_os("PATH").unwrap_or_default();
        let kubernetes = version.number().to_owned();
        let mut installation = Installation::new(version, root, &self.bin_dir, &path);
        if self.download {
            let download = Download::new(self.from.as_deref());
            let download =
                download.hint("such as `--from https://mirror.example/kubernetes`, or without `--from`")?;
            installation = installation.downloading(download);
        }
        let provided = installation.run(&say).hint(if self.download {
            "without `--download` it is built with Go; `--bin-dir DIR` takes programs that you already have"
        } else {
            "run the command again to go on where it stopped; `--bin-dir DIR` takes programs that you already have"
        })?;
        let programs = provided.into_iter().map(Program::from).collect();
        output.show(&Installed { kubernetes, folder: installation.folder().to_owned(), programs })?;
        say(&format!("in {}", installation.folder().display()));
        Ok(())
    }
}

impl From<Provided> for Program {
    fn from(provided: Provided) -> Self {
        let from = match provided.origin {
            Origin::Cache => "cache".to_owned(),
            Origin::Found(path) => path.display().to_string(),
            Origin::Downloaded => "downloaded".to_owned(),
            Origin::Built => "built".to_owned(),
        };
        Self { name: provided.name, version: provided.version, from }
    }
}

impl Render for Installed {
    fn table(&self) -> Table {
        let rows = self
            .programs
            .iter()
            .map(|program| [program.name, program.version.as_str(), program.from.as_str()]);
        output::table(["PROGRAM", "VERSION", "FROM"], rows)
    }
}
