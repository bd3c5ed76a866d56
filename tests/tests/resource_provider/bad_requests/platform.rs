//! Networks, groups and identities that a new cluster cannot have.

use serde_json::{Value, json};

use super::row::{Row, put};
use crate::bodies::{GROUP, SUBSCRIPTION, cluster, cluster_id, identity, of_provider, with, without};
use crate::provider::UNKNOWN;

pub(super) fn rows() -> Vec<Row> {
    [places(), taken(), identities()].concat()
}

fn fresh(what: &str, body: &Value) -> Row {
    put(what, &cluster_id("fresh"), body)
}

fn places() -> Vec<Row> {
    let path = |field: &str| format!("properties.platform.{field}");
    let set = |what: &str, field: &str, value: Value| {
        fresh(what, &with(cluster("fresh"), &path(field), value)).wrong(&path(field))
    };
    // What it uses is in another group, where it may be.
    let own = |what: &str, group: &str| {
        let elsewhere = format!("resourceGroups/{GROUP}/providers/Microsoft.");
        let body =
            cluster("fresh").to_string().replace(&elsewhere, "resourceGroups/Networks/providers/Microsoft.");
        let body = with(serde_json::from_str(&body).unwrap(), &path("managedResourceGroup"), group);
        fresh(what, &body).wrong(&path("managedResourceGroup"))
    };
    let lacks = |field: &str| {
        fresh(&format!("no {field}"), &without(cluster("fresh"), &path(field))).wrong(&path(field))
    };
    let elsewhere = |id: String| json!(id.replace(SUBSCRIPTION, UNKNOWN));
    let subnet = of_provider("Network", "virtualNetworks/fresh/subnets/other");
    let group = of_provider("Network", "networkSecurityGroups/fresh");
    let managed = |id: &str| json!(id.replace(&format!("resourceGroups/{GROUP}"), "resourceGroups/managed"));
    let into_managed = |what: &str, field: &str, value: Value| {
        let body = with(cluster("fresh"), &path("managedResourceGroup"), "managed");
        fresh(what, &with(body, &path(field), value)).wrong(&path(field))
    };
    vec![
        lacks("subnetId"),
        lacks("vnetIntegrationSubnetId"),
        lacks("networkSecurityGroupId"),
        lacks("operatorsAuthentication"),
        fresh("no platform", &without(cluster("fresh"), "properties.platform")).wrong("properties.platform"),
        fresh(
            "no second subnet in the first version that needs one",
            &without(cluster("fresh"), &path("vnetIntegrationSubnetId")),
        )
        .version("2025-12-23-preview")
        .wrong(&path("vnetIntegrationSubnetId")),
        set("a subnet that is a word", "subnetId", json!("nodes")),
        set("a subnet that is a security group", "subnetId", json!(group)),
        set("a subnet that is a network", "subnetId", json!(of_provider("Network", "virtualNetworks/fresh"))),
        set("a subnet that is a number", "subnetId", json!(7)),
        set("a second subnet that is a word", "vnetIntegrationSubnetId", json!("control")),
        set(
            "a second subnet in another network",
            "vnetIntegrationSubnetId",
            json!(of_provider("Network", "virtualNetworks/other/subnets/control")),
        ),
        set("a security group that is a subnet", "networkSecurityGroupId", json!(subnet)),
        set("a security group of another subscription", "networkSecurityGroupId", elsewhere(group.clone())),
        set("an unknown way out", "outboundType", json!("Tunnel")),
        own("the cluster's own group as its managed one", GROUP),
        own("the cluster's own group in capitals", &GROUP.to_uppercase()),
        set("a managed group with a star", "managedResourceGroup", json!("gr*up")),
        set("a managed group that ends with a dot", "managedResourceGroup", json!("group.")),
        set("a managed group of 91 letters", "managedResourceGroup", json!("g".repeat(91))),
        set("a registry's identity that is a word", "containerRegistry.managedIdentity", json!("me")),
        into_managed("a security group in the managed group", "networkSecurityGroupId", managed(&group)),
    ]
}

/// Some things serve one cluster only.
fn taken() -> Vec<Row> {
    let used = |field: &str| {
        let path = format!("properties.platform.{field}");
        let other = cluster("ready")["properties"]["platform"][field].clone();
        (with(cluster("fresh"), &path, other), path)
    };
    let (security_group, group_path) = used("networkSecurityGroupId");
    let (subnet, subnet_path) = used("subnetId");
    // Both subnets have to be in one network.
    let second = of_provider("Network", "virtualNetworks/ready/subnets/second");
    let subnet = with(subnet, "properties.platform.vnetIntegrationSubnetId", second);
    let managed = "properties.platform.managedResourceGroup";
    vec![
        fresh("the security group of another cluster", &security_group).wrong(&group_path),
        fresh("the subnet of another cluster", &subnet).wrong(&subnet_path),
        fresh("the managed group of another cluster", &with(cluster("fresh"), managed, "ready-managed"))
            .wrong(managed),
        fresh(
            "the managed group of another cluster in capitals",
            &with(cluster("fresh"), managed, "READY-MANAGED"),
        )
        .wrong(managed),
    ]
}

fn identities() -> Vec<Row> {
    let path = "properties.platform.operatorsAuthentication.userAssignedIdentities";
    let service = format!("{path}.serviceManagedIdentity");
    let ingress = format!("{path}.controlPlaneOperators.ingress");
    let disk = format!("{path}.dataPlaneOperators.disk-csi-driver");
    let at = |plane: &str, operator: &str| format!("{path}.{plane}[{operator}]");
    let assigned = |id: &str| format!("identity.userAssignedIdentities[{id}]");
    let (old, new) = (identity("fresh-ingress"), identity("fresh-other"));
    let mut extra = cluster("fresh");
    extra["identity"]["userAssignedIdentities"][&new] = json!({});
    let mut inside = cluster("fresh");
    inside["identity"]["userAssignedIdentities"][identity("fresh-node-disk-csi-driver")] = json!({});
    let mut unassigned = cluster("fresh");
    unassigned["identity"]["userAssignedIdentities"].as_object_mut().unwrap().remove(&old);
    let no_identity = of_provider("Network", "networkSecurityGroups/fresh");
    vec![
        fresh("an identity that is used by nobody", &extra).wrong(&assigned(&new)),
        fresh("an identity inside the cluster that is assigned to it", &inside)
            .wrong(&at("dataPlaneOperators", "disk-csi-driver")),
        fresh("an operator whose identity is not assigned", &unassigned)
            .wrong(&at("controlPlaneOperators", "ingress")),
        fresh("a service without an identity", &without(cluster("fresh"), &service))
            .all_wrong(&[&service, &assigned(&identity("fresh-service"))]),
        fresh(
            "an operator that shares its identity",
            &with(cluster("fresh"), &disk, identity("fresh-node-image-registry")),
        )
        .wrong(&at("dataPlaneOperators", "image-registry")),
        fresh("an operator whose identity is something else", &with(cluster("fresh"), &disk, no_identity))
            .wrong(&at("dataPlaneOperators", "disk-csi-driver")),
        fresh(
            "an operator whose identity is of another subscription",
            &with(cluster("fresh"), &disk, identity("x").replace(SUBSCRIPTION, UNKNOWN)),
        )
        .wrong(&at("dataPlaneOperators", "disk-csi-driver")),
        fresh("an operator whose identity is a number", &with(cluster("fresh"), &ingress, 1))
            .wrong(&at("controlPlaneOperators", "ingress")),
    ]
}
