use std::os::unix::fs::PermissionsExt;

use super::*;

const VERSIONS: &str =
    "module x\n\nrequire (\n\tgo.etcd.io/etcd/server/v3 v3.6.4\n\tk8s.io/kubernetes v1.34.1\n)\n";

fn versions() -> Versions {
    Versions::of_manifest(VERSIONS).unwrap()
}

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

fn no_build(_: &Path) -> anyhow::Result<()> {
    panic!("nothing has to be built")
}

#[test]
fn versions_are_those_of_the_committed_module() {
    let versions = Versions::of_manifest(include_str!("../../../upstream/go.mod")).unwrap();
    assert!(versions.kubernetes.starts_with("v1."), "{versions:?}");
    let parts = include_str!("../../../upstream/go.mod")
        .lines()
        .filter(|line| line.contains(" => k8s.io/"))
        .map(|line| line.rsplit(' ').next().unwrap());
    let release = versions.kubernetes.replacen("v1.", "v0.", 1);
    assert!(parts.clone().count() > 20, "the parts of Kubernetes are replaced one by one");
    assert!({ parts }.all(|part| part == release), "a part of Kubernetes is not at {release}");
}

#[test]
fn linker_flags_carry_the_version() {
    let flags = versions().linker_flags().unwrap();
    assert!(flags.contains("version.gitVersion=v1.34.1 "), "{flags}");
    assert!(flags.contains("version.gitMajor=1 ") && flags.ends_with("version.gitMinor=34"), "{flags}");
}

#[test]
fn program_of_the_right_version_is_linked_and_then_found_in_the_cache() {
    let (cache, wrong, right) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    script(wrong.path(), "kube-apiserver", "Kubernetes v1.34.10");
    let file = script(right.path(), "kube-apiserver", "Kubernetes v1.34.1");
    let elsewhere = [wrong.path().to_owned(), right.path().to_owned()];
    let provide = || provide(apiserver(), &versions(), cache.path(), &elsewhere, no_build).unwrap().origin;

    assert_eq!(provide(), Origin::Found(fs::canonicalize(file).unwrap()));
    assert_eq!(provide(), Origin::Cache);
}

#[test]
fn what_is_nowhere_is_built_and_a_broken_build_leaves_nothing() {
    let cache = tempfile::tempdir().unwrap();
    let attempt =
        |build: fn(&Path) -> anyhow::Result<()>| provide(apiserver(), &versions(), cache.path(), &[], build);

    let failed = attempt(|target| {
        fs::write(target, "half")?;
        anyhow::bail!("out of disk")
    });
    assert_eq!(failed.unwrap_err().to_string(), "out of disk");
    assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);

    let other = attempt(|target| {
        let made = script(target.parent().unwrap(), "made", "Kubernetes v0.0.0");
        Ok(fs::rename(made, target)?)
    });
    assert!(other.unwrap_err().to_string().ends_with("does not say that it is v1.34.1: Kubernetes v0.0.0\n"));

    let built = attempt(|target| {
        let made = script(target.parent().unwrap(), "made", "Kubernetes v1.34.1");
        Ok(fs::rename(made, target)?)
    });
    assert_eq!(built.unwrap().origin, Origin::Built);
}
