//! What every cluster has from its first moment: namespaces, roles, and the Service that leads to this server.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::error::Error;
use crate::server::Server;
use crate::status::Failure;
use crate::storage::WriteError;
use crate::verbs::create;

const RBAC: &str = "rbac.authorization.k8s.io";
const MANAGER: &str = "kube-apiserver";

/// Makes what is missing. What is there and was changed by somebody stays as it is, except for where this server is.
pub(crate) async fn ensure(server: &Arc<Server>) -> Result<(), Error> {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        make(server, "", "namespaces", "", json!({ "metadata": { "name": name } })).await?;
    }
    for (name, value) in [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)]
    {
        let class = json!({
            "metadata": { "name": name },
            "value": value,
            "description": "For pods without which there is no cluster.",
        });
        make(server, "scheduling.k8s.io", "priorityclasses", "", class).await?;
    }
    for role in roles() {
        make(server, RBAC, "clusterroles", "", role).await?;
    }
    for binding in bindings() {
        make(server, RBAC, "clusterrolebindings", "", binding).await?;
    }
    let advertised = server.config.advertise.unwrap_or(server.config.listen);
    make(server, "", "services", "default", service(server, advertised)).await?;
    keep(server, "", "endpoints", endpoints(advertised)).await?;
    keep(server, "discovery.k8s.io", "endpointslices", endpoint_slice(advertised)).await
}

async fn make(
    server: &Arc<Server>,
    group: &str,
    plural: &str,
    namespace: &str,
    object: Value,
) -> Result<(), Error> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let failed = |failure: Failure| Error::Bootstrap {
        object: format!("{plural}/{name}"),
        problem: failure.to_string(),
    };
    let resource = server.built_in(group, plural).map_err(failed)?;
    if server.storage.get(&resource, namespace, &name).await.map_err(failed)?.is_some() {
        return Ok(());
    }
    let mut object = object;
    object["apiVersion"] = json!(resource.api_version());
    object["kind"] = json!(resource.kind);
    match create::create(server, &resource, namespace, object, MANAGER, false).await {
        Ok(_) => Ok(()),
        // Another replica was faster.
        Err(failure) if failure.reason == "AlreadyExists" => Ok(()),
        Err(failure) => Err(failed(failure)),
    }
}

/// Makes an object in `default`, or puts everything but its metadata right.
async fn keep(server: &Arc<Server>, group: &str, plural: &str, object: Value) -> Result<(), Error> {
    make(server, group, plural, "default", object.clone()).await?;
    let failed = |problem: String| Error::Bootstrap { object: format!("{plural}/kubernetes"), problem };
    let resource = server.built_in(group, plural).map_err(|failure| failed(failure.to_string()))?;
    loop {
        let stored = server.storage.get(&resource, "default", "kubernetes").await;
        let Some(stored) = stored.map_err(|failure| failed(failure.to_string()))? else { return Ok(()) };
        let mut wanted = stored.value.clone();
        if let (Some(wanted), Some(object)) = (wanted.as_object_mut(), object.as_object()) {
            wanted.extend(
                object
                    .iter()
                    .filter(|(key, _)| *key != "metadata")
                    .map(|(key, value)| (key.clone(), value.clone())),
            );
        }
        if wanted == stored.value {
            return Ok(());
        }
        match server.storage.replace(&resource, &stored, &wanted).await {
            Ok(_) => return Ok(()),
            Err(WriteError::Failed(failure)) => return Err(failed(failure.to_string())),
            Err(_) => {}
        }
    }
}

fn service(server: &Server, advertised: SocketAddr) -> Value {
    json!({
        "metadata": { "name": "kubernetes", "labels": { "component": "apiserver", "provider": "kubernetes" } },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": server.allocator.first().to_string(),
            "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": advertised.port() }],
            "sessionAffinity": "None",
        },
    })
}

fn endpoints(advertised: SocketAddr) -> Value {
    json!({
        "metadata": {
            "name": "kubernetes",
            "labels": { "endpointslice.kubernetes.io/skip-mirror": "true" },
        },
        "subsets": [{
            "addresses": [{ "ip": advertised.ip().to_string() }],
            "ports": [{ "name": "https", "port": advertised.port(), "protocol": "TCP" }],
        }],
    })
}

fn endpoint_slice(advertised: SocketAddr) -> Value {
    json!({
        "metadata": { "name": "kubernetes", "labels": { "kubernetes.io/service-name": "kubernetes" } },
        "addressType": if advertised.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{ "addresses": [advertised.ip().to_string()], "conditions": { "ready": true } }],
        "ports": [{ "name": "https", "port": advertised.port(), "protocol": "TCP" }],
    })
}

fn role(name: &str, rules: Value) -> Value {
    json!({
        "metadata": {
            "name": name,
            "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" },
            "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
        },
        "rules": rules,
    })
}

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": groups, "resources": resources, "verbs": verbs })
}

fn paths(paths: &[&str]) -> Value {
    json!({ "nonResourceURLs": paths, "verbs": ["get"] })
}

fn roles() -> Vec<Value> {
    const READ: &[&str] = &["get", "list", "watch"];
    const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
    const CORE: &[&str] = &[
        "configmaps",
        "endpoints",
        "events",
        "persistentvolumeclaims",
        "pods",
        "pods/log",
        "pods/status",
        "serviceaccounts",
        "services",
        "services/status",
    ];
    const APPS: &[&str] = &[
        "controllerrevisions",
        "daemonsets",
        "deployments",
        "deployments/scale",
        "deployments/status",
        "replicasets",
        "replicasets/scale",
        "replicasets/status",
        "statefulsets",
        "statefulsets/scale",
        "statefulsets/status",
    ];
    let everything = json!([
        { "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] },
        { "nonResourceURLs": ["*"], "verbs": ["*"] },
    ]);
    let view = || vec![rule(&[""], CORE, READ), rule(&["apps"], APPS, READ), rule(&["batch"], &["*"], READ)];
    let edit = || {
        let mut rules = view();
        rules.extend([
            rule(&[""], CORE, WRITE),
            rule(&[""], &["secrets"], READ),
            rule(&[""], &["secrets", "pods/eviction", "serviceaccounts/token"], WRITE),
            rule(&["apps"], APPS, WRITE),
            rule(&["batch"], &["*"], WRITE),
        ]);
        rules
    };
    let admin = || {
        let mut rules = edit();
        rules.extend([
            rule(&[RBAC], &["roles", "rolebindings"], READ),
            rule(&[RBAC], &["roles", "rolebindings"], WRITE),
            rule(&["authorization.k8s.io"], &["localsubjectaccessreviews"], &["create"]),
        ]);
        rules
    };
    vec![
        role("cluster-admin", everything),
        role("admin", json!(admin())),
        role("edit", json!(edit())),
        role("view", json!(view())),
        role(
            "system:public-info-viewer",
            json!([paths(&["/healthz", "/livez", "/readyz", "/version", "/version/"])]),
        ),
        role(
            "system:discovery",
            json!([paths(&[
                "/",
                "/api",
                "/api/*",
                "/apis",
                "/apis/*",
                "/healthz",
                "/livez",
                "/openapi",
                "/openapi/*",
                "/readyz",
                "/version",
                "/version/"
            ])]),
        ),
        role(
            "system:service-account-issuer-discovery",
            json!([paths(&["/.well-known/openid-configuration", "/openid/v1/jwks"])]),
        ),
        role(
            "system:basic-user",
            json!([
                rule(
                    &["authorization.k8s.io"],
                    &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                    &["create"]
                ),
                rule(&["authentication.k8s.io"], &["selfsubjectreviews"], &["create"]),
            ]),
        ),
        role("system:node", node()),
    ]
}

/// What a kubelet does. Thin: it does not see to it that a node only touches what its own pods need.
fn node() -> Value {
    json!([
        rule(&[""], &["nodes"], &["create", "get", "list", "patch", "update", "watch"]),
        rule(&[""], &["nodes/status"], &["patch", "update"]),
        rule(&[""], &["pods"], &["create", "delete", "get", "list", "watch"]),
        rule(&[""], &["pods/status"], &["get", "patch", "update"]),
        rule(&[""], &["pods/eviction"], &["create"]),
        rule(
            &[""],
            &[
                "configmaps",
                "secrets",
                "services",
                "endpoints",
                "namespaces",
                "persistentvolumeclaims",
                "serviceaccounts"
            ],
            &["get", "list", "watch"]
        ),
        rule(&[""], &["persistentvolumes"], &["delete", "get", "list", "patch", "update", "watch"]),
        rule(
            &[""],
            &["persistentvolumes/status", "persistentvolumeclaims/status"],
            &["get", "patch", "update"]
        ),
        rule(&[""], &["serviceaccounts/token"], &["create"]),
        rule(&["", "events.k8s.io"], &["events"], &["create", "patch", "update"]),
        rule(&["coordination.k8s.io"], &["leases"], &["create", "delete", "get", "patch", "update"]),
        rule(&["discovery.k8s.io"], &["endpointslices"], &["get", "list", "watch"]),
        rule(&["storage.k8s.io"], &["*"], &["get", "list", "watch"]),
        rule(&["node.k8s.io"], &["runtimeclasses"], &["get", "list", "watch"]),
        rule(&["authentication.k8s.io"], &["tokenreviews"], &["create"]),
        rule(&["authorization.k8s.io"], &["subjectaccessreviews", "localsubjectaccessreviews"], &["create"]),
    ])
}

fn bindings() -> Vec<Value> {
    let groups = |names: &[&str]| -> Vec<Value> {
        names.iter().map(|name| json!({ "kind": "Group", "name": name, "apiGroup": RBAC })).collect()
    };
    [
        ("cluster-admin", &["system:masters"][..]),
        ("system:public-info-viewer", &["system:authenticated", "system:unauthenticated"]),
        ("system:discovery", &["system:authenticated"]),
        ("system:basic-user", &["system:authenticated"]),
        ("system:service-account-issuer-discovery", &["system:serviceaccounts"]),
        ("system:node", &["system:nodes"]),
    ]
    .into_iter()
    .map(|(name, subjects)| {
        json!({
            "metadata": { "name": name, "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" } },
            "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": name },
            "subjects": groups(subjects),
        })
    })
    .collect()
}
