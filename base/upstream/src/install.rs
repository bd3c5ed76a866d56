//! Putting the programs of one version in their place.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::build::{Job, build};
use crate::program::{PROGRAMS, Program};
use crate::{Download, Error, Progress, Version, download, place_by};

/// What is to be installed, and where programs may be taken from.
#[derive(Clone, Debug)]
pub struct Installation {
    version: Version,
    /// Where the programs come to be.
    folder: PathBuf,
    /// Folders to look into, in this order.
    elsewhere: Vec<PathBuf>,
    /// What to do about those that are nowhere, instead of building them.
    download: Option<Download>,
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
    /// It is from a file of the release.
    Downloaded,
    /// It was built.
    Built,
}

/// A folder that goes when nobody needs it any more.
#[derive(Debug)]
pub(crate) struct Scratch(pub(crate) PathBuf);

// === impl Installation ===

impl Installation {
    /// Of a version, into the folder of its name below `root`. Programs are looked for in `folders`, then in those of `path`.
    pub fn new(version: Version, root: &Path, folders: &[PathBuf], path: &OsStr) -> Self {
        let folder = root.join(version.kubernetes());
        let elsewhere = folders.iter().cloned().chain(std::env::split_paths(path)).collect();
        Self { version, folder, elsewhere, download: None }
    }

    /// What is nowhere on this machine is downloaded, not built.
    pub fn downloading(self, download: Download) -> Self {
        Self { download: Some(download), ..self }
    }

    /// Where the programs come to be.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Puts all programs in their place, and says what came from where, and why.
    ///
    /// # Errors
    ///
    /// If one of them is nowhere and can be neither downloaded nor built. Those before it stay.
    pub fn run(&self, say: Progress<'_>) -> Result<Vec<Provided>, Error> {
        fs::create_dir_all(&self.folder).map_err(Error::file("make", &self.folder))?;
        let provided = match &self.download {
            Some(download) => self.download(download, say),
            None => PROGRAMS
                .iter()
                .map(|program| self.provide(program, say, |target| self.build(program, target, say)))
                .collect(),
        }?;
        download::forget(&self.folder);
        Ok(provided)
    }

    /// Looks for all programs first, so that what cannot be downloaded is told before anything is.
    fn download(&self, download: &Download, say: Progress<'_>) -> Result<Vec<Provided>, Error> {
        let present: Vec<_> =
            PROGRAMS.iter().map(|program| self.present(program, say)).collect::<Result<_, _>>()?;
        let missing = PROGRAMS.iter().zip(&present).filter(|(_, present)| present.is_none());
        let missing: Vec<_> = missing.map(|(program, _)| program).collect();
        let unpacked = download.provide(&self.version, &missing, &self.folder, say)?;
        let provide = |(program, present): (&Program, Option<Provided>)| match present {
            Some(provided) => Ok(provided),
            None => {
                place_by(&self.folder.join(program.name), |target| unpacked.take(program, target))?;
                Ok(self.provided(program, Origin::Downloaded))
            }
        };
        PROGRAMS.iter().zip(present).map(provide).collect()
    }

    /// Puts one program in its place.
    pub(crate) fn provide(
        &self,
        program: &Program,
        say: Progress<'_>,
        build: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<Provided, Error> {
        if let Some(provided) = self.present(program, say)? {
            return Ok(provided);
        }
        let (name, wanted) = (program.name, self.version.of(program.project));
        say(&format!("{name}: building {wanted}, which is nowhere here (the first time this takes minutes)"));
        let place = self.folder.join(name);
        place_by(&place, build)?;
        if !program.has_version(&place, wanted) {
            let said = program.says(&place).unwrap_or_else(|error| error.to_string());
            return Err(Error::NotWhatWasAsked { path: place, wanted: wanted.to_owned(), said });
        }
        Ok(self.provided(program, Origin::Built))
    }

    /// Takes a program that is on this machine.
    fn present(&self, program: &Program, say: Progress<'_>) -> Result<Option<Provided>, Error> {
        let (name, wanted) = (program.name, self.version.of(program.project));
        let place = self.folder.join(name);
        if program.has_version(&place, wanted) {
            say(&format!("{name}: {wanted} is in the cache"));
            return Ok(Some(self.provided(program, Origin::Cache)));
        }
        let Some(found) = self.find(program, &place, say)? else { return Ok(None) };
        say(&format!("{name}: {} is {wanted}, and is linked", found.display()));
        place_by(&place, |target| {
            std::os::unix::fs::symlink(&found, target).map_err(Error::file("link to", &found))
        })?;
        Ok(Some(self.provided(program, Origin::Found(found))))
    }

    fn provided(&self, program: &Program, origin: Origin) -> Provided {
        Provided { name: program.name, version: self.version.of(program.project).to_owned(), origin }
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

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left of it in a cache is nobody's loss.
        let _ = fs::remove_dir_all(&self.0);
    }
}
