//! What may not change once it is made.

use crate::hub;
use crate::invalid::Problems;
use crate::version::Version;

const WHY: &str = "field is immutable";

fn same<T: PartialEq>(target: &str, new: &T, old: &T, problems: &mut Problems) {
    if new != old {
        problems.forbidden(target, WHY);
    }
}

pub(super) fn cluster(version: Version, new: &hub::Cluster, old: &hub::Cluster, problems: &mut Problems) {
    let hub::ClusterSpec {
        version: profile,
        base_domain_prefix,
        network,
        api,
        ingress,
        platform,
        autoscaling: _,
        node_drain_timeout_minutes: _,
        etcd,
        image_registry,
        image_digest_mirrors: _,
        crypto_restrictions,
    } = &new.spec;
    let old = &old.spec;
    if version == Version::V20240610Preview {
        same("properties.version.id", &profile.id, &old.version.id, problems);
    }
    same("properties.dns.baseDomainPrefix", base_domain_prefix, &old.base_domain_prefix, problems);
    let hub::Network { network_type, pod_cidr, service_cidr, machine_cidr, host_prefix } = network;
    same("properties.network.networkType", network_type, &old.network.network_type, problems);
    same("properties.network.podCidr", pod_cidr, &old.network.pod_cidr, problems);
    same("properties.network.serviceCidr", service_cidr, &old.network.service_cidr, problems);
    same("properties.network.machineCidr", machine_cidr, &old.network.machine_cidr, problems);
    same("properties.network.hostPrefix", host_prefix, &old.network.host_prefix, problems);
    same("properties.api.visibility", &api.visibility, &old.api.visibility, problems);
    same("properties.ingress.type", ingress, &old.ingress, problems);
    platform_parts(platform, &old.platform, problems);
    etcd_parts(etcd, &old.etcd, problems);
    same("properties.clusterImageRegistry.state", image_registry, &old.image_registry, problems);
    same("properties.cryptoRestrictions", crypto_restrictions, &old.crypto_restrictions, problems);
}

fn platform_parts(new: &hub::Platform, old: &hub::Platform, problems: &mut Problems) {
    let hub::Platform {
        managed_resource_group,
        subnet_id,
        vnet_integration_subnet_id,
        outbound_type,
        network_security_group_id,
        operators,
        container_registry_identity: _,
    } = new;
    let path = |name: &str| format!("properties.platform.{name}");
    same(&path("managedResourceGroup"), managed_resource_group, &old.managed_resource_group, problems);
    same(&path("subnetId"), subnet_id, &old.subnet_id, problems);
    same(
        &path("vnetIntegrationSubnetId"),
        vnet_integration_subnet_id,
        &old.vnet_integration_subnet_id,
        problems,
    );
    same(&path("outboundType"), outbound_type, &old.outbound_type, problems);
    same(
        &path("networkSecurityGroupId"),
        network_security_group_id,
        &old.network_security_group_id,
        problems,
    );
    same(&path("operatorsAuthentication"), operators, &old.operators, problems);
}

/// Of a customer's key only the version may change.
fn etcd_parts(new: &hub::Etcd, old: &hub::Etcd, problems: &mut Problems) {
    let path = "properties.etcd.dataEncryption";
    let (new, old) = match (&new.customer_key, &old.customer_key) {
        (Some(new), Some(old)) => (new, old),
        (None, None) => return,
        _ => return problems.forbidden(format!("{path}.keyManagementMode"), WHY),
    };
    let hub::CustomerKey { encryption_type, vault_type, vault_name, visibility, name, version: _ } = new;
    let path = format!("{path}.customerManaged");
    same(&format!("{path}.encryptionType"), encryption_type, &old.encryption_type, problems);
    same(&format!("{path}.kms.keyVaultType"), vault_type, &old.vault_type, problems);
    same(&format!("{path}.kms.vaultName"), vault_name, &old.vault_name, problems);
    same(&format!("{path}.kms.visibility"), visibility, &old.visibility, problems);
    same(&format!("{path}.kms.activeKey.name"), name, &old.name, problems);
}

pub(super) fn node_pool(new: &hub::NodePool, old: &hub::NodePool, problems: &mut Problems) {
    let hub::NodePoolSpec {
        version: _,
        platform,
        replicas: _,
        auto_repair,
        auto_scaling: _,
        labels: _,
        taints: _,
        node_drain_timeout_minutes: _,
    } = &new.spec;
    let hub::NodePoolPlatform { subnet_id, vm_size, availability_zone, encryption_at_host, os_disk } =
        platform;
    let old_platform = &old.spec.platform;
    let path = |name: &str| format!("properties.platform.{name}");
    same(&path("subnetId"), subnet_id, &old_platform.subnet_id, problems);
    same(&path("vmSize"), vm_size, &old_platform.vm_size, problems);
    same(&path("availabilityZone"), availability_zone, &old_platform.availability_zone, problems);
    same(&path("enableEncryptionAtHost"), encryption_at_host, &old_platform.encryption_at_host, problems);
    same(&path("osDisk"), os_disk, &old_platform.os_disk, problems);
    same("properties.autoRepair", auto_repair, &old.spec.auto_repair, problems);
}
