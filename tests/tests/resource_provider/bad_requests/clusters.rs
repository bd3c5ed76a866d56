//! New clusters with one thing wrong, and some with several.

use serde_json::{Value, json};

use super::row::{Row, put};
use crate::bodies::{cluster, cluster_id, with, without};

pub(super) fn rows() -> Vec<Row> {
    [values(), versions(), networks(), lists(), encryption(), mirrors(), several()].concat()
}

/// The cluster `fresh` with one value below `properties` that is wrong, and exactly that is said.
fn wrong(field: &str, value: Value) -> Row {
    let path = format!("properties.{field}");
    fresh(&format!("{field}: {value}"), &with(cluster("fresh"), &path, value)).wrong(&path)
}

fn fresh(what: &str, body: &Value) -> Row {
    put(what, &cluster_id("fresh"), body)
}

fn values() -> Vec<Row> {
    vec![
        wrong("dns.baseDomainPrefix", json!("Upper")),
        wrong("dns.baseDomainPrefix", json!("1st")),
        wrong("dns.baseDomainPrefix", json!("ends-")),
        wrong("dns.baseDomainPrefix", json!("a".repeat(16))),
        wrong("dns.baseDomainPrefix", json!("under_score")),
        wrong("dns.baseDomainPrefix", json!(4)),
        wrong("api.visibility", json!("Hidden")),
        wrong("api.visibility", json!("public")),
        wrong("ingress.type", json!("Disabled")),
        wrong("ingress.type", json!("Somewhere")),
        wrong("autoscaling.maxNodesTotal", json!(-1)),
        wrong("autoscaling.maxNodesTotal", json!(501)),
        wrong("autoscaling.maxNodesTotal", json!("many")),
        wrong("autoscaling.maxPodGracePeriodSeconds", json!(0)),
        wrong("autoscaling.maxNodeProvisionTimeSeconds", json!(0)),
        wrong("autoscaling.podPriorityThreshold", json!("low")),
        wrong("autoscaling.podPriorityThreshold", json!(3_000_000_000_u32)),
        wrong("nodeDrainTimeoutMinutes", json!(-1)),
        wrong("nodeDrainTimeoutMinutes", json!(10_081)),
        wrong("nodeDrainTimeoutMinutes", json!("5")),
        wrong("nodeDrainTimeoutMinutes", json!(0.5)),
        wrong("clusterImageRegistry.state", json!("Maybe")),
        wrong("cryptoRestrictions", json!("PCI")),
        wrong("cryptoRestrictions", json!(true)),
        wrong("network", json!("wide")),
        wrong("autoscaling", json!([])),
        fresh("tags that are a list", &with(cluster("fresh"), "tags", json!([]))).wrong("tags"),
        fresh("a tag that is a number", &with(cluster("fresh"), "tags", json!({"cost": 5})))
            .wrong("tags[cost]"),
        fresh("properties that are a list", &with(cluster("fresh"), "properties", json!([])))
            .wrong("properties"),
        fresh(
            "an identity of a kind that there is not",
            &with(cluster("fresh"), "identity.type", "Borrowed"),
        )
        .wrong("identity.type"),
        fresh("an identity of no kind", &without(cluster("fresh"), "identity.type")).wrong("identity.type"),
    ]
}

fn versions() -> Vec<Row> {
    vec![
        wrong("version.id", json!("")),
        wrong("version.id", json!("4")),
        wrong("version.id", json!("4.19")),
        wrong("version.id", json!("3.11")),
        wrong("version.id", json!("4.20.8")),
        wrong("version.id", json!("4.20-rc.1")),
        wrong("version.id", json!("5.0")),
        wrong("version.id", json!("newest")),
        wrong("version.id", json!(4.2)),
        wrong("version.id", json!("4.99")),
        wrong("version.channelGroup", json!("candidate")),
        wrong("version.channelGroup", json!("nightly")),
        wrong("version.channelGroup", json!("weekly")),
        wrong("version.channelGroup", json!("Stable")),
        fresh("no version", &without(cluster("fresh"), "properties.version")).wrong("properties.version"),
        fresh("a version without an id", &with(cluster("fresh"), "properties.version", json!({})))
            .wrong("properties.version.id"),
        fresh(
            "no version in the first version that needs one",
            &without(cluster("fresh"), "properties.version"),
        )
        .version("2025-12-23-preview")
        .wrong("properties.version"),
    ]
}

fn networks() -> Vec<Row> {
    vec![
        wrong("network.networkType", json!("Calico")),
        wrong("network.podCidr", json!("10.128.0.0")),
        wrong("network.podCidr", json!("10.128.0.1/14")),
        wrong("network.podCidr", json!("10.128.0.0/33")),
        wrong("network.podCidr", json!("fd00::/64")),
        wrong("network.podCidr", json!("")),
        wrong("network.serviceCidr", json!("172.30.0.0/x")),
        wrong("network.serviceCidr", json!("172.30.0.0/-1")),
        wrong("network.machineCidr", json!("999.0.0.0/16")),
        wrong("network.machineCidr", json!(" 10.0.0.0/16")),
        wrong("network.machineCidr", json!(10)),
        wrong("network.hostPrefix", json!(22)),
        wrong("network.hostPrefix", json!(27)),
        wrong("network.hostPrefix", json!("23")),
        wrong("network.hostPrefix", json!(23.5)),
        // Of two that overlap, the later is wrong.
        wrong("network.podCidr", json!("172.30.0.0/17")),
        wrong("network.serviceCidr", json!("10.0.128.0/17")),
    ]
}

fn lists() -> Vec<Row> {
    let cidrs = |what: &str, value: Value, target: &str| {
        fresh(what, &with(cluster("fresh"), "properties.api.authorizedCidrs", value))
            .wrong(&format!("properties.api.authorizedCidrs{target}"))
    };
    vec![
        cidrs("nobody may call", json!([]), ""),
        cidrs("501 ranges may call", json!(vec!["10.0.0.0/8"; 501]), ""),
        cidrs("a word may call", json!(["10.0.0.0/8", "somebody"]), "[1]"),
        cidrs("an empty range may call", json!([""]), "[0]"),
        cidrs("a range with a blank may call", json!([" 10.0.0.0/8"]), "[0]"),
        cidrs("a range of IPv6 may call", json!(["fd00::/64"]), "[0]"),
        cidrs("a range that is none may call", json!(["10.0.0.1/8"]), "[0]"),
        cidrs("a number may call", json!([10]), "[0]"),
        cidrs("a range instead of a list may call", json!("10.0.0.0/8"), ""),
    ]
}

fn encryption() -> Vec<Row> {
    let right = json!({
        "keyManagementMode": "CustomerManaged",
        "customerManaged": { "encryptionType": "KMS", "kms": {
            "vaultName": "vault", "visibility": "Public", "activeKey": { "name": "key", "version": "1" },
        } },
    });
    let body = with(cluster("fresh"), "properties.etcd.dataEncryption", right);
    let path = "properties.etcd.dataEncryption";
    let wrong = |field: &str, value: Value| {
        let path = format!("{path}.{field}");
        fresh(&format!("etcd: {field}: {value}"), &with(body.clone(), &path, value)).wrong(&path)
    };
    let lacks = |field: &str| {
        let path = format!("{path}.{field}");
        fresh(&format!("etcd without {field}"), &without(body.clone(), &path)).wrong(&path)
    };
    let older: Value = without(
        with(
            cluster("fresh"),
            "properties.etcd.dataEncryption",
            json!({
                "keyManagementMode": "CustomerManaged",
                "customerManaged": { "encryptionType": "KMS", "kms": { "activeKey": { "name": "key", "version": "1" } } },
            }),
        ),
        "properties.platform.vnetIntegrationSubnetId",
    );
    vec![
        wrong("keyManagementMode", json!("PlatformManaged")),
        wrong("keyManagementMode", json!("Nobody")),
        wrong("customerManaged.encryptionType", json!("AES")),
        wrong("customerManaged.kms.vaultName", json!("")),
        wrong("customerManaged.kms.vaultName", json!("v".repeat(256))),
        wrong("customerManaged.kms.visibility", json!("Hidden")),
        wrong("customerManaged.kms.keyVaultType", json!("Drawer")),
        wrong("customerManaged.kms.activeKey.name", json!("")),
        wrong("customerManaged.kms.activeKey.version", json!("")),
        wrong("customerManaged.kms.activeKey.version", json!(1)),
        lacks("keyManagementMode"),
        lacks("customerManaged"),
        lacks("customerManaged.kms"),
        lacks("customerManaged.kms.vaultName"),
        lacks("customerManaged.kms.visibility"),
        lacks("customerManaged.kms.activeKey"),
        lacks("customerManaged.kms.activeKey.name"),
        lacks("customerManaged.kms.activeKey.version"),
        fresh("a vault in the place where the first version has it", &older)
            .version("2024-06-10-preview")
            .wrong(&format!("{path}.customerManaged.kms.activeKey.vaultName")),
    ]
}

fn mirrors() -> Vec<Row> {
    let path = "properties.imageDigestMirrors";
    let body = |value: Value| with(cluster("fresh"), path, value);
    let one = |what: &str, source: Value, mirror: &str, target: &str| {
        fresh(what, &body(json!([{ "source": source, "mirrors": [mirror] }])))
            .wrong(&format!("{path}[0].{target}"))
    };
    let many: Vec<_> = (0..241)
        .map(|number| json!({ "source": format!("r{number}.example.com"), "mirrors": ["m.example.com"] }))
        .collect();
    vec![
        one(
            "a mirror of something with a scheme",
            json!("https://registry.example.com"),
            "m.example.com",
            "source",
        ),
        one("a mirror of something with a blank", json!("registry example.com"), "m.example.com", "source"),
        one("a mirror of something in capitals", json!("Registry.example.com"), "m.example.com", "source"),
        one("a mirror of something too long", json!("r".repeat(256)), "m.example.com", "source"),
        one("a mirror of a number", json!(1), "m.example.com", "source"),
        one("a mirror that is everywhere", json!("registry.example.com"), "*.example.com", "mirrors[0]"),
        one("a mirror with a scheme", json!("registry.example.com"), "http://m.example.com", "mirrors[0]"),
        fresh("a mirror of nothing", &body(json!([{ "mirrors": ["m.example.com"] }])))
            .wrong(&format!("{path}[0].source")),
        fresh("no mirror", &body(json!([{ "source": "registry.example.com" }])))
            .wrong(&format!("{path}[0].mirrors")),
        fresh(
            "an empty list of mirrors",
            &body(json!([{ "source": "registry.example.com", "mirrors": [] }])),
        )
        .wrong(&format!("{path}[0].mirrors")),
        fresh("241 mirrors", &body(json!(many))).wrong(path),
    ]
}

/// All that is wrong is said at once.
fn several() -> Vec<Row> {
    let two =
        with(with(cluster("fresh"), "properties.network.hostPrefix", 12), "properties.version.id", "4.19");
    let types =
        with(with(cluster("fresh"), "properties.network.hostPrefix", "wide"), "properties.version.id", 4);
    let mixed = with(
        with(cluster("fresh"), "properties.network.hostPrefix", "wide"),
        "properties.api.visibility",
        "Hidden",
    );
    vec![
        fresh("two values", &two).all_wrong(&["properties.network.hostPrefix", "properties.version.id"]),
        fresh("two types", &types).all_wrong(&["properties.network.hostPrefix", "properties.version.id"]),
        fresh("a type and a value", &mixed)
            .all_wrong(&["properties.api.visibility", "properties.network.hostPrefix"]),
        put(
            "a name and a value",
            &cluster_id("fre_sh"),
            &with(cluster("fresh"), "properties.network.hostPrefix", 12),
        )
        .all_wrong(&["id", "properties.network.hostPrefix"]),
    ]
}
