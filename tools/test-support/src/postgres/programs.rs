//! Where PostgreSQL's programs are.

use std::fs;
use std::path::{Path, PathBuf};

use super::Error;
use crate::requirement::{self, Requirement};

/// What a machine without PostgreSQL lacks.
pub(super) const REQUIREMENT: Requirement = Requirement::new("postgres", "postgresql");

/// Debian keeps one folder per major version here, out of `PATH`. These are preferred: what `PATH` holds are
/// often wrappers that pick a version, or a cluster, by rules of their own.
const VERSIONED: &str = "/usr/lib/postgresql";

/// Finds one of PostgreSQL's programs.
pub(super) fn find(program: &'static str) -> Result<PathBuf, Error> {
    newest(Path::new(VERSIONED), program)
        .or_else(|| requirement::search_path(program))
        .ok_or(Error::Missing(program))
}

/// The program of the highest version below `root`. A version without it is passed over: client-only
/// installations leave folders that hold no server.
fn newest(root: &Path, program: &str) -> Option<PathBuf> {
    fs::read_dir(root)
        .ok()?
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            let candidate = entry.path().join("bin").join(program);
            // A newer client without its server must not be paired with an older server.
            let complete = entry.path().join("bin").join(REQUIREMENT.program).is_file();
            (complete && candidate.is_file()).then_some((version, candidate))
        })
        .max_by_key(|(version, _)| *version)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installation(versions: &[(&str, &[&str])]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (version, programs) in versions {
            let folder = root.path().join(version).join("bin");
            fs::create_dir_all(&folder).unwrap();
            for program in *programs {
                fs::write(folder.join(program), "").unwrap();
            }
        }
        root
    }

    #[test]
    fn highest_version_is_chosen_by_number() {
        let root = installation(&[("9", &["postgres"]), ("15", &["postgres"]), ("common", &["postgres"])]);
        assert_eq!(newest(root.path(), "postgres"), Some(root.path().join("15/bin/postgres")));
    }

    #[test]
    fn version_without_a_server_is_passed_over() {
        let root = installation(&[("15", &["postgres", "psql"]), ("17", &["psql"])]);
        assert_eq!(newest(root.path(), "psql"), Some(root.path().join("15/bin/psql")));
    }

    #[test]
    fn nothing_installed_is_nothing_found() {
        assert_eq!(newest(Path::new("/no/such/folder"), "postgres"), None);
    }
}
