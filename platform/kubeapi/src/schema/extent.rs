//! How large the values of a schema can get: what the price of a rule is estimated from.
//!
//! Where a schema says nothing, the size of a request is the bound: so many of the smallest possible items fit into one.

use std::collections::BTreeMap;

use pilothouse_cel::{Extent, Parts};
use serde_json::Value;

use super::declared::escaped;

/// The largest request, in bytes.
const REQUEST: u64 = 3 << 20;
/// Of which brackets or quotes take two.
const CONTENT: u64 = REQUEST - 2;
/// A character takes this many bytes at most.
const CHARACTER: u64 = 4;
/// Around the name and the value of a property: two quotes, a colon and a comma.
const PROPERTY: u64 = 4;
/// The same for an entry of a map, whose name is empty and counts with its quotes once more.
const ENTRY: u64 = 6;

/// How large a value with this schema can get. At the root of an object its identity is there whatever the schema says.
pub(super) fn extent(schema: &Value, resource: bool) -> Extent {
    if schema["x-kubernetes-int-or-string"] == true {
        return Extent::of(CONTENT);
    }
    match schema["type"].as_str() {
        Some("string") => Extent::of(text(schema)),
        Some("array") => {
            let items = &schema["items"];
            let most = schema["maxItems"].as_u64().unwrap_or_else(|| CONTENT / (least(items) + 1));
            Extent { most, parts: Parts::Items(Box::new(extent(items, is_resource(items)))) }
        }
        Some("object") if schema["additionalProperties"].is_object() => {
            let values = &schema["additionalProperties"];
            let most = schema["maxProperties"].as_u64().unwrap_or_else(|| CONTENT / (least(values) + ENTRY));
            Extent { most, parts: Parts::Values(Box::new(extent(values, is_resource(values)))) }
        }
        Some("object") => Extent { most: 0, parts: Parts::Fields(fields(schema, resource)) },
        _ => Extent::default(),
    }
}

/// How often a value with this schema may occur where nothing bounds it.
pub(super) fn most_often(schema: &Value) -> u64 {
    REQUEST / (least(schema) + 1)
}

fn is_resource(schema: &Value) -> bool {
    schema["x-kubernetes-embedded-resource"] == true
}

fn fields(schema: &Value, resource: bool) -> BTreeMap<String, Extent> {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let mut fields: BTreeMap<_, _> = properties
        .filter_map(|(name, inner)| Some((escaped(name)?, extent(inner, is_resource(inner)))))
        .collect();
    if resource {
        let text = || Extent::of(CONTENT);
        let names = ["name", "generateName"].map(|name| (name.to_owned(), text()));
        let metadata = Extent { most: 0, parts: Parts::Fields(names.into()) };
        fields.extend([
            ("apiVersion".to_owned(), text()),
            ("kind".to_owned(), text()),
            ("metadata".to_owned(), metadata),
        ]);
    }
    fields
}

fn text(schema: &Value) -> u64 {
    let most = schema["maxLength"].as_u64();
    match (schema["format"].as_str(), most) {
        (Some("date-time" | "duration"), _) => 32,
        (Some("date"), _) => 12,
        (Some("byte"), most) => most.unwrap_or(CONTENT),
        (_, Some(most)) => most.saturating_mul(CHARACTER),
        _ => {
            let choices = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
            choices.map(|choice| choice.len() as u64).max().unwrap_or(CONTENT)
        }
    }
}

/// The fewest bytes that a value takes.
fn least(schema: &Value) -> u64 {
    if schema["x-kubernetes-int-or-string"] == true {
        return 1;
    }
    match schema["type"].as_str() {
        Some("boolean") => 4,
        Some("integer" | "number") => 1,
        Some("string") => match schema["format"].as_str() {
            Some("date-time") => 21,
            Some("date") => 12,
            Some("duration") => 3,
            _ => 2,
        },
        Some("object") if schema["additionalProperties"].is_object() => 2,
        Some("object") => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let properties = required.filter_map(|name| Some((name, schema["properties"].get(name)?)));
            properties
                .filter(|(_, inner)| inner.get("default").is_none())
                .map(|(name, inner)| name.len() as u64 + PROPERTY + least(inner))
                .fold(2, u64::saturating_add)
        }
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The numbers are those with which the real server multiplies.
    #[test]
    fn what_is_not_bounded_is_bounded_by_what_fits_into_a_request() {
        let most = |schema: Value| extent(&schema, false).most;
        let list = |items: Value| most(json!({ "type": "array", "items": items }));
        let map = |values: Value| most(json!({ "type": "object", "additionalProperties": values }));
        assert_eq!(most(json!({ "type": "string" })), 3_145_726);
        assert_eq!(most(json!({ "type": "string", "maxLength": 7 })), 28);
        assert_eq!(most(json!({ "type": "string", "maxLength": 7, "format": "byte" })), 7);
        assert_eq!(most(json!({ "type": "string", "enum": ["a", "bcd"] })), 3);
        assert_eq!(list(json!({ "type": "integer" })), 1_572_863);
        assert_eq!(list(json!({ "type": "boolean" })), 629_145);
        assert_eq!(list(json!({ "type": "string" })), 1_048_575);
        assert_eq!(map(json!({ "type": "integer" })), 449_389);
        assert_eq!(map(json!({ "type": "string" })), 393_215);
        let inner =
            json!({ "type": "object", "required": ["bb"], "properties": { "bb": { "type": "boolean" } } });
        let outer = json!({ "type": "object", "required": ["a"], "properties": { "a": inner } });
        assert_eq!(list(outer.clone()), 157_286);
        assert_eq!(most_often(&outer), 157_286);
        let filled = json!({ "type": "object", "required": ["a"], "properties": { "a": { "type": "integer", "default": 1 } } });
        assert_eq!(list(filled), 1_048_575);
    }
}
