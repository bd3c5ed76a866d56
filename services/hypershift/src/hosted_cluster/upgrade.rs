//! Which release a cluster may go to from the one it runs.
//!
//! * Never back to an earlier version, and never more than one minor version at once: that is how far what is stored and
//!   what nodes say may differ.
//! * Not to a minor version that leaves a node pool behind by more than nodes may be. A cluster with such a pool is not
//!   upgradeable, and says so before anybody asks.
//!
//! A cluster that has run and is asked for something else keeps running what it runs. With payload `upstream` that may be an
//! upgrade to the next minor version that has begun: etcd has then changed what it keeps, and does not go back.

use pilothouse_crds::{HistoryState, HostedCluster};

use super::payload::Payload;
use super::refusal::{Refusal, Refusals};
use crate::names;
use crate::versions::{Release, minor_and_patch};

/// How many minor versions a node may be behind its control plane.
const LARGEST_SKEW: u32 = 3;

/// A node pool, as far as upgrades go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pool {
    pub(crate) name: String,
    /// The version its nodes run, `4.20.8`; empty before there are any.
    pub(crate) version: String,
}

/// What the cluster and its control plane are to run. If what was asked for is refused and the cluster has run before,
/// that is what it ran, and the refusal goes to the complaints.
pub(crate) fn releases(
    cluster: &HostedCluster,
    payload: Payload,
    pools: &[Pool],
    complaints: &mut Refusals,
    can_be_had: impl Fn(&Release) -> Result<(), Refusal>,
) -> Result<(Release, Release), Refusal> {
    let begun = begun(cluster).filter(|_| payload == Payload::Upstream);
    let asked = asked_for(cluster, begun.as_ref(), pools);
    match asked.and_then(|releases| can_be_had(&releases.1).map(|()| releases)) {
        Ok(releases) => Ok(releases),
        Err(refusal) => {
            let Some(running) = begun.or_else(|| running(cluster)) else { return Err(refusal) };
            complaints.add(refusal);
            Ok((running.clone(), running))
        }
    }
}

/// Why the cluster cannot go to the next minor version as it is.
pub(crate) fn obstacle(release: &Release, pools: &[Pool]) -> Option<String> {
    too_old(release.minor + 1, pools)
}

fn asked_for(
    cluster: &HostedCluster,
    begun: Option<&Release>,
    pools: &[Pool],
) -> Result<(Release, Release), Refusal> {
    let spec = &cluster.spec;
    let release = |image: &str| Release::of_image(image).map_err(|error| Refusal::release(error.to_string()));
    let whole = release(&spec.release.image)?;
    let control_plane = match &spec.control_plane_release {
        Some(asked) if !asked.image.is_empty() => release(&asked.image)?,
        _ => whole.clone(),
    };
    let Some(running) = running(cluster) else { return Ok((whole, control_plane)) };
    check(&running, &control_plane)?;
    if let Some(begun) = begun.filter(|begun| control_plane.minor < begun.minor) {
        return Err(Refusal::release(format!(
            "release {} cannot follow {}, to which an upgrade has begun: etcd does not go back to what it kept before; \
             condition Progressing says what it waits for, and it goes on from there",
            control_plane.version, begun.version
        )));
    }
    let forced = names::annotation(&cluster.metadata, names::FORCE_UPGRADE_TO) == Some(&control_plane.image);
    let apart = spec.control_plane_release.is_some();
    if control_plane.minor > running.minor && !forced && !apart {
        match too_old(control_plane.minor, pools) {
            Some(obstacle) => {
                return Err(Refusal::release(format!(
                    "release {} is not for this cluster yet: {obstacle}; upgrade them first, or annotate the cluster with \
                     {}={}",
                    control_plane.version,
                    names::FORCE_UPGRADE_TO,
                    control_plane.image
                )));
            }
            None => return Ok((whole, control_plane)),
        }
    }
    Ok((whole, control_plane))
}

fn check(running: &Release, asked: &Release) -> Result<(), Refusal> {
    let refused = |rule: &str| {
        Err(Refusal::release(format!(
            "release {} cannot follow {}, which the control plane runs: {rule}",
            asked.version, running.version
        )))
    };
    if minor_and_patch(&asked.version) < minor_and_patch(&running.version) {
        return refused("a cluster does not go back to an earlier version");
    }
    if asked.minor > running.minor + 1 {
        let next = running.minor + 1;
        return refused(&format!("minor versions follow one by one; go to 4.{next} first"));
    }
    Ok(())
}

/// The pools that would be too far behind a control plane of this minor version.
fn too_old(minor: u32, pools: &[Pool]) -> Option<String> {
    let behind = |pool: &&Pool| {
        minor_and_patch(&pool.version).is_some_and(|(of_pool, _)| of_pool + LARGEST_SKEW < minor)
    };
    let named: Vec<_> =
        pools.iter().filter(behind).map(|pool| format!("{} ({})", pool.name, pool.version)).collect();
    (!named.is_empty()).then(|| {
        format!(
            "nodes may be {LARGEST_SKEW} minor versions behind their control plane, and these node pools would be further \
             behind 4.{minor}: {}",
            named.join(", ")
        )
    })
}

/// The release of a later minor version that the control plane is on its way to.
fn begun(cluster: &HostedCluster) -> Option<Release> {
    let running = running(cluster)?;
    let status = cluster.status.as_ref()?;
    let newest = status.control_plane_version.as_ref()?.history.first()?;
    let newest = Release::of_image(&newest.image).ok()?;
    (newest.minor > running.minor).then_some(newest)
}

/// The release that the control plane last ran to the end.
pub(crate) fn running(cluster: &HostedCluster) -> Option<Release> {
    let status = cluster.status.as_ref()?;
    let of_control_plane = status.control_plane_version.iter().flat_map(|version| &version.history);
    let complete = of_control_plane.into_iter().find(|entry| entry.state == HistoryState::Completed)?;
    Release::of_image(&complete.image).ok()
}
