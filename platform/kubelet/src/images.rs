//! Which images this node can run: those that are programs on its disk.
//!
//! `pilothouse` is this very program, `busybox` the machine's shell and core utilities. An administrator may list further
//! programs, and the programs of upstream Kubernetes are images where they are installed. Registries do not matter.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The image of this very program.
const OURS: &str = "pilothouse";
/// The machine's shell and core utilities.
const MACHINE: &str = "busybox";
/// The programs of upstream Kubernetes that are images.
const UPSTREAM: [&str; 5] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"];

/// What an image name means on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// What is run when a container names no command.
    pub(crate) entrypoint: Vec<String>,
    /// What it is given when a container names neither command nor arguments.
    pub(crate) arguments: Vec<String>,
    /// A program beside those of the machine.
    pub(crate) program: Option<Program>,
}

/// A program that is added to those of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// What it is called inside a container.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// The images of this node.
#[derive(Clone, Debug)]
pub(crate) struct Images {
    program: PathBuf,
    /// By name, with a tag or for all of them.
    listed: BTreeMap<String, PathBuf>,
    /// Versions of upstream's programs, a folder each.
    upstream: Option<PathBuf>,
}

/// An image that is no program here.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "image `{name}` is not on this node, which runs programs and not images: it can run `pilothouse` (this program) and \
     `busybox` (the machine's shell and core utilities) with any tag{others}"
)]
pub(crate) struct UnknownImage {
    name: String,
    others: Others,
}

/// What a node can run beside what every node can.
#[derive(Debug, PartialEq, Eq)]
struct Others(Vec<String>);

// === impl Image ===

impl Image {
    /// One that does nothing but run a program.
    fn of(name: &str, path: PathBuf) -> Self {
        let program = Program { name: name.to_owned(), path };
        Self { entrypoint: vec![name.to_owned()], arguments: Vec::new(), program: Some(program) }
    }

    /// The words a container runs: its own command, or what the image has in its place.
    pub(crate) fn command(&self, command: Vec<String>, arguments: Vec<String>) -> Vec<String> {
        match (command.is_empty(), arguments.is_empty()) {
            (false, _) => [command, arguments].concat(),
            (true, false) => [self.entrypoint.clone(), arguments].concat(),
            (true, true) => [self.entrypoint.clone(), self.arguments.clone()].concat(),
        }
    }

    /// Whether it is this very program.
    pub(crate) fn is_ours(&self) -> bool {
        self.program.as_ref().is_some_and(|program| program.name == OURS)
    }
}

// === impl Images ===

impl Images {
    /// Fails if what is listed cannot be run, and says what is wrong with it.
    pub(crate) fn try_new(
        program: PathBuf,
        listed: BTreeMap<String, PathBuf>,
        upstream: Option<PathBuf>,
    ) -> Result<Self, String> {
        listed.iter().try_for_each(|(name, path)| check_image(name, path))?;
        Ok(Self { program, listed, upstream })
    }

    /// What a name means. The registry does not matter; the tag does where there are several versions.
    pub(crate) fn resolve(&self, name: &str) -> Result<Image, UnknownImage> {
        let (bare, tag) = parts(name);
        match bare {
            OURS => return Ok(Image::of(OURS, self.program.clone())),
            // Without an entrypoint, as its namesake: arguments alone are a command.
            MACHINE => {
                return Ok(Image { entrypoint: Vec::new(), arguments: vec!["sh".into()], program: None });
            }
            _ => {}
        }
        let listed = tag.and_then(|tag| self.listed.get(&format!("{bare}:{tag}")));
        listed
            .or_else(|| self.listed.get(bare))
            .cloned()
            .or_else(|| self.upstream_program(bare, tag))
            .map(|path| Image::of(bare, path))
            .ok_or_else(|| UnknownImage { name: name.to_owned(), others: self.others() })
    }

    /// A program of upstream Kubernetes. The tag is the version that it belongs to, also that of etcd.
    fn upstream_program(&self, name: &str, tag: Option<&str>) -> Option<PathBuf> {
        let folder = self.upstream.as_ref().filter(|_| UPSTREAM.contains(&name))?;
        let version = match tag {
            Some(tag) if tag != "latest" => tag.to_owned(),
            _ => versions(folder).pop()?,
        };
        // A tag is no path.
        let path = folder.join(Some(version).filter(|version| !version.starts_with('.'))?).join(name);
        is_program(&path).then_some(path)
    }

    fn others(&self) -> Others {
        let listed = self.listed.keys().map(|name| format!("`{name}`"));
        let versions = self.upstream.iter().flat_map(|folder| {
            let programs = |version: String| {
                let there = UPSTREAM.iter().filter(|name| is_program(&folder.join(&version).join(name)));
                there.map(|name| format!("`{name}:{version}`")).collect::<Vec<_>>()
            };
            versions(folder).into_iter().flat_map(programs).collect::<Vec<_>>()
        });
        Others(listed.chain(versions).collect())
    }
}

// === impl Others ===

impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("; its administrator may list further programs");
        }
        write!(f, ", and {}", self.0.join(", "))
    }
}

/// Whether a program can be listed as an image under this name.
///
/// # Errors
///
/// What is wrong with it, and what to write instead.
pub fn check_image(name: &str, path: &Path) -> Result<(), String> {
    let (bare, tag) = parts(name);
    if bare.is_empty() || tag.is_some_and(str::is_empty) || name.contains(['/', '@']) {
        return Err(format!(
            "`{name}` is no name of an image; write `NAME` or `NAME:TAG`, without a registry"
        ));
    }
    if [OURS, MACHINE].contains(&bare) {
        return Err(format!("`{bare}` is an image of every node; list the program under another name"));
    }
    if !path.is_absolute() || !is_program(path) {
        return Err(format!(
            "`{name}` leads to `{}`, which is no program; write the absolute path of an executable file",
            path.display()
        ));
    }
    Ok(())
}

/// Name and tag of an image, without registry and digest.
fn parts(name: &str) -> (&str, Option<&str>) {
    let bare = name.rsplit('/').next().unwrap_or(name);
    let bare = bare.split('@').next().unwrap_or(bare);
    match bare.split_once(':') {
        Some((bare, tag)) => (bare, Some(tag)),
        None => (bare, None),
    }
}

/// The versions in a folder, the newest last.
fn versions(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<_> = names.filter_map(|name| Some((numbers(&name)?, name))).collect();
    found.sort();
    found.into_iter().map(|(_, name)| name).collect()
}

/// What `v1.34.1` is to be sorted by.
fn numbers(version: &str) -> Option<Vec<u32>> {
    version.strip_prefix('v')?.split('.').map(|number| number.parse().ok()).collect()
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images() -> Images {
        Images::try_new("/bin/pilothouse".into(), BTreeMap::new(), None).unwrap()
    }

    fn path_of(images: &Images, name: &str) -> Option<PathBuf> {
        images.resolve(name).unwrap().program.map(|program| program.path)
    }

    #[test]
    fn command_and_arguments_replace_those_of_the_image() {
        let images = images();
        let words = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        for (image, command, arguments, expected) in [
            ("busybox", &[][..], &[][..], &["sh"][..]),
            ("busybox", &[], &["echo", "hello"], &["echo", "hello"]),
            ("busybox", &["sh", "-c"], &["true"], &["sh", "-c", "true"]),
            ("pilothouse", &[], &["kubelet"], &["pilothouse", "kubelet"]),
            ("pilothouse", &["pilothouse"], &[], &["pilothouse"]),
        ] {
            let image = images.resolve(image).unwrap();
            assert_eq!(image.command(words(command), words(arguments)), expected);
        }
    }

    #[test]
    fn images_are_found_by_their_bare_name() {
        let images = images();
        for name in ["pilothouse", "pilothouse:1.2", "registry.example:5000/team/pilothouse:1.2@sha256:00"] {
            assert_eq!(path_of(&images, name), Some("/bin/pilothouse".into()), "{name}");
        }
        assert_eq!(path_of(&images, "docker.io/library/busybox"), None);
        let error = images.resolve("nginx:1.27").unwrap_err().to_string();
        assert!(error.contains("nginx:1.27") && error.contains("`busybox`"), "{error}");
    }

    #[test]
    fn listed_programs_are_images_by_tag_or_for_every_tag() {
        let listed =
            BTreeMap::from([("web".into(), "/bin/true".into()), ("web:2".into(), "/bin/false".into())]);
        let images = Images::try_new("/bin/pilothouse".into(), listed, None).unwrap();
        assert_eq!(path_of(&images, "quay.io/team/web:1"), Some("/bin/true".into()));
        assert_eq!(path_of(&images, "web:2@sha256:00"), Some("/bin/false".into()));
        let web = images.resolve("web").unwrap();
        assert_eq!(web.command(Vec::new(), vec!["a".into()]), ["web", "a"]);
        assert!(!web.is_ours());
        let error = images.resolve("nginx").unwrap_err().to_string();
        assert!(error.ends_with("with any tag, and `web`, `web:2`"), "{error}");
    }

    #[test]
    fn a_list_that_cannot_be_run_is_refused() {
        for (name, path, expected) in [
            ("web", "/no/such/program", "is no program"),
            ("web", "/etc/passwd", "is no program"),
            ("web", "bin/true", "absolute path"),
            ("quay.io/web", "/bin/true", "without a registry"),
            ("web:", "/bin/true", "is no name"),
            ("busybox", "/bin/true", "an image of every node"),
            ("pilothouse:2", "/bin/true", "an image of every node"),
        ] {
            let listed = BTreeMap::from([(name.to_owned(), PathBuf::from(path))]);
            let error = Images::try_new("/bin/pilothouse".into(), listed, None).unwrap_err();
            assert!(error.contains(expected), "{name}: {error}");
        }
    }

    #[test]
    fn upstream_programs_are_images_by_their_version() {
        let folder = tempfile::tempdir().unwrap();
        for version in ["v1.9.0", "v1.34.1", "other"] {
            fs::create_dir(folder.path().join(version)).unwrap();
            for name in ["etcd", "sh"] {
                fs::copy("/bin/true", folder.path().join(version).join(name)).unwrap();
            }
        }
        let images =
            Images::try_new("/bin/pilothouse".into(), BTreeMap::new(), Some(folder.path().into())).unwrap();
        let inside = |path: &str| Some(folder.path().join(path));
        assert_eq!(path_of(&images, "registry.k8s.io/etcd:v1.9.0"), inside("v1.9.0/etcd"));
        assert_eq!(path_of(&images, "etcd"), inside("v1.34.1/etcd"));
        assert_eq!(path_of(&images, "etcd:latest"), inside("v1.34.1/etcd"));
        for unknown in ["etcd:v1.8.0", "etcd:..", "kube-apiserver", "sh"] {
            let error = images.resolve(unknown).unwrap_err().to_string();
            assert!(error.ends_with("with any tag, and `etcd:v1.9.0`, `etcd:v1.34.1`"), "{error}");
        }
    }
}
