//! Schemas of custom resources, as somebody may write them, and objects for them.

use serde_json::{Map, Value, json};

use super::{Source, class, run};
use crate::schema::Structural;

const NAMES: &[&str] = &["a", "b", "spec", "name", "kind", "metadata"];
const DEEPEST: usize = 4;

fn schema(source: &mut Source<'_>, depth: usize) -> Value {
    // Now and then something that is no schema.
    if source.choice(24) == 0 {
        return source.json(depth);
    }
    let mut node = Map::new();
    let sorts = ["object", "array", "string", "integer", "number", "boolean", "ship"];
    let sort = if depth >= DEEPEST { *source.one_of(&sorts[2..6]) } else { *source.one_of(&sorts) };
    node.insert("type".to_owned(), json!(sort));
    match sort {
        "object" if source.flag() => {
            let properties: Map<_, _> = (0..=source.count())
                .map(|_| ((*source.one_of(NAMES)).to_owned(), schema(source, depth + 1)))
                .collect();
            node.insert("properties".to_owned(), properties.into());
        }
        "object" => drop(node.insert("additionalProperties".to_owned(), schema(source, depth + 1))),
        "array" => drop(node.insert("items".to_owned(), schema(source, depth + 1))),
        _ => {}
    }
    for _ in 0..source.choice(4) {
        let extras = [
            "default",
            "enum",
            "minimum",
            "maximum",
            "pattern",
            "format",
            "required",
            "nullable",
            "maxItems",
            "minLength",
            "maxLength",
            "multipleOf",
            "uniqueItems",
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-list-type",
            "x-kubernetes-list-map-keys",
            "x-kubernetes-map-type",
            "x-kubernetes-int-or-string",
            "x-kubernetes-embedded-resource",
            "oneOf",
            "anyOf",
            "allOf",
            "not",
            "maxProperties",
        ];
        let name = *source.one_of(&extras);
        let value = match name {
            "pattern" => json!(*source.one_of(&["^a*$", "(", "[a-z]+", "(a+)+$", "\\d{1,3}"])),
            "format" => json!(*source.one_of(&["date-time", "int32", "byte", "ipv4", "uuid", "nothing"])),
            "x-kubernetes-list-type" => json!(*source.one_of(&["map", "set", "atomic"])),
            "x-kubernetes-list-map-keys" | "required" => json!([*source.one_of(NAMES)]),
            "oneOf" | "anyOf" | "allOf" => json!([schema(source, depth + 1), schema(source, depth + 1)]),
            "not" => schema(source, depth + 1),
            "minimum" | "maximum" | "maxItems" | "minLength" | "maxLength" | "multipleOf"
            | "maxProperties" => {
                json!(i64::from(source.byte()) - 3)
            }
            _ if source.flag() => json!(true),
            _ => source.json(depth + 2),
        };
        node.insert(name.to_owned(), value);
    }
    Value::Object(node)
}

#[test]
fn pruning_and_defaults_come_to_rest_and_nothing_brings_them_down() {
    run("schema", |mut source| {
        let text = schema(&mut source, 0);
        let problems = Structural::problems(&text, "schema");
        let structural = Structural::parse(&text);
        let mut object = json!({
            "apiVersion": "v1", "kind": "K", "metadata": { "name": "x" }, "spec": source.json(0), "a": source.json(0),
        });
        let old = object.clone();
        let dropped = structural.prune(&mut object);
        let pruned = object.clone();
        assert!(structural.prune(&mut object).is_empty(), "{text}: {pruned}");
        assert_eq!(object, pruned, "{text}");
        // Only what was accepted is ever used for defaults.
        if problems.is_empty() {
            structural.default(&mut object);
            let defaulted = object.clone();
            structural.default(&mut object);
            assert_eq!(object, defaulted, "{text}");
        }
        let causes = structural.validate(&object, Some(&old));
        let first = |causes: &[crate::status::Cause]| causes.first().map(|cause| class(&cause.message));
        format!("{:?} {} {:?}", first(&problems), dropped.len().min(3), first(&causes))
    });
}
