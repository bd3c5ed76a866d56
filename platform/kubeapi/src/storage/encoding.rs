//! Objects as bytes: what is kept in memory, and what goes out.

use bytes::Bytes;
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Map, Value};

use super::event;
use crate::catalogue::{Resource, group_version};

/// Puts the resource version in.
pub(super) fn stamp(value: &mut Value, revision: u64) {
    if let Some(object) = value.as_object_mut() {
        let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("resourceVersion".to_owned(), revision.to_string().into());
        }
    }
}

/// An object with what it is in front, so that lists can leave it out and readers find it without reading on.
struct Ordered<'a>(&'a Map<String, Value>);

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const FIRST: [&str; 2] = ["apiVersion", "kind"];
        let mut fields = serializer.serialize_map(Some(self.0.len()))?;
        for name in FIRST {
            if let Some(value) = self.0.get(name) {
                fields.serialize_entry(name, value)?;
            }
        }
        for (name, value) in self.0.iter().filter(|(name, _)| !FIRST.contains(&name.as_str())) {
            fields.serialize_entry(name, value)?;
        }
        fields.end()
    }
}

/// The bytes of an object.
pub(crate) fn text(value: &Value) -> Bytes {
    let ordered = value.as_object().and_then(|fields| serde_json::to_vec(&Ordered(fields)).ok());
    ordered.map_or_else(|| Bytes::from(value.to_string()), Bytes::from)
}

/// What the bytes of every object of a kind begin with.
pub(crate) fn head(resource: &Resource) -> String {
    format!("{{\"apiVersion\":\"{}\",\"kind\":\"{}\",", resource.api_version(), resource.kind)
}

/// About how many bytes of JSON a value is, and never more: escapes are not counted.
pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::Object(fields) => {
            2 + fields.iter().map(|(name, value)| name.len() + 4 + size(value)).sum::<usize>()
        }
        Value::Array(items) => 2 + items.iter().map(|item| size(item) + 1).sum::<usize>(),
        Value::String(text) => text.len() + 2,
        Value::Number(_) => 1,
        Value::Null | Value::Bool(_) => 4,
    }
}

/// A stored document as clients see it.
pub(super) fn encode(document: &str, revision: u64) -> Bytes {
    let Ok(mut value) = serde_json::from_str::<Value>(document) else {
        return Bytes::copy_from_slice(document.as_bytes());
    };
    stamp(&mut value, revision);
    text(&value)
}

/// The same object at another version: the last state of one that was deleted carries the version of the deletion.
pub(crate) fn with_revision(object: &Bytes, revision: u64) -> Bytes {
    std::str::from_utf8(object).map_or_else(|_| object.clone(), |text| encode(text, revision))
}

/// The object as it is stored: without resource version, at the storage version.
pub(super) fn for_storage(resource: &Resource, value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    if let Some(object) = value.as_object_mut() {
        let stored = match event::is_other_form(resource) {
            true => {
                event::to_core(object);
                "v1".to_owned()
            }
            false => group_version(&resource.group, &resource.storage_version),
        };
        object.insert("apiVersion".to_owned(), stored.into());
        object.insert("kind".to_owned(), resource.kind.to_string().into());
    }
    if let Some(schema) = &resource.storage_schema {
        schema.prune(&mut value);
    }
    value
}

/// A custom resource is served at several versions, which have in common what the schemas of both know. Events also have two
/// forms.
pub(super) fn convert(resource: &Resource, value: &mut Value) {
    let wanted = resource.api_version();
    let same = value["apiVersion"] == wanted.as_str();
    if let Some(object) = value.as_object_mut() {
        if event::is_other_form(resource) {
            event::from_core(object);
        }
        object.insert("apiVersion".to_owned(), wanted.into());
    }
    if let Some(schema) = resource.schema.as_ref().filter(|_| !same || resource.evolved) {
        schema.prune(value);
        if same {
            schema.default(value);
        }
    }
}

/// What is left of an object once it was stored, at the version in which it was sent.
pub(super) fn as_stored(resource: &Resource, value: &Value) -> Value {
    if resource.storage_schema.is_none() {
        return value.clone();
    }
    let mut value = for_storage(resource, value);
    convert(resource, &mut value);
    value
}

/// Encoded bytes at the version that was asked for. Nearly always they are so already, and are not even parsed.
pub(crate) fn converted(resource: &Resource, object: &Bytes) -> Bytes {
    let expected = format!("{{\"apiVersion\":\"{}\"", resource.api_version());
    if object.starts_with(expected.as_bytes()) && !resource.evolved {
        return object.clone();
    }
    let Ok(mut value) = serde_json::from_slice::<Value>(object) else { return object.clone() };
    convert(resource, &mut value);
    text(&value)
}
