//! What a schema says about the types that rules work with.

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_cel::{Field, Identity, ListType, ObjectType, Type};
use serde_json::{Value, json};

/// The type of a value with this schema, if rules may see it. At the root of an object its identity is visible whatever
/// the schema says.
pub(super) fn declared(schema: &Value, resource: bool) -> Option<Type> {
    if schema["x-kubernetes-int-or-string"] == true {
        return Some(Type::Dyn);
    }
    Some(match schema["type"].as_str()? {
        "boolean" => Type::Bool,
        "integer" => Type::Int,
        "number" => Type::Double,
        "string" => match schema["format"].as_str() {
            Some("byte") => Type::Bytes,
            Some("duration") => Type::Duration,
            Some("date" | "date-time") => Type::Timestamp,
            _ => Type::String,
        },
        "array" => {
            let item = declared(&schema["items"], schema["items"]["x-kubernetes-embedded-resource"] == true)?;
            let identity = match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => Identity::Value,
                Some("map") => Identity::Keys(
                    schema["x-kubernetes-list-map-keys"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .filter_map(|key| key.as_str().map(str::to_owned))
                        .collect(),
                ),
                _ => Identity::Place,
            };
            Type::List(Arc::new(ListType { item, identity }))
        }
        "object" if schema["additionalProperties"].is_object() => {
            let values = &schema["additionalProperties"];
            Type::map(Type::String, declared(values, values["x-kubernetes-embedded-resource"] == true)?)
        }
        "object" => object(schema, resource),
        _ => return None,
    })
}

fn object(schema: &Value, resource: bool) -> Type {
    let mut fields = BTreeMap::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let kind = declared(property, property["x-kubernetes-embedded-resource"] == true);
        if let (Some(kind), Some(escaped)) = (kind, escaped(name)) {
            fields.insert(escaped, Field { name: name.clone(), kind });
        }
    }
    if resource {
        for name in ["apiVersion", "kind"] {
            fields.insert(name.to_owned(), Field { name: name.to_owned(), kind: Type::String });
        }
        let names =
            json!({ "properties": { "name": { "type": "string" }, "generateName": { "type": "string" } } });
        fields.insert(
            "metadata".to_owned(),
            Field { name: "metadata".to_owned(), kind: object(&names, false) },
        );
    }
    Type::Object(Arc::new(ObjectType { name: "object".to_owned(), fields }))
}

/// The name of a property as rules write it. Nothing if they cannot.
pub(super) fn escaped(name: &str) -> Option<String> {
    const RESERVED: [&str; 21] = [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ];
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut made = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let word = match first {
            '_' if rest.starts_with("__") => {
                made.push_str("__underscores__");
                rest = &rest[2..];
                continue;
            }
            '.' => "__dot__",
            '-' => "__dash__",
            '/' => "__slash__",
            other if other.is_ascii_alphanumeric() || other == '_' => {
                made.push(other);
                rest = &rest[1..];
                continue;
            }
            _ => return None,
        };
        made.push_str(word);
        rest = &rest[1..];
    }
    Some(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_properties_are_escaped_as_rules_write_them() {
        for (name, expected) in [
            ("plain", Some("plain")),
            ("namespace", Some("__namespace__")),
            ("a-b", Some("a__dash__b")),
            ("a.b/c", Some("a__dot__b__slash__c")),
            ("a__b", Some("a__underscores__b")),
            ("a_b", Some("a_b")),
            ("$ref", None),
            ("1st", None),
        ] {
            assert_eq!(escaped(name).as_deref(), expected, "{name}");
        }
    }
}
