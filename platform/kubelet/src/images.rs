//! Which images this node can run: those that are programs on its disk.

use std::path::PathBuf;

/// What an image name means on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// What is run when a container names no command.
    pub(crate) entrypoint: Vec<String>,
    /// What it is given when a container names neither command nor arguments.
    pub(crate) arguments: Vec<String>,
    /// A program beside those of the machine.
    pub(crate) program: Option<PathBuf>,
}

/// The images of this node.
#[derive(Clone, Debug)]
pub(crate) struct Images {
    program: PathBuf,
}

/// An image that is no program here.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "image `{0}` is not on this node, which runs programs and not images: it can run `pilothouse` (this program) and \
     `busybox` (the machine's shell and core utilities), with any tag"
)]
pub(crate) struct UnknownImage(String);

impl Image {
    /// The words a container runs: its own command, or what the image has in its place.
    pub(crate) fn command(&self, command: Vec<String>, arguments: Vec<String>) -> Vec<String> {
        match (command.is_empty(), arguments.is_empty()) {
            (false, _) => [command, arguments].concat(),
            (true, false) => [self.entrypoint.clone(), arguments].concat(),
            (true, true) => [self.entrypoint.clone(), self.arguments.clone()].concat(),
        }
    }
}

impl Images {
    pub(crate) fn new(program: PathBuf) -> Self {
        Self { program }
    }

    /// What a name means. Registry and tag do not matter: there is one of each.
    pub(crate) fn resolve(&self, name: &str) -> Result<Image, UnknownImage> {
        let bare = name.rsplit('/').next().unwrap_or(name);
        let bare = bare.split(['@', ':']).next().unwrap_or(bare);
        match bare {
            "pilothouse" => {
                let program = Some(self.program.clone());
                Ok(Image { entrypoint: vec!["pilothouse".into()], arguments: Vec::new(), program })
            }
            // Without an entrypoint, as its namesake: arguments alone are a command.
            "busybox" => Ok(Image { entrypoint: Vec::new(), arguments: vec!["sh".into()], program: None }),
            _ => Err(UnknownImage(name.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_and_arguments_replace_those_of_the_image() {
        let images = Images::new("/bin/pilothouse".into());
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
        let images = Images::new("/bin/pilothouse".into());
        for name in ["pilothouse", "pilothouse:1.2", "registry.example:5000/team/pilothouse:1.2@sha256:00"] {
            assert_eq!(
                images.resolve(name).unwrap().program.as_deref(),
                Some("/bin/pilothouse".as_ref()),
                "{name}"
            );
        }
        assert_eq!(images.resolve("docker.io/library/busybox").unwrap().program, None);
        let error = images.resolve("nginx:1.27").unwrap_err().to_string();
        assert!(error.contains("nginx:1.27") && error.contains("`busybox`"), "{error}");
    }
}
