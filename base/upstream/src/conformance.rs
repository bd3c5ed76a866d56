//! Kubernetes' own tests of whole clusters, among them those that say what a conformant cluster is.

use std::fs;
use std::path::{Path, PathBuf};

use crate::build::{Job, build_tests};
use crate::install::Scratch;
use crate::program::{Program, Project};
use crate::{Error, Progress, Version, place_by};

/// The program that the tests become.
pub const TESTS: &str = "e2e.test";

const PROGRAM: Program = Program {
    name: TESTS,
    package: "k8s.io/kubernetes/test/e2e",
    project: Project::Kubernetes,
    ask: &["--version"],
    answer: "",
};

/// Builds the tests of a version beside its programs, in the folder of its name below `root`, unless they are there. Returns
/// where they are.
///
/// # Errors
///
/// If they cannot be built: Go is missing, or the module of the version is without what only the tests need.
pub fn conformance(version: &Version, root: &Path, say: Progress<'_>) -> Result<PathBuf, Error> {
    provide(version, root, say, |job, target| build_tests(job, target, say))
}

pub(crate) fn provide(
    version: &Version,
    root: &Path,
    say: Progress<'_>,
    build: impl FnOnce(&Job<'_>, &Path) -> Result<(), Error>,
) -> Result<PathBuf, Error> {
    let folder = root.join(version.kubernetes());
    let (place, wanted) = (folder.join(TESTS), version.of(PROGRAM.project));
    if PROGRAM.has_version(&place, wanted) {
        say(&format!("{TESTS}: {wanted} is in the cache"));
        return Ok(place);
    }
    fs::create_dir_all(&folder).map_err(Error::file("make", &folder))?;
    let module = Scratch::make(folder.join(format!("tests.partial-{}", std::process::id())))?;
    version.write_module(&module.0)?;
    say(&format!("{TESTS}: building {wanted} (the first time this takes minutes)"));
    let job = Job {
        name: TESTS,
        version: wanted,
        package: PROGRAM.package,
        module: &module.0,
        linker_flags: &version.linker_flags(),
    };
    place_by(&place, |target| build(&job, target))?;
    if !PROGRAM.has_version(&place, wanted) {
        let said = PROGRAM.says(&place).unwrap_or_else(|error| error.to_string());
        return Err(Error::NotWhatWasAsked { path: place, wanted: wanted.to_owned(), said });
    }
    Ok(place)
}
