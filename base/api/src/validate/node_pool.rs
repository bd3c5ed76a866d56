use super::platform::Place;
use super::{release, tags, text};
use crate::invalid::Problems;
use crate::name::NodePoolName;
use crate::version::Target;
use crate::{hub, vm_size};

/// Nodes of a pool that is in no zone.
const MOST: i32 = 200;
const LARGEST_MANAGED: i32 = 4095;
const LARGEST_EPHEMERAL: i32 = 2040;

/// Checks a node pool that is to be made in `cluster`, or to replace what is there.
pub(crate) fn node_pool(
    node_pool: &hub::NodePool,
    target: &Target<'_, hub::NodePool>,
    cluster: &hub::Cluster,
    problems: &mut Problems,
) {
    let Target { existing, rules, .. } = target;
    if existing.is_none() && NodePoolName::try_new(node_pool.id.name()).is_none() {
        problems.invalid("id", node_pool.id.name(), NodePoolName::RULE);
    }
    tags::check(&node_pool.tags, problems);
    let hub::NodePoolSpec {
        version: profile,
        platform,
        replicas,
        auto_repair,
        auto_scaling,
        labels: _,
        taints,
        // Whatever has the right form is right.
        node_drain_timeout_minutes: _,
    } = &node_pool.spec;
    release::channel_group(&profile.channel_group, *rules, problems);
    release::of_node_pool(node_pool, *existing, cluster, *rules, problems);
    let most = if platform.availability_zone.is_none() { MOST } else { i32::MAX };
    size(*replicas, *auto_scaling, most, problems);
    machine(platform, existing.map(|pool| &pool.spec.platform), problems);
    place(platform, cluster, problems);
    if platform.os_disk.disk_type == hub::DiskType::Ephemeral && !auto_repair {
        let why = "must be true for disks that do not outlive a machine";
        problems.invalid("properties.autoRepair", auto_repair, why);
    }
    all_labels(&node_pool.spec, problems);
    all_taints(taints, problems);
}

fn size(replicas: i32, scale: Option<hub::Scale>, most: i32, problems: &mut Problems) {
    let target = "properties.replicas";
    if replicas > most {
        problems.invalid(target, replicas, format_args!("must be at most {most} in a pool without a zone"));
    }
    let Some(hub::Scale { min, max }) = scale else { return };
    if replicas != 0 {
        problems.invalid(target, replicas, "must be left out or 0 when autoScaling is given");
    }
    for (name, value) in [("min", min), ("max", max)] {
        if value > most {
            let why = format!("must be at most {most} in a pool without a zone");
            problems.invalid(format!("properties.autoScaling.{name}"), value, why);
        }
    }
    if max < min {
        problems.invalid("properties.autoScaling.max", max, "must not be less than min");
    }
}

fn machine(
    platform: &hub::NodePoolPlatform,
    existing: Option<&hub::NodePoolPlatform>,
    problems: &mut Problems,
) {
    let hub::NodePoolPlatform {
        subnet_id: _,
        vm_size,
        availability_zone: _,
        encryption_at_host: _,
        os_disk: hub::OsDisk { size_gib, storage_account_type: _, disk_type, encryption_set_id: _ },
    } = platform;
    // What was taken once is taken again, whatever is offered now.
    let is_new = existing.is_none_or(|existing| existing.vm_size != *vm_size);
    if is_new && !vm_size::is_offered(vm_size) {
        let why = "is not a size that node pools are offered in, such as Standard_D8s_v3";
        problems.invalid("properties.platform.vmSize", vm_size, why);
    }
    let largest = match disk_type {
        hub::DiskType::Managed => LARGEST_MANAGED,
        hub::DiskType::Ephemeral => LARGEST_EPHEMERAL,
    };
    if *size_gib > largest {
        let why = format!("must be at most {largest} for disks of type {}", disk_type.as_str());
        problems.invalid("properties.platform.osDisk.sizeGiB", size_gib, why);
    }
}

fn place(platform: &hub::NodePoolPlatform, cluster: &hub::Cluster, problems: &mut Problems) {
    let place = Place {
        id: &cluster.id,
        managed_resource_group: cluster.spec.platform.managed_resource_group.as_deref(),
    };
    let target = "properties.platform.subnetId";
    let network = cluster.spec.platform.subnet_id.as_ref().and_then(pilothouse_arm::ResourceId::parent);
    if let Some(subnet) = &platform.subnet_id {
        place.check(target, subnet, problems);
        if network.is_some() && subnet.parent() != network {
            problems.invalid(target, subnet, "must be in the virtual network of the cluster's subnet");
        }
    }
    let target = "properties.platform.osDisk.encryptionSetId";
    if let Some(set) = &platform.os_disk.encryption_set_id {
        place.check(target, set, problems);
        if !text::is_disk_encryption_set(set.name()) {
            problems.invalid(target, set, "must end with a name of at most 80 letters, digits, '_' and '-'");
        }
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
        if !text::is_qualified_name(key) {
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
