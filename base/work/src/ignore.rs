//! Fields of a manifest that others in the cluster may have the say in: pure.
//!
//! With server-side apply a work can leave fields to others, for example the number of replicas to whoever scales: as
//! soon as the object is there (`OnSpokePresent`), or as soon as somebody has changed them (`OnSpokeChange`). A new
//! version of the manifest takes the latter back.
//!
//! Leaving a field out of what is applied takes it away from the object if nobody else owns it. So it is left out only if
//! somebody does; otherwise what is applied says what is there anyway.

use kube::core::DynamicObject;
use pilothouse_crds::ServerSideApply;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::digest::sha256_hex;
use crate::path::{Path, Place};

/// Says in the object which manifest was applied, so that whoever comes later can tell whether it has changed.
pub(crate) const HASH: &str = "open-cluster-management.io/config-spec-hash";

/// Which fields are left to others.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Ignored {
    /// As soon as the object is there.
    present: Vec<Path>,
    /// As soon as somebody changes them.
    changed: Vec<Path>,
}

/// As a work writes it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default)]
    condition: String,
    #[serde(default)]
    json_paths: Vec<String>,
    #[serde(default)]
    json_pointers: Vec<String>,
    #[serde(default)]
    jq_path_expressions: Vec<String>,
}

impl Ignored {
    /// What an update strategy says; otherwise what is wrong with it.
    pub(crate) fn of(options: &ServerSideApply) -> Result<Self, String> {
        let Some(entries) = options.other.get("ignoreFields").filter(|entries| !entries.is_null()) else {
            return Ok(Self::default());
        };
        let entries: Vec<Entry> = serde_json::from_value(entries.clone())
            .map_err(|error| format!("ignoreFields cannot be read: {error}"))?;
        let mut ignored = Self::default();
        for entry in entries {
            let list = match entry.condition.as_str() {
                "OnSpokePresent" => &mut ignored.present,
                "OnSpokeChange" => &mut ignored.changed,
                other => return Err(format!("ignoreFields knows no condition `{other}`")),
            };
            for path in &entry.json_paths {
                list.push(path.parse().map_err(|error| format!("ignoreFields: {error}"))?);
            }
            list.extend(entry.json_pointers.iter().map(|pointer| Path::of_pointer(pointer)));
            for path in &entry.jq_path_expressions {
                // Of jq's language only the part that is paths; anything is `[]` there.
                let path = path.replace("[]", "[*]");
                list.push(path.parse().map_err(|error| format!("ignoreFields: {error}"))?);
            }
        }
        Ok(ignored)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.present.is_empty() && self.changed.is_empty()
    }

    /// Names a manifest; what is left to others from the beginning does not matter.
    pub(crate) fn hash(&self, manifest: &Value) -> String {
        let mut named = manifest.clone();
        for place in places(&self.present, manifest) {
            place.remove(&mut named);
        }
        sha256_hex(named.to_string().as_bytes())
    }

    /// The manifest without anything that is left to others: what an object has to be compared with.
    pub(crate) fn compared(&self, manifest: &Value) -> Value {
        let mut compared = manifest.clone();
        for place in places(&self.present, manifest).into_iter().chain(places(&self.changed, manifest)) {
            place.remove(&mut compared);
        }
        compared
    }

    /// What is to be applied in the name of `manager`, with `live` being there.
    pub(crate) fn applied(&self, manifest: &Value, live: Option<&DynamicObject>, manager: &str) -> Value {
        let hash = self.hash(manifest);
        let mut applied = manifest.clone();
        if let Some(live) = live {
            let present = serde_json::to_value(live).unwrap_or_default();
            let is_new =
                live.metadata.annotations.as_ref().is_none_or(|known| known.get(HASH) != Some(&hash));
            for place in places(&self.present, manifest) {
                leave(&mut applied, &place, live, &present, manager);
            }
            let changed = if is_new { Vec::new() } else { places(&self.changed, manifest) };
            for place in changed.into_iter().filter(|place| place.find(&present) != place.find(manifest)) {
                leave(&mut applied, &place, live, &present, manager);
            }
        }
        if let Some(metadata) = applied.get_mut("metadata").and_then(Value::as_object_mut) {
            let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.insert(HASH.to_owned(), Value::String(hash));
            }
        }
        applied
    }
}

fn places(paths: &[Path], manifest: &Value) -> Vec<Place> {
    let mut places: Vec<_> = paths.iter().flat_map(|path| path.places(manifest)).collect();
    // From the end: what is taken out of a list moves what follows.
    places.sort();
    places.dedup();
    places.reverse();
    places
}

fn leave(applied: &mut Value, place: &Place, live: &DynamicObject, present: &Value, manager: &str) {
    match place.find(present) {
        Some(value) if !is_owned_by_others(live, place, manager) => place.set(applied, value.clone()),
        _ => place.remove(applied),
    }
}

/// Whether somebody else than `manager` owns a field. Of what is in lists nobody can tell by its place.
fn is_owned_by_others(live: &DynamicObject, place: &Place, manager: &str) -> bool {
    let Some(names) = place.names() else { return false };
    let others = live.metadata.managed_fields.iter().flatten();
    let mut others = others.filter(|entry| entry.manager.as_deref() != Some(manager));
    others.any(|entry| {
        let mut fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        for name in &names {
            fields = fields.and_then(|fields| fields.get(format!("f:{name}")));
        }
        fields.is_some()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ignored(entries: Value) -> Result<Ignored, String> {
        let options = json!({"force": true, "ignoreFields": entries});
        Ignored::of(&serde_json::from_value(options).unwrap())
    }

    fn live(manifest: Value, owner: &str, hash: &str) -> DynamicObject {
        let mut live = manifest;
        live["metadata"]["annotations"][HASH] = json!(hash);
        live["metadata"]["managedFields"] =
            json!([{"manager": owner, "operation": "Update", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
        serde_json::from_value(live).unwrap()
    }

    fn manifest(replicas: u32) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
            "spec": {"replicas": replicas, "paused": false}})
    }

    #[test]
    fn what_is_left_to_others_from_the_beginning_is_made_and_then_left_alone() {
        let rule =
            ignored(json!([{"condition": "OnSpokePresent", "jsonPaths": [".spec.replicas"]}])).unwrap();
        let made = rule.applied(&manifest(2), None, "work-agent");
        assert_eq!(made["spec"]["replicas"], 2);
        let hash = made["metadata"]["annotations"][HASH].as_str().unwrap().to_owned();
        assert_eq!(rule.hash(&manifest(7)), hash, "another value of it is no other manifest");
        let scaled = live(manifest(5), "scaler", &hash);
        let applied = rule.applied(&manifest(2), Some(&scaled), "work-agent");
        assert_eq!(applied["spec"], json!({"paused": false}), "its owner keeps it");
        let ours = live(manifest(2), "work-agent", &hash);
        let applied = rule.applied(&manifest(3), Some(&ours), "work-agent");
        assert_eq!(applied["spec"]["replicas"], 2, "without it, it would be taken away");
        assert_eq!(rule.compared(&manifest(2))["spec"], json!({"paused": false}));
    }

    #[test]
    fn what_others_change_is_left_to_them_until_the_manifest_changes() {
        let rule =
            ignored(json!([{"condition": "OnSpokeChange", "jsonPointers": ["/spec/replicas"]}])).unwrap();
        let hash = rule.hash(&manifest(2));
        let scaled = live(manifest(5), "scaler", &hash);
        let applied = rule.applied(&manifest(2), Some(&scaled), "work-agent");
        assert_eq!(applied["spec"], json!({"paused": false}));
        let untouched = live(manifest(2), "work-agent", &hash);
        assert_eq!(rule.applied(&manifest(2), Some(&untouched), "work-agent")["spec"]["replicas"], 2);
        assert_ne!(rule.hash(&manifest(3)), hash);
        assert_eq!(rule.applied(&manifest(3), Some(&scaled), "work-agent")["spec"]["replicas"], 3);
    }

    #[test]
    fn elements_of_lists_can_be_meant_too() {
        let paths = json!([".spec.containers[*].image", ".spec.list[0]"]);
        let rule = ignored(json!([{"condition": "OnSpokePresent", "jqPathExpressions": paths}])).unwrap();
        let manifest = json!({"metadata": {"name": "p"},
            "spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b"}], "list": [1, 2]}});
        let compared = rule.compared(&manifest);
        assert_eq!(compared["spec"], json!({"containers": [{"name": "a"}, {"name": "b"}], "list": [2]}));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for odd in [
            json!("text"),
            json!([{"condition": "Always", "jsonPaths": [".a"]}]),
            json!([{"condition": "OnSpokeChange", "jsonPaths": ["a["]}]),
            json!([{"condition": "OnSpokeChange", "jqPathExpressions": [".a | keys"]}]),
        ] {
            let problem = ignored(odd.clone()).unwrap_err();
            assert!(problem.contains("ignoreFields"), "{odd}: {problem}");
        }
        assert!(ignored(Value::Null).unwrap().is_empty());
    }
}
