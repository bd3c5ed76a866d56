//! How large each replica set should be right now.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{DESIRED, MOST, Sets, desired, name};
use crate::replica_set::desired as size;
use crate::share;

/// One set to be resized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    pub(super) set: String,
    /// The version that the decision was made on.
    pub(super) version: Option<String>,
    pub(super) before: i32,
    pub(super) replicas: i32,
}

/// How far a rollout may stray from the wanted size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) surge: i32,
    pub(super) unavailable: i32,
}

/// The limits of the deployment's strategy, in pods.
pub(super) fn bounds(deployment: &Deployment) -> Bounds {
    let wanted = desired(deployment);
    if recreates(deployment) {
        return Bounds { surge: 0, unavailable: wanted };
    }
    let strategy = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let quarter = || IntOrString::String("25%".to_owned());
    let surge = rolling.and_then(|rolling| rolling.max_surge.clone()).unwrap_or_else(quarter);
    let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.clone()).unwrap_or_else(quarter);
    let surge = share::of(&surge, wanted, true);
    let unavailable = share::of(&unavailable, wanted, false).min(wanted);
    // Neither one more nor one less would never move.
    if surge == 0 && unavailable == 0 {
        return Bounds { surge: 0, unavailable: 1 };
    }
    Bounds { surge, unavailable }
}

pub(super) fn recreates(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
    strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate")
}

/// The size that a set for a new template begins with; `None` if it has to wait.
pub(super) fn first_size(deployment: &Deployment, sets: &Sets<'_>, old_pods: usize) -> Option<i32> {
    let wanted = desired(deployment);
    if recreates(deployment) {
        let shrunk = sets.old.iter().all(|set| size(set) == 0);
        return (shrunk && old_pods == 0).then_some(wanted);
    }
    let room = wanted + bounds(deployment).surge - total(sets);
    Some(room.clamp(0, wanted))
}

/// The next change of sizes.
pub(super) fn scale(deployment: &Deployment, sets: &Sets<'_>, old_pods: usize) -> Vec<Scale> {
    let paused = deployment.spec.as_ref().and_then(|spec| spec.paused).unwrap_or(false);
    if paused || was_resized(deployment, sets) {
        return resize(deployment, sets);
    }
    if recreates(deployment) {
        return recreate(deployment, sets, old_pods);
    }
    let Some(new) = sets.new else { return Vec::new() };
    let wanted = desired(deployment);
    let Bounds { surge, unavailable } = bounds(deployment);
    let current = size(new);
    if current > wanted {
        return vec![to(new, wanted)];
    }
    let room = wanted + surge - total(sets);
    if current < wanted && room > 0 {
        return vec![to(new, (current + room).min(wanted))];
    }
    shrink_old(sets, wanted - unavailable)
}

/// Takes from the old sets what the new one makes up for, beginning with pods that do not work anyway.
fn shrink_old(sets: &Sets<'_>, least_available: i32) -> Vec<Scale> {
    let missing_of_new = sets.new.map_or(0, |new| size(new) - available(new));
    let mut removable = total(sets) - least_available - missing_of_new;
    if removable <= 0 {
        return Vec::new();
    }
    let mut sizes: Vec<_> = sets.old.iter().map(|set| (*set, size(set))).collect();
    for (set, remaining) in &mut sizes {
        let broken = (*remaining - available(set)).clamp(0, removable);
        *remaining -= broken;
        removable -= broken;
    }
    let mut spare = (sets.all().map(|set| available(set)).sum::<i32>() - least_available).min(removable);
    for (_, remaining) in &mut sizes {
        let taken = (*remaining).clamp(0, spare.max(0));
        *remaining -= taken;
        spare -= taken;
    }
    sizes.into_iter().filter(|(set, replicas)| size(set) != *replicas).map(|(set, n)| to(set, n)).collect()
}

fn recreate(deployment: &Deployment, sets: &Sets<'_>, old_pods: usize) -> Vec<Scale> {
    let shrinking: Vec<_> = sets.old.iter().filter(|set| size(set) > 0).map(|set| to(set, 0)).collect();
    if !shrinking.is_empty() {
        return shrinking;
    }
    let wanted = desired(deployment);
    match sets.new {
        Some(new) if size(new) > wanted || (size(new) < wanted && old_pods == 0) => vec![to(new, wanted)],
        _ => Vec::new(),
    }
}

/// Whether the deployment asks for another size than the one that its sets were made for.
pub(super) fn was_resized(deployment: &Deployment, sets: &Sets<'_>) -> bool {
    let noted = |set: &Arc<ReplicaSet>| annotation(set, DESIRED);
    sets.all().any(|set| size(set) > 0 && noted(set).is_some_and(|noted| noted != desired(deployment)))
}

fn annotation(set: &ReplicaSet, name: &str) -> Option<i32> {
    set.metadata.annotations.as_ref()?.get(name)?.parse().ok()
}

/// Another size without another template: the one set that there is takes all of it; in the middle of a rollout each takes
/// its share, so that a risk that was spread stays spread.
fn resize(deployment: &Deployment, sets: &Sets<'_>) -> Vec<Scale> {
    let wanted = desired(deployment);
    let active: Vec<_> = sets.all().filter(|set| size(set) > 0).collect();
    let single = match (active.as_slice(), sets.new) {
        ([one], _) => Some(*one),
        ([], Some(new)) => Some(new),
        ([], None) => sets.old.last().copied(),
        _ => None,
    };
    if let Some(one) = single {
        let stale = annotation(one, DESIRED).is_some_and(|noted| noted != wanted);
        return if size(one) != wanted || stale { vec![to(one, wanted)] } else { Vec::new() };
    }
    if let Some(new) = sets.new
        && size(new) == wanted
        && available(new) == wanted
    {
        return sets.old.iter().filter(|set| size(set) > 0).map(|set| to(set, 0)).collect();
    }
    if recreates(deployment) || !was_resized(deployment, sets) {
        return Vec::new();
    }
    let most = if wanted > 0 { wanted + bounds(deployment).surge } else { 0 };
    let missing = most - total(sets);
    let mut shares = active;
    // The largest first, and of equals the newest when growing, the oldest when shrinking.
    shares.sort_by_key(|set| {
        let created = set.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second()).unwrap_or(0);
        (-i64::from(size(set)), if missing > 0 { -created } else { created })
    });
    let mut given = 0;
    let mut sizes: Vec<(&Arc<ReplicaSet>, i32)> = Vec::new();
    for set in shares {
        let added = if missing == 0 { 0 } else { share_of(set, most, missing, given) };
        given += added;
        sizes.push((set, size(set) + added));
    }
    if let Some(first) = sizes.first_mut() {
        // What rounding left over.
        first.1 = (first.1 + missing - given).max(0);
    }
    sizes.into_iter().map(|(set, replicas)| to(set, replicas)).collect()
}

/// How many of the missing pods a set gets, or of the surplus ones loses.
fn share_of(set: &ReplicaSet, most: i32, missing: i32, given: i32) -> i32 {
    let noted = annotation(set, MOST).filter(|noted| *noted > 0).unwrap_or(most).max(1);
    let scaled = (i64::from(size(set)) * i64::from(most) * 2 + i64::from(noted)) / (i64::from(noted) * 2);
    let change = i32::try_from(scaled).unwrap_or(i32::MAX) - size(set);
    let left = missing - given;
    if missing > 0 { change.min(left) } else { change.max(left) }
}

fn to(set: &Arc<ReplicaSet>, replicas: i32) -> Scale {
    Scale {
        set: name(&set.metadata).to_owned(),
        version: set.metadata.resource_version.clone(),
        before: size(set),
        replicas,
    }
}

fn total(sets: &Sets<'_>) -> i32 {
    sets.all().map(|set| size(set)).sum()
}

fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}
