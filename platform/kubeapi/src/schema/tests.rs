use serde_json::json;

use super::*;

fn schema(spec: Value) -> Structural {
    Structural::parse(&json!({ "type": "object", "properties": { "spec": spec } }))
}

fn lines(schema: &Structural, spec: Value, old: Option<Value>) -> Vec<String> {
    let old = old.map(|old| json!({ "spec": old }));
    let causes = schema.validate(&json!({ "spec": spec }), old.as_ref());
    causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

#[test]
fn unknown_fields_are_pruned_unless_the_schema_lets_them_be() {
    let schema = schema(json!({
        "type": "object",
        "properties": {
            "known": { "type": "string" },
            "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": { "strict": { "type": "object", "properties": {} } } },
            "labels": { "type": "object", "additionalProperties": { "type": "string" } },
            "list": { "type": "array", "items": { "type": "object", "properties": { "name": { "type": "string" } } } },
            "template": { "type": "object", "x-kubernetes-embedded-resource": true, "properties": {} },
        },
    }));
    let mut object = json!({
        "apiVersion": "v1", "kind": "K", "metadata": { "anything": 1 }, "extra": true,
        "spec": {
            "known": "x", "unknown": 1,
            "free": { "anything": { "deep": 1 }, "strict": { "gone": 1 } },
            "labels": { "a": "b" },
            "list": [{ "name": "n", "age": 3 }],
            "template": { "apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {} },
        },
    });
    let mut dropped = schema.prune(&mut object);
    dropped.sort();
    assert_eq!(
        dropped,
        ["extra", "spec.free.strict.gone", "spec.list[0].age", "spec.template.spec", "spec.unknown"]
    );
    assert_eq!(object["metadata"]["anything"], 1);
    assert_eq!(object["spec"]["free"], json!({ "anything": { "deep": 1 }, "strict": {} }));
    assert_eq!(object["spec"]["template"], json!({ "apiVersion": "v1", "kind": "Pod", "metadata": {} }));
}

#[test]
fn defaults_fill_what_is_absent_and_only_that() {
    let schema = schema(json!({
        "type": "object",
        "default": {},
        "properties": {
            "replicas": { "type": "integer", "default": 2 },
            "nullable": { "type": "string", "nullable": true, "default": "x" },
            "nested": { "type": "object", "properties": { "deep": { "type": "string", "default": "d" } } },
            "list": { "type": "array", "items": { "type": "object", "properties": { "on": { "type": "boolean", "default": true } } } },
            "plain": { "type": "string" },
        },
    }));
    for (given, expected) in [
        (json!({}), json!({ "spec": { "replicas": 2, "nullable": "x" } })),
        (
            json!({ "spec": { "replicas": null, "nullable": null, "plain": null } }),
            json!({ "spec": { "replicas": 2, "nullable": null } }),
        ),
        (
            json!({ "spec": { "replicas": 0, "nullable": "y", "nested": {}, "list": [{}, { "on": false }] } }),
            json!({ "spec": { "replicas": 0, "nullable": "y", "nested": { "deep": "d" }, "list": [{ "on": true }, { "on": false }] } }),
        ),
    ] {
        let mut object = given.clone();
        schema.default(&mut object);
        assert_eq!(object, expected, "{given}");
    }
}

#[test]
fn what_is_wrong_is_said_in_the_words_of_kubernetes() {
    let schema = schema(json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": { "type": "string", "minLength": 1, "maxLength": 5, "pattern": "^[a-z]*$" },
            "size": { "type": "integer", "minimum": 1, "maximum": 9, "format": "int32" },
            "mode": { "type": "string", "enum": ["On", "Off"] },
            "port": { "x-kubernetes-int-or-string": true },
            "when": { "type": "string", "format": "date-time" },
            "ports": {
                "type": "array", "maxItems": 2, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": { "type": "object", "required": ["name"], "properties": { "name": { "type": "string" } } },
            },
            "tags": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
            "either": { "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] },
        },
    }));
    for (spec, expected) in [
        (
            json!({ "name": "ok", "size": 3, "mode": "On", "port": "http", "when": "2026-01-01T00:00:00Z" }),
            &[][..],
        ),
        (json!({ "name": "ok", "port": 80, "either": { "a": 1 } }), &[]),
        (json!({}), &["spec.name: Required value"]),
        (
            json!({ "name": 3 }),
            &["spec.name: Invalid value: \"integer\": spec.name in body must be of type string: \"integer\""],
        ),
        (json!({ "name": "abcdef" }), &["spec.name: Too long: may not be more than 5 bytes"]),
        (
            json!({ "name": "A" }),
            &["spec.name: Invalid value: \"A\": spec.name in body should match '^[a-z]*$'"],
        ),
        (
            json!({ "name": "" }),
            &["spec.name: Invalid value: \"\": spec.name in body should be at least 1 chars long"],
        ),
        (
            json!({ "name": "a", "size": 10 }),
            &["spec.size: Invalid value: 10: spec.size in body should be less than or equal to 9"],
        ),
        (
            json!({ "name": "a", "mode": "Maybe" }),
            &["spec.mode: Unsupported value: \"Maybe\": supported values: \"On\", \"Off\""],
        ),
        (
            json!({ "name": "a", "ports": [{ "name": "x" }, { "name": "x" }] }),
            &["spec.ports[1]: Duplicate value: {\"name\":\"x\"}"],
        ),
        (json!({ "name": "a", "ports": [{}] }), &["spec.ports[0].name: Required value"]),
        (json!({ "name": "a", "tags": ["x", "x"] }), &["spec.tags[1]: Duplicate value: \"x\""]),
        (
            json!({ "name": "a", "either": { "a": 1, "b": 2 } }),
            &[
                "spec.either: Invalid value: \"object\": \"spec.either\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
            ],
        ),
    ] {
        assert_eq!(lines(&schema, spec.clone(), None), expected, "{spec}");
    }
}

#[test]
fn what_was_invalid_before_and_did_not_change_is_let_be() {
    let schema = schema(json!({
        "type": "object",
        "properties": {
            "a": { "type": "string", "maxLength": 2 },
            "list": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": { "type": "object", "properties": { "k": { "type": "string" }, "v": { "type": "string", "maxLength": 1 } } },
            },
        },
    }));
    let old = json!({ "a": "long", "list": [{ "k": "x", "v": "long" }] });
    let moved = json!({ "a": "long", "list": [{ "k": "y", "v": "s" }, { "k": "x", "v": "long" }] });
    assert_eq!(lines(&schema, moved, Some(old.clone())), [""; 0]);
    assert_eq!(
        lines(&schema, json!({ "a": "longer" }), Some(old)),
        ["spec.a: Too long: may not be more than 2 bytes"]
    );
}

#[test]
fn a_schema_that_is_not_structural_is_refused() {
    let problems = |schema: Value| -> Vec<String> {
        Structural::problems(&schema, "s").iter().map(|cause| cause.field.clone()).collect()
    };
    assert_eq!(
        problems(
            json!({ "type": "object", "properties": { "metadata": { "type": "object" }, "a": { "type": "string" } } })
        ),
        [""; 0]
    );
    assert_eq!(problems(json!({ "type": "object", "properties": { "a": {} } })), ["s.properties[a].type"]);
    assert_eq!(
        problems(json!({ "type": "object", "properties": { "a": { "type": "array" } } })),
        ["s.properties[a].items"]
    );
    assert_eq!(problems(json!({ "type": "object", "$ref": "#/x" })), ["s.$ref"]);
    assert_eq!(problems(json!({})), ["s.type"]);
}

#[test]
fn formats_are_checked_where_they_are_known() {
    for (format, text, expected) in [
        ("date-time", "2026-01-01T00:00:00Z", true),
        ("date-time", "yesterday", false),
        ("duration", "1h30m", true),
        ("duration", "90", false),
        ("cidr", "10.0.0.0/8", true),
        ("cidr", "10.0.0.0/33", false),
        ("ipv4", "::1", false),
        ("uuid", "0b8b8a5e-6f3e-4c89-9b43-0d8d7b4f1f5e", true),
        ("uri", "https://example.com", true),
        ("byte", "not base64!", false),
        ("made-up", "anything", true),
    ] {
        assert_eq!(format::matches(format, text), expected, "{format}: {text}");
    }
}

#[test]
fn what_a_structural_schema_may_not_say_is_told_where_it_is_said() {
    for (schema, expected) in [
        (json!({ "type": "text" }), ".type: Unsupported value"),
        (json!({ "type": "string", "pattern": "(" }), ".pattern: Invalid value"),
        (
            json!({ "type": "object", "anyOf": [{ "type": "object" }] }),
            ".anyOf[0].type: Forbidden: must be empty",
        ),
        (json!({ "type": "object", "not": { "nullable": true } }), ".not.nullable: Forbidden: must be false"),
        (
            json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": false }),
            ".x-kubernetes-preserve-unknown-fields: Invalid value: false",
        ),
        (json!({ "type": "object", "x-kubernetes-embedded-resource": true }), ".properties: Required value"),
        (json!({ "type": "array", "items": [] }), ".items: Forbidden"),
        (
            json!({ "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "object" } }),
            ".items.x-kubernetes-map-type: Invalid value: null",
        ),
        (
            json!({ "type": "object", "properties": { "a": { "type": "string" } }, "default": { "b": 1 } }),
            ".default: Invalid value: {\"b\":1}: must not have unknown fields",
        ),
    ] {
        let whole = json!({ "type": "object", "properties": { "spec": schema } });
        let causes = Structural::problems(&whole, "s");
        let lines: Vec<String> =
            causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let found = lines.iter().any(|line| line.starts_with(&format!("s.properties[spec]{expected}")));
        assert!(found, "{schema}: {lines:?}");
    }
    let either =
        json!({ "x-kubernetes-int-or-string": true, "anyOf": [{ "type": "integer" }, { "type": "string" }] });
    let whole = json!({ "type": "object", "properties": { "spec": either } });
    assert!(Structural::problems(&whole, "s").is_empty());
}
