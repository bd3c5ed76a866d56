//! What goes in comes out, and what must not go in is refused with its exact place.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod conversions;
mod updates;
mod validation;

use pilothouse_api::{Target, Version, hub};
use pilothouse_arm::ResourceId;
use serde_json::{Value, json};

pub(crate) const SUBSCRIPTION: &str = "/subscriptions/0b1f6471-1bf0-4dda-aec3-cb9272f09590";

pub(crate) fn cluster_id(name: &str) -> ResourceId {
    format!(
        "{SUBSCRIPTION}/resourceGroups/Team/providers/Microsoft.RedHatOpenShift/hcpOpenShiftClusters/{name}"
    )
    .parse()
    .unwrap()
}

pub(crate) fn identity(name: &str) -> String {
    format!(
        "{SUBSCRIPTION}/resourceGroups/team/providers/Microsoft.ManagedIdentity/userAssignedIdentities/{name}"
    )
}

pub(crate) fn network(kind: &str, name: &str) -> String {
    format!("{SUBSCRIPTION}/resourceGroups/team/providers/Microsoft.Network/{kind}/{name}")
}

/// The least that makes a cluster in the newest version.
pub(crate) fn cluster_body() -> Value {
    json!({
        "location": "anywhere",
        "identity": {"type": "UserAssigned", "userAssignedIdentities": {(identity("service")): {}}},
        "properties": {
            "version": {"id": "4.20"},
            "platform": {
                "subnetId": network("virtualNetworks", "net/subnets/nodes"),
                "vnetIntegrationSubnetId": network("virtualNetworks", "net/subnets/control"),
                "networkSecurityGroupId": network("networkSecurityGroups", "rules"),
                "operatorsAuthentication": {"userAssignedIdentities": {
                    "controlPlaneOperators": {}, "dataPlaneOperators": {},
                    "serviceManagedIdentity": identity("service"),
                }},
            },
        },
    })
}

pub(crate) fn node_pool_body() -> Value {
    json!({"properties": {"version": {"id": "4.20.8"}, "platform": {"vmSize": "Standard_D8s_v3"}, "replicas": 2}})
}

pub(crate) fn target(name: &str) -> Target<'static, hub::Cluster> {
    Target { id: cluster_id(name), location: "here".to_owned(), existing: None }
}

pub(crate) fn cluster() -> hub::Cluster {
    Version::V20261001.cluster_put(cluster_body().to_string().as_bytes(), &target("First")).unwrap()
}

pub(crate) fn node_pool_target(name: &str) -> Target<'static, hub::NodePool> {
    let id = cluster_id("First").child("nodePools", name);
    Target { id, location: "here".to_owned(), existing: None }
}

pub(crate) fn node_pool() -> hub::NodePool {
    let body = node_pool_body().to_string();
    Version::V20261001.node_pool_put(body.as_bytes(), &node_pool_target("workers"), &cluster()).unwrap()
}

/// Sets the value at a JSON pointer, making objects on the way.
pub(crate) fn set(body: &mut Value, pointer: &str, value: Value) {
    let mut place = body;
    for part in pointer.trim_start_matches('/').split('/') {
        place = &mut place[part];
    }
    *place = value;
}
