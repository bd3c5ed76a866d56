use super::cluster::{channel_group, drain_timeout};
use super::{immutable, text};
use crate::hub;
use crate::invalid::Problems;
use crate::name::NodePoolName;
use crate::release::{Minor, OLDEST, Release};

/// The first release that node pools are offered in.
const FIRST: (Minor, u32) = (OLDEST, 8);
/// Nodes of a pool that is in no zone.
const MOST: i32 = 200;

/// Checks a node pool that is to be made in `cluster`, or to replace `existing`.
pub(crate) fn node_pool(
    node_pool: &hub::NodePool,
    existing: Option<&hub::NodePool>,
    cluster: &hub::Cluster,
    problems: &mut Problems,
) {
    let hub::NodePool { id, location: _, tags: _, system_data: _, identity: _, spec, status: _ } = node_pool;
    if existing.is_none() && NodePoolName::try_new(id.name()).is_none() {
        problems.invalid("id", id.name(), NodePoolName::RULE);
    }
    let hub::NodePoolSpec {
        version,
        platform,
        replicas,
        auto_repair,
        auto_scaling,
        labels: _,
        taints,
        node_drain_timeout_minutes,
    } = spec;
    version_profile(version, cluster, problems);
    let most = if platform.availability_zone.is_none() { MOST } else { i32::MAX };
    size(*replicas, *auto_scaling, most, problems);
    machine(platform, *auto_repair, cluster, problems);
    all_labels(spec, problems);
    all_taints(taints, problems);
    if let Some(minutes) = node_drain_timeout_minutes {
        drain_timeout(*minutes, problems);
    }
    if let Some(existing) = existing {
        immutable::node_pool(node_pool, existing, problems);
    }
}

fn version_profile(version: &hub::VersionProfile, cluster: &hub::Cluster, problems: &mut Problems) {
    channel_group(&version.channel_group, problems);
    let target = "properties.version.id";
    let Some(id) = &version.id else { return };
    let Ok(release) = id.parse::<Release>() else {
        return problems.invalid(target, id, "must be a full version, such as 4.20.8");
    };
    if release.suffix.is_some() {
        return problems.invalid(target, id, "must be a release, not what comes before it");
    }
    if (release.minor, release.patch) < FIRST {
        return problems.invalid(target, id, format_args!("must be at least {}.{}", FIRST.0, FIRST.1));
    }
    let control_plane = match &cluster.spec.version.id {
        Some(id) => id.parse().unwrap_or(Minor::DEFAULT),
        None => Minor::DEFAULT,
    };
    if release.minor > control_plane {
        problems.invalid(
            target,
            id,
            format_args!("must not be newer than the cluster, which is {control_plane}"),
        );
    } else if release.minor.minor + 2 < control_plane.minor {
        problems.invalid(
            target,
            id,
            format_args!("must be within two minors of the cluster, {control_plane}"),
        );
    }
}

fn size(replicas: i32, scale: Option<hub::Scale>, most: i32, problems: &mut Problems) {
    let target = "properties.replicas";
    if !(0..=most).contains(&replicas) {
        problems.invalid(target, replicas, format_args!("must be between 0 and {most}"));
    }
    let Some(hub::Scale { min, max }) = scale else { return };
    if replicas != 0 {
        problems.invalid(target, replicas, "must be left out or 0 when autoScaling is given");
    }
    for (name, value) in [("min", min), ("max", max)] {
        if !(0..=most).contains(&value) {
            let why = format!("must be between 0 and {most}");
            problems.invalid(format!("properties.autoScaling.{name}"), value, why);
        }
    }
    if max < min {
        problems.invalid("properties.autoScaling.max", max, "must not be less than min");
    }
}

fn machine(
    platform: &hub::NodePoolPlatform,
    auto_repair: bool,
    cluster: &hub::Cluster,
    problems: &mut Problems,
) {
    let hub::NodePoolPlatform { subnet_id, vm_size, availability_zone: _, encryption_at_host: _, os_disk } =
        platform;
    let path = "properties.platform";
    if vm_size.is_empty() {
        problems.required(format!("{path}.vmSize"));
    } else if !vm_size.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)) {
        problems.invalid(
            format!("{path}.vmSize"),
            vm_size,
            "must be the name of a size, such as Standard_D8s_v3",
        );
    }
    let network = cluster.spec.platform.subnet_id.as_ref().and_then(pilothouse_arm::ResourceId::parent);
    if let Some(subnet) = subnet_id
        && network.is_some()
        && subnet.parent() != network
    {
        problems.invalid(
            format!("{path}.subnetId"),
            subnet,
            "must be in the virtual network of the cluster's subnet",
        );
    }
    let ephemeral = os_disk.disk_type == hub::DiskType::Ephemeral;
    let largest = if ephemeral { 2040 } else { 4095 };
    if !(64..=largest).contains(&os_disk.size_gib) {
        let why = format!("must be between 64 and {largest}");
        problems.invalid(format!("{path}.osDisk.sizeGiB"), os_disk.size_gib, why);
    }
    if ephemeral && !auto_repair {
        problems.invalid(
            "properties.autoRepair",
            auto_repair,
            "must be true for disks that do not outlive a machine",
        );
    }
}

fn all_labels(spec: &hub::NodePoolSpec, problems: &mut Problems) {
    const ROLES: [&str; 2] = ["node-role.kubernetes.io/master", "node-role.kubernetes.io/worker"];
    const MACHINES: [&str; 2] =
        ["machine.openshift.io/cluster-api-machine-role", "machine.openshift.io/cluster-api-machine-type"];
    for (key, value) in &spec.labels {
        let target = format!("properties.labels[{key}]");
        if !text::is_qualified_name(key) {
            problems.invalid(&target, key, "must be a label's key: [domain/]name");
        }
        if !text::is_label_value(value) {
            problems.invalid(
                &target,
                value,
                "must be a label's value: at most 63 letters, digits, '-', '_' and '.'",
            );
        }
        let of_machine = MACHINES.contains(&key.as_str()) && ["master", "infra"].contains(&value.as_str());
        if ROLES.contains(&key.as_str()) || of_machine {
            problems.forbidden(&target, "the label is set by the cluster itself");
        }
    }
}

fn all_taints(taints: &[hub::Taint], problems: &mut Problems) {
    for (index, hub::Taint { key, value, effect }) in taints.iter().enumerate() {
        let path = format!("properties.taints[{index}]");
        if key.is_empty() {
            problems.required(format!("{path}.key"));
        } else if key.len() > 316 {
            problems.too_long(format!("{path}.key"), 316);
        } else if !text::is_qualified_name(key) {
            problems.invalid(format!("{path}.key"), key, "must be a taint's key: [domain/]name");
        }
        if let Some(value) = value.as_ref().filter(|value| !text::is_label_value(value)) {
            problems.invalid(
                format!("{path}.value"),
                value,
                "must be a taint's value: at most 63 letters, digits, '-', '_' and '.'",
            );
        }
        if taints[..index].iter().any(|other| other.key == *key && other.effect == *effect) {
            problems.duplicate(&path, key);
        }
    }
}
