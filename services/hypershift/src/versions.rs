//! Which releases can be served, and which Kubernetes each of them is.
//!
//! A release is named by an image whose tag is an OpenShift-style version. The payload `light` is this program, so the image
//! is never pulled; its tag selects a row of the table below. OpenShift 4.y is Kubernetes 1.(y+13).

use std::fmt;

/// How far Kubernetes' minor version is ahead of OpenShift's.
pub const KUBERNETES_MINOR_AHEAD: u32 = 13;

/// A release that can be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The image that names it.
    pub image: String,
    /// `4.20.8`.
    pub version: String,
    /// The `20` of it.
    pub minor: u32,
    /// `1.33.5`.
    pub kubernetes: String,
    /// The processors that the image says it is for; `None` if it does not say.
    pub processors: Option<Processors>,
}

/// The processors a release image is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processors {
    /// One image for all of them.
    Multi,
    /// 64-bit Intel and AMD.
    Amd64,
    /// 64-bit ARM.
    Arm64,
}

/// Why a release cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// The image has no tag that looks like a version.
    #[error("release image `{image}` does not end in a version such as `:4.20.0`; {Served}")]
    NoVersion {
        /// The image.
        image: String,
    },
    /// The version asks for a payload that is not there.
    #[error(
        "release `{version}` asks for payload `{payload}`; a payload is no part of a release, leave out `-{payload}` and annotate the HostedCluster with `pilothouse.dev/payload` for another than `light`; {Served}"
    )]
    NoPayload {
        /// The version.
        version: String,
        /// The payload.
        payload: String,
    },
    /// The version is not in the catalogue.
    #[error("release `{version}` cannot be served; {Served}")]
    Unknown {
        /// The version.
        version: String,
    },
}

/// One minor version: its newest patch, and from which patch on it has which Kubernetes patch.
struct Minor {
    minor: u32,
    newest: u32,
    kubernetes: &'static [(u32, u32)],
}

const CATALOGUE: [Minor; 5] = [
    Minor { minor: 17, newest: 44, kubernetes: &[(0, 4), (10, 9), (25, 14)] },
    Minor { minor: 18, newest: 30, kubernetes: &[(0, 5), (10, 9), (20, 13)] },
    Minor { minor: 19, newest: 24, kubernetes: &[(0, 5), (8, 7), (16, 9)] },
    Minor { minor: 20, newest: 20, kubernetes: &[(0, 4), (5, 5), (12, 6)] },
    Minor { minor: 21, newest: 10, kubernetes: &[(0, 1), (4, 2)] },
];

/// The programs of upstream that a minor version is made of. One version for all of its patches: each has to be built, or
/// fetched, and kept. The tags of etcd are those that the installer of that version of Kubernetes names.
const UPSTREAM: [(u32, Upstream); 2] = [
    (20, Upstream { kubernetes: "1.33.13", etcd: "3.5.24-0" }),
    (21, Upstream { kubernetes: "1.34.1", etcd: "3.6.4-0" }),
];

/// The programs of upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Upstream {
    /// `1.34.1`.
    pub(crate) kubernetes: &'static str,
    /// The tag of the image of the etcd that goes with it.
    pub(crate) etcd: &'static str,
}

/// What can be served, as a clause of a sentence.
struct Served;

// === impl Release ===

impl Release {
    /// The release that an image names.
    ///
    /// # Errors
    ///
    /// When it cannot be served; the message says what can.
    pub fn of_image(image: &str) -> Result<Self, ReleaseError> {
        let no_version = || ReleaseError::NoVersion { image: image.to_owned() };
        let untagged = image.split_once('@').map_or(image, |(name, _digest)| name);
        // A colon before the last slash is a registry's port.
        let last = untagged.rsplit('/').next().unwrap_or(untagged);
        let (_, tag) = last.split_once(':').ok_or_else(no_version)?;
        let (version, rest) = match tag.split_once('-') {
            Some((version, rest)) => (version, Some(rest)),
            None => (tag, None),
        };
        let processors = rest.and_then(Processors::of_tag);
        let payload = rest.filter(|_| processors.is_none());
        let numbers: Vec<u32> = version
            .split('.')
            .map(|number| number.parse().ok().filter(|_| !number.starts_with('+')))
            .collect::<Option<_>>()
            .ok_or_else(no_version)?;
        let [major, minor, patch] = numbers[..] else { return Err(no_version()) };
        if let Some(payload) = payload {
            return Err(ReleaseError::NoPayload { version: tag.to_owned(), payload: payload.to_owned() });
        }
        CATALOGUE
            .iter()
            .find(|row| major == 4 && row.minor == minor && patch <= row.newest)
            .map(|row| Self {
                image: image.to_owned(),
                version: version.to_owned(),
                minor,
                kubernetes: row.kubernetes_of(patch),
                processors,
            })
            .ok_or_else(|| ReleaseError::Unknown { version: version.to_owned() })
    }
}

// === upstream ===

impl Release {
    /// The programs of payload `upstream`; nothing if it does not have this release.
    pub(crate) fn upstream(&self) -> Option<Upstream> {
        UPSTREAM.iter().find(|(minor, _)| *minor == self.minor).map(|(_, programs)| *programs)
    }
}

/// The minor versions that payload `upstream` has, as a list in a sentence.
pub(crate) fn upstream_minors() -> String {
    UPSTREAM.map(|(minor, _)| format!("4.{minor}")).join(" and ")
}

/// The minor versions that are served, the newest first: `4.21`.
pub(crate) fn minors() -> Vec<String> {
    CATALOGUE.iter().rev().map(|row| format!("4.{}", row.minor)).collect()
}

/// The `20` and the `8` of `4.20.8`, for comparing.
pub(crate) fn minor_and_patch(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.');
    let (_, minor, patch) = (numbers.next()?, numbers.next()?, numbers.next()?);
    Some((minor.parse().ok()?, patch.parse().ok()?))
}

// === impl Processors ===

impl Processors {
    /// By the end of a release image's tag: `4.20.0-x86_64`.
    fn of_tag(text: &str) -> Option<Self> {
        match text {
            "multi" => Some(Self::Multi),
            "x86_64" | "multi-x86_64" => Some(Self::Amd64),
            "aarch64" | "multi-aarch64" => Some(Self::Arm64),
            _ => None,
        }
    }
}

// === impl Minor ===

impl Minor {
    fn kubernetes_of(&self, patch: u32) -> String {
        let kubernetes = self.kubernetes.iter().rev().find(|(from, _)| *from <= patch);
        let patch = kubernetes.map_or(0, |(_, kubernetes)| *kubernetes);
        format!("1.{}.{patch}", self.minor + KUBERNETES_MINOR_AHEAD)
    }
}

// === impl Served ===

impl fmt::Display for Served {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("served are ")?;
        for (index, Minor { minor, newest, .. }) in CATALOGUE.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(formatter, "{separator}4.{minor}.0 to 4.{minor}.{newest}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("pilothouse/release:4.17.0", "1.30.4")]
    #[case("pilothouse/release:4.20.0", "1.33.4")]
    #[case("pilothouse/release:4.20.8", "1.33.5")]
    #[case("registry.test:5000/ocp/release:4.21.10", "1.34.2")]
    #[case("quay.test/release:4.18.9@sha256:abc", "1.31.5")]
    #[case("quay.test/ocp-release:4.17.0-multi", "1.30.4")]
    #[case("quay.test/ocp-release:4.17.0-x86_64", "1.30.4")]
    fn a_release_is_named_by_its_tag(#[case] image: &str, #[case] kubernetes: &str) {
        let release = Release::of_image(image).unwrap();
        assert_eq!(release.kubernetes, kubernetes);
        assert_eq!(release.image, image);
    }

    /// What the catalogue names can be installed, and the other way round.
    #[test]
    fn versions_of_upstream_are_those_that_can_be_installed() {
        let installable = pilothouse_upstream::Version::all();
        let installable: Vec<_> =
            installable.iter().map(|version| (version.minor(), version.number())).collect();
        let named = UPSTREAM.map(|(minor, programs)| (minor + KUBERNETES_MINOR_AHEAD, programs.kubernetes));
        assert_eq!(installable, named);
    }

    #[rstest]
    #[case("pilothouse/release", "does not end in a version")]
    #[case("registry.test:5000/release", "does not end in a version")]
    #[case("pilothouse/release:latest", "does not end in a version")]
    #[case("pilothouse/release:4.20", "does not end in a version")]
    #[case("pilothouse/release:4.+20.1", "does not end in a version")]
    #[case("pilothouse/release:4.16.3", "`4.16.3` cannot be served")]
    #[case("pilothouse/release:4.20.99", "`4.20.99` cannot be served")]
    #[case("pilothouse/release:5.20.0", "`5.20.0` cannot be served")]
    #[case("pilothouse/release:4.20.0-upstream", "payload `upstream`")]
    #[case("pilothouse/release:4.20.0-s390x", "payload `s390x`")]
    fn what_cannot_be_served_is_refused_with_what_can(#[case] image: &str, #[case] why: &str) {
        let message = Release::of_image(image).unwrap_err().to_string();
        assert!(message.contains(why), "{message}");
        assert!(message.contains("4.20.0 to 4.20.20"), "{message}");
    }
}
