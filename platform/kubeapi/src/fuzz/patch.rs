//! JSON patch, merge patch, strategic merge patch.

use serde_json::{Map, Value, json};

use super::{Source, class, run};
use crate::catalogue::{Catalogue, Resource};
use crate::patch::{Patch, PatchKind, apply};
use crate::status::Failure;
use crate::types;

const POINTERS: &[&str] = &[
    "",
    "/",
    "/metadata",
    "/metadata/labels/a",
    "/spec",
    "/spec/containers",
    "/spec/containers/0",
    "/spec/containers/-",
    "/spec/containers/1/name",
    "/metadata/finalizers/0",
    "/spec/x",
    "/spec/tolerations/~0",
    "no",
];
/// Objects may grow by what a patch carries and by what it copies, which has a limit of its own.
const MOST_GROWTH: usize = 8 << 20;

fn patched(resource: &Resource, current: &Value, kind: PatchKind, body: &[u8]) -> Result<Value, Failure> {
    let now = "2026-01-01T12:00:00Z".parse().unwrap();
    let patch = Patch { kind, body, subresource: None, manager: "fuzz", name: "x", force: false, now };
    apply(resource, Some(current), &patch)
}

fn pod(source: &mut Source<'_>) -> Value {
    let message = types::of_kind("", "v1", "Pod").unwrap();
    Value::Object(source.object(message, 0))
}

fn outcome(kind: &str, result: &Result<Value, Failure>) -> String {
    match result {
        Ok(value) => format!("{kind} {}", value.to_string().len().ilog2()),
        Err(failure) => format!("{kind} {}", class(&format!("{failure:?}"))),
    }
}

fn operation(source: &mut Source<'_>) -> Value {
    let name = *source.one_of(&["add", "remove", "replace", "move", "copy", "test", "jump"]);
    let (path, from) = (*source.one_of(POINTERS), *source.one_of(POINTERS));
    let mut operation = json!({ "op": name, "path": path });
    if source.byte() < 240 {
        operation["value"] = source.json(3);
        operation["from"] = json!(from);
    }
    operation
}

/// What a merge patch has to say so that one object becomes the other. Neither has nulls.
fn merge_between(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else { return to.clone() };
    let mut patch = Map::new();
    for name in from.keys().filter(|name| !to.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in to {
        match from.get(name) {
            Some(before) if before == value => {}
            Some(before) => drop(patch.insert(name.clone(), merge_between(before, value))),
            None => drop(patch.insert(name.clone(), value.clone())),
        }
    }
    Value::Object(patch)
}

fn has_directives(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| name.starts_with('$') || value.is_null() || has_directives(value)),
        Value::Array(items) => items.iter().any(has_directives),
        _ => false,
    }
}

fn directives(source: &mut Source<'_>, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for value in fields.values_mut() {
                directives(source, value);
            }
            match source.choice(12) {
                0 => {
                    let what = *source.one_of(&["delete", "replace", "merge", "sink"]);
                    fields.insert("$patch".to_owned(), json!(what));
                }
                1 => drop(fields.insert("$retainKeys".to_owned(), source.json(4))),
                2 => {
                    let name = fields.keys().next().cloned().unwrap_or_default();
                    fields.insert(format!("$setElementOrder/{name}"), source.json(4));
                }
                3 => {
                    let name = fields.keys().next().cloned().unwrap_or_default();
                    fields.insert(format!("$deleteFromPrimitiveList/{name}"), source.json(4));
                }
                4 => {
                    let name = fields.keys().next_back().cloned().unwrap_or_default();
                    fields.insert(name, source.json(4));
                }
                _ => {}
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| directives(source, item)),
        _ => {}
    }
}

#[test]
fn patches_do_what_they_say_and_nothing_brings_them_down() {
    let catalogue = Catalogue::built_in(34);
    let resource = catalogue.find("", "v1", "pods").unwrap();
    run("patch", |mut source| {
        let (one, two) = (pod(&mut source), pod(&mut source));
        match source.choice(6) {
            0 => {
                let body = serde_json::to_vec(&json_patch::diff(&one, &two)).unwrap();
                assert_eq!(patched(resource, &one, PatchKind::Json, &body).unwrap(), two, "a JSON patch");
                "between".to_owned()
            }
            1 => {
                let body = merge_between(&one, &two).to_string();
                let result = patched(resource, &one, PatchKind::Merge, body.as_bytes()).unwrap();
                assert_eq!(result, two, "a merge patch: {body}");
                "merge between".to_owned()
            }
            2 => {
                let operations: Vec<_> = (0..=source.choice(32)).map(|_| operation(&mut source)).collect();
                let body = Value::from(operations).to_string();
                let result = patched(resource, &one, PatchKind::Json, body.as_bytes());
                if let Ok(result) = &result {
                    let (before, after) = (one.to_string().len(), result.to_string().len());
                    assert!(after <= before + MOST_GROWTH, "{before} bytes became {after}");
                }
                outcome("json", &result)
            }
            3 => {
                let body = two.to_string();
                let once = patched(resource, &one, PatchKind::Strategic, body.as_bytes());
                if let Ok(once) = &once
                    && !has_directives(&two)
                {
                    let again = patched(resource, once, PatchKind::Strategic, body.as_bytes()).unwrap();
                    assert_eq!(&again, once, "the same again: {body} on {one}");
                }
                outcome("strategic", &once)
            }
            4 => {
                let mut patch = two;
                directives(&mut source, &mut patch);
                outcome(
                    "directives",
                    &patched(resource, &one, PatchKind::Strategic, patch.to_string().as_bytes()),
                )
            }
            _ => {
                let kind = *source.one_of(&PatchKind::ALL);
                outcome("bytes", &patched(resource, &one, kind, source.rest()))
            }
        }
    });
}
