//! Pods: what the specification of one means where it is silent.

use serde_json::{Value, json};

use super::{ensure_object, fill, items, items_mut, text};

pub(super) mod mountable;
pub(super) mod running;
pub(super) mod validation;

/// Where a pod finds the credentials of its service account.
const ACCOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// How long a projected token lives; the odd seven mark it as one that was asked for by admission.
const TOKEN_SECONDS: i64 = 3607;
/// How long a pod stays on a node that went away.
const TOLERATION_SECONDS: i64 = 300;

/// Defaults of a pod. Some are of pods alone: what a template leaves open is decided when a pod is made of it.
pub(super) fn own_defaults(spec: &mut Value) {
    defaults(spec);
    fill(spec, "enableServiceLinks", json!(true));
    let host_network = spec["hostNetwork"] == true;
    for list in ["initContainers", "containers"] {
        for container in items_mut(spec, list) {
            requests_from_limits(container);
            for port in items_mut(container, "ports").filter(|_| host_network) {
                if let Some(number) = port.get("containerPort").cloned() {
                    fill(port, "hostPort", number);
                }
            }
        }
    }
}

/// Who says how much there may be and not how much there has to be means the same by both.
fn requests_from_limits(container: &mut Value) {
    if let Some(limits) = container["resources"]["limits"].as_object().cloned() {
        ensure_object(&mut container["resources"]["requests"]);
        for (name, amount) in limits {
            fill(&mut container["resources"]["requests"], &name, amount);
        }
    }
}

/// Defaults of a pod's specification; templates get the same.
pub(super) fn defaults(spec: &mut Value) {
    ensure_object(spec);
    fill(spec, "restartPolicy", json!("Always"));
    fill(spec, "terminationGracePeriodSeconds", json!(30));
    fill(spec, "dnsPolicy", json!("ClusterFirst"));
    fill(spec, "securityContext", json!({}));
    fill(spec, "schedulerName", json!("default-scheduler"));
    // The older name of the field, which old clients still read.
    match (text(spec, "/serviceAccountName").to_owned(), text(spec, "/serviceAccount").to_owned()) {
        (name, _) if !name.is_empty() => spec["serviceAccount"] = json!(name),
        (_, name) if !name.is_empty() => spec["serviceAccountName"] = json!(name),
        _ => {}
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        items_mut(spec, list).for_each(container_defaults);
    }
    items_mut(spec, "volumes").for_each(volume_defaults);
}

fn container_defaults(container: &mut Value) {
    ensure_object(container);
    fill(container, "terminationMessagePath", json!("/dev/termination-log"));
    fill(container, "terminationMessagePolicy", json!("File"));
    let policy = if is_latest(text(container, "/image")) { "Always" } else { "IfNotPresent" };
    fill(container, "imagePullPolicy", json!(policy));
    fill(container, "resources", json!({}));
    items_mut(container, "ports").for_each(|port| fill(port, "protocol", json!("TCP")));
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe).filter(|probe| probe.is_object()) {
            probe_defaults(probe);
        }
    }
    for variable in items_mut(container, "env") {
        if let Some(reference) = variable.pointer_mut("/valueFrom/fieldRef") {
            fill(reference, "apiVersion", json!("v1"));
        }
    }
}

fn probe_defaults(probe: &mut Value) {
    for (key, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        fill(probe, key, json!(value));
    }
    if let Some(get) = probe.get_mut("httpGet").filter(|get| get.is_object()) {
        fill(get, "scheme", json!("HTTP"));
        fill(get, "path", json!("/"));
    }
    if let Some(grpc) = probe.get_mut("grpc").filter(|grpc| grpc.is_object()) {
        fill(grpc, "service", json!(""));
    }
}

fn volume_defaults(volume: &mut Value) {
    ensure_object(volume);
    let sources = ["configMap", "secret", "projected", "downwardAPI"];
    if let Some(source) = sources.into_iter().find(|source| volume[*source].is_object()) {
        fill(&mut volume[source], "defaultMode", json!(0o644));
    }
    if volume["hostPath"].is_object() {
        fill(&mut volume["hostPath"], "type", json!(""));
    }
    for source in
        volume.get_mut("projected").into_iter().flat_map(|projected| items_mut(projected, "sources"))
    {
        if source["serviceAccountToken"].is_object() {
            fill(&mut source["serviceAccountToken"], "expirationSeconds", json!(3600));
        }
        if let Some(api) = source.get_mut("downwardAPI") {
            downward_defaults(api);
        }
    }
    if let Some(api) = volume.get_mut("downwardAPI") {
        downward_defaults(api);
    }
    let sourceless =
        volume.as_object().is_some_and(|fields| fields.len() == 1 && fields.contains_key("name"));
    if sourceless {
        volume["emptyDir"] = json!({});
    }
}

fn downward_defaults(api: &mut Value) {
    for item in items_mut(api, "items") {
        if item["fieldRef"].is_object() {
            fill(&mut item["fieldRef"], "apiVersion", json!("v1"));
        }
    }
}

/// Whether a kubelet runs it by itself, and the API only shows it.
pub(crate) fn is_mirror(pod: &Value) -> bool {
    !pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_null()
}

/// What a pod has no right to that nobody in the cluster has let in.
pub(crate) fn borrowed_by_mirror(pod: &Value) -> Option<&'static str> {
    let sources =
        || items(pod, "/spec/volumes").iter().flat_map(|volume| items(volume, "/projected/sources"));
    let containers = ["containers", "initContainers"].map(|list| items(&pod["spec"], &format!("/{list}")));
    let variables = || {
        let containers = containers.iter().copied().flatten();
        containers.flat_map(|container| items(container, "/env").iter().chain(items(container, "/envFrom")))
    };
    let secret = |source: &Value| {
        !source["secret"].is_null()
            || !source["secretRef"].is_null()
            || !source["valueFrom"]["secretKeyRef"].is_null()
    };
    if !text(pod, "/spec/serviceAccountName").is_empty() {
        return Some("a mirror pod may not reference service accounts");
    }
    if items(pod, "/spec/volumes").iter().chain(sources()).chain(variables()).any(secret) {
        return Some("a mirror pod may not reference secrets");
    }
    let token = |source: &Value| !source["serviceAccountToken"].is_null();
    sources().any(token).then_some("a mirror pod may not use ServiceAccountToken volume projections")
}

/// What admission adds to a pod, beyond defaults, once its service account is known: pull secrets and credentials. `suffix`
/// makes the volume's name unique. Returns why the account does not let the pod in, if it does not.
pub(crate) fn admit(pod: &mut Value, account: &Value, suffix: &str) -> Option<String> {
    let refused = mountable::refused(&pod["spec"], account);
    if refused.is_some() {
        return refused;
    }
    let name = text(account, "/metadata/name").to_owned();
    let spec = &mut pod["spec"];
    spec["serviceAccountName"] = json!(name);
    spec["serviceAccount"] = json!(name);
    if items(spec, "/imagePullSecrets").is_empty() && !items(account, "/imagePullSecrets").is_empty() {
        spec["imagePullSecrets"] = account["imagePullSecrets"].clone();
    }
    let automount = spec["automountServiceAccountToken"]
        .as_bool()
        .or_else(|| account["automountServiceAccountToken"].as_bool())
        .unwrap_or(true);
    if automount {
        mount_credentials(spec, &format!("kube-api-access-{suffix}"));
    }
    None
}

fn mount_credentials(spec: &mut Value, volume: &str) {
    let mut used = false;
    for list in ["initContainers", "containers"] {
        for container in items_mut(spec, list) {
            let mounted =
                items(container, "/volumeMounts").iter().any(|mount| mount["mountPath"] == ACCOUNT_PATH);
            if mounted {
                continue;
            }
            used = true;
            push(
                container,
                "volumeMounts",
                json!({ "name": volume, "readOnly": true, "mountPath": ACCOUNT_PATH }),
            );
        }
    }
    if !used {
        return;
    }
    push(
        spec,
        "volumes",
        json!({
            "name": volume,
            "projected": {
                "defaultMode": 0o644,
                "sources": [
                    { "serviceAccountToken": { "expirationSeconds": TOKEN_SECONDS, "path": "token" } },
                    { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
                    { "downwardAPI": { "items": [{
                        "path": "namespace",
                        "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" },
                    }] } },
                ],
            },
        }),
    );
}

/// Patience with nodes that go away.
pub(crate) fn tolerate_lost_nodes(spec: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = items(spec, "/tolerations").iter().any(|toleration| {
            let same_key = text(toleration, "/key") == key || text(toleration, "/key").is_empty();
            same_key && matches!(text(toleration, "/effect"), "" | "NoExecute")
        });
        if !tolerated {
            push(
                spec,
                "tolerations",
                json!({
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": TOLERATION_SECONDS,
                }),
            );
        }
    }
}

fn push(object: &mut Value, key: &str, item: Value) {
    fill(object, key, json!([]));
    if let Some(list) = object.get_mut(key).and_then(Value::as_array_mut) {
        list.push(item);
    }
}

/// How the pod fares when memory runs short.
pub(crate) fn quality_of_service(spec: &Value) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    for container in items(spec, "/initContainers").iter().chain(items(spec, "/containers")) {
        let (requests, limits) = (&container["resources"]["requests"], &container["resources"]["limits"]);
        for name in ["cpu", "memory"] {
            any |= is_amount(&requests[name]) || is_amount(&limits[name]);
            guaranteed &= is_amount(&limits[name]) && requests[name] == limits[name];
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn is_amount(quantity: &Value) -> bool {
    match quantity {
        Value::String(text) => !text.is_empty() && text != "0",
        Value::Number(number) => number.as_f64() != Some(0.0),
        _ => false,
    }
}

/// No tag means the latest, unless a digest says exactly which.
fn is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let name = image.rsplit('/').next().unwrap_or(image);
    name.rsplit_once(':').is_none_or(|(_, tag)| tag == "latest")
}
