//! The releases that clusters can be made of: OpenShift-style versions, of which 4.y is Kubernetes 1.(y+13).
//!
//! What a release runs is decided below, by whoever reads its image: the rows here are the same as there
//! (`services/hypershift/src/versions.rs`), so that what is refused is refused before anything is made. Every release is in
//! every channel: the payload is one program, and nothing makes one channel's surer than another's.

use jiff::Timestamp;
use pilothouse_clusters_service_api::{BASES, ReleaseImage, ReleaseImages, ReleaseVersion, Version};

use crate::config::Config;
use crate::manifests;

/// A minor of version 4.
struct Minor {
    minor: u32,
    /// Its newest patch.
    newest: u32,
    /// Eighteen months after its first release.
    end_of_life: &'static str,
}

const MINORS: [Minor; 5] = [
    Minor { minor: 17, newest: 44, end_of_life: "2026-04-01T00:00:00Z" },
    Minor { minor: 18, newest: 30, end_of_life: "2026-08-25T00:00:00Z" },
    Minor { minor: 19, newest: 24, end_of_life: "2026-12-17T00:00:00Z" },
    Minor { minor: 20, newest: 20, end_of_life: "2027-04-21T00:00:00Z" },
    Minor { minor: 21, newest: 10, end_of_life: "2027-08-03T00:00:00Z" },
];

/// The channels, the first being that of versions that name none.
pub(crate) const CHANNELS: [&str; 4] = ["stable", "fast", "candidate", "nightly"];
/// From here on new clusters are offered; older ones are there for those that have them.
const FIRST_ENABLED: u32 = 20;
/// What a cluster is made of that names no version.
const DEFAULT: (u32, u32, &str) = (20, 8, CHANNELS[0]);

/// The newest patch of a minor that this service serves.
pub(crate) fn newest_patch(config: &Config, minor: u32) -> Option<u32> {
    served(config).find(|row| row.minor == minor).map(|row| row.newest)
}

/// Every release in every channel, oldest first.
pub(crate) fn all(config: &Config) -> Vec<ReleaseVersion> {
    let releases = served(config).flat_map(|row| (0..=row.newest).map(move |patch| (row, patch)));
    releases.flat_map(|(row, patch)| CHANNELS.map(|channel| shown(config, row, patch, channel))).collect()
}

/// One release by its id.
pub(crate) fn find(config: &Config, id: &str) -> Option<ReleaseVersion> {
    all(config).into_iter().find(|version| version.id == id)
}

fn served(config: &Config) -> impl Iterator<Item = &'static Minor> {
    let (oldest, newest) = config.minor_versions;
    MINORS.iter().filter(move |row| (oldest..=newest).contains(&row.minor))
}

fn shown(config: &Config, row: &Minor, patch: u32, channel: &str) -> ReleaseVersion {
    let number = format!("4.{}.{patch}", row.minor);
    let id = Version::of_channel(&number, channel).id;
    let later = (patch + 1..=row.newest).map(|later| format!("4.{}.{later}", row.minor));
    let next = served(config).filter(|next| next.minor == row.minor + 1);
    let next = next.flat_map(|next| (0..=next.newest).map(|patch| format!("4.{}.{patch}", next.minor)));
    let available_upgrades: Vec<_> = later.chain(next).collect();
    let release_image = manifests::image_of(&config.release_repository, &number);
    // One image stands for all architectures: what runs is chosen by the node.
    let multi =
        ReleaseImage { release_image: release_image.clone(), available_upgrades: available_upgrades.clone() };
    ReleaseVersion {
        kind: "Version".to_owned(),
        href: format!("{}/versions/{id}", BASES[0]),
        id,
        raw_id: number,
        enabled: row.minor >= FIRST_ENABLED,
        default: (row.minor, patch, channel) == DEFAULT,
        channel_group: channel.to_owned(),
        available_upgrades,
        end_of_life_timestamp: row.end_of_life.parse::<Timestamp>().ok(),
        hosted_control_plane_enabled: true,
        release_image,
        release_images: Some(ReleaseImages { multi: Some(multi) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_release_is_there_once_per_channel_with_what_it_can_become() {
        let config = Config::default();
        let all = all(&config);
        assert_eq!(all.len(), (45 + 31 + 25 + 21 + 11) * CHANNELS.len());
        assert_eq!(all.iter().filter(|version| version.default).count(), 1);
        assert!(all.iter().all(|version| version.end_of_life_timestamp.is_some()));
        let found = find(&config, "openshift-v4.20.19-candidate").unwrap();
        assert_eq!((found.raw_id.as_str(), found.enabled), ("4.20.19", true));
        assert_eq!(found.available_upgrades[..2], ["4.20.20".to_owned(), "4.21.0".to_owned()]);
        assert_eq!(found.release_image, "pilothouse/release:4.20.19");
        let multi = found.release_images.unwrap().multi.unwrap();
        assert_eq!(
            (multi.release_image, multi.available_upgrades),
            (found.release_image, found.available_upgrades)
        );
        assert!(!find(&config, "openshift-v4.19.0").unwrap().enabled);
        let newest = find(&config, "openshift-v4.21.10").unwrap();
        assert_eq!((newest.available_upgrades.len(), find(&config, "openshift-v4.21.11")), (0, None));
    }

    #[test]
    fn a_region_that_serves_fewer_minors_shows_fewer() {
        let config = Config { minor_versions: (20, 20), ..Config::default() };
        assert_eq!(all(&config).len(), 21 * CHANNELS.len());
        assert_eq!((newest_patch(&config, 20), newest_patch(&config, 21)), (Some(20), None));
    }
}
