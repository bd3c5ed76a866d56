//! Whether a schema is structural at all: what a definition is refused for.

use serde_json::Value;

use crate::status::Cause;

/// Words of JSON schema that a structural one may not use.
const FORBIDDEN: &[&str] = &[
    "$ref",
    "definitions",
    "dependencies",
    "deprecated",
    "discriminator",
    "id",
    "patternProperties",
    "readOnly",
    "writeOnly",
    "xml",
    "additionalItems",
];

pub(super) fn problems(schema: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    if schema["type"] != "object" {
        let message = "must be object at the root";
        causes.push(match schema["type"].is_null() {
            true => Cause::required(format!("{path}.type"), message),
            false => Cause::invalid(format!("{path}.type"), &schema["type"], message),
        });
    }
    visit(schema, path, &mut causes);
    causes
}

fn visit(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    for word in FORBIDDEN.iter().filter(|word| schema.get(word).is_some()) {
        causes.push(Cause::forbidden(format!("{path}.{word}"), &format!("{word} is not supported")));
    }
    if schema["uniqueItems"] == true {
        causes.push(Cause::forbidden(
            format!("{path}.uniqueItems"),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ));
    }
    let open = schema["x-kubernetes-int-or-string"] == true
        || schema["x-kubernetes-preserve-unknown-fields"] == true
        || schema["x-kubernetes-embedded-resource"] == true;
    if schema["type"].is_null() && !open {
        causes.push(Cause::required(format!("{path}.type"), "must not be empty for specified object fields"));
    }
    if schema["properties"].is_object() && schema["additionalProperties"].is_object() {
        causes.push(Cause::forbidden(
            format!("{path}.additionalProperties"),
            "additionalProperties and properties are mutual exclusive",
        ));
    }
    if schema["type"] == "array" && !schema["items"].is_object() {
        causes.push(Cause::required(format!("{path}.items"), "must be specified"));
    }
    if schema["x-kubernetes-list-type"] == "map"
        && schema["x-kubernetes-list-map-keys"].as_array().is_none_or(Vec::is_empty)
    {
        causes.push(Cause::required(
            format!("{path}.x-kubernetes-list-map-keys"),
            "must not be empty if x-kubernetes-list-type is map",
        ));
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        // Metadata may be mentioned without being described.
        let metadata = name == "metadata" && !path.contains(".properties[");
        if !metadata {
            visit(inner, &format!("{path}.properties[{name}]"), causes);
        }
    }
    if schema["items"].is_object() {
        visit(&schema["items"], &format!("{path}.items"), causes);
    }
    if schema["additionalProperties"].is_object() {
        visit(&schema["additionalProperties"], &format!("{path}.additionalProperties"), causes);
    }
}
