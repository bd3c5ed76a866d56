//! Objects that several verbs make, in the order and with the members that upstream's program gives them.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

/// Says which objects go with the infrastructure of which cluster.
pub(super) const INFRASTRUCTURE: &str = "hypershift.openshift.io/auto-created-for-infra";

/// Says that an object may go with its cluster.
const SAFE_TO_DELETE: &str = "hypershift.openshift.io/safe-to-delete-with-cluster";

const API: &str = "hypershift.openshift.io/v1beta1";

pub(super) fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name }, "spec": {}, "status": {} })
}

/// A Secret, with its type if it has one.
pub(super) fn secret(namespace: &str, name: &str, type_: Option<&str>, data: &[(&str, &[u8])]) -> Value {
    let data: BTreeMap<_, _> =
        data.iter().map(|(key, bytes)| ((*key).to_owned(), BASE64_STANDARD.encode(bytes))).collect();
    let mut secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": name, "namespace": namespace, "labels": { SAFE_TO_DELETE: "true" } },
        "data": data,
    });
    if let Some(type_) = type_ {
        secret["type"] = json!(type_);
    }
    secret
}

pub(super) fn config_map(namespace: &str, name: &str, key: &str, text: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": namespace },
        "data": { key: text },
    })
}

pub(super) fn hosted_cluster(metadata: Value, spec: Value) -> Value {
    json!({
        "apiVersion": API,
        "kind": "HostedCluster",
        "metadata": metadata,
        "spec": spec,
        "status": { "controlPlaneEndpoint": { "host": "", "port": 0 } },
    })
}

pub(super) fn node_pool(namespace: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": API,
        "kind": "NodePool",
        "metadata": { "name": name, "namespace": namespace },
        "spec": spec,
        "status": { "replicas": 0 },
    })
}

/// How the services of a control plane are published.
#[derive(Clone, Debug)]
pub(super) enum Publishing {
    /// The API server by a load balancer, the others by host names at the shared gateway.
    Ingress,
    /// All by host names below this domain.
    Hosts { cluster: String, domain: String },
    /// All by ports of the nodes, which have this address.
    NodePorts { address: String },
}

impl Publishing {
    /// `services` of a hosted cluster.
    pub(super) fn services(&self) -> Value {
        let service = |name: &str, label: &str| {
            let strategy = match self {
                Self::Ingress if name == "APIServer" => json!({ "type": "LoadBalancer" }),
                Self::Ingress => json!({ "type": "Route" }),
                Self::Hosts { cluster, domain } => {
                    json!({ "type": "Route", "route": { "hostname": format!("{label}-{cluster}.{domain}") } })
                }
                Self::NodePorts { address } => {
                    json!({ "type": "NodePort", "nodePort": { "address": address } })
                }
            };
            json!({ "service": name, "servicePublishingStrategy": strategy })
        };
        json!([
            service("APIServer", "api"),
            service("Ignition", "ignition-server"),
            service("Konnectivity", "konnectivity"),
            service("OAuthServer", "oauth"),
        ])
    }
}

/// Labels an object as going with this infrastructure.
pub(super) fn label_infrastructure(object: &mut Value, infra_id: &str) {
    if !object["metadata"]["labels"].is_object() {
        object["metadata"]["labels"] = json!({});
    }
    object["metadata"]["labels"][INFRASTRUCTURE] = json!(infra_id);
}

/// Whether an object holds what not everybody may read.
pub(super) fn is_sensitive(object: &Value) -> bool {
    object["kind"] == "Secret"
}
