//! Requests that are right, and small changes that make them wrong.

use serde_json::{Map, Value, json};

pub(crate) const SUBSCRIPTION: &str = "0b1f6471-1bf0-4dda-aec3-cb9272f09590";
pub(crate) const LOCATION: &str = "here";
pub(crate) const GROUP: &str = "Team";

const CONTROL_PLANE: [&str; 8] = [
    "cluster-api-azure",
    "control-plane",
    "cloud-controller-manager",
    "ingress",
    "disk-csi-driver",
    "file-csi-driver",
    "image-registry",
    "cloud-network-config",
];
const DATA_PLANE: [&str; 3] = ["disk-csi-driver", "file-csi-driver", "image-registry"];

/// The id of something that a cluster uses.
pub(crate) fn of_provider(provider: &str, name: &str) -> String {
    format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.{provider}/{name}")
}

pub(crate) fn identity(name: &str) -> String {
    of_provider("ManagedIdentity", &format!("userAssignedIdentities/{name}"))
}

pub(crate) fn cluster_id(name: &str) -> String {
    of_provider("RedHatOpenShift", &format!("hcpOpenShiftClusters/{name}"))
}

/// A cluster with networks and identities of its own, which carry its name.
pub(crate) fn cluster(name: &str) -> Value {
    let of = |use_of_it: &str| identity(&format!("{name}-{use_of_it}"));
    let network = format!("virtualNetworks/{name}/subnets");
    let control_plane: Map<String, Value> =
        CONTROL_PLANE.iter().map(|operator| ((*operator).to_owned(), json!(of(operator)))).collect();
    let data_plane: Map<String, Value> = DATA_PLANE
        .iter()
        .map(|operator| ((*operator).to_owned(), json!(of(&format!("node-{operator}")))))
        .collect();
    let assigned: Map<String, Value> = control_plane
        .values()
        .map(|id| id.as_str().unwrap().to_owned())
        .chain([of("service")])
        .map(|id| (id, json!({})))
        .collect();
    json!({
        "location": LOCATION,
        "identity": { "type": "UserAssigned", "userAssignedIdentities": assigned },
        "properties": {
            "version": { "id": "4.20" },
            "platform": {
                "subnetId": of_provider("Network", &format!("{network}/nodes")),
                "vnetIntegrationSubnetId": of_provider("Network", &format!("{network}/control")),
                "networkSecurityGroupId": of_provider("Network", &format!("networkSecurityGroups/{name}")),
                "operatorsAuthentication": { "userAssignedIdentities": {
                    "controlPlaneOperators": control_plane,
                    "dataPlaneOperators": data_plane,
                    "serviceManagedIdentity": of("service"),
                } },
            },
        },
    })
}

pub(crate) fn node_pool() -> Value {
    json!({
        "location": LOCATION,
        "properties": {
            "version": { "id": "4.20.8" },
            "platform": { "vmSize": "Standard_D8s_v3" },
            "replicas": 2,
        },
    })
}

pub(crate) fn external_auth() -> Value {
    json!({
        "properties": {
            "issuer": { "url": "https://login.example.com", "audiences": ["audience"] },
            "claim": { "mappings": { "username": { "claim": "email" } } },
        },
    })
}

/// A client of an issuer.
pub(crate) fn client(name: &str, kind: &str) -> Value {
    let namespace = if name == "console" { "openshift-console" } else { "somewhere" };
    json!({
        "component": { "name": name, "authClientNamespace": namespace },
        "clientId": "audience",
        "type": kind,
    })
}

/// The same with another value at `path`, whose parts lie between dots. What leads there is made.
pub(crate) fn with(mut body: Value, path: &str, value: impl Into<Value>) -> Value {
    let mut place = &mut body;
    for part in path.split('.') {
        if !place.is_object() {
            *place = json!({});
        }
        place = place.as_object_mut().unwrap().entry(part).or_insert(Value::Null);
    }
    *place = value.into();
    body
}

/// The same without what is at `path`.
pub(crate) fn without(mut body: Value, path: &str) -> Value {
    let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
    let pointer = if parents.is_empty() { String::new() } else { format!("/{}", parents.replace('.', "/")) };
    let removed = body.pointer_mut(&pointer).and_then(|parent| parent.as_object_mut()?.remove(last));
    assert!(removed.is_some(), "there is no {path} to remove");
    body
}
