//! Objects as bytes: what is kept in memory, and what goes out.

use bytes::Bytes;
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::event;
use crate::catalogue::{Resource, group_version};

/// Puts the resource version in.
pub(super) fn stamp(value: &mut Value, revision: u64) {
    if let Some(object) = value.as_object_mut() {
        let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert(RESOURCE_VERSION.to_owned(), revision.to_string().into());
        }
    }
}

const RESOURCE_VERSION: &str = "resourceVersion";

/// An object with what it is in front, so that lists can leave it out and readers find it without reading on; then its
/// metadata, which begin with the resource version, so that one can be put in without reading all of it.
struct Ordered<'a> {
    fields: &'a Map<String, Value>,
    version: bool,
}

/// With the resource version in front, if it is wanted at all.
struct Metadata<'a> {
    fields: &'a Map<String, Value>,
    version: bool,
}

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const FIRST: [&str; 3] = ["apiVersion", "kind", "metadata"];
        let mut fields = serializer.serialize_map(None)?;
        for name in FIRST {
            match self.fields.get(name) {
                Some(Value::Object(metadata)) if name == "metadata" => {
                    fields.serialize_entry(name, &Metadata { fields: metadata, version: self.version })?;
                }
                Some(value) => fields.serialize_entry(name, value)?,
                None => {}
            }
        }
        for (name, value) in self.fields.iter().filter(|(name, _)| !FIRST.contains(&name.as_str())) {
            fields.serialize_entry(name, value)?;
        }
        fields.end()
    }
}

impl Serialize for Metadata<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        if let Some(version) = self.fields.get(RESOURCE_VERSION).filter(|_| self.version) {
            fields.serialize_entry(RESOURCE_VERSION, version)?;
        }
        for (name, value) in self.fields.iter().filter(|(name, _)| *name != RESOURCE_VERSION) {
            fields.serialize_entry(name, value)?;
        }
        fields.end()
    }
}

/// The bytes of an object.
pub(crate) fn text(value: &Value) -> Bytes {
    let ordered =
        value.as_object().and_then(|fields| serde_json::to_vec(&Ordered { fields, version: true }).ok());
    ordered.map_or_else(|| Bytes::from(value.to_string()), Bytes::from)
}

/// Where the fields of the metadata begin, in text that was written in our order.
fn metadata(text: &str) -> Option<usize> {
    let rest = word(text.strip_prefix("{\"apiVersion\":\"")?)?;
    let rest = word(rest.strip_prefix(",\"kind\":\"")?)?;
    let rest = rest.strip_prefix(",\"metadata\":{")?;
    Some(text.len() - rest.len())
}

/// What comes after a text that ends here, unless there is anything in it that has to be looked at twice.
fn word(text: &str) -> Option<&str> {
    let (word, rest) = text.split_once('"')?;
    (!word.contains('\\')).then_some(rest)
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
    if let Some(start) = metadata(document) {
        let (head, mut fields) = document.split_at(start);
        if let Some(stamped) = fields.strip_prefix("\"resourceVersion\":\"").and_then(word) {
            fields = stamped.strip_prefix(',').unwrap_or(stamped);
        }
        let comma = if fields.starts_with('}') { "" } else { "," };
        return Bytes::from(format!("{head}\"{RESOURCE_VERSION}\":\"{revision}\"{comma}{fields}"));
    }
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

/// The text that is stored of an object: without resource version, at the storage version.
pub(super) fn for_storage(resource: &Resource, value: &Value) -> Result<Box<RawValue>, serde_json::Error> {
    let is_already = || {
        value["kind"] == *resource.kind
            && resource.version == resource.storage_version
            && value["apiVersion"] == resource.api_version()
            && resource.storage_schema.is_none()
            && !event::is_other_form(resource)
    };
    match value.as_object() {
        Some(fields) if is_already() => to_raw_value(&Ordered { fields, version: false }),
        _ => match at_storage_version(resource, value) {
            Value::Object(fields) => to_raw_value(&Ordered { fields: &fields, version: false }),
            other => to_raw_value(&other),
        },
    }
}

fn at_storage_version(resource: &Resource, value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove(RESOURCE_VERSION);
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
pub(super) fn as_stored(resource: &Resource, value: Value) -> Value {
    if resource.storage_schema.is_none() {
        return value;
    }
    let mut value = at_storage_version(resource, &value);
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_version_is_put_in_whatever_is_around_it() {
        for (object, fast) in [
            (json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a", "uid": "b" } }), true),
            (json!({ "apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": { "metadata": {} } }), true),
            (json!({ "apiVersion": "v1", "kind": "a\"b", "metadata": { "name": "a" } }), false),
            (json!({ "apiVersion": "v1\\", "kind": "Pod", "metadata": { "name": "a" } }), false),
            (json!({ "apiVersion": "v1", "kind": "Pod", "spec": { "metadata": {} } }), false),
            (json!({ "kind": "Pod" }), false),
        ] {
            let mut stamped = object.clone();
            stamp(&mut stamped, 7);
            let written = text(&object);
            let written = std::str::from_utf8(&written).unwrap();
            assert_eq!(metadata(written).is_some(), fast, "{written}");
            // As it is stored now, and as it was before there was an order to it.
            for stored in [written.to_owned(), object.to_string()] {
                let encoded = encode(&stored, 7);
                assert_eq!(serde_json::from_slice::<Value>(&encoded).unwrap(), stamped, "{stored}");
                let again = with_revision(&encoded, 123);
                let text = std::str::from_utf8(&again).unwrap();
                assert_eq!(text.matches(RESOURCE_VERSION).count(), 1, "{text}");
                stamp(&mut stamped, 123);
                assert_eq!(serde_json::from_str::<Value>(text).unwrap(), stamped);
                stamp(&mut stamped, 7);
            }
        }
    }
}
