use pilothouse_api::hub;
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_clusters_service_api::{NewNodePool, NodePoolId, NodePoolUpdate};

use super::{Work, minutes};

/// A node pool as it is asked for, under the operation that asks.
pub(crate) fn node_pool_new(work: Work<'_>, id: NodePoolId, pool: &hub::NodePool) -> NewNodePool {
    let hub::NodePoolSpec {
        version,
        platform,
        replicas,
        auto_repair,
        auto_scaling,
        labels,
        taints,
        node_drain_timeout_minutes,
    } = &pool.spec;
    NewNodePool {
        replicas: auto_scaling.is_none().then(|| number(*replicas)),
        autoscaling: auto_scaling.map(autoscaling),
        auto_repair: *auto_repair,
        version: version
            .id
            .as_ref()
            .map(|id| clusters_service::Version::of_channel(id, &version.channel_group)),
        labels: labels.clone(),
        taints: taints.iter().map(taint).collect(),
        availability_zone: platform.availability_zone.clone(),
        subnet: platform.subnet_id.as_ref().map(ToString::to_string),
        node_drain_grace_period: node_drain_timeout_minutes.map(minutes),
        properties: work.properties(),
        azure_node_pool: azure(pool, platform),
        ..NewNodePool::new(id)
    }
}

/// What of a node pool is to be another. Compared with nothing, everything that can be is said.
pub(crate) fn node_pool_update(
    work: Work<'_>,
    stored: Option<&hub::NodePoolSpec>,
    wanted: &hub::NodePoolSpec,
) -> NodePoolUpdate {
    let differs = |same: fn(&hub::NodePoolSpec, &hub::NodePoolSpec) -> bool| {
        stored.is_none_or(|stored| !same(stored, wanted))
    };
    let size = differs(|a, b| a.replicas == b.replicas && a.auto_scaling == b.auto_scaling);
    let version = wanted.version.id.as_ref().filter(|_| differs(|a, b| a.version == b.version));
    NodePoolUpdate {
        replicas: (size && wanted.auto_scaling.is_none()).then(|| number(wanted.replicas)),
        autoscaling: wanted.auto_scaling.filter(|_| size).map(autoscaling),
        version: version.map(|id| clusters_service::Version::of_channel(id, &wanted.version.channel_group)),
        node_drain_grace_period: differs(|a, b| a.node_drain_timeout_minutes == b.node_drain_timeout_minutes)
            .then(|| wanted.node_drain_timeout_minutes.map(minutes)),
        labels: differs(|a, b| a.labels == b.labels).then(|| wanted.labels.clone()),
        taints: differs(|a, b| a.taints == b.taints).then(|| wanted.taints.iter().map(taint).collect()),
        properties: work.properties(),
    }
}

fn azure(pool: &hub::NodePool, platform: &hub::NodePoolPlatform) -> clusters_service::AzureNodePool {
    let hub::OsDisk { size_gib, storage_account_type, disk_type, encryption_set_id } = &platform.os_disk;
    clusters_service::AzureNodePool {
        resource_name: pool.id.name().to_lowercase(),
        vm_size: platform.vm_size.clone(),
        encryption_at_host: platform
            .encryption_at_host
            .then_some(clusters_service::EncryptionAtHost { state: clusters_service::Switch::Enabled }),
        os_disk: Some(clusters_service::OsDisk {
            size_gibibytes: Some(number(*size_gib)),
            storage_account_type: Some(storage_account_type.as_str().to_owned()),
            persistence: Some(match disk_type {
                hub::DiskType::Managed => clusters_service::Persistence::Persistent,
                hub::DiskType::Ephemeral => clusters_service::Persistence::Ephemeral,
            }),
            sse_encryption_set_resource_id: encryption_set_id.as_ref().map(ToString::to_string),
        }),
    }
}

fn autoscaling(hub::Scale { min, max }: hub::Scale) -> clusters_service::Autoscaling {
    clusters_service::Autoscaling { min_replica: number(min), max_replica: number(max) }
}

fn taint(taint: &hub::Taint) -> clusters_service::Taint {
    clusters_service::Taint {
        key: taint.key.clone(),
        value: taint.value.clone().unwrap_or_default(),
        effect: taint.effect.as_str().to_owned(),
    }
}

/// Negative numbers were refused where they came in.
fn number(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}
