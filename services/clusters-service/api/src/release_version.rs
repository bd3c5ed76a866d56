use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A release that clusters can run, in one channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReleaseVersion {
    /// Always `Version`.
    pub kind: String,
    /// `openshift-vX.Y.Z`, with `-<channel group>` behind it unless that is `stable`.
    pub id: String,
    /// Its path.
    pub href: String,
    /// The bare number, `4.20.8`.
    pub raw_id: String,
    /// Whether new clusters may be made of it.
    pub enabled: bool,
    /// Whether it is what a cluster is made of that names none.
    pub default: bool,
    /// Which stream of updates it is part of.
    pub channel_group: String,
    /// The bare numbers it can be upgraded to, oldest first.
    pub available_upgrades: Vec<String>,
    /// When support for it ends, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_of_life_timestamp: Option<Timestamp>,
    /// Whether its control plane can be hosted.
    pub hosted_control_plane_enabled: bool,
    /// What a control plane of it is made of.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub release_image: String,
    /// The same by architecture, where it is not the one above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release_images: Option<ReleaseImages>,
}

/// The images of a release, by architecture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReleaseImages {
    /// The one for all architectures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multi: Option<ReleaseImage>,
}

/// One image of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReleaseImage {
    /// Its name.
    pub release_image: String,
    /// The bare numbers that what is made of it can be upgraded to, oldest first.
    pub available_upgrades: Vec<String>,
}
