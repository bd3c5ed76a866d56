use pilothouse_api::Version;
use serde_json::{Value, json};

use crate::{
    SUBSCRIPTION, cluster, cluster_body, identity, network, node_pool_body, node_pool_target, set, target,
};

fn refused(body: &Value, name: &str) -> Vec<(String, String)> {
    let invalid = Version::V20261001.cluster_put(body.to_string().as_bytes(), &target(name)).unwrap_err();
    invalid.0.into_iter().map(|problem| (problem.target, problem.message)).collect()
}

fn pool_refused(body: &Value) -> Vec<(String, String)> {
    let target = node_pool_target("workers");
    let invalid =
        Version::V20261001.node_pool_put(body.to_string().as_bytes(), &target, &cluster()).unwrap_err();
    invalid.0.into_iter().map(|problem| (problem.target, problem.message)).collect()
}

/// One change to a good cluster, the one field it is refused at, and the beginning of the reason.
#[test]
fn every_wrong_field_of_a_cluster_is_named() {
    let service = identity("service");
    let operators = "/properties/platform/operatorsAuthentication/userAssignedIdentities";
    let dotted = "properties.platform.operatorsAuthentication.userAssignedIdentities";
    let other =
        "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/g/providers/Microsoft.Network";
    let table: Vec<(String, Value, String, &str)> = [
        (
            "/properties/version/id",
            json!("4.19"),
            "properties.version.id",
            "Invalid value: \"4.19\": must be at least 4.20",
        ),
        (
            "/properties/version/id",
            json!("4.20.1"),
            "properties.version.id",
            "Invalid value: \"4.20.1\": must be a minor",
        ),
        (
            "/properties/version/id",
            json!("5.0"),
            "properties.version.id",
            "Invalid value: \"5.0\": must be a version of",
        ),
        ("/properties/version", json!(null), "properties.version.id", "Required value"),
        (
            "/properties/version/channelGroup",
            json!("nightly"),
            "properties.version.channelGroup",
            "Unsupported value: \"nightly\": supported values: \"fast\", \"stable\"",
        ),
        (
            "/properties/dns/baseDomainPrefix",
            json!("Upper"),
            "properties.dns.baseDomainPrefix",
            "Invalid value",
        ),
        (
            "/properties/dns/baseDomainPrefix",
            json!("sixteen-letters-"),
            "properties.dns.baseDomainPrefix",
            "Too long",
        ),
        (
            "/properties/network/hostPrefix",
            json!(27),
            "properties.network.hostPrefix",
            "Invalid value: 27: must be",
        ),
        ("/properties/network/podCidr", json!("10.0.0.1/16"), "properties.network.podCidr", "Invalid value"),
        (
            "/properties/network/podCidr",
            json!("10.0.0.0/8"),
            "properties.network.podCidr",
            "Invalid value: \"10.0.0.0/8\": must not overlap with machineCidr",
        ),
        (
            "/properties/network/networkType",
            json!("x"),
            "properties.network.networkType",
            "Unsupported value",
        ),
        ("/properties/api/visibility", json!("public"), "properties.api.visibility", "Unsupported value"),
        ("/properties/api/authorizedCidrs", json!([]), "properties.api.authorizedCidrs", "Invalid value"),
        (
            "/properties/api/authorizedCidrs",
            json!(["x"]),
            "properties.api.authorizedCidrs[0]",
            "Invalid value: \"x\"",
        ),
        ("/properties/ingress/type", json!("Disabled"), "properties.ingress.type", "Unsupported value"),
        (
            "/properties/autoscaling/maxNodesTotal",
            json!(501),
            "properties.autoscaling.maxNodesTotal",
            "Invalid value: 501",
        ),
        (
            "/properties/nodeDrainTimeoutMinutes",
            json!(-1),
            "properties.nodeDrainTimeoutMinutes",
            "Invalid value: -1",
        ),
        (
            "/properties/cryptoRestrictions",
            json!("FOO"),
            "properties.cryptoRestrictions",
            "Unsupported value",
        ),
        ("/properties/platform/subnetId", json!(null), "properties.platform.subnetId", "Required value"),
        (
            "/properties/platform/networkSecurityGroupId",
            json!(service),
            "properties.platform.networkSecurityGroupId",
            "Invalid value",
        ),
        (
            "/properties/platform/networkSecurityGroupId",
            json!(format!("{other}/networkSecurityGroups/x")),
            "properties.platform.networkSecurityGroupId",
            "Invalid value",
        ),
        (
            "/properties/platform/vnetIntegrationSubnetId",
            json!(network("virtualNetworks", "other/subnets/x")),
            "properties.platform.vnetIntegrationSubnetId",
            "Invalid value",
        ),
        (
            "/properties/platform/managedResourceGroup",
            json!("a/b"),
            "properties.platform.managedResourceGroup",
            "Invalid value",
        ),
        (
            "/properties/platform/operatorsAuthentication",
            json!(null),
            "properties.platform.operatorsAuthentication",
            "Required value",
        ),
        ("/identity/type", json!("None "), "identity.type", "Unsupported value"),
        ("/name", json!("second"), "name", "Invalid value: \"second\": must be 'First'"),
        (
            "/properties/etcd",
            json!({"dataEncryption": {"keyManagementMode": "CustomerManaged", "customerManaged":
                {"kms": {"vaultName": "v", "visibility": "Public", "activeKey": {"name": "k"}}}}}),
            "properties.etcd.dataEncryption.customerManaged.kms.activeKey.version",
            "Required value",
        ),
        (
            "/properties/imageDigestMirrors",
            json!([{"source": "https://x", "mirrors": ["y.test"]}]),
            "properties.imageDigestMirrors[0].source",
            "Invalid value",
        ),
        (
            "/properties/network/hostPrefix",
            json!("23"),
            "properties.network.hostPrefix",
            "The request content could not",
        ),
        ("/tags", json!({"a": 1}), "tags.a", "The request content could not"),
    ]
    .into_iter()
    .map(|(pointer, value, target, reason)| (pointer.to_owned(), value, target.to_owned(), reason))
    .chain([
        (
            format!("{operators}/controlPlaneOperators"),
            json!({"ingress": "nothing"}),
            format!("{dotted}.controlPlaneOperators[ingress]"),
            "Invalid value",
        ),
        (
            format!("{operators}/controlPlaneOperators"),
            json!({"ingress": service.to_uppercase()}),
            format!("{dotted}.serviceManagedIdentity"),
            "Duplicate value",
        ),
        (
            format!("{operators}/controlPlaneOperators"),
            json!({"ingress": identity("unassigned")}),
            format!("{dotted}.controlPlaneOperators[ingress]"),
            "Invalid value",
        ),
    ])
    .collect();
    for (pointer, value, field, reason) in table {
        let mut body = cluster_body();
        set(&mut body, &pointer, value.clone());
        // A missing identity takes its use along.
        let problems: Vec<_> = refused(&body, "First")
            .into_iter()
            .filter(|(target, _)| !target.starts_with("identity.userAssignedIdentities["))
            .collect();
        assert_eq!(problems.len(), 1, "{pointer} = {value}: {problems:?}");
        assert_eq!(problems[0].0, field, "{pointer} = {value}: {problems:?}");
        assert!(problems[0].1.starts_with(reason), "{pointer} = {value}: {problems:?}");
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let mut body = cluster_body();
    body["properties"]["version"]["id"] = json!("3.11");
    body["properties"]["network"] = json!({"hostPrefix": 1, "networkType": "x"});
    body["properties"]["platform"] = json!({});
    body["identity"] = json!(null);
    let targets: Vec<_> = refused(&body, "1st").into_iter().map(|(target, _)| target).collect();
    assert_eq!(
        targets,
        [
            "properties.network.networkType",
            "properties.platform.operatorsAuthentication",
            "id",
            "properties.version.id",
            "properties.network.hostPrefix",
            "properties.platform.subnetId",
            "properties.platform.vnetIntegrationSubnetId",
            "properties.platform.networkSecurityGroupId",
        ]
    );
}

#[test]
fn the_first_version_asks_for_less() {
    let mut body = cluster_body();
    body["properties"]["version"] = json!(null);
    body["properties"]["platform"]["vnetIntegrationSubnetId"] = json!(null);
    let version = Version::V20240610Preview;
    let cluster = version.cluster_put(body.to_string().as_bytes(), &target("First")).unwrap();
    assert_eq!(cluster.spec.version.id, None);
    let shown = version.cluster_write(&cluster);
    assert_eq!(shown["properties"]["etcd"]["dataEncryption"]["keyManagementMode"], "PlatformManaged");
    assert_eq!(shown["properties"]["ingress"], json!(null));
}

#[test]
fn a_body_that_is_no_json_is_refused_as_a_whole() {
    let invalid = Version::V20261001.cluster_put(b"{", &target("First")).unwrap_err();
    assert_eq!(invalid.0[0].target, "");
}

#[test]
fn every_wrong_field_of_a_node_pool_is_named() {
    let subnet =
        format!("{SUBSCRIPTION}/resourceGroups/team/providers/Microsoft.Network/virtualNetworks/o/subnets/s");
    for (pointer, value, target, reason) in [
        (
            "/properties/version/id",
            json!("4.20"),
            "properties.version.id",
            "Invalid value: \"4.20\": must be a full",
        ),
        (
            "/properties/version/id",
            json!("4.20.7"),
            "properties.version.id",
            "Invalid value: \"4.20.7\": must be at least",
        ),
        (
            "/properties/version/id",
            json!("4.21.9"),
            "properties.version.id",
            "Invalid value: \"4.21.9\": must not be newer",
        ),
        ("/properties/version", json!(null), "properties.version.id", "Required value"),
        ("/properties/replicas", json!(201), "properties.replicas", "Invalid value: 201"),
        (
            "/properties/autoScaling",
            json!({"min": 1, "max": 2}),
            "properties.replicas",
            "Invalid value: 2: must be left",
        ),
        ("/properties/platform/vmSize", json!(null), "properties.platform.vmSize", "Required value"),
        ("/properties/platform/subnetId", json!(subnet), "properties.platform.subnetId", "Invalid value"),
        (
            "/properties/platform/osDisk",
            json!({"sizeGiB": 63}),
            "properties.platform.osDisk.sizeGiB",
            "Invalid value: 63",
        ),
        (
            "/properties/platform/osDisk",
            json!({"sizeGiB": 2041, "diskType": "Ephemeral"}),
            "properties.platform.osDisk.sizeGiB",
            "Invalid value: 2041: must be between 64 and 2040",
        ),
        (
            "/properties/taints",
            json!([{"effect": "NoSchedule"}]),
            "properties.taints[0].key",
            "Required value",
        ),
        (
            "/properties/taints",
            json!([{"key": "a", "effect": "x"}]),
            "properties.taints[0].effect",
            "Unsupported value",
        ),
        ("/properties/labels", json!([{"value": "a"}]), "properties.labels[0].key", "Required value"),
        (
            "/properties/labels",
            json!([{"key": "node-role.kubernetes.io/worker", "value": ""}]),
            "properties.labels[node-role.kubernetes.io/worker]",
            "Forbidden",
        ),
        (
            "/properties/nodeDrainTimeoutMinutes",
            json!(10081),
            "properties.nodeDrainTimeoutMinutes",
            "Invalid value",
        ),
    ] {
        let mut body = node_pool_body();
        set(&mut body, pointer, value.clone());
        let problems = pool_refused(&body);
        assert_eq!(problems.len(), 1, "{pointer} = {value}: {problems:?}");
        assert_eq!(problems[0].0, target, "{pointer} = {value}: {problems:?}");
        assert!(problems[0].1.starts_with(reason), "{pointer} = {value}: {problems:?}");
    }
}
