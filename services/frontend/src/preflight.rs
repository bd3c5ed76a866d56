//! What Clusters Service is asked for, and how its "no" is told in the words of the caller's request.

use std::collections::BTreeMap;

use pilothouse_api::{Minor, hub};
use pilothouse_arm::{CloudError, ErrorCode, ErrorDetails, OperationId, SubscriptionId};
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_clusters_service_api::{NewCluster, NewNodePool, NodePoolUpdate, properties};

use crate::call::Call;

/// The fields of Clusters Service and those of the caller's request.
const FIELDS: [(&str, &str); 10] = [
    (clusters_service::DOMAIN_PREFIX, "properties.dns.baseDomainPrefix"),
    ("version.id", "properties.version.id"),
    ("network.pod_cidr", "properties.network.podCidr"),
    ("network.service_cidr", "properties.network.serviceCidr"),
    ("network.machine_cidr", "properties.network.machineCidr"),
    ("network.host_prefix", "properties.network.hostPrefix"),
    ("azure.managed_resource_group_name", "properties.platform.managedResourceGroup"),
    ("azure.subnet_resource_id", "properties.platform.subnetId"),
    ("replicas", "properties.replicas"),
    ("taints.effect", "properties.taints"),
];

/// A cluster as it is asked for, under the operation that asks.
pub(crate) fn new_cluster(call: &Call, cluster: &hub::Cluster, operation: OperationId) -> NewCluster {
    let hub::ClusterSpec { version, base_domain_prefix, network, api, platform, .. } = &cluster.spec;
    let hub::Network { network_type, pod_cidr, service_cidr, machine_cidr, host_prefix } = network;
    let minor = version.id.as_ref().and_then(|id| id.parse().ok()).unwrap_or(Minor::DEFAULT);
    NewCluster {
        id: None,
        name: cluster.id.name().to_ascii_lowercase(),
        region: Some(clusters_service::Reference::new(&cluster.location)),
        domain_prefix: base_domain_prefix.clone(),
        version: release(&minor.newest_release(), &version.channel_group),
        network: clusters_service::Network {
            network_type: Some(network_type.as_str().to_owned()),
            pod_cidr: Some(pod_cidr.clone()),
            service_cidr: Some(service_cidr.clone()),
            machine_cidr: Some(machine_cidr.clone()),
            host_prefix: u8::try_from(*host_prefix).ok(),
        },
        api: clusters_service::Api {
            url: None,
            listening: match api.visibility {
                hub::Visibility::Public => clusters_service::Listening::External,
                hub::Visibility::Private => clusters_service::Listening::Internal,
            },
        },
        properties: work(call, operation),
        azure: clusters_service::Azure {
            tenant_id: call.tenant_id.clone(),
            managed_resource_group_name: platform.managed_resource_group.clone().unwrap_or_default(),
            subnet_resource_id: platform.subnet_id.as_ref().map(ToString::to_string),
            network_security_group_resource_id: platform
                .network_security_group_id
                .as_ref()
                .map(ToString::to_string),
            ..azure(call.subscription, cluster)
        },
    }
}

/// Which resource a cluster stands for.
fn azure(subscription: SubscriptionId, cluster: &hub::Cluster) -> clusters_service::Azure {
    clusters_service::Azure {
        subscription_id: subscription.to_string(),
        resource_group_name: cluster.id.resource_group_name().unwrap_or_default().to_lowercase(),
        resource_name: cluster.id.name().to_lowercase(),
        ..clusters_service::Azure::default()
    }
}

/// A node pool as it is asked for, under the operation that asks. `None` if its name cannot be one there.
pub(crate) fn new_node_pool(
    call: &Call,
    pool: &hub::NodePool,
    operation: OperationId,
) -> Option<NewNodePool> {
    let hub::NodePoolSpec { version, platform, auto_repair, labels, taints, .. } = &pool.spec;
    let taint = |taint: &hub::Taint| clusters_service::Taint {
        key: taint.key.clone(),
        value: taint.value.clone().unwrap_or_default(),
        effect: taint.effect.as_str().to_owned(),
    };
    Some(NewNodePool {
        id: pool.id.name().to_ascii_lowercase().parse().ok()?,
        replicas: size(&pool.spec),
        auto_repair: *auto_repair,
        version: version.id.as_ref().map(|id| release(id, &version.channel_group)),
        labels: labels.clone(),
        taints: taints.iter().map(taint).collect(),
        properties: work(call, operation),
        azure_node_pool: clusters_service::AzureNodePool {
            resource_name: pool.id.name().to_lowercase(),
            vm_size: platform.vm_size.clone(),
        },
    })
}

/// What of a node pool is to be another, under the operation that asks.
pub(crate) fn node_pool_update(call: &Call, pool: &hub::NodePool, operation: OperationId) -> NodePoolUpdate {
    NodePoolUpdate {
        replicas: Some(size(&pool.spec)),
        labels: None,
        taints: None,
        properties: work(call, operation),
    }
}

/// How many nodes a pool begins with.
fn size(spec: &hub::NodePoolSpec) -> u32 {
    let size = spec.auto_scaling.map_or(spec.replicas, |scale| scale.min);
    u32::try_from(size).unwrap_or(0)
}

fn work(call: &Call, operation: OperationId) -> BTreeMap<String, String> {
    BTreeMap::from([
        (properties::OPERATION_ID.to_owned(), operation.to_string()),
        (properties::CORRELATION_ID.to_owned(), call.correlation_id.clone()),
    ])
}

fn release(number: &str, channel_group: &str) -> clusters_service::Version {
    let stable = clusters_service::Version::of_number(number);
    if channel_group == "stable" {
        return stable;
    }
    clusters_service::Version {
        id: format!("{}-{channel_group}", stable.id),
        channel_group: Some(channel_group.to_owned()),
    }
}

/// What the caller is told of an answer from Clusters Service; `None` if it was no answer to the request.
pub(crate) fn shown(error: &clusters_service::Error) -> Option<CloudError> {
    let body = error.body()?;
    if error.is_invalid() {
        let named = |detail: &clusters_service::Detail| {
            let field = FIELDS.iter().find(|(theirs, _)| *theirs == detail.target).map(|(_, ours)| *ours);
            ErrorDetails {
                target: Some(field.unwrap_or(&detail.target).to_owned()),
                ..ErrorDetails::new(ErrorCode::InvalidRequestContent, &detail.message)
            }
        };
        let details: Vec<_> = error.details().iter().map(named).collect();
        return Some(if details.is_empty() {
            CloudError::new(ErrorCode::InvalidRequestContent, &body.reason)
        } else {
            CloudError::of_details(details)
        });
    }
    match body.status {
        409 => Some(CloudError::new(ErrorCode::Conflict, &body.reason)),
        503 => Some(CloudError::unavailable(&body.reason)),
        _ => None,
    }
}
