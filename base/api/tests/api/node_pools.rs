//! Node pools: every rule with a value that keeps it and one that does not.

use pilothouse_api::Version;
use serde_json::{Value, json};

use crate::{Row, SUBSCRIPTION, check, cluster, network, node_pool_body, node_pool_target, problems};

fn rows(rows: &[Row<'_>]) {
    check(node_pool_body, rows, |body| {
        Version::V20261001.node_pool_put(body, &node_pool_target("workers"), &cluster())
    });
}

#[test]
fn machines_are_of_a_size_and_in_a_place_that_there_is() {
    let other = network("virtualNetworks", "other/subnets/nodes");
    let set = |name: &str| {
        format!("{SUBSCRIPTION}/resourceGroups/team/providers/Microsoft.Compute/diskEncryptionSets/{name}")
    };
    let elsewhere = set("a").replace("0b1f6471", "11111111");
    let dotted = set("a.b");
    let size = "properties.platform.osDisk.sizeGiB";
    rows(&[
        ("/properties/platform/vmSize", json!("standard_e8s_v5"), None),
        (
            "/properties/platform/vmSize",
            json!("Standard_Imaginary"),
            Some((
                "properties.platform.vmSize",
                "Invalid value: \"Standard_Imaginary\": is not a size that node pools are offered in, such as Standard_D8s_v3",
            )),
        ),
        ("/properties/platform/vmSize", json!(null), Some(("properties.platform.vmSize", "Required value"))),
        ("/properties/platform", json!(null), Some(("properties.platform", "Required value"))),
        ("/properties/platform/subnetId", json!(network("virtualNetworks", "NET/subnets/other")), None),
        (
            "/properties/platform/subnetId",
            json!(other),
            Some((
                "properties.platform.subnetId",
                &format!("Invalid value: {other:?}: must be in the virtual network of the cluster's subnet"),
            )),
        ),
        ("/properties/platform/osDisk", json!({"sizeGiB": 4095}), None),
        (
            "/properties/platform/osDisk",
            json!({"sizeGiB": 63}),
            Some((size, "Invalid value: 63: must be between 64 and 4095")),
        ),
        ("/properties/platform/osDisk", json!({"sizeGiB": 2040, "diskType": "Ephemeral"}), None),
        (
            "/properties/platform/osDisk",
            json!({"sizeGiB": 2041, "diskType": "Ephemeral"}),
            Some((size, "Invalid value: 2041: must be at most 2040 for disks of type Ephemeral")),
        ),
        ("/properties/platform/osDisk", json!({"encryptionSetId": set("a")}), None),
        (
            "/properties/platform/osDisk",
            json!({"encryptionSetId": elsewhere}),
            Some((
                "properties.platform.osDisk.encryptionSetId",
                &format!("Invalid value: {elsewhere:?}: must be in the subscription of the cluster"),
            )),
        ),
        (
            "/properties/platform/osDisk",
            json!({"encryptionSetId": dotted}),
            Some((
                "properties.platform.osDisk.encryptionSetId",
                &format!(
                    "Invalid value: {dotted:?}: must end with a name of at most 80 letters, digits, '_' and '-'"
                ),
            )),
        ),
        (
            "/properties/platform/osDisk",
            json!({"diskStorageAccountType": "Tape"}),
            Some((
                "properties.platform.osDisk.diskStorageAccountType",
                "Unsupported value: \"Tape\": supported values: \"Premium_LRS\", \"StandardSSD_LRS\", \"Standard_LRS\"",
            )),
        ),
    ]);
    let mut body = node_pool_body();
    body["properties"]["platform"]["osDisk"] = json!({"diskType": "Ephemeral"});
    body["properties"]["autoRepair"] = json!(false);
    let found = Version::V20261001.node_pool_put(
        body.to_string().as_bytes(),
        &node_pool_target("workers"),
        &cluster(),
    );
    let why = "Invalid value: false: must be true for disks that do not outlive a machine";
    assert_eq!(problems(found), [("properties.autoRepair".to_owned(), why.to_owned())]);
    // Before 2026-06-30-preview the form has no upper limit, and there is one all the same.
    let mut body = node_pool_body();
    body["properties"]["platform"]["osDisk"] = json!({"sizeGiB": 4096});
    let found = Version::V20251223Preview.node_pool_put(
        body.to_string().as_bytes(),
        &node_pool_target("workers"),
        &cluster(),
    );
    let why = "Invalid value: 4096: must be at most 4095 for disks of type Managed";
    assert_eq!(problems(found), [(size.to_owned(), why.to_owned())]);
}

#[test]
fn a_pool_has_a_number_of_nodes_or_limits_for_it() {
    let scaling = |min: i32, max: i32| json!({"min": min, "max": max});
    let body = |scale: Value| {
        let mut body = node_pool_body();
        body["properties"]["replicas"] = json!(0);
        body["properties"]["autoScaling"] = scale;
        body
    };
    rows(&[
        ("/properties/replicas", json!(200), None),
        (
            "/properties/replicas",
            json!(201),
            Some(("properties.replicas", "Invalid value: 201: must be at most 200 in a pool without a zone")),
        ),
        (
            "/properties/replicas",
            json!(-1),
            Some(("properties.replicas", "Invalid value: -1: must be at least 0")),
        ),
        (
            "/properties/autoScaling",
            scaling(1, 2),
            Some((
                "properties.replicas",
                "Invalid value: 2: must be left out or 0 when autoScaling is given",
            )),
        ),
    ]);
    let max = "properties.autoScaling.max";
    let rows: &[Row<'_>] = &[
        ("/properties/autoScaling", scaling(0, 200), None),
        (
            "/properties/autoScaling",
            scaling(3, 2),
            Some((max, "Invalid value: 2: must not be less than min")),
        ),
        (
            "/properties/autoScaling",
            scaling(1, 201),
            Some((max, "Invalid value: 201: must be at most 200 in a pool without a zone")),
        ),
        (
            "/properties/autoScaling",
            scaling(-1, 2),
            Some(("properties.autoScaling.min", "Invalid value: -1: must be at least 0")),
        ),
        ("/properties/platform/availabilityZone", json!("1"), None),
    ];
    check(
        || body(scaling(1, 2)),
        rows,
        |body| Version::V20261001.node_pool_put(body, &node_pool_target("workers"), &cluster()),
    );
    let mut zoned = node_pool_body();
    zoned["properties"]["replicas"] = json!(201);
    zoned["properties"]["platform"]["availabilityZone"] = json!("1");
    let made = Version::V20261001.node_pool_put(
        zoned.to_string().as_bytes(),
        &node_pool_target("workers"),
        &cluster(),
    );
    assert!(made.is_ok(), "{made:?}");
}

#[test]
fn labels_and_taints_are_what_kubernetes_takes_and_the_cluster_leaves_free() {
    let machine = "machine.openshift.io/cluster-api-machine-role";
    let own = "Forbidden: the label is set by the cluster itself";
    rows(&[
        (
            "/properties/labels",
            json!([{"key": "example.com/a", "value": "b"}, {"key": machine, "value": "worker"}]),
            None,
        ),
        ("/properties/labels", json!([{"value": "b"}]), Some(("properties.labels[0].key", "Required value"))),
        (
            "/properties/labels",
            json!([{"key": "a"}, {"key": "a"}]),
            Some(("properties.labels[1].key", "Duplicate value: \"a\"")),
        ),
        (
            "/properties/labels",
            json!([{"key": "not a key"}]),
            Some((
                "properties.labels[not a key]",
                "Invalid value: \"not a key\": must be a label's key: [domain/]name",
            )),
        ),
        (
            "/properties/labels",
            json!([{"key": "a", "value": "b c"}]),
            Some((
                "properties.labels[a]",
                "Invalid value: \"b c\": must be a label's value: at most 63 letters, digits, '-', '_' and '.'",
            )),
        ),
        (
            "/properties/labels",
            json!([{"key": "node-role.kubernetes.io/worker", "value": ""}]),
            Some(("properties.labels[node-role.kubernetes.io/worker]", own)),
        ),
        (
            "/properties/labels",
            json!([{"key": machine, "value": "infra"}]),
            Some((&format!("properties.labels[{machine}]"), own)),
        ),
        ("/properties/taints", json!([{"key": "a", "value": "b", "effect": "NoExecute"}]), None),
        (
            "/properties/taints",
            json!([{"effect": "NoSchedule"}]),
            Some(("properties.taints[0].key", "Required value")),
        ),
        (
            "/properties/taints",
            json!([{"key": "k".repeat(317), "effect": "NoSchedule"}]),
            Some(("properties.taints[0].key", "Too long: may not be more than 316 characters")),
        ),
        (
            "/properties/taints",
            json!([{"key": "a", "value": "v".repeat(64), "effect": "NoSchedule"}]),
            Some(("properties.taints[0].value", "Too long: may not be more than 63 characters")),
        ),
        (
            "/properties/taints",
            json!([{"key": "a"}]),
            Some(("properties.taints[0].effect", "Required value")),
        ),
        (
            "/properties/taints",
            json!([{"key": "a", "effect": "Never"}]),
            Some((
                "properties.taints[0].effect",
                "Unsupported value: \"Never\": supported values: \"NoExecute\", \"NoSchedule\", \"PreferNoSchedule\"",
            )),
        ),
        (
            "/properties/taints",
            json!([{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoExecute"}]),
            Some(("properties.taints[1]", "Duplicate value: \"a\"")),
        ),
        (
            "/properties/nodeDrainTimeoutMinutes",
            json!(-1),
            Some(("properties.nodeDrainTimeoutMinutes", "Invalid value: -1: must be between 0 and 10080")),
        ),
    ]);
}

#[test]
fn names_have_their_form_when_a_resource_is_made() {
    let rule = "must begin with a letter, consist of letters, digits and '-', end with a letter or digit, \
                and have at most 15 characters";
    for name in ["1st", "a_b", "a-", &"x".repeat(16)] {
        let body = node_pool_body().to_string();
        let found = Version::V20261001.node_pool_put(body.as_bytes(), &node_pool_target(name), &cluster());
        assert_eq!(problems(found), [("id".to_owned(), format!("Invalid value: {name:?}: {rule}"))]);
        let body = crate::external_auth_body().to_string();
        let found = Version::V20261001.external_auth_put(body.as_bytes(), &crate::external_auth_target(name));
        assert_eq!(problems(found), [("id".to_owned(), format!("Invalid value: {name:?}: {rule}"))]);
    }
}
