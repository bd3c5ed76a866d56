//! Volumes and claims in one line.

use serde_json::{Value, json};

use super::{Heading, list, text};

pub(super) const CLAIM: &[Heading] = &[
    Heading::text("Name"),
    Heading::text("Status"),
    Heading::text("Volume"),
    Heading::text("Capacity"),
    Heading::text("Access Modes"),
    Heading::text("StorageClass"),
    Heading::text("VolumeAttributesClass"),
    Heading::text("Age"),
    Heading::wide("VolumeMode"),
];

pub(super) const VOLUME: &[Heading] = &[
    Heading::text("Name"),
    Heading::text("Capacity"),
    Heading::text("Access Modes"),
    Heading::text("Reclaim Policy"),
    Heading::text("Status"),
    Heading::text("Claim"),
    Heading::text("StorageClass"),
    Heading::text("VolumeAttributesClass"),
    Heading::text("Reason"),
    Heading::text("Age"),
    Heading::wide("VolumeMode"),
];

pub(super) const CLASS: &[Heading] = &[
    Heading::text("Name"),
    Heading::text("Provisioner"),
    Heading::text("ReclaimPolicy"),
    Heading::text("VolumeBindingMode"),
    Heading::text("AllowVolumeExpansion"),
    Heading::text("Age"),
];

pub(super) const DRIVER: &[Heading] = &[
    Heading::text("Name"),
    Heading::flag("AttachRequired"),
    Heading::flag("PodInfoOnMount"),
    Heading::flag("StorageCapacity"),
    Heading::text("TokenRequests"),
    Heading::flag("RequiresRepublish"),
    Heading::text("Modes"),
    Heading::text("Age"),
];

pub(super) const ATTACHMENT: &[Heading] = &[
    Heading::text("Name"),
    Heading::text("Attacher"),
    Heading::text("PV"),
    Heading::text("Node"),
    Heading::flag("Attached"),
    Heading::text("Age"),
];

pub(super) fn driver(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let spec = &object["spec"];
    let texts = |pointer: &str, key: &str| {
        let all: Vec<_> = list(object, pointer)
            .iter()
            .map(|one| if key.is_empty() { one.as_str().unwrap_or_default() } else { text(one, key) })
            .collect();
        all.join(",")
    };
    let tokens = texts("/spec/tokenRequests", "/audience");
    vec![
        name,
        json!(spec["attachRequired"] != false),
        json!(spec["podInfoOnMount"] == true),
        json!(spec["storageCapacity"] == true),
        json!(if tokens.is_empty() { "<unset>" } else { &tokens }),
        json!(spec["requiresRepublish"] == true),
        json!(texts("/spec/volumeLifecycleModes", "")),
        age,
    ]
}

pub(super) fn attachment(object: &Value, name: Value, age: Value) -> Vec<Value> {
    vec![
        name,
        json!(text(object, "/spec/attacher")),
        json!(text(object, "/spec/source/persistentVolumeName")),
        json!(text(object, "/spec/nodeName")),
        json!(object["status"]["attached"] == true),
        age,
    ]
}

pub(super) fn claim(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let phase = match object["metadata"]["deletionTimestamp"].is_string() {
        true => "Terminating",
        false => text(object, "/status/phase"),
    };
    let bound = !text(object, "/spec/volumeName").is_empty();
    vec![
        name,
        json!(phase),
        json!(text(object, "/spec/volumeName")),
        json!(if bound { text(object, "/status/capacity/storage") } else { "" }),
        json!(if bound { modes(object, "/status/accessModes") } else { String::new() }),
        json!(text(object, "/spec/storageClassName")),
        unset(object),
        age,
        json!(mode(object)),
    ]
}

pub(super) fn volume(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let phase = match object["metadata"]["deletionTimestamp"].is_string() {
        true => "Terminating",
        false => text(object, "/status/phase"),
    };
    let claim = match object["spec"]["claimRef"].is_object() {
        true => {
            format!("{}/{}", text(object, "/spec/claimRef/namespace"), text(object, "/spec/claimRef/name"))
        }
        false => String::new(),
    };
    vec![
        name,
        json!(text(object, "/spec/capacity/storage")),
        json!(modes(object, "/spec/accessModes")),
        json!(text(object, "/spec/persistentVolumeReclaimPolicy")),
        json!(phase),
        json!(claim),
        json!(text(object, "/spec/storageClassName")),
        unset(object),
        json!(text(object, "/status/reason")),
        age,
        json!(mode(object)),
    ]
}

pub(super) fn class(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let default =
        text(object, "/metadata/annotations/storageclass.kubernetes.io~1is-default-class") == "true";
    let shown = name.as_str().unwrap_or_default();
    vec![
        json!(if default { format!("{shown} (default)") } else { shown.to_owned() }),
        json!(text(object, "/provisioner")),
        json!(text(object, "/reclaimPolicy")),
        json!(text(object, "/volumeBindingMode")),
        json!(object["allowVolumeExpansion"] == true),
        age,
    ]
}

fn modes(object: &Value, pointer: &str) -> String {
    let short = |mode: &Value| match mode.as_str().unwrap_or_default() {
        "ReadWriteOnce" => "RWO".to_owned(),
        "ReadOnlyMany" => "ROX".to_owned(),
        "ReadWriteMany" => "RWX".to_owned(),
        "ReadWriteOncePod" => "RWOP".to_owned(),
        other => other.to_owned(),
    };
    list(object, pointer).iter().map(short).collect::<Vec<_>>().join(",")
}

fn mode(object: &Value) -> &str {
    match text(object, "/spec/volumeMode") {
        "" => "<unset>",
        mode => mode,
    }
}

fn unset(object: &Value) -> Value {
    match text(object, "/spec/volumeAttributesClassName") {
        "" => json!("<unset>"),
        class => json!(class),
    }
}
