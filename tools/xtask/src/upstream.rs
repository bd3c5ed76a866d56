//! `cargo xtask upstream`: the real Kubernetes, to compare with and to run.
//!
//! Five programs of one pinned version end up in one folder of the cache. A program that is there, in a folder the caller
//! names or in `PATH` is taken if it says that it has the version; the others are built from the Go module
//! `tools/upstream`, whose `go.mod` is also where the versions are written. Each program is put in its place by a rename
//! when it is complete, so a run that was interrupted goes on where it stopped, and two runs at once do no harm.

pub(crate) mod build;
mod program;
mod version;

#[cfg(test)]
mod tests;

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use self::program::{PROGRAMS, Program};
use self::version::Versions;

/// Where the Go module is, below the root of the workspace.
const MODULE: &str = "tools/upstream";

/// What is asked for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// A folder with programs that may be taken, looked into before PATH; may be given more than once.
    #[arg(long, value_name = "DIR")]
    bin_dir: Vec<PathBuf>,
    /// The cache folder, in which there is one folder per version [default: pilothouse/upstream in the user's cache].
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

/// A program that is in its place, and how it came there.
#[derive(Debug, PartialEq, Eq)]
struct Provided {
    name: &'static str,
    version: String,
    origin: Origin,
}

#[derive(Debug, PartialEq, Eq)]
enum Origin {
    Cache,
    /// A link to a program of somebody else's.
    Found(PathBuf),
    Built,
}

/// Provides all programs, and prints what came from where.
pub(crate) fn run(root: &Path, args: &Args) -> anyhow::Result<()> {
    let module = root.join(MODULE);
    let manifest = module.join("go.mod");
    let text =
        fs::read_to_string(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
    let versions = Versions::of_manifest(&text)?;
    let folder = cache(args.cache.as_deref(), "upstream")?.join(&versions.kubernetes);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;

    let path = env::var_os("PATH").unwrap_or_default();
    let elsewhere: Vec<_> = args.bin_dir.iter().cloned().chain(env::split_paths(&path)).collect();
    let provided = PROGRAMS
        .iter()
        .map(|program| {
            provide(program, &versions, &folder, &elsewhere, |target| {
                let job = build::Job {
                    name: program.name,
                    version: versions.of(program.project),
                    package: program.package,
                    module: &module,
                    linker_flags: &versions.linker_flags()?,
                };
                build::build(&job, target)
            })
            .with_context(|| format!("{} could not be provided", program.name))
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    io::stdout().lock().write_all(table(&provided, &folder).as_bytes())?;
    Ok(())
}

/// Puts one program in its place in `folder`.
fn provide(
    program: &Program,
    versions: &Versions,
    folder: &Path,
    elsewhere: &[PathBuf],
    build: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<Provided> {
    let wanted = versions.of(program.project);
    let provided = |origin| Provided { name: program.name, version: wanted.to_owned(), origin };
    let place = folder.join(program.name);
    if program.has_version(&place, wanted) {
        return Ok(provided(Origin::Cache));
    }
    let candidates = elsewhere.iter().map(|folder| folder.join(program.name));
    if let Some(found) =
        candidates.filter(|candidate| *candidate != place).find(|one| program.has_version(one, wanted))
    {
        let found =
            fs::canonicalize(&found).with_context(|| format!("cannot resolve {}", found.display()))?;
        place_by(&place, |target| Ok(std::os::unix::fs::symlink(&found, target)?))?;
        return Ok(provided(Origin::Found(found)));
    }
    place_by(&place, build)?;
    anyhow::ensure!(
        program.has_version(&place, wanted),
        "{} was built, but does not say that it is {wanted}: {}",
        place.display(),
        program.says(&place).unwrap_or_else(|error| error.to_string())
    );
    Ok(provided(Origin::Built))
}

/// Has a file made beside `place`, and moves it there when it is complete.
pub(crate) fn place_by(place: &Path, make: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let partial = place.with_extension(format!("partial-{}", std::process::id()));
    let made = make(&partial).and_then(|()| {
        fs::rename(&partial, place).with_context(|| format!("cannot move a file to {}", place.display()))
    });
    if made.is_err() {
        // Often there is none; what went wrong is told, not this.
        let _ = fs::remove_file(&partial);
    }
    made
}

/// The cache folder that was named, or the one of this name among the user's.
pub(crate) fn cache(named: Option<&Path>, name: &str) -> anyhow::Result<PathBuf> {
    if let Some(folder) = named {
        return std::path::absolute(folder).context("the cache folder has no absolute path");
    }
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let user = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let user = user.context("neither XDG_CACHE_HOME nor HOME is set; name a folder with --cache")?;
    Ok(user.join("pilothouse").join(name))
}

/// What came from where, as columns.
fn table(provided: &[Provided], folder: &Path) -> String {
    let mut text = format!("{:<24} {:<10} {}\n", "COMPONENT", "VERSION", "FROM");
    for one in provided {
        let origin = match &one.origin {
            Origin::Cache => "cache".to_owned(),
            Origin::Found(path) => path.display().to_string(),
            Origin::Built => "built".to_owned(),
        };
        text.push_str(&format!("{:<24} {:<10} {origin}\n", one.name, one.version));
    }
    text.push_str(&format!("in {}\n", folder.display()));
    text
}
