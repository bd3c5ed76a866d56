//! A "no" of Clusters Service, told in the words of the caller's request.

use pilothouse_arm::{CloudError, ErrorCode, ErrorDetails};
use pilothouse_clusters_service_api as clusters_service;

/// The fields of Clusters Service and those of the caller's request. What begins with one of them and goes on with a dot
/// or a bracket is part of it; the longest counts.
const FIELDS: [(&str, &str); 41] = [
    (clusters_service::DOMAIN_PREFIX, "properties.dns.baseDomainPrefix"),
    ("name", "name"),
    ("id", "name"),
    ("region", "location"),
    ("version", "properties.version"),
    ("version.id", "properties.version.id"),
    ("version.channel_group", "properties.version.channelGroup"),
    ("network", "properties.network"),
    ("network.type", "properties.network.networkType"),
    ("network.pod_cidr", "properties.network.podCidr"),
    ("network.service_cidr", "properties.network.serviceCidr"),
    ("network.machine_cidr", "properties.network.machineCidr"),
    ("network.host_prefix", "properties.network.hostPrefix"),
    ("api", "properties.api"),
    ("api.listening", "properties.api.visibility"),
    ("api.cidr_block_access", "properties.api.authorizedCidrs"),
    ("ingresses", "properties.ingress.type"),
    ("fips", "properties.cryptoRestrictions"),
    ("image_registry", "properties.clusterImageRegistry.state"),
    ("registry_config", "properties.imageDigestMirrors"),
    ("autoscaler", "properties.autoscaling"),
    ("node_drain_grace_period", "properties.nodeDrainTimeoutMinutes"),
    ("azure.managed_resource_group_name", "properties.platform.managedResourceGroup"),
    ("azure.subnet_resource_id", "properties.platform.subnetId"),
    ("azure.network_security_group_resource_id", "properties.platform.networkSecurityGroupId"),
    ("azure.vnet_integration_subnet_resource_id", "properties.platform.vnetIntegrationSubnetId"),
    ("azure.nodes_outbound_connectivity", "properties.platform.outboundType"),
    ("azure.container_registry", "properties.platform.containerRegistry"),
    ("azure.etcd_encryption", "properties.etcd.dataEncryption"),
    ("azure.operators_authentication", "properties.platform.operatorsAuthentication"),
    ("replicas", "properties.replicas"),
    ("autoscaling", "properties.autoScaling"),
    ("auto_repair", "properties.autoRepair"),
    ("labels", "properties.labels"),
    ("taints", "properties.taints"),
    ("subnet", "properties.platform.subnetId"),
    ("availability_zone", "properties.platform.availabilityZone"),
    ("azure_node_pool", "properties.platform"),
    ("issuer", "properties.issuer"),
    ("clients", "properties.clients"),
    ("claim", "properties.claim"),
];

/// Further parts that have names of their own in the caller's request.
const PARTS: [(&str, &str); 9] = [
    ("azure_node_pool.vm_size", "properties.platform.vmSize"),
    ("azure_node_pool.encryption_at_host", "properties.platform.enableEncryptionAtHost"),
    ("azure_node_pool.os_disk", "properties.platform.osDisk"),
    ("issuer.url", "properties.issuer.url"),
    ("issuer.audiences", "properties.issuer.audiences"),
    ("issuer.ca", "properties.issuer.ca"),
    ("claim.mappings", "properties.claim.mappings"),
    ("claim.validation_rules", "properties.claim.validationRules"),
    ("certificate_signing_request", "certificateSigningRequest"),
];

/// What the caller is told of an answer from Clusters Service; `None` if it was no answer to the request.
pub(crate) fn shown(error: &clusters_service::Error) -> Option<CloudError> {
    let body = error.body()?;
    // What it cannot do yet is as wrong to ask for as what it never will.
    if matches!(body.status, 400 | 422 | 501) {
        let named = |detail: &clusters_service::Detail| ErrorDetails {
            target: Some(field(&detail.target)),
            ..ErrorDetails::new(ErrorCode::InvalidRequestContent, &detail.message)
        };
        let details: Vec<_> = error.details().iter().map(named).collect();
        return Some(if details.is_empty() {
            CloudError::new(ErrorCode::InvalidRequestContent, &body.reason)
        } else {
            CloudError::of_details(details)
        });
    }
    match body.status {
        404 if body.reason.contains("Unable to find shard") => Some(CloudError::unavailable(&body.reason)),
        409 => Some(CloudError::new(ErrorCode::Conflict, &body.reason)),
        429 | 503 => Some(CloudError::unavailable(&body.reason)),
        _ => None,
    }
}

fn field(theirs: &str) -> String {
    let begins = |known: &str| {
        theirs.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let known = FIELDS.iter().chain(&PARTS).filter(|(known, _)| begins(known));
    known.max_by_key(|(known, _)| known.len()).map_or(theirs, |(_, ours)| ours).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_told_by_the_names_of_the_request() {
        for (theirs, ours) in [
            ("domain_prefix", "properties.dns.baseDomainPrefix"),
            ("version.id", "properties.version.id"),
            ("version", "properties.version"),
            ("version.raw_id", "properties.version"),
            ("api.cidr_block_access.allow.values[0]", "properties.api.authorizedCidrs"),
            ("taints[0].effect", "properties.taints"),
            ("azure_node_pool.os_disk.size_gibibytes", "properties.platform.osDisk"),
            ("azure_node_pool", "properties.platform"),
            ("autoscaler.max_node_provision_time", "properties.autoscaling"),
            ("autoscaling.min_replica", "properties.autoScaling"),
            ("identifier", "identifier"),
            ("", ""),
        ] {
            assert_eq!(field(theirs), ours, "{theirs}");
        }
    }
}
