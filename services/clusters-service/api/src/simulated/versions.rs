//! The releases that the simulated service has.

use axum::extract::{Path, RawQuery};
use axum::response::Response;
use http::StatusCode;

use super::refusal::Refusal;
use super::service::{answer, list_query, page};
use crate::{BASES, ReleaseVersion, Version};

/// Minors of version 4, and how many releases each has. Clusters are made from the third on.
const MINORS: [(u32, u32); 4] = [(18, 3), (19, 3), (20, 11), (21, 5)];
const FIRST_ENABLED: u32 = 20;
const CHANNELS: [&str; 3] = ["stable", "fast", "candidate"];

/// Three numbers of a version; none if it has others, or there is no such minor.
fn numbers(version: &Version) -> Option<[u32; 3]> {
    let parts: Vec<u32> =
        version.number()?.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let known = |minor: u32| MINORS.iter().any(|(known, _)| *known == minor);
    match parts[..] {
        [4, minor, patch] if known(minor) => Some([4, minor, patch]),
        [4, minor] if known(minor) => Some([4, minor, 0]),
        _ => None,
    }
}

/// A version that can be had; one without a patch gets the first.
pub(super) fn known(version: Version) -> Result<Version, Refusal> {
    let Some([major, minor, patch]) = numbers(&version) else {
        let problem = format!("`{}` is not a version that is known here", version.id);
        return Err(Refusal::field("InvalidField", "version.id", &problem));
    };
    let group = version.channel_group.unwrap_or_else(|| "stable".to_owned());
    Ok(Version::of_channel(&format!("{major}.{minor}.{patch}"), &group))
}

/// What a control plane becomes: never older, at most one minor on.
pub(super) fn upgrade(from: &Version, to: Version) -> Result<Version, Refusal> {
    let to = known(to)?;
    match numbers(from).zip(numbers(&to)) {
        Some((old, new)) if new >= old && new[1] <= old[1] + 1 => Ok(to),
        _ => {
            let problem = format!("`{}` cannot become `{}`", from.id, to.id);
            Err(Refusal::field("InvalidField", "version.id", &problem))
        }
    }
}

/// What nodes become: not newer than their control plane.
pub(super) fn not_newer(version: Version, limit: &Version) -> Result<Version, Refusal> {
    if numbers(&version) > numbers(limit) {
        let problem = format!("`{}` is newer than its cluster's `{}`", version.id, limit.id);
        return Err(Refusal::field("InvalidField", "version.id", &problem));
    }
    Ok(version)
}

fn all() -> Vec<ReleaseVersion> {
    let mut all = Vec::new();
    for (minor, count) in MINORS {
        for patch in 0..count {
            for channel in CHANNELS {
                let number = format!("4.{minor}.{patch}");
                let id = Version::of_channel(&number, channel).id;
                let further = (patch + 1..count).map(|later| format!("4.{minor}.{later}"));
                let next = MINORS.iter().find(|(next, _)| *next == minor + 1);
                let next = next.map(|(next, count)| format!("4.{next}.{}", count - 1));
                all.push(ReleaseVersion {
                    kind: "Version".to_owned(),
                    href: format!("{}/versions/{id}", BASES[0]),
                    id,
                    raw_id: number,
                    enabled: minor >= FIRST_ENABLED,
                    default: (minor, patch, channel) == (20, 8, "stable"),
                    channel_group: channel.to_owned(),
                    available_upgrades: further.chain(next).collect(),
                    end_of_life_timestamp: None,
                    hosted_control_plane_enabled: true,
                    ..ReleaseVersion::default()
                });
            }
        }
    }
    all
}

pub(super) async fn list(RawQuery(query): RawQuery) -> Response {
    let outcome = list_query(query.as_deref()).and_then(|query| {
        let conditions = super::search::parse(query.search.as_deref().unwrap_or_default())?;
        let found =
            all().into_iter().filter(|version| super::search::matches(&conditions, version)).collect();
        page("VersionList", found, &query)
    });
    answer(StatusCode::OK, outcome)
}

pub(super) async fn get(Path(id): Path<String>) -> Response {
    let found = all().into_iter().find(|version| version.id == id);
    answer(StatusCode::OK, found.ok_or_else(|| Refusal::not_found("Version", &id)))
}
