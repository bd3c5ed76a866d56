//! What all objects share: identity, times, generation, labels, owners.

use serde_json::{Value, json};

use super::{Context, ensure_object, items, names, remove, text, timestamp};
use crate::catalogue::Resource;
use crate::status::Cause;

/// Fields only the server writes.
const SERVER_OWNED: &[&str] = &[
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
];
/// Labels and annotations together may be this long.
const MOST_ANNOTATIONS: usize = 256 * 1024;

pub(super) fn for_create(resource: &Resource, object: &mut Value, context: &Context) {
    object["apiVersion"] = json!(resource.api_version());
    object["kind"] = json!(resource.kind);
    let metadata = &mut object["metadata"];
    ensure_object(metadata);
    // Of most kinds nobody counts the generations, so they may as well be the client's.
    for key in SERVER_OWNED.iter().filter(|key| **key != "generation" || counts_generations(resource)) {
        remove(metadata, key);
    }
    drop_empty(metadata);
    metadata["uid"] = json!(context.uid.to_string());
    metadata["creationTimestamp"] = json!(timestamp(context.now));
    if !resource.namespaced {
        remove(metadata, "namespace");
    }
    if counts_generations(resource) {
        metadata["generation"] = json!(1);
    }
}

pub(super) fn for_update(resource: &Resource, old: &Value, new: &mut Value) {
    new["apiVersion"] = json!(resource.api_version());
    new["kind"] = json!(resource.kind);
    let (before, metadata) = (&old["metadata"], &mut new["metadata"]);
    ensure_object(metadata);
    drop_empty(metadata);
    for key in SERVER_OWNED.iter().chain(&["name", "namespace", "generateName"]) {
        match before.get(key) {
            Some(value) => metadata[*key] = value.clone(),
            None => remove(metadata, key),
        }
    }
}

/// One more whenever what was asked for changed. Status and metadata do not count.
pub(super) fn count_generation(resource: &Resource, old: &Value, new: &mut Value) {
    if !counts_generations(resource) {
        return;
    }
    let counted = |name: &str| {
        !(matches!(name, "apiVersion" | "kind" | "metadata")
            || (name == "status" && resource.status_subresource))
    };
    let fields = |object: &Value| -> Vec<(String, Value)> {
        let fields = object.as_object().into_iter().flatten();
        fields.filter(|(name, _)| counted(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    if fields(old) != fields(new) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default() + 1;
        new["metadata"]["generation"] = json!(generation);
    }
}

fn counts_generations(resource: &Resource) -> bool {
    resource.custom
        || matches!(
            (resource.group.as_ref(), resource.plural.as_ref()),
            ("", "pods")
                | ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
                | ("", "replicationcontrollers")
                | ("batch" | "policy" | "apiextensions.k8s.io" | "admissionregistration.k8s.io", _)
                | ("flowcontrol.apiserver.k8s.io", _)
                | ("networking.k8s.io", "ingresses" | "ingressclasses" | "networkpolicies")
                | ("discovery.k8s.io", "endpointslices")
                | ("scheduling.k8s.io", _)
        )
}

/// Empty and null maps and lists are left out, as typed clients leave them out.
fn drop_empty(metadata: &mut Value) {
    let Some(map) = metadata.as_object_mut() else { return };
    map.retain(|key, value| match value {
        Value::Null => false,
        // An empty list of managed fields is a request to forget them.
        Value::Array(items) => !items.is_empty() || key == "managedFields",
        Value::Object(fields) => !fields.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    });
}

pub(super) fn validate(resource: &Resource, old: Option<&Value>, new: &Value) -> Vec<Cause> {
    let metadata = &new["metadata"];
    let mut causes = Vec::new();
    match (text(metadata, "/name"), text(metadata, "/generateName")) {
        ("", "") => causes.push(Cause::required("metadata.name", "name or generateName is required")),
        ("", _) => {}
        (name, _) if old.is_none() => {
            if let Some(why) = names::problem(resource, name) {
                causes.push(Cause::invalid("metadata.name", &json!(name), why));
            }
        }
        _ => {}
    }
    if resource.namespaced && text(metadata, "/namespace").is_empty() {
        causes.push(Cause::required("metadata.namespace", ""));
    }
    labels(&metadata["labels"], "metadata.labels", &mut causes);
    annotations(&metadata["annotations"], &mut causes);
    owners(metadata, &mut causes);
    finalizers(old, metadata, &mut causes);
    causes
}

/// Also used for the labels of templates.
pub(super) fn labels(labels: &Value, path: &str, causes: &mut Vec<Cause>) {
    match labels {
        Value::Null => {}
        Value::Object(labels) => {
            for (key, value) in labels {
                if let Some(why) = names::label_key_problem(key) {
                    causes.push(Cause::invalid(path, &json!(key), why));
                }
                match value.as_str() {
                    Some(text) => {
                        if let Some(why) = names::label_value_problem(text) {
                            causes.push(Cause::invalid(path, value, why));
                        }
                    }
                    None => {
                        causes.push(Cause::wrong_type(format!("{path}.{key}"), value, "must be a string"))
                    }
                }
            }
        }
        other => causes.push(Cause::wrong_type(path, other, "must be a map of strings")),
    }
}

fn annotations(annotations: &Value, causes: &mut Vec<Cause>) {
    const PATH: &str = "metadata.annotations";
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        if let Some(why) = names::label_key_problem(&key.to_ascii_lowercase()) {
            causes.push(Cause::invalid(PATH, &json!(key), why));
        }
        match value.as_str() {
            Some(text) => size += key.len() + text.len(),
            None => causes.push(Cause::wrong_type(format!("{PATH}.{key}"), value, "must be a string")),
        }
    }
    if size > MOST_ANNOTATIONS {
        causes.push(Cause::too_long(PATH, MOST_ANNOTATIONS as u64));
    }
}

fn owners(metadata: &Value, causes: &mut Vec<Cause>) {
    const PATH: &str = "metadata.ownerReferences";
    let owners = items(metadata, "/ownerReferences");
    let mut controller: Option<&Value> = None;
    for owner in owners {
        for key in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, &format!("/{key}")).is_empty() {
                let why = if key == "apiVersion" { "version must not be empty" } else { "must not be empty" };
                causes.push(Cause::invalid(format!("{PATH}.{key}"), &json!(""), why));
            }
        }
        if owner["controller"] != true {
            continue;
        }
        let called = |owner: &Value| format!("{}/{}", text(owner, "/kind"), text(owner, "/name"));
        match controller {
            None => controller = Some(owner),
            Some(first) => {
                let why = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
                    called(first),
                    called(owner)
                );
                let all: Vec<_> = owners.iter().map(written_out).collect();
                let message = format!("Invalid value: [{}]: {why}", all.join(","));
                causes.push(Cause::new("FieldValueInvalid", message, PATH));
            }
        }
    }
}

/// A reference in the order of its type.
fn written_out(owner: &Value) -> String {
    let keys = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let fields: Vec<_> =
        keys.iter().filter_map(|key| Some(format!("\"{key}\":{}", owner.get(key)?))).collect();
    format!("{{{}}}", fields.join(","))
}

/// An owner that is named twice is one owner. What the client is told about it.
pub(super) fn one_of_each_owner(metadata: &mut Value) -> Option<String> {
    let owners = metadata.get_mut("ownerReferences")?.as_array_mut()?;
    let mut seen: Vec<String> = Vec::new();
    let mut again: Vec<String> = Vec::new();
    owners.retain(|owner| {
        let uid = text(owner, "/uid").to_owned();
        let first = !seen.contains(&uid);
        if first { &mut seen } else { &mut again }.push(uid);
        first
    });
    (!again.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may \
             reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            again.join(", ")
        )
    })
}

fn finalizers(old: Option<&Value>, metadata: &Value, causes: &mut Vec<Cause>) {
    let finalizers = items(metadata, "/finalizers");
    for (place, finalizer) in finalizers.iter().enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        let path = format!("metadata.finalizers[{place}]");
        let standard = matches!(name, "orphan" | "foregroundDeletion" | "kubernetes");
        match names::label_key_problem(name) {
            _ if standard => {}
            Some(why) => causes.push(Cause::invalid(path, finalizer, why)),
            None if !name.contains('/') => {
                let why = "name is neither a standard finalizer name nor is it fully qualified";
                causes.push(Cause::invalid(path, finalizer, why));
            }
            None => {}
        }
    }
    if ["orphan", "foregroundDeletion"].iter().all(|one| finalizers.iter().any(|finalizer| finalizer == one))
    {
        causes.push(Cause::invalid(
            "metadata.finalizers",
            &metadata["finalizers"],
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
    let Some(old) = old.filter(|old| old["metadata"]["deletionTimestamp"].is_string()) else { return };
    let before = items(old, "/metadata/finalizers");
    let added: Vec<_> = finalizers.iter().filter(|one| !before.contains(one)).cloned().collect();
    // The real server looks twice, and says so twice.
    for _ in (0..2).filter(|_| !added.is_empty()) {
        let added: Vec<_> = added.iter().map(Value::to_string).collect();
        causes.push(Cause::forbidden(
            "metadata.finalizers",
            &format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            ),
        ));
    }
}
