//! Pods that a node runs by itself, and that the API only shows.

use serde_json::Value;

use super::super::{items, text};
use crate::storage::Cache;

const MIRROR: &str = "kubernetes.io/config.mirror";

/// A pod that runs on the node anyhow, shown to everybody: it may have nothing of anybody else's.
pub(super) fn admit(cache: &Cache, node: &str, pod: &Value) -> Result<(), String> {
    if pod["metadata"]["annotations"][MIRROR].is_null() {
        return Err(format!(
            "pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods"
        ));
    }
    if text(pod, "/spec/nodeName") != node {
        return Err(format!("node {node:?} can only create pods with spec.nodeName set to itself"));
    }
    let can_not = |why: &str| Err(format!("node {node:?} can only create pods with {why} set to itself"));
    let owner = match items(pod, "/metadata/ownerReferences") {
        [owner] => owner,
        [] => return can_not("an owner reference"),
        _ => return can_not("a single owner reference"),
    };
    if owner["apiVersion"] != "v1" || owner["kind"] != "Node" || owner["name"] != node {
        return can_not("an owner reference");
    }
    if owner["controller"] != true {
        return can_not("a controller owner reference");
    }
    if owner["blockOwnerDeletion"] == true {
        return Err(format!("node {node:?} must not set blockOwnerDeletion on an owner reference"));
    }
    let own = cache.get(&format!("nodes//{node}"));
    let own = own.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok()).unwrap_or_default();
    let (named, found) = (text(owner, "/uid"), text(&own, "/metadata/uid"));
    if named != found {
        return Err(format!("node {node} UID mismatch: expected {named} got {found}"));
    }
    match borrowed(pod) {
        Some(what) => Err(format!("node {node:?} can not create pods that reference {what}")),
        None => Ok(()),
    }
}

/// What a pod names that lies in the API.
fn borrowed(pod: &Value) -> Option<&'static str> {
    if !text(pod, "/spec/serviceAccountName").is_empty() {
        return Some("a service account");
    }
    let containers = ["containers", "initContainers", "ephemeralContainers"];
    let containers = containers.iter().flat_map(|kind| items(&pod["spec"], &format!("/{kind}")));
    let sources: Vec<_> = containers
        .flat_map(|container| items(container, "/envFrom").iter().chain(items(container, "/env")))
        .collect();
    let volumes = items(pod, "/spec/volumes");
    let projected = || volumes.iter().flat_map(|volume| items(volume, "/projected/sources"));
    let names = |objects: &[&Value], places: &[&str]| {
        objects.iter().any(|object| places.iter().any(|place| object.pointer(place).is_some()))
    };
    let all_volumes: Vec<_> = volumes.iter().chain(projected()).collect();
    if !items(pod, "/spec/imagePullSecrets").is_empty()
        || names(&sources, &["/secretRef", "/valueFrom/secretKeyRef"])
        || names(&all_volumes, &["/secret", "/azureFile", "/csi/nodePublishSecretRef"])
        || volumes
            .iter()
            .filter_map(Value::as_object)
            .flat_map(|volume| volume.values())
            .any(|source| !source["secretRef"].is_null())
    {
        return Some("secrets");
    }
    if names(&sources, &["/configMapRef", "/valueFrom/configMapKeyRef"])
        || names(&all_volumes, &["/configMap"])
    {
        return Some("configmaps");
    }
    if names(&all_volumes, &["/persistentVolumeClaim", "/ephemeral"]) {
        return Some("persistentvolumeclaims");
    }
    if names(&all_volumes, &["/clusterTrustBundle"]) {
        return Some("clustertrustbundles");
    }
    (!items(pod, "/spec/resourceClaims").is_empty()).then_some("resourceclaims")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mirror_pod_borrows_nothing() {
        for (spec, expected) in [
            (
                json!({ "containers": [{ "name": "a" }], "volumes": [{ "name": "v", "hostPath": { "path": "/" } }] }),
                None,
            ),
            (json!({ "serviceAccountName": "cook" }), Some("a service account")),
            (json!({ "volumes": [{ "name": "v", "secret": { "secretName": "s" } }] }), Some("secrets")),
            (
                json!({ "volumes": [{ "name": "v", "rbd": { "secretRef": { "name": "s" } } }] }),
                Some("secrets"),
            ),
            (
                json!({ "containers": [{ "envFrom": [{ "configMapRef": { "name": "c" } }] }] }),
                Some("configmaps"),
            ),
            (
                json!({ "volumes": [{ "name": "v", "projected": { "sources": [{ "configMap": { "name": "c" } }] } }] }),
                Some("configmaps"),
            ),
            (json!({ "volumes": [{ "name": "v", "ephemeral": {} }] }), Some("persistentvolumeclaims")),
            (json!({ "resourceClaims": [{ "name": "gpu" }] }), Some("resourceclaims")),
        ] {
            assert_eq!(borrowed(&json!({ "spec": spec })), expected, "{spec}");
        }
    }
}
