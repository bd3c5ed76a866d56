//! Where a cluster stands, and under which identities its operators act.

use pilothouse_arm::ResourceId;

use super::text;
use crate::hub;
use crate::invalid::Problems;
use crate::version::Version;

const SUBNET: &str = "Microsoft.Network/virtualNetworks/subnets";
const SECURITY_GROUP: &str = "Microsoft.Network/networkSecurityGroups";
const IDENTITY: &str = "Microsoft.ManagedIdentity/userAssignedIdentities";
const PATH: &str = "properties.platform";

pub(super) fn cluster(version: Version, cluster: &hub::Cluster, problems: &mut Problems) {
    let hub::Platform {
        managed_resource_group,
        subnet_id,
        vnet_integration_subnet_id,
        outbound_type: _,
        network_security_group_id,
        operators: _,
        container_registry_identity,
    } = &cluster.spec.platform;
    let second_subnet_is_required = version != Version::V20240610Preview;
    let place = Place { cluster, managed_resource_group: managed_resource_group.as_deref() };
    place.check_managed_group(problems);
    place.check("subnetId", subnet_id.as_ref(), SUBNET, true, problems);
    place.check(
        "vnetIntegrationSubnetId",
        vnet_integration_subnet_id.as_ref(),
        SUBNET,
        second_subnet_is_required,
        problems,
    );
    place.check("networkSecurityGroupId", network_security_group_id.as_ref(), SECURITY_GROUP, true, problems);
    place.check(
        "containerRegistry.managedIdentity",
        container_registry_identity.as_ref(),
        IDENTITY,
        false,
        problems,
    );
    if let (Some(subnet), Some(second)) = (subnet_id, vnet_integration_subnet_id)
        && subnet.parent() != second.parent()
    {
        let target = format!("{PATH}.vnetIntegrationSubnetId");
        problems.invalid(target, second, "must be in the same virtual network as subnetId");
    }
    identities(&place, problems);
}

struct Place<'a> {
    cluster: &'a hub::Cluster,
    managed_resource_group: Option<&'a str>,
}

impl Place<'_> {
    fn check_managed_group(&self, problems: &mut Problems) {
        let target = format!("{PATH}.managedResourceGroup");
        let Some(name) = self.managed_resource_group else { return };
        if !text::is_resource_group(name) {
            problems.invalid(&target, name, "must be the name of a resource group");
        }
        if self.cluster.id.resource_group_name().is_some_and(|group| group.eq_ignore_ascii_case(name)) {
            problems.invalid(&target, name, "must not be the resource group of the cluster itself");
        }
    }

    fn check(
        &self,
        name: &str,
        id: Option<&ResourceId>,
        kind: &str,
        required: bool,
        problems: &mut Problems,
    ) {
        let target = format!("{PATH}.{name}");
        match id {
            Some(id) => self.check_id(&target, id, kind, problems),
            None if required && !problems.is_known(&target) => problems.required(target),
            None => {}
        }
    }

    fn check_id(&self, target: &str, id: &ResourceId, kind: &str, problems: &mut Problems) {
        if !id.is_a(kind) {
            return problems.invalid(target, id, format_args!("must be the id of a resource of type {kind}"));
        }
        if !id.subscription_name().eq_ignore_ascii_case(self.cluster.id.subscription_name()) {
            problems.invalid(target, id, "must be in the subscription of the cluster");
        }
        let managed =
            |group: &str| self.managed_resource_group.is_some_and(|name| name.eq_ignore_ascii_case(group));
        if id.resource_group_name().is_some_and(managed) {
            problems.invalid(target, id, "must not be in the managed resource group");
        }
    }
}

/// Every identity has one use. Those of the control plane and of the service are assigned to the cluster; those inside
/// the cluster are not.
fn identities(place: &Place<'_>, problems: &mut Problems) {
    let operators = &place.cluster.spec.platform.operators;
    let path = format!("{PATH}.operatorsAuthentication.userAssignedIdentities");
    let of = |plane: &str, name: &str| format!("{path}.{plane}[{name}]");
    let control_plane =
        operators.control_plane.iter().map(|(name, id)| (of("controlPlaneOperators", name), id));
    let service = operators.service.iter().map(|id| (format!("{path}.serviceManagedIdentity"), id));
    let outside: Vec<_> = control_plane.chain(service).collect();
    let inside: Vec<_> =
        operators.data_plane.iter().map(|(name, id)| (of("dataPlaneOperators", name), id)).collect();
    let assigned: Vec<_> = match &place.cluster.identity {
        Some(identity) => identity.user_assigned.keys().collect(),
        None => Vec::new(),
    };
    let mut used: Vec<&ResourceId> = Vec::new();
    for (target, id) in outside.iter().chain(&inside) {
        place.check_id(target, id, IDENTITY, problems);
        if used.contains(id) {
            problems.duplicate(target, id);
        }
        used.push(id);
    }
    for (target, id) in &outside {
        if !assigned.contains(id) {
            problems.invalid(
                target,
                id,
                "must be assigned to the cluster in identity.userAssignedIdentities",
            );
        }
    }
    for (target, id) in &inside {
        if assigned.contains(id) {
            problems.invalid(
                target,
                id,
                "must not be assigned to the cluster in identity.userAssignedIdentities",
            );
        }
    }
    for id in assigned {
        if !used.contains(&id) {
            let target = format!("identity.userAssignedIdentities[{id}]");
            problems.invalid(target, id, "must be used by an operator");
        }
    }
}
