//! What a pod or a volume names.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Pod, Volume};

/// A pod that a kubelet runs on its own account; the API only shows it.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Kinds of volumes with a secret in the same place.
const WITH_SECRET: [&str; 7] = ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"];
/// What of a CSI volume's secrets its node uses.
const STAGES: [&str; 3] = ["nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"];

/// A pod as the index has it; nothing if it is bound to no node.
pub(super) fn of_pod(pod: &Value) -> Option<Pod> {
    let node = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty())?;
    let needs = if pod["metadata"]["annotations"][MIRROR].is_null() { needs(pod) } else { BTreeSet::new() };
    Some(Pod { node: node.into(), needs })
}

fn needs(pod: &Value) -> BTreeSet<String> {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let mut needs = BTreeSet::new();
    let mut add = |collection: &str, name: &Value| {
        if let Some(name) = name.as_str().filter(|name| !name.is_empty()) {
            needs.insert(format!("{collection}/{namespace}/{name}"));
        }
    };
    let spec = &pod["spec"];
    add("serviceaccounts", &spec["serviceAccountName"]);
    for secret in items(&spec["imagePullSecrets"]) {
        add("secrets", &secret["name"]);
    }
    for kind in ["containers", "initContainers", "ephemeralContainers"] {
        for container in items(&spec[kind]) {
            for source in items(&container["envFrom"]) {
                add("secrets", &source["secretRef"]["name"]);
                add("configmaps", &source["configMapRef"]["name"]);
            }
            for variable in items(&container["env"]) {
                add("secrets", &variable["valueFrom"]["secretKeyRef"]["name"]);
                add("configmaps", &variable["valueFrom"]["configMapKeyRef"]["name"]);
            }
        }
    }
    let own = pod["metadata"]["name"].as_str().unwrap_or_default();
    for volume in items(&spec["volumes"]) {
        add("configmaps", &volume["configMap"]["name"]);
        add("persistentvolumeclaims", &volume["persistentVolumeClaim"]["claimName"]);
        if volume["ephemeral"].is_object() {
            let name = volume["name"].as_str().unwrap_or_default();
            add("persistentvolumeclaims", &Value::from(format!("{own}-{name}")));
        }
        add("secrets", &volume["secret"]["secretName"]);
        add("secrets", &volume["azureFile"]["secretName"]);
        add("secrets", &volume["csi"]["nodePublishSecretRef"]["name"]);
        for kind in WITH_SECRET {
            add("secrets", &volume[kind]["secretRef"]["name"]);
        }
        for source in items(&volume["projected"]["sources"]) {
            add("secrets", &source["secret"]["name"]);
            add("configmaps", &source["configMap"]["name"]);
        }
    }
    for claim in items(&spec["resourceClaims"]) {
        add("resourceclaims.resource.k8s.io", &claim["resourceClaimName"]);
    }
    // Those that were made from a template have the names that the status tells.
    for claim in items(&pod["status"]["resourceClaimStatuses"]) {
        add("resourceclaims.resource.k8s.io", &claim["resourceClaimName"]);
    }
    needs
}

pub(super) fn of_volume(volume: &Value) -> Volume {
    let spec = &volume["spec"];
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let owner = text(&spec["claimRef"]["namespace"]).zip(text(&spec["claimRef"]["name"]));
    let Some((namespace, name)) = owner else { return Volume::default() };
    let mut secrets = BTreeSet::new();
    let mut add = |within: Option<String>, name: &Value| {
        if let Some(name) = text(name) {
            let within = within.unwrap_or_else(|| namespace.clone());
            secrets.insert(format!("secrets/{within}/{name}"));
        }
    };
    add(text(&spec["azureFile"]["secretNamespace"]), &spec["azureFile"]["secretName"]);
    for kind in WITH_SECRET {
        let reference = &spec[kind]["secretRef"];
        add(text(&reference["namespace"]), &reference["name"]);
    }
    for stage in STAGES {
        let reference = &spec["csi"][stage];
        add(text(&reference["namespace"]), &reference["name"]);
    }
    Volume { claim: Some(format!("persistentvolumeclaims/{namespace}/{name}")), secrets }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_needs_all_that_it_names() {
        let pod = json!({
            "metadata": { "name": "p", "namespace": "a" },
            "spec": {
                "nodeName": "north",
                "serviceAccountName": "cook",
                "imagePullSecrets": [{ "name": "pull" }],
                "initContainers": [{ "env": [{ "name": "x", "valueFrom": { "secretKeyRef": { "name": "env" } } }] }],
                "containers": [{
                    "envFrom": [{ "configMapRef": { "name": "all" } }, { "secretRef": { "name": "all" } }],
                    "env": [{ "name": "y", "valueFrom": { "configMapKeyRef": { "name": "one" } } }],
                }],
                "volumes": [
                    { "name": "root", "projected": { "sources": [
                        { "configMap": { "name": "kube-root-ca.crt" } }, { "secret": { "name": "projected" } },
                    ] } },
                    { "name": "scratch", "ephemeral": {} },
                    { "name": "ceph", "cephfs": { "secretRef": { "name": "ceph" } } },
                ],
                "resourceClaims": [{ "name": "gpu", "resourceClaimName": "gpu" }],
            },
            "status": { "resourceClaimStatuses": [{ "name": "made", "resourceClaimName": "p-made-x1" }] },
        });
        let found = of_pod(&pod).unwrap();
        assert_eq!(found.node.as_ref(), "north");
        let needs: Vec<_> = found.needs.iter().map(String::as_str).collect();
        assert_eq!(
            needs,
            [
                "configmaps/a/all",
                "configmaps/a/kube-root-ca.crt",
                "configmaps/a/one",
                "persistentvolumeclaims/a/p-scratch",
                "resourceclaims.resource.k8s.io/a/gpu",
                "resourceclaims.resource.k8s.io/a/p-made-x1",
                "secrets/a/all",
                "secrets/a/ceph",
                "secrets/a/env",
                "secrets/a/projected",
                "secrets/a/pull",
                "serviceaccounts/a/cook",
            ]
        );
        let mut mirror = pod.clone();
        mirror["metadata"]["annotations"] = json!({ MIRROR: "x" });
        assert!(of_pod(&mirror).unwrap().needs.is_empty(), "it gets its own from the node's disk");
        let mut waiting = pod;
        waiting["spec"]["nodeName"] = json!("");
        assert_eq!(of_pod(&waiting), None);
    }
}
