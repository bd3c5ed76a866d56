use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rstest::rstest;

use super::*;
use crate::program::{PROGRAMS, Program};

/// A program that says this when asked.
fn script(folder: &Path, name: &str, answer: &str) -> PathBuf {
    let file = folder.join(name);
    fs::write(&file, format!("#!/bin/sh\necho '{answer}'\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

fn apiserver() -> &'static Program {
    PROGRAMS.iter().find(|program| program.name == "kube-apiserver").unwrap()
}

fn newest() -> Version {
    Version::find(None).unwrap()
}

fn no_build(_: &Path) -> Result<(), Error> {
    panic!("nothing has to be built")
}

#[test]
fn versions_are_those_of_the_committed_modules() {
    let all = Version::all();
    assert_eq!(all.len(), 2, "{all:?}");
    for version in all {
        assert!(version.kubernetes().starts_with(&format!("v1.{}.", version.minor())), "{version:?}");
        let release = version.kubernetes().replacen("v1.", "v0.", 1);
        let parts: Vec<_> = version
            .manifest()
            .lines()
            .filter(|line| line.contains(" => k8s.io/"))
            .map(|line| line.rsplit(' ').next().unwrap())
            .collect();
        assert!(parts.len() > 20, "the parts of Kubernetes are replaced one by one");
        assert!(parts.iter().all(|part| *part == release), "a part of Kubernetes is not at {release}");
    }
}

#[rstest]
#[case(None, 34)]
#[case(Some("1.33"), 33)]
#[case(Some("v1.34"), 34)]
#[case(Some("1.34.1"), 34)]
fn a_version_is_found_by_its_number_or_its_minor(#[case] asked: Option<&str>, #[case] minor: u32) {
    assert_eq!(Version::find(asked).unwrap().minor(), minor);
}

#[rstest]
#[case("1.35")]
#[case("1.34.999")]
#[case("34")]
#[case("")]
fn a_version_that_cannot_be_had_is_refused_with_those_that_can(#[case] asked: &str) {
    let message = Version::find(Some(asked)).unwrap_err().to_string();
    assert!(message.contains(&format!("`{asked}`")) && message.contains("1.33."), "{message}");
    assert!(message.ends_with(newest().number()), "{message}");
}

#[test]
fn linker_flags_carry_the_version() {
    let flags = newest().linker_flags();
    assert!(flags.contains(&format!("version.gitVersion={} ", newest().kubernetes())), "{flags}");
    assert!(flags.contains("version.gitMajor=1 ") && flags.ends_with("version.gitMinor=34"), "{flags}");
}

#[test]
fn program_of_the_right_version_is_linked_and_then_found_in_the_cache() {
    let (root, wrong, right) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let kubernetes = newest().kubernetes().to_owned();
    script(wrong.path(), "kube-apiserver", &format!("Kubernetes {kubernetes}0"));
    let file = script(right.path(), "kube-apiserver", &format!("Kubernetes {kubernetes}"));
    let installation =
        Installation::new(newest(), root.path(), &[wrong.path().to_owned()], right.path().as_os_str());
    fs::create_dir(installation.folder()).unwrap();
    let said = Mutex::new(Vec::new());
    let say = |line: &str| said.lock().unwrap().push(line.to_owned());
    let provide = || installation.provide(apiserver(), &say, no_build).unwrap().origin;

    assert_eq!(provide(), Origin::Found(fs::canonicalize(file).unwrap()));
    assert_eq!(provide(), Origin::Cache);
    let said = said.into_inner().unwrap();
    assert!(said[0].contains(&format!("is {kubernetes}0, not {kubernetes}, and is passed over")), "{said:?}");
    assert!(said[1].contains("is linked") && said[2].contains("is in the cache"), "{said:?}");
}

#[test]
fn what_is_nowhere_is_built_and_a_broken_build_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let installation = Installation::new(newest(), root.path(), &[], OsStr::new(""));
    fs::create_dir(installation.folder()).unwrap();
    let attempt = |says: Option<String>| {
        installation.provide(apiserver(), &|_| (), |target| match says {
            None => {
                fs::write(target, "half").unwrap();
                Err(Error::NoCache)
            }
            Some(says) => {
                let made = script(target.parent().unwrap(), "made", &says);
                fs::rename(made, target).map_err(Error::file("move", target))
            }
        })
    };

    assert!(matches!(attempt(None), Err(Error::NoCache)));
    assert_eq!(fs::read_dir(installation.folder()).unwrap().count(), 0);

    let other = attempt(Some("Kubernetes v0.0.0".to_owned())).unwrap_err().to_string();
    assert!(other.ends_with("does not say that it is v1.34.1: Kubernetes v0.0.0\n"), "{other}");

    let built = attempt(Some(format!("Kubernetes {}", newest().kubernetes())));
    assert_eq!(built.unwrap().origin, Origin::Built);
}

#[test]
fn what_is_missing_is_what_does_not_say_the_version() {
    let root = tempfile::tempdir().unwrap();
    let (version, folder) = (newest(), root.path().join(newest().kubernetes()));
    assert_eq!(version.missing_in(root.path()).len(), PROGRAMS.len());
    fs::create_dir(&folder).unwrap();
    script(&folder, "kube-apiserver", &format!("Kubernetes {}", version.kubernetes()));
    script(&folder, "kube-scheduler", "Kubernetes v1.0.0");
    let missing = version.missing_in(root.path());
    assert!(!missing.contains(&"kube-apiserver") && missing.contains(&"kube-scheduler"), "{missing:?}");
}

#[test]
fn tests_are_built_once_from_the_module_of_their_version() {
    let root = tempfile::tempdir().unwrap();
    let version = newest();
    let provide = |says: Option<&str>| {
        conformance::provide(&version, root.path(), &|_| (), |job, target| {
            let manifest = fs::read_to_string(job.module.join("go.mod")).unwrap();
            assert_eq!((manifest.as_str(), job.package), (version.manifest(), "k8s.io/kubernetes/test/e2e"));
            let made = script(job.module, "made", says.expect("nothing has to be built"));
            fs::rename(made, target).map_err(Error::file("move", target))
        })
    };

    let other = provide(Some("v1.0.0")).unwrap_err().to_string();
    assert!(other.contains(version.kubernetes()), "{other}");
    let place = root.path().join(version.kubernetes()).join(TESTS);
    assert_eq!(provide(Some(version.kubernetes())).unwrap(), place);
    assert_eq!(provide(None).unwrap(), place);
    // Nothing else is left there.
    assert_eq!(fs::read_dir(place.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn modules_hold_what_the_tests_need() {
    let newest = newest();
    let manifest = newest.manifest();
    assert!(
        manifest.contains("github.com/onsi/ginkgo/v2 "),
        "`go mod tidy` with test/e2e in tools.go adds it"
    );
}
