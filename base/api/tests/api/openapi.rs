//! The published documents say what is served.

use std::collections::BTreeSet;
use std::fs;
use std::sync::LazyLock;

use pilothouse_api::Version;
use proptest::prelude::*;
use serde_json::Value;

use crate::strategies::{clusters, external_auths, node_pools};
use crate::{cluster_body, external_auth_body, node_pool_body};

fn model(document: &Value, name: &str) -> Value {
    document["components"]["schemas"][name].clone()
}

/// What a value does not keep of a model; enough of JSON Schema for these documents.
fn violations(document: &Value, schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap();
        return violations(document, &model(document, name), value, path, found);
    }
    if value.is_null() {
        if schema["nullable"] != true {
            found.push(format!("{path} is null"));
        }
        return;
    }
    let right_type = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64(),
        Some("boolean") => value.is_boolean(),
        Some(other) => panic!("{path}: {other}"),
        None => true,
    };
    if !right_type {
        found.push(format!("{path} is not of type {}", schema["type"]));
    }
    if let Some(choices) = schema["enum"].as_array()
        && !choices.contains(value)
    {
        found.push(format!("{path} is none of {choices:?}"));
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.get(name.as_str().unwrap()).is_none() {
            found.push(format!("{path} has no {name}"));
        }
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        let below = match schema["properties"].get(name) {
            Some(schema) => schema,
            None if schema["additionalProperties"].is_object() => &schema["additionalProperties"],
            None => {
                found.push(format!("{path} has {name}, which is not described"));
                continue;
            }
        };
        violations(document, below, member, &format!("{path}.{name}"), found);
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        violations(document, &schema["items"], item, &format!("{path}[{index}]"), found);
    }
}

#[track_caller]
fn keeps(document: &Value, name: &str, value: &Value) {
    let mut found = Vec::new();
    violations(document, &model(document, name), value, name, &mut found);
    assert_eq!(found, Vec::<String>::new(), "{value:#}");
}

static DOCUMENTS: LazyLock<[(Version, Value); 5]> =
    LazyLock::new(|| Version::ALL.map(|version| (version, version.openapi())));

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_answer_is_as_its_version_describes_it(
        cluster in clusters(), pool in node_pools(), auth in external_auths(),
    ) {
        for (version, document) in DOCUMENTS.iter() {
            keeps(document, "HcpOpenShiftCluster", &version.cluster_write(&cluster));
            keeps(document, "NodePool", &version.node_pool_write(&pool));
            keeps(document, "ExternalAuth", &version.external_auth_write(&auth));
        }
    }
}

#[test]
fn every_request_of_these_tests_is_as_its_version_describes_it() {
    let document = Version::V20261001.openapi();
    keeps(&document, "HcpOpenShiftClusterCreateOrUpdate", &cluster_body());
    keeps(&document, "NodePoolCreateOrUpdate", &node_pool_body());
    keeps(&document, "ExternalAuthCreateOrUpdate", &external_auth_body());
}

#[test]
fn limits_and_mutability_are_published() {
    let document = Version::V20261001.openapi();
    let put = model(&document, "HcpOpenShiftClusterCreateOrUpdate");
    let prefix = put.pointer("/properties/properties/properties/network/properties/hostPrefix").unwrap();
    assert_eq!(
        (&prefix["minimum"], &prefix["maximum"], &prefix["default"]),
        (&23.into(), &26.into(), &23.into())
    );
    let network = put.pointer("/properties/properties/properties/network").unwrap();
    assert_eq!(network["x-ms-mutability"], serde_json::json!(["create", "read"]));
    let shown = model(&document, "HcpOpenShiftCluster");
    assert_eq!(
        shown.pointer("/properties/properties/properties/provisioningState/readOnly"),
        Some(&true.into())
    );
    assert_eq!(shown.pointer("/properties/id/readOnly"), Some(&true.into()));

    let patch = model(&document, "HcpOpenShiftClusterUpdate");
    let members = |schema: &Value| -> BTreeSet<String> {
        schema["properties"].as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(members(&patch), ["identity", "properties", "tags"].map(str::to_owned).into());
    assert_eq!(
        members(&patch["properties"]["properties"]),
        [
            "api",
            "autoscaling",
            "etcd",
            "imageDigestMirrors",
            "nodeDrainTimeoutMinutes",
            "platform",
            "version"
        ]
        .map(str::to_owned)
        .into()
    );
    let pool = model(&document, "NodePoolUpdate");
    assert_eq!(
        members(&pool["properties"]["properties"]),
        ["autoScaling", "labels", "nodeDrainTimeoutMinutes", "replicas", "taints", "version"]
            .map(str::to_owned)
            .into()
    );
}

/// Everything a client library may call has a description, in every version.
#[test]
fn every_path_has_its_methods_and_every_reference_its_target() {
    for version in Version::ALL {
        let document = version.openapi();
        let paths = document["paths"].as_object().unwrap();
        assert_eq!(paths.len(), 16, "{:?}", paths.keys());
        let operations: Vec<_> = paths
            .values()
            .flat_map(|path| path.as_object().unwrap().values())
            .map(|operation| operation["operationId"].as_str().unwrap())
            .collect();
        assert_eq!(operations.len(), operations.iter().collect::<BTreeSet<_>>().len(), "names are unique");
        let mut references = Vec::new();
        collect_references(&document, &mut references);
        for reference in references {
            let pointer = reference.trim_start_matches('#');
            assert!(document.pointer(pointer).is_some(), "{version:?}: {reference}");
        }
        let asks = paths.iter().find(|(path, _)| path.ends_with("/requestAdminCredential")).unwrap().1;
        assert_eq!(asks["post"].get("requestBody").is_some(), version >= Version::V20260901Preview);
    }
}

fn collect_references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                found.push(reference.clone());
            }
            members.values().for_each(|member| collect_references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn the_documents_that_are_checked_in_are_these() {
    for version in Version::ALL {
        let file =
            format!("{}/../../schema/openapi/{}.json", env!("CARGO_MANIFEST_DIR"), version.api_version());
        let text = fs::read_to_string(&file).unwrap();
        let checked_in: Value = serde_json::from_str(&text).unwrap();
        assert!(checked_in == version.openapi(), "{file} is out of date: run `cargo xtask schema`");
    }
}
