//! Versions of clusters: a cluster names a minor, a node pool a full release.

use std::fmt;
use std::str::FromStr;

/// `4.20`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minor {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

/// `4.20.8`, perhaps with a suffix for what comes before the release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Its minor.
    pub minor: Minor,
    /// The third number.
    pub patch: u32,
    /// `rc.1`, for what comes before the release.
    pub suffix: Option<String>,
}

/// The oldest minor that clusters are offered in.
pub(crate) const OLDEST: Minor = Minor { major: 4, minor: 20 };

/// The release that is installed when only a minor is named. Node pools name a release themselves, 4.20.8 at the
/// earliest, and none may be newer than its control plane.
const NEWEST: [(Minor, u32); 2] = [(Minor { major: 4, minor: 20 }, 8), (Minor { major: 4, minor: 21 }, 2)];

/// Digits only: `+4` or `04` are not how versions are written.
fn number(text: &str) -> Option<u32> {
    let plain = text == "0" || (!text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit()));
    plain.then(|| text.parse().ok()).flatten()
}

impl Minor {
    /// What a cluster is made of that names no version.
    pub const DEFAULT: Self = OLDEST;

    /// The newest release of this minor; for a minor that is not in the catalogue, its first.
    pub fn newest_release(self) -> String {
        let patch = NEWEST.iter().find(|(minor, _)| *minor == self).map_or(0, |(_, patch)| *patch);
        format!("{self}.{patch}")
    }
}

impl Minor {
    /// The minor of a version in any form: `4.20`, `4.20.8`, `4.20.8-rc.1`.
    pub fn of_any(text: &str) -> Option<Self> {
        text.parse().ok().or_else(|| text.parse::<Release>().ok().map(|release| release.minor))
    }

    /// Whether a control plane may go from `before` to this one: one minor up, or to the next major from the two last
    /// minors of the one before.
    pub fn may_follow(self, before: Self) -> bool {
        if self.major == before.major {
            return self.minor == before.minor || self.minor == before.minor + 1;
        }
        [(minor(4, 22), minor(5, 0)), (minor(4, 23), minor(5, 1))].contains(&(before, self))
    }

    /// Whether a control plane of this minor takes nodes of that one: at most two minors older, counted across the
    /// change of the major as if it were none.
    pub fn takes_nodes_of(self, nodes: Self) -> bool {
        if self.major == nodes.major {
            return nodes.minor <= self.minor && self.minor - nodes.minor <= 2;
        }
        const ACROSS: [(Minor, Minor); 5] = [
            (minor(4, 21), minor(5, 0)),
            (minor(4, 22), minor(5, 0)),
            (minor(4, 22), minor(5, 1)),
            (minor(4, 23), minor(5, 1)),
            (minor(4, 23), minor(5, 2)),
        ];
        ACROSS.contains(&(nodes, self))
    }
}

const fn minor(major: u32, minor: u32) -> Minor {
    Minor { major, minor }
}

impl FromStr for Minor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (major, minor) = text.split_once('.').ok_or(())?;
        Ok(Self { major: number(major).ok_or(())?, minor: number(minor).ok_or(())? })
    }
}

impl FromStr for Release {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (numbers, suffix) = match text.split_once('-') {
            Some((_, "")) => return Err(()),
            Some((numbers, suffix)) => (numbers, Some(suffix.to_owned())),
            None => (text, None),
        };
        let (minor, patch) = numbers.rsplit_once('.').ok_or(())?;
        Ok(Self { minor: minor.parse()?, patch: number(patch).ok_or(())?, suffix })
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minors_and_releases_are_told_apart() {
        assert_eq!("4.20".parse(), Ok(OLDEST));
        assert_eq!("4.20.8".parse::<Minor>(), Err(()));
        let release: Release = "4.20.8-rc.1".parse().unwrap();
        assert_eq!((release.minor, release.patch, release.suffix.as_deref()), (OLDEST, 8, Some("rc.1")));
        for text in ["", "4", "4.20", "4.20.", "4.20.x", "4.020.1", "4.20.1-", "v4.20.1", "+4.20.1"] {
            assert_eq!(text.parse::<Release>(), Err(()), "{text}");
        }
    }

    #[test]
    fn versions_follow_one_another_in_single_steps() {
        let minor = |text: &str| text.parse::<Minor>().unwrap();
        for (before, after, may) in [
            ("4.20", "4.20", true),
            ("4.20", "4.21", true),
            ("4.20", "4.22", false),
            ("4.21", "4.20", false),
            ("4.21", "5.0", false),
            ("4.22", "5.0", true),
            ("4.22", "5.1", false),
            ("4.23", "5.1", true),
            ("5.0", "4.22", false),
        ] {
            assert_eq!(minor(after).may_follow(minor(before)), may, "{before} to {after}");
        }
        for (nodes, control_plane, takes) in [
            ("4.20", "4.22", true),
            ("4.20", "4.23", false),
            ("4.21", "4.20", false),
            ("4.20", "5.0", false),
            ("4.21", "5.0", true),
            ("4.22", "5.1", true),
            ("4.23", "5.0", false),
            ("4.23", "5.2", true),
        ] {
            assert_eq!(
                minor(control_plane).takes_nodes_of(minor(nodes)),
                takes,
                "{nodes} in {control_plane}"
            );
        }
        assert_eq!(Minor::of_any("4.20.8-rc.1"), Some(OLDEST));
        assert_eq!(Minor::of_any("4.x"), None);
    }
}
