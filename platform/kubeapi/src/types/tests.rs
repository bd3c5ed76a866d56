use serde_json::{Value, json};

use super::canonical::fit;
use super::*;

fn fitted(kind: &str, mut object: Value) -> Result<(Value, Vec<String>), String> {
    let message = of_kind("", "v1", kind).unwrap();
    fit(message, &mut object, "").map(|unknown| (object, unknown))
}

#[test]
fn every_type_that_a_field_names_is_there() {
    for package in &PACKAGES {
        for entry in package.entries.get_or_init(|| entries(package.text)) {
            let message = find(package.name, entry.name).unwrap();
            let numbers: Vec<_> = message.fields.iter().map(|field| field.number).collect();
            assert!(numbers.is_sorted(), "{}.{}", package.name, entry.name);
            for field in &message.fields {
                let resolved = field.of.message().is_some() || !matches!(field.of, Type::Message(_));
                assert!(resolved, "{}.{} field {}", package.name, entry.name, field.number);
            }
        }
    }
}

#[test]
fn a_group_of_somebody_else_has_no_built_in_types() {
    assert!(of_kind("apps", "v1", "Deployment").is_some());
    assert!(of_kind("rbac.authorization.k8s.io", "v1", "Role").is_some());
    for (group, kind) in
        [("apps.example.com", "Deployment"), ("core", "Pod"), ("meta", "ObjectMeta"), ("rbac", "Role")]
    {
        assert!(of_kind(group, "v1", kind).is_none(), "{group}");
    }
    assert!(of_kind("apps", "v1beta1", "Deployment").is_none());
}

#[test]
fn fields_of_inlined_types_are_fields_of_their_parents() {
    let volume = find("core", "Volume").unwrap();
    assert_eq!(volume.field("hostPath").unwrap().of.message().unwrap().name, "HostPathVolumeSource");
    assert!(volume.field("volumeSource").is_none());
    let container = find("core", "EphemeralContainer").unwrap();
    assert_eq!(container.field("ports").unwrap().list, List::Map(vec!["containerPort", "protocol"]));
}

#[test]
fn zeros_are_written_where_a_typed_server_writes_them() {
    let (pod, unknown) = fitted(
        "Pod",
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "web", "labels": {}, "creationTimestamp": null },
            "spec": {
                "hostNetwork": false, "automountServiceAccountToken": false, "priority": 0, "hostname": "",
                "containers": [{
                    "name": "main", "args": [], "colour": "red",
                    "resources": { "limits": { "cpu": 1, "memory": "1024Mi" } },
                    "ports": [{ "containerPort": 80, "nothing": null }],
                }, { "name": "side" }],
                "volumes": [{ "name": "empty", "emptyDir": {} }],
            },
        }),
    )
    .unwrap();
    assert_eq!(
        pod,
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "web" },
            "spec": {
                "automountServiceAccountToken": false, "priority": 0,
                "containers": [{
                    "name": "main",
                    "resources": { "limits": { "cpu": "1", "memory": "1Gi" } },
                    "ports": [{ "containerPort": 80 }],
                }, { "name": "side", "resources": {} }],
                "volumes": [{ "name": "empty", "emptyDir": {} }],
            },
            "status": {},
        })
    );
    assert_eq!(unknown, ["spec.containers[0].colour"]);
}

#[test]
fn what_does_not_fit_is_named_in_the_words_everybody_searches_for() {
    for (kind, object, expected) in [
        (
            "Pod",
            json!({ "spec": { "containers": [{ "env": [{ "name": "A", "value": 1 }] }] } }),
            "json: cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of type string",
        ),
        (
            "Pod",
            json!({ "spec": { "containers": { "name": "main" } } }),
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            "Pod",
            json!({ "spec": { "priority": 1.5 } }),
            "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            "Pod",
            json!({ "metadata": { "labels": { "a": true } } }),
            "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        ("Secret", json!({ "data": { "key": "*" } }), "illegal base64 data at input byte 0"),
        (
            "Pod",
            json!({ "metadata": { "creationTimestamp": "soon" } }),
            "parsing time \"soon\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"soon\" as \"2006\"",
        ),
    ] {
        assert_eq!(fitted(kind, object).unwrap_err(), expected);
    }
}

#[test]
fn times_are_whole_seconds_or_microseconds() {
    let (event, _) = fitted(
        "Event",
        json!({ "firstTimestamp": "2026-01-02T03:04:05.678+01:00", "eventTime": "2026-01-02T03:04:05Z" }),
    )
    .unwrap();
    assert_eq!(event["firstTimestamp"], "2026-01-02T02:04:05Z");
    assert_eq!(event["eventTime"], "2026-01-02T03:04:05.000000Z");
}
