//! The published documents, made from the wire types.
//!
//! One document per version, in OpenAPI 3.0. It has what people and their tools call. What only ARM itself calls, with
//! api-versions of its own (the life of subscriptions, the preflight of deployments), is not in it.
//!
//! A request and an answer of the same resource have two descriptions: what one version asks for, a resource that was
//! made through an older one may lack.

mod models;
mod paths;

use serde_json::{Value, json};

use crate::version::Version;

impl Version {
    /// The document that describes this version.
    pub fn openapi(self) -> Value {
        let version = self.api_version().to_string();
        let mut document = json!({
            "openapi": "3.0.3",
            "info": {
                "title": "Pilothouse",
                "description": "Clusters with hosted control planes, their node pools and who may log in to them.",
                "version": version,
            },
            "paths": paths::all(self),
            "components": {
                "parameters": paths::parameters(self),
                "headers": paths::headers(),
                "responses": paths::responses(),
                "schemas": models::all(self),
            },
        });
        share_definitions(&mut document);
        document
    }
}

/// What describes itself is described once, among the schemas.
fn share_definitions(document: &mut Value) {
    let mut found = Vec::new();
    collect(document, &mut found);
    for (name, definition) in found {
        document["components"]["schemas"][name] = definition;
    }
}

fn collect(value: &mut Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::Object(definitions)) = members.remove("$defs") {
                for (name, mut definition) in definitions {
                    collect(&mut definition, found);
                    found.push((name, definition));
                }
            }
            if let Some(Value::String(reference)) = members.get_mut("$ref")
                && let Some(name) = reference.strip_prefix("#/$defs/")
            {
                *reference = format!("#/components/schemas/{name}");
            }
            members.values_mut().for_each(|member| collect(member, found));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| collect(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
