//! Programs in Python that tests run, each in an environment of its own with exact versions.
//!
//! `./test` makes one environment per file `requirements-NAME.txt`, in the cache, and leaves a copy of that file in it when
//! it is complete. An environment without such a copy, or with another one, was made for other versions: it counts
//! as missing, as a program would that is not installed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::environment;
use crate::requirement;

/// The copy of its requirements that a complete environment has.
const STAMP: &str = "requirements.txt";

/// An environment, and the folder of the programs that run in it.
#[derive(Clone, Debug)]
pub struct Python {
    interpreter: PathBuf,
    programs: PathBuf,
}

impl Python {
    /// The environment that `requirements-NAME.txt` in the folder `programs` describes. `None` means that the test was
    /// noted as skipped and should return.
    ///
    /// # Panics
    ///
    /// If there is no such file, or if the environment is missing and everything has to run.
    pub fn find(name: &str, programs: &Path) -> Option<Self> {
        let requirements = programs.join(format!("requirements-{name}.txt"));
        let wanted = fs::read_to_string(&requirements)
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", requirements.display()));
        let found = root().and_then(|root| interpreter(&root.join(name), &wanted));
        if found.is_none() {
            requirement::missing(&format!("the Python environment `{name}`"), "./test setup");
        }
        found.map(|interpreter| Self { interpreter, programs: programs.to_owned() })
    }

    /// The interpreter, told nothing yet.
    pub fn interpreter(&self) -> Command {
        let mut command = Command::new(&self.interpreter);
        // Nothing is written beside the programs, and what they say is seen when they say it.
        command.current_dir(&self.programs).env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUNBUFFERED", "1");
        // Neither packages of the user nor settings of the machine.
        command.env("PYTHONNOUSERSITE", "1").env_remove("PYTHONPATH").env_remove("PYTHONHOME");
        // What is talked to is on this machine.
        command.env("NO_PROXY", "127.0.0.1,localhost");
        command
    }

    /// One of the programs, by its file name.
    pub fn program(&self, file: &str) -> Command {
        let mut command = self.interpreter();
        command.arg(file);
        command
    }
}

/// Where `./test` keeps them.
fn root() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set(environment::PYTHON).or_else(|| {
        let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))?;
        Some(cache.join("pilothouse/python"))
    })
}

/// The interpreter of a complete environment that was made for these requirements.
fn interpreter(folder: &Path, wanted: &str) -> Option<PathBuf> {
    let made_for = fs::read_to_string(folder.join(STAMP)).ok()?;
    let interpreter = folder.join("bin/python3");
    // The program behind the link goes when the machine's Python is replaced.
    (made_for == wanted && interpreter.exists()).then_some(interpreter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_counts_only_if_complete_and_made_for_these_versions() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = "package==1.0\n";
        let found = || interpreter(folder.path(), wanted);
        fs::create_dir(folder.path().join("bin")).unwrap();
        fs::write(folder.path().join("bin/python3"), "").unwrap();
        assert_eq!(found(), None, "it was never completed");
        fs::write(folder.path().join(STAMP), "package==0.9\n").unwrap();
        assert_eq!(found(), None, "it has other versions");
        fs::write(folder.path().join(STAMP), wanted).unwrap();
        assert_eq!(found(), Some(folder.path().join("bin/python3")));
        fs::remove_file(folder.path().join("bin/python3")).unwrap();
        assert_eq!(found(), None, "its interpreter is gone");
    }
}
