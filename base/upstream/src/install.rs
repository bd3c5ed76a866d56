//! Putting the programs of one version in their place.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::build::{Job, build};
use crate::program::{PROGRAMS, Program};
use crate::{Error, Progress, Version, place_by};

/// What is to be installed, and where programs may be taken from.
#[derive(Clone, Debug)]
pub struct Installation {
    version: Version,
    /// Where the programs come to be.
    folder: PathBuf,
    /// Folders to look into, in this order.
    elsewhere: Vec<PathBuf>,
}

/// A program that is in its place, and how it came there.
#[derive(Debug, PartialEq, Eq)]
pub struct Provided {
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: String,
    /// Where it is from.
    pub origin: Origin,
}

/// How a program came to its place.
#[derive(Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was there.
    Cache,
    /// A link to a program of somebody else's.
    Found(PathBuf),
    /// It was built.
    Built,
}

/// A folder that goes when nobody needs it any more.
pub(crate) struct Scratch(pub(crate) PathBuf);

// === impl Installation ===

impl Installation {
    /// Of a version, into the folder of its name below `root`. Programs are looked for in `folders`, then in those of `path`.
    pub fn new(version: Version, root: &Path, folders: &[PathBuf], path: &OsStr) -> Self {
        let folder = root.join(version.kubernetes());
        let elsewhere = folders.iter().cloned().chain(std::env::split_paths(path)).collect();
        Self { version, folder, elsewhere }
    }

    /// Where the programs come to be.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Puts all programs in their place, and says what came from where, and why.
    ///
    /// # Errors
    ///
    /// If one of them is nowhere and cannot be built. Those before it stay.
    pub fn run(&self, say: Progress<'_>) -> Result<Vec<Provided>, Error> {
        fs::create_dir_all(&self.folder).map_err(Error::file("make", &self.folder))?;
        PROGRAMS
            .iter()
            .map(|program| self.provide(program, say, |target| self.build(program, target, say)))
            .collect()
    }

    /// Puts one program in its place.
    pub(crate) fn provide(
        &self,
        program: &Program,
        say: Progress<'_>,
        build: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<Provided, Error> {
        let (name, wanted) = (program.name, self.version.of(program.project));
        let provided = |origin| Provided { name, version: wanted.to_owned(), origin };
        let place = self.folder.join(name);
        if program.has_version(&place, wanted) {
            say(&format!("{name}: {wanted} is in the cache"));
            return Ok(provided(Origin::Cache));
        }
        if let Some(found) = self.find(program, &place, say)? {
            say(&format!("{name}: {} is {wanted}, and is linked", found.display()));
            place_by(&place, |target| {
                std::os::unix::fs::symlink(&found, target).map_err(Error::file("link to", &found))
            })?;
            return Ok(provided(Origin::Found(found)));
        }
        say(&format!("{name}: building {wanted}, which is nowhere here (the first time this takes minutes)"));
        place_by(&place, build)?;
        if !program.has_version(&place, wanted) {
            let said = program.says(&place).unwrap_or_else(|error| error.to_string());
            return Err(Error::NotWhatWasAsked { path: place, wanted: wanted.to_owned(), said });
        }
        Ok(provided(Origin::Built))
    }

    /// The first program of the right version elsewhere. What is passed over is told.
    fn find(&self, program: &Program, place: &Path, say: Progress<'_>) -> Result<Option<PathBuf>, Error> {
        let wanted = self.version.of(program.project);
        let candidates = self.elsewhere.iter().map(|folder| folder.join(program.name));
        for candidate in candidates.filter(|candidate| candidate != place && candidate.is_file()) {
            if program.has_version(&candidate, wanted) {
                return fs::canonicalize(&candidate).map(Some).map_err(Error::file("resolve", &candidate));
            }
            let said = program.version_of(&candidate);
            let said =
                said.map_or_else(|| "does not say its version".to_owned(), |said| format!("is {said}"));
            say(&format!(
                "{}: {} {said}, not {wanted}, and is passed over",
                program.name,
                candidate.display()
            ));
        }
        Ok(None)
    }

    fn build(&self, program: &Program, target: &Path, say: Progress<'_>) -> Result<(), Error> {
        let module = Scratch::make(self.folder.join(format!("module.partial-{}", std::process::id())))?;
        self.version.write_module(&module.0)?;
        let job = Job {
            name: program.name,
            version: self.version.of(program.project),
            package: program.package,
            module: &module.0,
            linker_flags: &self.version.linker_flags(),
        };
        build(&job, target, say)
    }
}

// === impl Scratch ===

impl Scratch {
    pub(crate) fn make(folder: PathBuf) -> Result<Self, Error> {
        fs::create_dir_all(&folder).map_err(Error::file("make", &folder))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Two small files in a cache are nobody's loss.
        let _ = fs::remove_dir_all(&self.0);
    }
}
