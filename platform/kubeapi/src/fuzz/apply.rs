//! Server-side apply, by two managers, with updates in between.

use serde_json::{Map, Value, json};

use super::{Source, class, run};
use crate::catalogue::{Catalogue, Resource};
use crate::patch::managed_fields::track;
use crate::patch::{Patch, PatchKind, apply};
use crate::status::Failure;
use crate::types;

const NOW: &str = "2026-01-01T12:00:00Z";

fn configuration(source: &mut Source<'_>) -> Value {
    let message = types::of_kind("", "v1", "Pod").unwrap();
    let mut object = source.object(message, 0);
    object.remove("status");
    object.insert("apiVersion".to_owned(), json!("v1"));
    object.insert("kind".to_owned(), json!("Pod"));
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(metadata) = metadata {
        metadata.retain(|name, _| {
            matches!(name.as_str(), "labels" | "annotations" | "finalizers" | "ownerReferences")
        });
        metadata.insert("name".to_owned(), json!("x"));
    }
    Value::Object(object)
}

fn applied(
    resource: &Resource,
    current: Option<&Value>,
    manager: &str,
    force: bool,
    body: &[u8],
) -> Result<Value, Failure> {
    let now = NOW.parse().unwrap();
    let patch = Patch { kind: PatchKind::Apply, body, subresource: None, manager, name: "x", force, now };
    apply(resource, current, &patch)
}

#[test]
fn applying_the_same_again_changes_nothing_and_nothing_brings_it_down() {
    let catalogue = Catalogue::built_in(34);
    let resource = catalogue.find("", "v1", "pods").unwrap();
    run("apply", |mut source| {
        let mut object: Option<Value> = None;
        let mut outcomes = String::new();
        for _ in 0..=source.choice(4) {
            let manager = *source.one_of(&["ada", "bob"]);
            match source.choice(8) {
                0 => {
                    let result = applied(resource, object.as_ref(), manager, true, source.rest());
                    outcomes += &class(&format!("{:?}", result.err()));
                }
                1 => {
                    let Some(before) = object.clone() else { continue };
                    let mut after = configuration(&mut source);
                    after["metadata"]["managedFields"] = before["metadata"]["managedFields"].clone();
                    track(resource, None, Some(&before), &mut after, manager, NOW.parse().unwrap());
                    object = Some(after);
                    outcomes += "updated ";
                }
                choice => {
                    let force = choice > 3;
                    let body = configuration(&mut source).to_string();
                    match applied(resource, object.as_ref(), manager, force, body.as_bytes()) {
                        Ok(result) => {
                            let again = applied(resource, Some(&result), manager, false, body.as_bytes());
                            let again =
                                again.unwrap_or_else(|failure| panic!("{failure:?}: {body} on {result}"));
                            assert_eq!(again, result, "the same again: {body}");
                            object = Some(result);
                            outcomes += "applied ";
                        }
                        Err(failure) => {
                            let refused = format!("{failure:?}");
                            // Who insists has no conflicts.
                            assert!(!force || !refused.contains("FieldManagerConflict"), "{refused}");
                            outcomes += &class(&refused);
                        }
                    }
                }
            }
        }
        outcomes
    });
}
