//! New node pools with one thing wrong.

use serde_json::{Value, json};

use super::row::{Row, in_ready, put};
use crate::bodies::{SUBSCRIPTION, node_pool, of_provider, with, without};
use crate::provider::UNKNOWN;

pub(super) fn rows() -> Vec<Row> {
    [values(), sizes(), labels()].concat()
}

fn fresh(what: &str, body: &Value) -> Row {
    put(what, &in_ready("nodePools/fresh"), body)
}

fn wrong(field: &str, value: Value) -> Row {
    let path = format!("properties.{field}");
    fresh(&format!("a pool's {field}: {value}"), &with(node_pool(), &path, value)).wrong(&path)
}

fn lacks(field: &str) -> Row {
    let path = format!("properties.{field}");
    fresh(&format!("a pool without {field}"), &without(node_pool(), &path)).wrong(&path)
}

fn values() -> Vec<Row> {
    let ephemeral = with(node_pool(), "properties.platform.osDisk.diskType", "Ephemeral");
    let subnet = of_provider("Network", "virtualNetworks/ready/subnets/other");
    vec![
        lacks("version"),
        lacks("version.id"),
        lacks("platform"),
        lacks("platform.vmSize"),
        wrong("version.id", json!("4.20")),
        wrong("version.id", json!("4.20.3")),
        wrong("version.id", json!("4.21.0")),
        wrong("version.id", json!("4.20.8-rc.1")),
        wrong("version.id", json!("newest")),
        wrong("version.id", json!("4.20.99")),
        wrong("version.channelGroup", json!("candidate")),
        wrong("version.channelGroup", json!("weekly")),
        wrong("platform.vmSize", json!("Standard_Imaginary")),
        wrong("platform.vmSize", json!("")),
        wrong("platform.vmSize", json!(8)),
        wrong("platform.subnetId", json!("nodes")),
        wrong("platform.subnetId", json!(of_provider("Network", "networkSecurityGroups/ready"))),
        wrong("platform.subnetId", json!(of_provider("Network", "virtualNetworks/other/subnets/nodes"))),
        wrong("platform.enableEncryptionAtHost", json!("yes")),
        wrong("platform.osDisk.sizeGiB", json!(63)),
        wrong("platform.osDisk.sizeGiB", json!(4096)),
        wrong("platform.osDisk.sizeGiB", json!("64")),
        wrong("platform.osDisk.diskStorageAccountType", json!("Tape")),
        wrong("platform.osDisk.diskType", json!("Rented")),
        wrong("platform.osDisk.encryptionSetId", json!("mine")),
        wrong("platform.osDisk.encryptionSetId", json!(subnet)),
        wrong(
            "platform.osDisk.encryptionSetId",
            json!(of_provider("Compute", "diskEncryptionSets/set").replace(SUBSCRIPTION, UNKNOWN)),
        ),
        wrong("autoRepair", json!("yes")),
        wrong("nodeDrainTimeoutMinutes", json!(-1)),
        wrong("nodeDrainTimeoutMinutes", json!(10_081)),
        fresh(
            "a large disk that does not outlive its machine",
            &with(ephemeral.clone(), "properties.platform.osDisk.sizeGiB", 2041),
        )
        .wrong("properties.platform.osDisk.sizeGiB"),
        fresh(
            "a disk that does not outlive its machine, and no repair",
            &with(ephemeral, "properties.autoRepair", false),
        )
        .wrong("properties.autoRepair"),
    ]
}

fn sizes() -> Vec<Row> {
    let scaling = |what: &str, value: Value, target: &str| {
        fresh(what, &with(without(node_pool(), "properties.replicas"), "properties.autoScaling", value))
            .wrong(&format!("properties.autoScaling.{target}"))
    };
    vec![
        wrong("replicas", json!(-1)),
        wrong("replicas", json!(201)),
        wrong("replicas", json!("two")),
        wrong("replicas", json!(4_294_967_296_u64)),
        scaling("a least number below nothing", json!({"min": -1, "max": 2}), "min"),
        scaling("a most below a least", json!({"min": 3, "max": 2}), "max"),
        scaling("a most of 201", json!({"min": 1, "max": 201}), "max"),
        scaling("a most that is a word", json!({"min": 1, "max": "many"}), "max"),
        fresh(
            "both a number and limits",
            &with(node_pool(), "properties.autoScaling", json!({"min": 1, "max": 3})),
        )
        .wrong("properties.replicas"),
    ]
}

fn labels() -> Vec<Row> {
    let label = |what: &str, label: Value, target: &str| {
        fresh(what, &with(node_pool(), "properties.labels", json!([label])))
            .wrong(&format!("properties.labels{target}"))
    };
    let taint = |what: &str, taint: Value, target: &str| {
        fresh(what, &with(node_pool(), "properties.taints", json!([taint])))
            .wrong(&format!("properties.taints[0].{target}"))
    };
    let machine = "machine.openshift.io/cluster-api-machine-role";
    vec![
        label("a label without a key", json!({"value": "one"}), "[0].key"),
        label("a label with a blank", json!({"key": "not a key", "value": "one"}), "[not a key]"),
        label("a label with a long value", json!({"key": "key", "value": "v".repeat(64)}), "[key]"),
        label("a label with a number", json!({"key": "key", "value": 1}), "[0].value"),
        label(
            "a label that makes it a master",
            json!({"key": "node-role.kubernetes.io/master", "value": ""}),
            "[node-role.kubernetes.io/master]",
        ),
        label(
            "a label that makes it a worker",
            json!({"key": "node-role.kubernetes.io/worker", "value": ""}),
            "[node-role.kubernetes.io/worker]",
        ),
        label(
            "a label that makes it infrastructure",
            json!({"key": machine, "value": "infra"}),
            &format!("[{machine}]"),
        ),
        fresh("labels that are an object", &with(node_pool(), "properties.labels", json!({"a": "b"})))
            .wrong("properties.labels"),
        taint("a taint without a key", json!({"value": "v", "effect": "NoSchedule"}), "key"),
        taint("a taint with an empty key", json!({"key": "", "effect": "NoSchedule"}), "key"),
        taint("a taint with a long key", json!({"key": "k".repeat(317), "effect": "NoSchedule"}), "key"),
        taint(
            "a taint with a long value",
            json!({"key": "k", "value": "v".repeat(64), "effect": "NoSchedule"}),
            "value",
        ),
        taint("a taint without an effect", json!({"key": "k"}), "effect"),
        taint("a taint of an unknown effect", json!({"key": "k", "effect": "Never"}), "effect"),
    ]
}
