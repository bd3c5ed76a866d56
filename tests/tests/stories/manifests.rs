//! What people apply to get a hosted cluster. It is in the namespace `clusters`.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::region::Region;

/// What clusters and pools are made of, unless a story wants something else.
pub(crate) const RELEASE: &str = "pilothouse/release:4.20.0";

const VERSION: &str = "hypershift.openshift.io/v1beta1";

/// A hosted cluster.
pub(crate) fn cluster(name: &str) -> Value {
    let services = ["APIServer", "Ignition", "Konnectivity", "OAuthServer"]
        .map(|service| json!({ "service": service, "servicePublishingStrategy": { "type": "Route" } }));
    json!({
        "apiVersion": VERSION, "kind": "HostedCluster",
        "metadata": { "name": name, "namespace": "clusters" },
        "spec": {
            "release": { "image": RELEASE },
            "platform": { "type": "KubeVirt" },
            "controllerAvailabilityPolicy": "SingleReplica",
            "pullSecret": { "name": "pull-secret" },
            "dns": { "baseDomain": "pilothouse.test" },
            "services": services,
        },
    })
}

/// A pool of virtual machines for it.
pub(crate) fn pool(cluster: &str, name: &str, replicas: usize) -> Value {
    json!({
        "apiVersion": VERSION, "kind": "NodePool",
        "metadata": { "name": name, "namespace": "clusters" },
        "spec": {
            "clusterName": cluster,
            "replicas": replicas,
            "release": { "image": RELEASE },
            "platform": { "type": "KubeVirt" },
            "management": { "upgradeType": "Replace" },
        },
    })
}

/// The same cluster with its data on volumes of this class.
pub(crate) fn on_class(mut cluster: Value, class: &str) -> Value {
    cluster["spec"]["etcd"] = json!({
        "managementType": "Managed",
        "managed": { "storage": {
            "type": "PersistentVolume", "persistentVolume": { "size": "8Gi", "storageClassName": class },
        } },
    });
    cluster
}

/// These objects, after what has to be there first, for `kubectl apply`.
pub(crate) fn text(objects: &[Value]) -> String {
    let mut items = vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "clusters" } }),
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "pull-secret", "namespace": "clusters" },
            "stringData": { ".dockerconfigjson": r#"{"auths":{}}"# },
        }),
    ];
    items.extend(objects.iter().cloned());
    items.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
}

impl Region {
    /// Makes a hosted cluster with one worker, and waits for it. Answers with its kubeconfig.
    pub(crate) fn host(&self, name: &str) -> PathBuf {
        let pool_name = format!("{name}-workers");
        self.apply(&text(&[cluster(name), pool(name, &pool_name, 1)])).unwrap();
        self.wait_for(&format!("nodepool/{pool_name}"), "Ready").unwrap();
        self.kubeconfig(name).unwrap()
    }

    /// `kubectl wait` for a condition of a hosted cluster or of a pool.
    pub(crate) fn wait_for(&self, object: &str, condition: &str) -> Result<String, String> {
        let condition = format!("--for=condition={condition}");
        self.kubectl(&["wait", "-n", "clusters", object, &condition, "--timeout=120s"])
    }
}
