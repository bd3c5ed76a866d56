//! Volumes, claims and storage classes.

use serde_json::{Value, json};

use super::{ensure_object, fill, immutable, items, keep, text};
use crate::status::Cause;

pub(super) fn claim_defaults(object: &mut Value) {
    ensure_object(&mut object["spec"]);
    fill(&mut object["spec"], "volumeMode", json!("Filesystem"));
}

pub(super) fn volume_defaults(object: &mut Value) {
    let spec = &mut object["spec"];
    ensure_object(spec);
    fill(spec, "volumeMode", json!("Filesystem"));
    fill(spec, "persistentVolumeReclaimPolicy", json!("Retain"));
    if spec["hostPath"].is_object() {
        fill(&mut spec["hostPath"], "type", json!(""));
    }
}

pub(super) fn class_defaults(object: &mut Value) {
    fill(object, "reclaimPolicy", json!("Delete"));
    fill(object, "volumeBindingMode", json!("Immediate"));
}

pub(super) fn validate_claim(old: Option<&Value>, new: &Value) -> Vec<Cause> {
    let spec = &new["spec"];
    let mut causes = Vec::new();
    if items(spec, "/accessModes").is_empty() {
        causes.push(Cause::required("spec.accessModes", "at least 1 access mode is required"));
    }
    if spec.pointer("/resources/requests/storage").is_none() {
        causes.push(Cause::required("spec.resources[storage]", ""));
    }
    let Some(old) = old else { return causes };
    let mut comparable = spec.clone();
    // A claim is bound once, and may ask for more later.
    if text(old, "/spec/volumeName").is_empty() {
        keep(&old["spec"], &mut comparable, "volumeName");
    }
    if old["spec"]["storageClassName"].is_null() {
        keep(&old["spec"], &mut comparable, "storageClassName");
    }
    keep(&old["spec"], &mut comparable, "resources");
    keep(&old["spec"], &mut comparable, "volumeAttributesClassName");
    if comparable != old["spec"] {
        causes.push(Cause::forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ));
    }
    causes
}

pub(super) fn validate_volume(old: Option<&Value>, new: &Value) -> Vec<Cause> {
    const SOURCES: [&str; 4] = ["hostPath", "local", "nfs", "csi"];
    let spec = &new["spec"];
    let mut causes = Vec::new();
    if items(spec, "/accessModes").is_empty() {
        causes.push(Cause::required("spec.accessModes", ""));
    }
    if spec.pointer("/capacity/storage").is_none() {
        causes.push(Cause::required("spec.capacity", ""));
    }
    if !SOURCES.iter().any(|source| spec[*source].is_object()) {
        causes.push(Cause::required("spec", "must specify a volume type"));
    }
    let changed = |old: &Value| SOURCES.iter().any(|source| old["spec"][*source] != spec[*source]);
    if old.is_some_and(changed) {
        causes.push(Cause::forbidden(
            "spec.persistentvolumesource",
            "spec.persistentvolumesource is immutable after creation",
        ));
    }
    causes
}

pub(super) fn validate_class(old: Option<&Value>, new: &Value) -> Vec<Cause> {
    let mut causes = immutable(old, new, &["volumeBindingMode"]);
    for field in ["parameters", "provisioner", "reclaimPolicy"] {
        if old.is_some_and(|old| old[field] != new[field]) {
            causes.push(Cause::forbidden(field, &format!("updates to {field} are forbidden.")));
        }
    }
    if text(new, "/provisioner").is_empty() {
        causes.push(Cause::required("provisioner", ""));
    }
    causes
}

/// What a driver is unless it says otherwise.
pub(super) fn driver_defaults(object: &mut Value) {
    let spec = &mut object["spec"];
    ensure_object(spec);
    for (name, value) in [
        ("attachRequired", json!(true)),
        ("podInfoOnMount", json!(false)),
        ("storageCapacity", json!(false)),
        ("fsGroupPolicy", json!("ReadWriteOnceWithFSType")),
        ("volumeLifecycleModes", json!(["Persistent"])),
        ("requiresRepublish", json!(false)),
        ("seLinuxMount", json!(false)),
    ] {
        fill(spec, name, value);
    }
}
