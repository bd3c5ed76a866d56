//! Pieces of schemas that no Rust type gives by itself.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// A moment, as Kubernetes writes it.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// A moment that may be missing.
pub(crate) fn optional_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time", "nullable": true })
}

/// A list of objects of a shape that is not ours, which may be `null`.
pub(crate) fn optional_objects(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "nullable": true,
        "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
    })
}

/// Whole Kubernetes objects of any kind.
pub(crate) fn embedded_resources(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true,
        },
    })
}

/// A rule that refuses a change of the field it is put on.
pub(crate) fn immutable(field: &str) -> Value {
    json!([{ "rule": "self == oldSelf", "message": format!("{field} is immutable") }])
}
