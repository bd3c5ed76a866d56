//! Which releases a cluster ran and runs.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pilothouse_crds::{
    ClusterVersionStatus, ControlPlaneVersionStatus, DesiredRelease, HistoryEntry, HistoryState,
    HostedClusterStatus,
};

use super::blueprint::Blueprint;
use crate::versions;

/// Begins an entry for a new release, and completes it once that release answers.
pub(crate) fn record(
    status: &mut HostedClusterStatus,
    blueprint: &Blueprint,
    generation: i64,
    runs: bool,
    now: Timestamp,
) {
    let of_cluster = status.version.take().map(|version| version.history).unwrap_or_default();
    let of_control_plane =
        status.control_plane_version.take().map(|version| version.history).unwrap_or_default();
    status.version = Some(ClusterVersionStatus {
        desired: desired(&blueprint.release),
        history: extended(of_cluster, &blueprint.release, runs, now),
        observed_generation: generation,
        ..ClusterVersionStatus::default()
    });
    status.control_plane_version = Some(ControlPlaneVersionStatus {
        desired: desired(&blueprint.control_plane_release),
        history: extended(of_control_plane, &blueprint.control_plane_release, runs, now),
        observed_generation: generation,
        ..ControlPlaneVersionStatus::default()
    });
}

/// Whether it ever ran.
pub(crate) fn has_run(status: &HostedClusterStatus) -> bool {
    status.version.iter().flat_map(|version| &version.history).any(is_complete)
}

/// Whether the newest release runs.
pub(crate) fn is_current(status: &HostedClusterStatus) -> bool {
    let newest = status.version.as_ref().and_then(|version| version.history.first());
    newest.is_some_and(is_complete)
}

fn desired(release: &versions::Release) -> DesiredRelease {
    DesiredRelease {
        image: release.image.clone(),
        version: release.version.clone(),
        ..DesiredRelease::default()
    }
}

fn extended(
    mut history: Vec<HistoryEntry>,
    release: &versions::Release,
    runs: bool,
    now: Timestamp,
) -> Vec<HistoryEntry> {
    let now = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
    if history.first().is_none_or(|entry| entry.image != release.image) {
        if let Some(superseded) = history.first_mut() {
            superseded.completion_time.get_or_insert_with(|| now.clone());
        }
        history.insert(
            0,
            HistoryEntry {
                state: HistoryState::Partial,
                started_time: now.clone(),
                completion_time: None,
                version: release.version.clone(),
                image: release.image.clone(),
                verified: false,
            },
        );
        prune(&mut history);
    }
    if let Some(entry) = history.first_mut()
        && runs
        && entry.state == HistoryState::Partial
    {
        entry.state = HistoryState::Completed;
        entry.completion_time = Some(now);
    }
    history
}

/// A history is kept short, but never forgets where the cluster began nor what it last ran.
fn prune(history: &mut Vec<HistoryEntry>) {
    const LONGEST: usize = 100;
    while history.len() > LONGEST {
        let last_complete = history.iter().position(is_complete);
        let oldest = (1..history.len() - 1).rev().find(|index| Some(*index) != last_complete);
        let Some(oldest) = oldest else { return };
        history.remove(oldest);
    }
}

fn is_complete(entry: &HistoryEntry) -> bool {
    entry.state == HistoryState::Completed
}
