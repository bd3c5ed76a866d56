//! What an applied configuration must be before it is merged: all of it known, of the right types, every item once.

use serde_json::Value;

use super::field_set::{elements, shown};
use super::in_go;
use super::shape::Shape;
use crate::catalogue::Resource;
use crate::status::Failure;
use crate::types::{self, Field, Holds, Message, Type};

/// Refuses what does not fit its kind. The schemas of custom resources are looked at later, with everything else they say.
pub(super) fn fits(resource: &Resource, config: &Value) -> Result<(), Failure> {
    let mut problems = Vec::new();
    let message = types::of_kind(&resource.group, &resource.version, &resource.kind);
    if let Some(message) = message.filter(|_| !resource.custom) {
        of_message(message, config, "", &mut problems);
    }
    twice(config, Shape::of(resource), "", &mut problems);
    let why = match problems.as_slice() {
        [] => return Ok(()),
        [only] => only.clone(),
        several => format!("errors:\n  {}", several.join("\n  ")),
    };
    let metadata = &config["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Err(Failure::unexpected(format!(
        "failed to create typed patch object ({}/{}; {}): {why}",
        text(&metadata["namespace"]),
        text(&metadata["name"]),
        kind_of(config)
    )))
}

/// `apps/v1, Kind=Deployment`
pub(super) fn kind_of(object: &Value) -> String {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let version = text("apiVersion");
    let slash = if version.contains('/') { "" } else { "/" };
    format!("{slash}{version}, Kind={}", text("kind"))
}

fn of_message(message: &'static Message, value: &Value, path: &str, problems: &mut Vec<String>) {
    let Some(fields) = value.as_object() else {
        problems.push(format!("{path}: expected map, got &{{{}}}", in_go(value)));
        return;
    };
    for (name, inner) in fields {
        let here = format!("{path}.{name}");
        match message.field(name) {
            Some(field) => of_field(field, inner, &here, problems),
            None if path.is_empty() && matches!(name.as_str(), "apiVersion" | "kind") => {}
            None => problems.push(format!("{here}: field not declared in schema")),
        }
    }
}

fn of_field(field: &Field, value: &Value, path: &str, problems: &mut Vec<String>) {
    if value.is_null() {
        return;
    }
    match (field.holds, value) {
        (Holds::One, value) => of_type(&field.of, value, path, problems),
        (Holds::List, Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                of_type(&field.of, item, &format!("{path}[{index}]"), problems);
            }
        }
        (Holds::Map, Value::Object(entries)) => {
            for (key, item) in entries {
                of_type(&field.of, item, &format!("{path}.{key}"), problems);
            }
        }
        (holds, other) => {
            let wanted = if holds == Holds::List { "list" } else { "map" };
            problems.push(format!("{path}: expected {wanted}, got &{{{}}}", in_go(other)));
        }
    }
}

fn of_type(of: &Type, value: &Value, path: &str, problems: &mut Vec<String>) {
    let wanted = match of {
        Type::Message(_) => {
            if let Some(message) = of.message() {
                of_message(message, value, path, problems);
            }
            return;
        }
        Type::Text | Type::Bytes | Type::Time | Type::MicroTime if !value.is_string() => "string",
        Type::Flag if !value.is_boolean() => "boolean",
        Type::Integer32 | Type::Integer64 | Type::Double if !value.is_number() => "numeric (int or float)",
        _ => return,
    };
    if !value.is_null() {
        problems.push(format!("{path}: expected {wanted}, got &{{{}}}", in_go(value)));
    }
}

/// Items that cannot be told apart cannot be merged.
fn twice(value: &Value, shape: Shape<'_>, path: &str, problems: &mut Vec<String>) {
    for (name, inner) in value.as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        match inner {
            Value::Object(_) => twice(inner, shape.field(name), &path, problems),
            Value::Array(items) => {
                let Some(elements) = elements(shape, name, items) else { continue };
                for (place, element) in elements.iter().enumerate() {
                    if elements[..place].contains(element) {
                        problems.push(format!("{path}: duplicate entries for key {}", shown(element)));
                    }
                    twice(&items[place], shape.items_of(name), &path, problems);
                }
            }
            _ => {}
        }
    }
}
