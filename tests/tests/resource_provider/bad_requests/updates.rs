//! Changes of what is for ever, and changes to what cannot be.

use serde_json::{Value, json};

use super::row::{Row, in_ready, patch, put};
use crate::bodies::{cluster, cluster_id, external_auth, node_pool, of_provider, with};

pub(super) fn rows() -> Vec<Row> {
    [clusters(), nulls(), node_pools(), external_auths()].concat()
}

fn clusters() -> Vec<Row> {
    let ready = with(cluster("ready"), "properties.platform.managedResourceGroup", "ready-managed");
    let replace = |field: &str, value: Value| {
        let path = format!("properties.{field}");
        put(&format!("another {field}"), &cluster_id("ready"), &with(ready.clone(), &path, value))
            .wrong(&path)
    };
    let change = |field: &str, value: Value| {
        let path = format!("properties.{field}");
        patch(
            &format!("a change of {field} to {value}"),
            &cluster_id("ready"),
            &with(json!({}), &path, value),
        )
        .wrong(&path)
    };
    let subnet = |name: &str| json!(of_provider("Network", &format!("virtualNetworks/ready/subnets/{name}")));
    vec![
        replace("dns.baseDomainPrefix", json!("other")),
        replace("network.networkType", json!("Other")),
        replace("network.podCidr", json!("10.132.0.0/14")),
        replace("network.serviceCidr", json!("172.31.0.0/16")),
        replace("network.machineCidr", json!("10.1.0.0/16")),
        replace("network.hostPrefix", json!(24)),
        replace("api.visibility", json!("Private")),
        replace("ingress.type", json!("Private")),
        replace("platform.subnetId", subnet("other")),
        replace("platform.vnetIntegrationSubnetId", subnet("other")),
        replace(
            "platform.networkSecurityGroupId",
            json!(of_provider("Network", "networkSecurityGroups/other")),
        ),
        replace("platform.managedResourceGroup", json!("other-managed")),
        replace("clusterImageRegistry.state", json!("Disabled")),
        replace("cryptoRestrictions", json!("FIPS")),
        change("network.hostPrefix", json!(25)),
        change("dns.baseDomainPrefix", json!("changed")),
        change("version.id", json!("4.22")),
        change("version.id", json!("4.19")),
        change("version.channelGroup", json!("weekly")),
        change("nodeDrainTimeoutMinutes", json!(10_081)),
        change("autoscaling.maxNodesTotal", json!(-5)),
        change("autoscaling.maxPodGracePeriodSeconds", json!("long")),
        patch("tags that are a word", &cluster_id("ready"), &json!({"tags": "all"})).wrong("tags"),
        patch(
            "two changes that cannot be",
            &cluster_id("ready"),
            &json!({"properties": {
            "nodeDrainTimeoutMinutes": -1, "network": { "hostPrefix": 24 } }}),
        )
        .all_wrong(&["properties.network.hostPrefix", "properties.nodeDrainTimeoutMinutes"]),
        put("another version in a version where it is for ever", &cluster_id("ready"), &{
            let mut body = with(ready.clone(), "properties.version.id", "4.21");
            body["properties"]["platform"].as_object_mut().unwrap().remove("vnetIntegrationSubnetId");
            body
        })
        .version("2024-06-10-preview")
        .wrong("properties.version.id"),
    ]
}

/// What has a value always keeps one.
fn nulls() -> Vec<Row> {
    let clear = |path: &str, field: &str| {
        patch(
            &format!("no {field} any more"),
            path,
            &with(json!({}), &format!("properties.{field}"), Value::Null),
        )
        .wrong(&format!("properties.{field}"))
    };
    let (ready, workers) = (cluster_id("ready"), in_ready("nodePools/workers"));
    vec![
        clear(&ready, "network.hostPrefix"),
        clear(&ready, "autoscaling.maxPodGracePeriodSeconds"),
        clear(&ready, "autoscaling.maxNodeProvisionTimeSeconds"),
        clear(&ready, "autoscaling.podPriorityThreshold"),
        clear(&ready, "platform.vnetIntegrationSubnetId"),
        clear(&workers, "autoRepair"),
        clear(&workers, "platform.osDisk.sizeGiB"),
    ]
}

fn node_pools() -> Vec<Row> {
    let workers = in_ready("nodePools/workers");
    let replace = |field: &str, value: Value| {
        let path = format!("properties.{field}");
        put(&format!("another {field} of a pool"), &workers, &with(node_pool(), &path, value)).wrong(&path)
    };
    let change = |field: &str, value: Value| {
        let path = format!("properties.{field}");
        patch(&format!("a change of a pool's {field} to {value}"), &workers, &with(json!({}), &path, value))
            .wrong(&path)
    };
    vec![
        replace("platform.vmSize", json!("Standard_D4s_v3")),
        replace("platform.subnetId", json!(of_provider("Network", "virtualNetworks/ready/subnets/other"))),
        replace("platform.availabilityZone", json!("2")),
        replace("platform.enableEncryptionAtHost", json!(true)),
        replace("platform.osDisk.sizeGiB", json!(128)),
        replace("platform.osDisk.diskStorageAccountType", json!("Standard_LRS")),
        replace("autoRepair", json!(false)),
        change("platform.vmSize", json!("Standard_D4s_v3")),
        change("replicas", json!(-1)),
        change("replicas", json!(201)),
        change("nodeDrainTimeoutMinutes", json!(10_081)),
        change("version.id", json!("4.21.0")),
        change("version.id", json!("4.20")),
    ]
}

fn external_auths() -> Vec<Row> {
    let entra = in_ready("externalAuths/entra");
    let change = |field: &str, value: Value| {
        let path = format!("properties.{field}");
        patch(&format!("a change of {field} to {value}"), &entra, &with(json!({}), &path, value)).wrong(&path)
    };
    vec![
        change("issuer.url", json!("http://login.example.com")),
        change("issuer.audiences", json!([])),
        change("claim.mappings.username.claim", json!("")),
        change("claim.mappings.username.prefixPolicy", json!("Sometimes")),
        put("a second one", &in_ready("externalAuths/second"), &external_auth()).wrong("name"),
    ]
}
