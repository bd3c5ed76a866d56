//! Objects as the rows of a table: what `kubectl get` prints.
//!
//! The server decides on columns and cells, so that every client prints the same. Built-in kinds have theirs in
//! `table/builtin.rs`; a custom resource's come from its definition.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::catalogue::{Resource, Text};

pub(crate) mod age;
mod autoscaling;
mod batch;
mod builtin;
pub(crate) mod json_path;
mod network;
mod pod;
mod policy;
mod storage;
#[cfg(test)]
mod tests;
mod workload;

use json_path::JsonPath;

/// A column that a custom resource definition asks for.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    name: Text,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    kind: Text,
    format: Text,
    description: Text,
    /// Above zero: only with `-o wide`.
    priority: i64,
    /// Absent where the path is beyond what is understood; the cell is then empty.
    path: Option<JsonPath>,
}

/// What of the object comes with its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

/// A column of a built-in kind.
#[derive(Debug, Clone, Copy)]
struct Heading {
    name: &'static str,
    kind: &'static str,
    wide: bool,
}

/// The table of the given objects. `list_metadata` is the metadata of the list they came from.
pub(crate) fn render<'a>(
    resource: &Resource,
    objects: impl Iterator<Item = &'a Value>,
    now: Timestamp,
    include: IncludeObject,
    list_metadata: Value,
) -> Value {
    let rows: Vec<_> = objects
        .map(|object| {
            let mut row = json!({ "cells": cells(resource, object, now) });
            match include {
                IncludeObject::None => row["object"] = Value::Null,
                IncludeObject::Metadata => row["object"] = metadata_only(object),
                IncludeObject::Object => row["object"] = object.clone(),
            }
            if finished(resource, object) {
                row["conditions"] = json!([{
                    "type": "Completed",
                    "status": "True",
                    "reason": object["status"]["phase"],
                    "message": "The pod has completed.",
                }]);
            }
            row
        })
        .collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata,
        "columnDefinitions": columns(resource),
        "rows": rows,
    })
}

/// An object reduced to what it is called and who it belongs to.
pub(crate) fn metadata_only(object: &Value) -> Value {
    let mut metadata = object["metadata"].clone();
    // This is part of the whole object only.
    if object["kind"] == "DaemonSet"
        && let Some(annotations) = metadata["annotations"].as_object_mut()
    {
        annotations.remove("deprecated.daemonset.template.generation");
        if annotations.is_empty()
            && let Some(metadata) = metadata.as_object_mut()
        {
            metadata.remove("annotations");
        }
    }
    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata })
}

fn columns(resource: &Resource) -> Vec<Value> {
    if !resource.custom {
        return builtin::headings(resource).iter().map(|heading| heading.to_value()).collect();
    }
    let mut columns = vec![Heading { name: "Name", kind: "string", wide: false }.to_value()];
    match resource.printer_columns.as_slice() {
        [] => columns.push(Heading { name: "Age", kind: "date", wide: false }.to_value()),
        asked => columns.extend(asked.iter().map(Column::to_value)),
    }
    columns
}

fn cells(resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    if !resource.custom {
        return builtin::cells(resource, object, now);
    }
    let mut cells = vec![object["metadata"]["name"].clone()];
    match resource.printer_columns.as_slice() {
        [] => cells.push(age::since(&object["metadata"]["creationTimestamp"], now)),
        asked => cells.extend(asked.iter().map(|column| column.cell(object, now))),
    }
    cells
}

/// kubectl greys out what has run to its end.
fn finished(resource: &Resource, object: &Value) -> bool {
    resource.is("", "pods") && matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

// === impl Column ===

impl Column {
    /// An entry of `additionalPrinterColumns`.
    pub(crate) fn from_definition(definition: &Value) -> Self {
        let text = |key: &str| Text::Owned(definition[key].as_str().unwrap_or_default().to_owned());
        let description = match text("description") {
            none if none.is_empty() => {
                format!("Custom resource definition column (in JSONPath format): {}", text("jsonPath")).into()
            }
            description => description,
        };
        Self {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description,
            priority: definition["priority"].as_i64().unwrap_or_default(),
            path: definition["jsonPath"].as_str().and_then(JsonPath::parse),
        }
    }

    fn to_value(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }

    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(path) = &self.path else { return Value::Null };
        let found = path.all(object);
        let Some(&first) = found.first() else { return Value::Null };
        match self.kind.as_ref() {
            "integer" => first.as_i64().map_or(Value::Null, Value::from),
            "number" => first.as_f64().map_or(Value::Null, Value::from),
            "boolean" => first.as_bool().map_or(Value::Null, Value::from),
            "date" => age::since(first, now),
            _ => Value::String(found.into_iter().map(plain).collect::<Vec<_>>().join(" ")),
        }
    }
}

/// Text without quotes, anything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

// === impl Heading ===

impl Heading {
    const fn text(name: &'static str) -> Self {
        Self { name, kind: "string", wide: false }
    }

    const fn number(name: &'static str) -> Self {
        Self { name, kind: "integer", wide: false }
    }

    const fn flag(name: &'static str) -> Self {
        Self { name, kind: "boolean", wide: false }
    }

    const fn date(name: &'static str) -> Self {
        Self { name, kind: "date", wide: false }
    }

    const fn wide(name: &'static str) -> Self {
        Self { name, kind: "string", wide: true }
    }

    fn to_value(self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": if self.name == "Name" { "name" } else { "" },
            "description": "",
            "priority": i32::from(self.wide),
        })
    }
}

/// `<none>`: how kubectl shows that there is nothing.
const NONE: &str = "<none>";
const UNKNOWN: &str = "<unknown>";

fn or_none(text: impl AsRef<str>) -> Value {
    match text.as_ref() {
        "" => json!(NONE),
        text => json!(text),
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn count(object: &Value, pointer: &str) -> usize {
    object.pointer(pointer).and_then(Value::as_object).map(serde_json::Map::len).unwrap_or_default()
}
