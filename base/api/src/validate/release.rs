//! Which versions may follow which.

use crate::hub;
use crate::invalid::Problems;
use crate::release::{Minor, OLDEST, Release};
use crate::version::Rules;

/// The first release that node pools are offered in.
const FIRST: (Minor, u32) = (OLDEST, 8);
const TARGET: &str = "properties.version.id";

pub(super) fn channel_group(group: &str, rules: Rules, problems: &mut Problems) {
    const EVERYBODY: [&str; 2] = ["fast", "stable"];
    const EXPERIMENTAL: [&str; 4] = ["candidate", "fast", "nightly", "stable"];
    let groups: &[&str] = if rules.experimental { &EXPERIMENTAL } else { &EVERYBODY };
    if !groups.contains(&group) {
        problems.unsupported("properties.version.channelGroup", group, groups);
    }
}

/// The lowest and the highest minor that a control plane runs, or is asked to if it runs none yet.
pub(super) fn control_plane(cluster: &hub::Cluster) -> Option<(Minor, Minor)> {
    let active = cluster.status.active_versions.iter().filter_map(|version| Minor::of_any(version));
    let asked = || cluster.spec.version.id.as_ref().and_then(|version| Minor::of_any(version));
    let all: Vec<_> = active.collect();
    match (all.iter().min(), all.iter().max()) {
        (Some(lowest), Some(highest)) => Some((*lowest, *highest)),
        _ => asked().map(|minor| (minor, minor)),
    }
}

pub(super) fn of_cluster(
    profile: &hub::VersionProfile,
    existing: Option<&hub::Cluster>,
    rules: Rules,
    problems: &mut Problems,
) {
    let Some(id) = &profile.id else { return };
    let before = existing.and_then(|cluster| cluster.spec.version.id.as_ref());
    if before == Some(id) {
        // It was taken, whatever the rules are now.
        return;
    }
    let read = if rules.experimental { Minor::of_any(id) } else { id.parse().ok() };
    let Some(minor) = read else {
        return problems.invalid(TARGET, id, "must be a minor version, such as 4.20");
    };
    if minor < OLDEST {
        return problems.invalid(TARGET, id, format_args!("must be at least {OLDEST}"));
    }
    if minor.major >= 5 && !rules.experimental {
        return problems.invalid(TARGET, id, "must be a version of OpenShift 4");
    }
    let Some(existing) = existing else { return };
    if let Some(before) = before.and_then(|version| Minor::of_any(version)) {
        if minor < before {
            problems.invalid(TARGET, id, format_args!("must not be older than {before}, which it is now"));
        } else if !minor.may_follow(before) {
            problems.invalid(TARGET, id, format_args!("must not skip a minor version; it is {before} now"));
        }
    }
    if let Some((_, highest)) = control_plane(existing).filter(|(_, highest)| minor < *highest)
        && !problems.is_known(TARGET)
    {
        problems.invalid(TARGET, id, format_args!("must not be older than {highest}, which runs already"));
    }
}

pub(super) fn of_node_pool(
    node_pool: &hub::NodePool,
    existing: Option<&hub::NodePool>,
    cluster: &hub::Cluster,
    rules: Rules,
    problems: &mut Problems,
) {
    // Where it must be said, its form says so.
    let Some(id) = &node_pool.spec.version.id else { return };
    if existing.is_some_and(|pool| pool.spec.version.id.as_ref() == Some(id)) {
        return;
    }
    let Ok(release) = id.parse::<Release>() else {
        return problems.invalid(TARGET, id, "must be a full version, such as 4.20.8");
    };
    if !rules.experimental {
        if release.suffix.is_some() {
            return problems.invalid(TARGET, id, "must be a release, not what comes before it");
        }
        if (release.minor, release.patch) < FIRST {
            return problems.invalid(TARGET, id, format_args!("must be at least {}.{}", FIRST.0, FIRST.1));
        }
    }
    let minor = release.minor;
    let (lowest, highest) = control_plane(cluster).unwrap_or((Minor::DEFAULT, Minor::DEFAULT));
    if minor.major != highest.major && !rules.experimental {
        problems.invalid(TARGET, id, format_args!("must be of the major version of the cluster, {highest}"));
    } else if minor > lowest {
        problems.invalid(TARGET, id, format_args!("must not be newer than the cluster, which is {lowest}"));
    } else if !highest.takes_nodes_of(minor) {
        problems.invalid(TARGET, id, format_args!("must be within two minors of the cluster, {highest}"));
    }
    let active = existing.into_iter().flat_map(|pool| &pool.status.active_versions);
    if let Some(running) = active.filter_map(|version| Minor::of_any(version)).min()
        && minor > running
        && !problems.is_known(TARGET)
        && !minor.takes_nodes_of(running)
    {
        problems.invalid(
            TARGET,
            id,
            format_args!("must be within two minors of its nodes, which run {running}"),
        );
    }
}
