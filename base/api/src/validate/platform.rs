//! Where a cluster stands, and under which identities its operators act.

use pilothouse_arm::ResourceId;

use super::text;
use crate::hub;
use crate::invalid::Problems;
use crate::version::{Rules, Version};

const IDENTITY: &str = "Microsoft.ManagedIdentity/userAssignedIdentities";
const PATH: &str = "properties.platform";

pub(super) fn cluster(version: Version, cluster: &hub::Cluster, rules: Rules, problems: &mut Problems) {
    let hub::Platform {
        managed_resource_group,
        subnet_id,
        vnet_integration_subnet_id,
        outbound_type: _,
        network_security_group_id,
        operators,
        container_registry_identity,
    } = &cluster.spec.platform;
    let place = Place { id: &cluster.id, managed_resource_group: managed_resource_group.as_deref() };
    place.check_managed_group(problems);
    for (name, id) in [
        ("subnetId", subnet_id),
        ("vnetIntegrationSubnetId", vnet_integration_subnet_id),
        ("networkSecurityGroupId", network_security_group_id),
        ("containerRegistry.managedIdentity", container_registry_identity),
    ] {
        if let Some(id) = id {
            place.check(&format!("{PATH}.{name}"), id, problems);
        }
    }
    if let (Some(subnet), Some(second)) = (subnet_id, vnet_integration_subnet_id)
        && subnet.parent() != second.parent()
    {
        let target = format!("{PATH}.vnetIntegrationSubnetId");
        problems.invalid(target, second, "must be in the same virtual network as subnetId");
    }
    if version == Version::V20240610Preview
        && cluster.spec.api.visibility == hub::Visibility::Private
        && vnet_integration_subnet_id.is_none()
    {
        let why = "needs vnetIntegrationSubnetId, which later versions of the API have";
        problems.invalid("properties.api.visibility", "Private", why);
    }
    let said = *operators != hub::OperatorIdentities::default() || cluster.identity.is_some();
    if said || rules.operator_identities {
        identities(&place, cluster, problems);
    }
}

/// What ids of other resources are held against.
pub(super) struct Place<'a> {
    /// The cluster.
    pub(super) id: &'a ResourceId,
    pub(super) managed_resource_group: Option<&'a str>,
}

impl Place<'_> {
    fn check_managed_group(&self, problems: &mut Problems) {
        let target = format!("{PATH}.managedResourceGroup");
        let Some(name) = self.managed_resource_group else { return };
        if !text::is_resource_group(name) {
            problems.invalid(&target, name, "must be the name of a resource group");
        }
        if self.id.resource_group_name().is_some_and(|group| group.eq_ignore_ascii_case(name)) {
            problems.invalid(&target, name, "must not be the resource group of the cluster itself");
        }
    }

    /// A resource of the owner's, beside the cluster.
    pub(super) fn check(&self, target: &str, id: &ResourceId, problems: &mut Problems) {
        if !id.subscription_name().eq_ignore_ascii_case(self.id.subscription_name()) {
            problems.invalid(target, id, "must be in the subscription of the cluster");
        }
        let managed =
            |group: &str| self.managed_resource_group.is_some_and(|name| name.eq_ignore_ascii_case(group));
        let group_is_wrong = problems.is_known(&format!("{PATH}.managedResourceGroup"));
        if id.resource_group_name().is_some_and(managed) && !group_is_wrong {
            problems.invalid(target, id, "must not be in the managed resource group");
        }
    }
}

/// Every identity has one use. Those of the control plane and of the service are assigned to the cluster; those inside
/// the cluster are not.
fn identities(place: &Place<'_>, cluster: &hub::Cluster, problems: &mut Problems) {
    let operators = &cluster.spec.platform.operators;
    let path = format!("{PATH}.operatorsAuthentication.userAssignedIdentities");
    if problems.is_malformed("identity") || problems.is_malformed(&path) {
        // Something was taken out, and what is left would seem unused or unassigned.
        return;
    }
    let of = |plane: &str, name: &str| format!("{path}.{plane}[{name}]");
    let control_plane =
        operators.control_plane.iter().map(|(name, id)| (of("controlPlaneOperators", name), id));
    let service = operators.service.iter().map(|id| (format!("{path}.serviceManagedIdentity"), id));
    let outside: Vec<_> = control_plane.chain(service).collect();
    let inside: Vec<_> =
        operators.data_plane.iter().map(|(name, id)| (of("dataPlaneOperators", name), id)).collect();
    known_operators(operators, &of, problems);
    let assigned: Vec<_> = match &cluster.identity {
        Some(identity) => identity.user_assigned.keys().collect(),
        None => Vec::new(),
    };
    let mut used: Vec<&ResourceId> = Vec::new();
    for (target, id) in outside.iter().chain(&inside) {
        place.check(target, id, problems);
        if used.contains(id) {
            problems.duplicate(target, id.as_str());
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
        let target = format!("identity.userAssignedIdentities[{id}]");
        if !id.is_a(IDENTITY) {
            problems.invalid(target, id, format_args!("must be the id of a resource of type {IDENTITY}"));
        } else if !used.contains(&id) {
            problems.invalid(target, id, "must be used by an operator");
        }
    }
}

fn known_operators(
    operators: &hub::OperatorIdentities,
    path: &impl Fn(&str, &str) -> String,
    problems: &mut Problems,
) {
    let control_plane: Vec<_> = hub::control_plane_operators().collect();
    let data_plane: Vec<_> = hub::data_plane_operators().collect();
    for (plane, names, known) in [
        ("controlPlaneOperators", operators.control_plane.keys(), control_plane),
        ("dataPlaneOperators", operators.data_plane.keys(), data_plane),
    ] {
        for name in names.filter(|name| !known.contains(&name.as_str())) {
            problems.unsupported(path(plane, name), name, &known);
        }
    }
}
