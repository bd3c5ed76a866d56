//! Programs from files of official releases.
//!
//! A file is written under a name that nobody else uses, held against its sum, unpacked into a folder of its own, and each
//! program asked for its version before it is put in its place. A run that ends in between leaves what it has fetched, and the
//! next goes on after it; nothing is ever taken from a file whose sum is another.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use url::Url;

use crate::install::Scratch;
use crate::program::{Program, Project};
use crate::release::{self, ReleaseFile};
use crate::{Error, Progress, Version};

mod error;
mod fetch;

#[cfg(test)]
mod tests;

pub use error::DownloadError;
use fetch::Fetch;

/// How names of files end that are not whole, or not unpacked.
const FETCHED: &str = "fetched";
/// How long nothing may come.
const STALL: Duration = Duration::from_secs(30);

/// Where files of releases are downloaded from, and which there are.
#[derive(Clone, Debug)]
pub struct Download {
    /// Instead of where their projects keep them.
    mirror: Option<Url>,
    files: Vec<ReleaseFile>,
    architecture: String,
    stall: Duration,
}

/// Programs on their way.
#[derive(Debug)]
pub(crate) struct Unpacked {
    folder: Scratch,
}

/// A file that is fetched in part or wholly, and nobody else's meanwhile.
struct Partial {
    path: PathBuf,
    file: File,
}

// === impl Download ===

impl Download {
    /// From where the projects keep them, or from a mirror that has them in folders of versions, such as
    /// `v3.6.4/etcd-v3.6.4-linux-amd64.tar.gz`.
    ///
    /// # Errors
    ///
    /// If the mirror's address is none, or not safe: sums are compared, but who listens learns what is fetched.
    pub fn new(mirror: Option<&str>) -> Result<Self, Error> {
        let mirror = mirror.map(parse_mirror).transpose()?;
        let architecture = release::architecture().to_owned();
        Ok(Self { mirror, files: release::pinned(), architecture, stall: STALL })
    }

    /// The files that programs of these projects are in.
    ///
    /// # Errors
    ///
    /// If the sum of one is not known; then nothing has been fetched.
    fn files(&self, version: &Version, projects: &[Project]) -> Result<Vec<&ReleaseFile>, Error> {
        let file = |project: &Project| {
            let found = self.files.iter().find(|file| {
                file.project == *project
                    && file.version == version.of(*project)
                    && file.architecture == self.architecture
            });
            found.ok_or_else(|| Error::NoSum {
                project: project.name(),
                version: version.of(*project).to_owned(),
                architecture: self.architecture.clone(),
            })
        };
        projects.iter().map(file).collect()
    }

    /// Fetches and unpacks what these programs are in. Each has its version.
    pub(crate) fn provide(
        &self,
        version: &Version,
        missing: &[&Program],
        folder: &Path,
        say: Progress<'_>,
    ) -> Result<Unpacked, Error> {
        let mut projects: Vec<_> = missing.iter().map(|program| program.project).collect();
        // Programs of one project follow each other.
        projects.dedup();
        let files = self.files(version, &projects)?;
        let unpacked = folder.join(format!("unpacked.partial-{}", std::process::id()));
        let unpacked = Unpacked { folder: Scratch::make(unpacked)? };
        for file in files {
            let url = self.url(file)?;
            let mut partial = Partial::open(folder, file, &url)?;
            self.complete(&mut partial, file, &url, say)?;
            let wanted: Vec<_> =
                missing.iter().copied().filter(|program| program.project == file.project).collect();
            unpacked.fill(&mut partial.file, file, &wanted).map_err(failed(&url))?;
            for program in wanted {
                unpacked.check(program, version)?;
            }
            partial.remove()?;
        }
        Ok(unpacked)
    }

    /// Has the whole file here, with the sum that it must have.
    fn complete(
        &self,
        partial: &mut Partial,
        file: &ReleaseFile,
        url: &Url,
        say: Progress<'_>,
    ) -> Result<(), Error> {
        let name = file.name();
        // Whoever was stopped after the last byte has it already.
        if partial.sum(file)? == file.sum.digits() {
            say(&format!("{name}: is here already"));
            return Ok(());
        }
        say(&format!("{name}: downloading from {}", fetch::shown(url)));
        let fetch = Fetch { name: &name, url, stall: self.stall };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Error::file("fetch", &partial.path))?;
        runtime.block_on(fetch.run(&mut partial.file, &partial.path, say))?;
        let found = partial.sum(file)?;
        if found != file.sum.digits() {
            partial.remove()?;
            let pinned = file.sum.digits().to_owned();
            return Err(failed(url)(DownloadError::Sum { kind: file.sum.kind(), pinned, found }));
        }
        say(&format!("{name}: {} is that of the release", file.sum.kind()));
        Ok(())
    }

    fn url(&self, file: &ReleaseFile) -> Result<Url, Error> {
        let base = self.mirror.as_ref().map_or_else(|| file.home(), Url::as_str);
        parse_mirror(&format!("{}/{}", base.trim_end_matches('/'), file.path()))
    }
}

/// Removes what interrupted runs have fetched of a version, unless somebody is at it.
pub(crate) fn forget(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let fetched = path.extension().is_some_and(|extension| extension == FETCHED);
        if fetched && File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
            // Space in a cache; whoever is next tries again.
            let _ = fs::remove_file(&path);
        }
    }
}

fn parse_mirror(text: &str) -> Result<Url, Error> {
    let url = Url::parse(text)
        .ok()
        .filter(|url| url.scheme() == "https" || (url.scheme() == "http" && fetch::is_loopback(url)));
    url.ok_or_else(|| Error::Mirror(text.to_owned()))
}

fn failed(url: &Url) -> impl Fn(DownloadError) -> Error {
    let url = fetch::shown(url);
    move |source| Error::Download { url: url.clone(), source }
}

// === impl Partial ===

impl Partial {
    fn open(folder: &Path, file: &ReleaseFile, url: &Url) -> Result<Self, Error> {
        let path = folder.join(format!("{}.{FETCHED}", file.name()));
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = opened.map_err(Error::file("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path, file }),
            Err(TryLockError::WouldBlock) => Err(failed(url)(DownloadError::Busy)),
            Err(TryLockError::Error(error)) => Err(Error::file("lock", &path)(error)),
        }
    }

    fn sum(&mut self, file: &ReleaseFile) -> Result<String, Error> {
        file.sum.of(&mut self.file).map_err(Error::file("read", &self.path))
    }

    fn remove(&self) -> Result<(), Error> {
        fs::remove_file(&self.path).map_err(Error::file("remove", &self.path))
    }
}

// === impl Unpacked ===

impl Unpacked {
    /// Moves a program to where it is wanted.
    pub(crate) fn take(&self, program: &Program, target: &Path) -> Result<(), Error> {
        fs::rename(self.folder.path().join(program.name), target).map_err(Error::file("write", target))
    }

    fn fill(&self, file: &mut File, release: &ReleaseFile, wanted: &[&Program]) -> Result<(), DownloadError> {
        file.seek(SeekFrom::Start(0)).map_err(DownloadError::Unpack)?;
        let mut lacking = wanted.to_vec();
        self.unpack(MultiGzDecoder::new(&*file), release, &mut lacking).map_err(DownloadError::Unpack)?;
        match lacking.first() {
            None => Ok(()),
            Some(program) => Err(DownloadError::Lacks { member: release.member(program) }),
        }
    }

    /// Writes what of an archive is lacking, under our own names and with our own rights; nothing else of it is believed.
    fn unpack(
        &self,
        archive: impl Read,
        release: &ReleaseFile,
        lacking: &mut Vec<&Program>,
    ) -> io::Result<()> {
        for entry in tar::Archive::new(archive).entries()? {
            let mut entry = entry?;
            if !entry.header().entry_type().is_file() {
                continue;
            }
            let path = entry.path()?;
            let name = path.strip_prefix(".").unwrap_or(&path);
            let Some(at) = lacking.iter().position(|program| name == Path::new(&release.member(program)))
            else {
                continue;
            };
            let program = lacking.swap_remove(at);
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o755);
            io::copy(&mut entry, &mut options.open(self.folder.path().join(program.name))?)?;
        }
        Ok(())
    }

    fn check(&self, program: &Program, version: &Version) -> Result<(), Error> {
        let (path, wanted) = (self.folder.path().join(program.name), version.of(program.project));
        if program.has_version(&path, wanted) {
            return Ok(());
        }
        let said = program.says(&path).unwrap_or_else(|error| error.to_string());
        let name = program.name.to_owned();
        Err(Error::NotTheRelease { name, wanted: wanted.to_owned(), said })
    }
}
