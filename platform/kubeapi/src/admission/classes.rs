//! What an object gets from the class it names, or from the one that is meant for all that name none.

use pilothouse_cel::Quantity;
use serde_json::{Value, json};

use super::{items, text};
use crate::catalogue::Resource;
use crate::status::Failure;
use crate::storage::Cache;

const STORAGE: &str = "storageclasses.storage.k8s.io";
const STORAGE_DEFAULTS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// How a claim named its class before there was a field for it.
const STORAGE_NAME: &str = "volume.beta.kubernetes.io/storage-class";
const INGRESS: &str = "ingressclasses.networking.k8s.io";
const INGRESS_DEFAULTS: [&str; 1] = ["ingressclass.kubernetes.io/is-default-class"];
const INGRESS_NAME: &str = "kubernetes.io/ingress.class";

/// A claim that names no class gets the default one, if there is one.
pub(super) fn of_claim(cache: &Cache, claim: &mut Value) {
    let named = !claim["spec"]["storageClassName"].is_null();
    if named || !claim["metadata"]["annotations"][STORAGE_NAME].is_null() {
        return;
    }
    if let Some(class) = default(cache, STORAGE, &STORAGE_DEFAULTS) {
        claim["spec"]["storageClassName"] = json!(class);
    }
}

/// The same for an ingress.
pub(super) fn of_ingress(cache: &Cache, ingress: &mut Value) {
    let named = !ingress["spec"]["ingressClassName"].is_null();
    if named || !ingress["metadata"]["annotations"][INGRESS_NAME].is_null() {
        return;
    }
    if let Some(class) = default(cache, INGRESS, &INGRESS_DEFAULTS) {
        ingress["spec"]["ingressClassName"] = json!(class);
    }
}

/// A claim grows only if its class lets it.
pub(super) fn growth(cache: &Cache, old: &Value, new: &Value) -> Result<(), &'static str> {
    let size = |claim: &Value| Quantity::parse(text(claim, "/spec/resources/requests/storage")).ok();
    let grows = size(new).zip(size(old)).is_some_and(|(after, before)| after.exceeds(before));
    if !grows {
        return Ok(());
    }
    let class = text(new, "/spec/storageClassName");
    let class = cache.get(&format!("{STORAGE}//{class}"));
    let class = class.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok()).unwrap_or_default();
    match class["allowVolumeExpansion"] == true {
        true => Ok(()),
        false => Err(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
                      support resize",
        ),
    }
}

/// The class that says it is the default; the newest, should there be several.
fn default(cache: &Cache, collection: &str, annotations: &[&str]) -> Option<String> {
    let snapshot = cache.snapshot(&format!("{collection}/"));
    let classes =
        snapshot.objects.iter().filter_map(|(_, bytes)| serde_json::from_slice::<Value>(bytes).ok());
    newest(classes, annotations)
}

fn newest(classes: impl Iterator<Item = Value>, annotations: &[&str]) -> Option<String> {
    let is_default = |class: &Value| {
        annotations.iter().any(|annotation| class["metadata"]["annotations"][annotation] == "true")
    };
    let mut defaults: Vec<_> = classes.filter(is_default).collect();
    // Times of one length compare as text does.
    defaults.sort_by(|left, right| {
        let made = |class: &Value| text(class, "/metadata/creationTimestamp").to_owned();
        let name = |class: &Value| text(class, "/metadata/name").to_owned();
        made(right).cmp(&made(left)).then_with(|| name(left).cmp(&name(right)))
    });
    defaults.first().map(|class| text(class, "/metadata/name").to_owned())
}

/// What it takes to run a pod in a certain way, and where that is possible.
pub(super) fn of_runtime(cache: &Cache, resource: &Resource, pod: &mut Value) -> Result<(), Failure> {
    let name = text(pod, "/metadata/name").to_owned();
    let refused = |why: String| Err(Failure::forbidden(resource, &name, why));
    let class = match text(pod, "/spec/runtimeClassName") {
        "" => None,
        wanted => {
            let found = cache.get(&format!("runtimeclasses.node.k8s.io//{wanted}"));
            match found.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok()) {
                Some(class) => Some(class),
                None => return refused(format!("pod rejected: RuntimeClass {wanted:?} not found")),
            }
        }
    };
    let given = pod["spec"]["overhead"].as_object().is_some_and(|overhead| !overhead.is_empty());
    let overhead = class.as_ref().map(|class| class["overhead"]["podFixed"].clone()).unwrap_or_default();
    match class {
        None if given => {
            return refused(
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                    .to_owned(),
            );
        }
        None => return Ok(()),
        Some(_) if given && pod["spec"]["overhead"] != overhead => {
            return refused(
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned(),
            );
        }
        Some(_) => {}
    }
    if !overhead.is_null() {
        pod["spec"]["overhead"] = overhead;
    }
    let scheduling = class.map(|class| class["scheduling"].clone()).unwrap_or_default();
    match scheduled(&mut pod["spec"], &scheduling) {
        Ok(()) => Ok(()),
        Err(why) => refused(why),
    }
}

/// Joins where a class can run with where a pod wants to.
fn scheduled(spec: &mut Value, scheduling: &Value) -> Result<(), String> {
    for (label, value) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
        let (wanted, own) = (value.as_str().unwrap_or_default(), &spec["nodeSelector"][label]);
        match own.as_str() {
            Some(own) if own != wanted => {
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{label}] = {wanted}; pod.spec.nodeSelector[{label}] = {own}"
                ));
            }
            _ => {
                if !spec["nodeSelector"].is_object() {
                    spec["nodeSelector"] = json!({});
                }
                spec["nodeSelector"][label] = value.clone();
            }
        }
    }
    let own = items(spec, "/tolerations");
    let missing: Vec<_> =
        items(scheduling, "/tolerations").iter().filter(|one| !own.contains(one)).cloned().collect();
    if !missing.is_empty() {
        spec["tolerations"] = json!([own, &missing].concat());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_defaults_the_newest_is_meant() {
        let class = |name: &str, made: &str, default: &str| json!({ "metadata": { "name": name, "creationTimestamp": made, "annotations": { INGRESS_DEFAULTS[0]: default } } });
        let classes = [
            class("old", "2026-01-01T00:00:00Z", "true"),
            class("new", "2026-01-03T00:00:00Z", "true"),
            class("also", "2026-01-03T00:00:00Z", "true"),
            class("newest", "2026-01-04T00:00:00Z", "false"),
        ];
        assert_eq!(newest(classes.into_iter(), &INGRESS_DEFAULTS).as_deref(), Some("also"));
        assert_eq!(newest(std::iter::empty(), &INGRESS_DEFAULTS), None);
    }

    #[test]
    fn where_a_class_can_run_is_joined_with_where_a_pod_wants_to() {
        let scheduling =
            json!({ "nodeSelector": { "a": "b" }, "tolerations": [{ "key": "k", "operator": "Exists" }] });
        let mut spec = json!({ "nodeSelector": { "c": "d" }, "tolerations": [{ "key": "x" }] });
        scheduled(&mut spec, &scheduling).unwrap();
        assert_eq!(spec["nodeSelector"], json!({ "a": "b", "c": "d" }));
        assert_eq!(items(&spec, "/tolerations").len(), 2);
        let mut spec = json!({ "nodeSelector": { "a": "z" } });
        let why = "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = z";
        assert_eq!(scheduled(&mut spec, &scheduling), Err(why.to_owned()));
    }
}
