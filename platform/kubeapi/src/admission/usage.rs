//! What one object uses of what quotas count.

use std::collections::BTreeMap;

use pilothouse_cel::Quantity;
use serde_json::Value;

use super::{items, text};
use crate::catalogue::Resource;

/// Amounts by name.
pub(super) type Usage = BTreeMap<String, Quantity>;

/// Reads a list of resources.
pub(super) fn amounts(list: &Value) -> Usage {
    list.as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, amount)| {
            let parsed = match amount {
                Value::String(text) => Quantity::parse(text),
                other => Quantity::parse(&other.to_string()),
            };
            Some((name.clone(), parsed.ok()?))
        })
        .collect()
}

pub(super) fn add(total: &mut Usage, more: &Usage) {
    for (name, amount) in more {
        let place = total.entry(name.clone()).or_insert_with(|| amount.zero());
        *place = place.plus(*amount);
    }
}

/// What a pod asks for as a whole: its containers together, or its largest initialisation, whichever is more.
pub(super) fn pod_total(pod: &Value, field: &str) -> Usage {
    let mut total = Usage::new();
    for container in items(pod, "/spec/containers") {
        add(&mut total, &amounts(&container["resources"][field]));
    }
    let (mut beside, mut first) = (Usage::new(), Usage::new());
    for container in items(pod, "/spec/initContainers") {
        let mut own = amounts(&container["resources"][field]);
        if container["restartPolicy"] == "Always" {
            add(&mut total, &own);
            add(&mut beside, &own);
            own = beside.clone();
        } else {
            add(&mut own, &beside);
        }
        larger(&mut first, &own);
    }
    larger(&mut total, &first);
    if !pod["spec"]["overhead"].is_null() {
        add(&mut total, &amounts(&pod["spec"]["overhead"]));
    }
    total
}

fn larger(total: &mut Usage, other: &Usage) {
    for (name, amount) in other {
        match total.get(name) {
            Some(known) if !amount.exceeds(*known) => {}
            _ => {
                total.insert(name.clone(), *amount);
            }
        }
    }
}

/// Everything that one object uses.
pub(super) fn of(resource: &Resource, object: &Value) -> Usage {
    let one = Quantity::whole(1);
    let mut usage = Usage::from([(format!("count/{}", resource.qualified()), one)]);
    if !resource.group.is_empty() {
        return usage;
    }
    match resource.plural.as_ref() {
        "pods" => pod(object, &mut usage),
        "services" => {
            usage.insert("services".to_owned(), one);
            let kind = text(object, "/spec/type");
            let ports = i64::try_from(items(object, "/spec/ports").len()).unwrap_or(i64::MAX);
            let with_ports = match kind {
                "NodePort" => ports,
                "LoadBalancer" if object["spec"]["allocateLoadBalancerNodePorts"] != false => ports,
                _ => 0,
            };
            usage.insert("services.nodeports".to_owned(), Quantity::whole(with_ports));
            usage.insert(
                "services.loadbalancers".to_owned(),
                Quantity::whole(i64::from(kind == "LoadBalancer")),
            );
        }
        "persistentvolumeclaims" => claim(object, &mut usage),
        plural @ ("configmaps" | "secrets" | "replicationcontrollers" | "resourcequotas") => {
            usage.insert(plural.to_owned(), one);
        }
        _ => {}
    }
    usage
}

fn pod(object: &Value, usage: &mut Usage) {
    if is_over(object) {
        return;
    }
    usage.insert("pods".to_owned(), Quantity::whole(1));
    for (name, amount) in pod_total(object, "requests") {
        let plain =
            matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
        usage.insert(format!("requests.{name}"), amount);
        if plain {
            usage.insert(name, amount);
        }
    }
    for (name, amount) in pod_total(object, "limits") {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            usage.insert(format!("limits.{name}"), amount);
        }
    }
}

/// A pod that has ended uses nothing but its place.
fn is_over(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

fn claim(object: &Value, usage: &mut Usage) {
    let one = Quantity::whole(1);
    let class = text(object, "/spec/storageClassName");
    usage.insert("persistentvolumeclaims".to_owned(), one);
    let storage = amounts(&object["spec"]["resources"]["requests"]).get("storage").copied();
    if !class.is_empty() {
        usage.insert(format!("{class}.storageclass.storage.k8s.io/persistentvolumeclaims"), one);
    }
    if let Some(storage) = storage {
        usage.insert("requests.storage".to_owned(), storage);
        if !class.is_empty() {
            usage.insert(format!("{class}.storageclass.storage.k8s.io/requests.storage"), storage);
        }
    }
}

/// Whether a quota with scopes is about this object.
pub(super) fn matches(quota: &Value, resource: &Resource, object: &Value) -> bool {
    let plain = items(quota, "/spec/scopes").iter().filter_map(Value::as_str).map(|scope| (scope, None));
    let selected = items(quota, "/spec/scopeSelector/matchExpressions")
        .iter()
        .filter_map(|one| Some((one["scopeName"].as_str()?, Some(one))));
    let mut scopes = plain.chain(selected).peekable();
    if scopes.peek().is_none() {
        return true;
    }
    resource.is("", "pods") && scopes.all(|(scope, selector)| in_scope(scope, selector, object))
}

fn in_scope(scope: &str, selector: Option<&Value>, pod: &Value) -> bool {
    let best_effort = text(pod, "/status/qosClass") == "BestEffort";
    let terminating = pod["spec"]["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0);
    match scope {
        "Terminating" => terminating,
        "NotTerminating" => !terminating,
        "BestEffort" => best_effort,
        "NotBestEffort" => !best_effort,
        "PriorityClass" => {
            let class = text(pod, "/spec/priorityClassName");
            let Some(selector) = selector else { return !class.is_empty() };
            let named = items(selector, "/values").iter().any(|one| one == class);
            match text(selector, "/operator") {
                "In" => named,
                "NotIn" => !named,
                "DoesNotExist" => class.is_empty(),
                _ => !class.is_empty(),
            }
        }
        "CrossNamespacePodAffinity" => false,
        _ => false,
    }
}

/// What containers must say because a quota counts it, and do not.
pub(super) fn unsaid(resource: &Resource, hard: &Usage, object: &Value) -> Option<String> {
    if !resource.is("", "pods") {
        return None;
    }
    let required = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let containers = items(object, "/spec/containers").iter().chain(items(object, "/spec/initContainers"));
    for container in containers {
        for name in required.into_iter().filter(|name| hard.contains_key(*name)) {
            let (field, plain) = match name.split_once('.') {
                Some((field, plain)) => (field, plain),
                None => ("requests", name),
            };
            if container["resources"][field].get(plain).is_none() {
                missing.entry(name).or_default().push(text(container, "/name"));
            }
        }
    }
    if missing.is_empty() {
        return None;
    }
    let parts: Vec<String> = missing
        .into_iter()
        .map(|(name, mut containers)| {
            containers.sort_unstable();
            containers.dedup();
            format!("{name} for: {}", containers.join(","))
        })
        .collect();
    Some(format!("must specify {}", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(usage: &Usage) -> Vec<String> {
        usage.iter().map(|(name, amount)| format!("{name}={amount}")).collect()
    }

    #[test]
    fn a_pod_uses_its_containers_or_its_largest_initialisation() {
        let requests = |cpu: &str| json!({ "requests": { "cpu": cpu } });
        let pod = json!({ "spec": {
            "containers": [{ "resources": requests("100m") }, { "resources": requests("200m") }],
            "initContainers": [
                { "resources": requests("1") },
                { "restartPolicy": "Always", "resources": requests("50m") },
                { "resources": requests("400m") },
            ],
        } });
        assert_eq!(shown(&pod_total(&pod, "requests")), ["cpu=1"]);
        let pod = json!({ "spec": {
            "containers": [{ "resources": requests("900m") }],
            "initContainers": [{ "restartPolicy": "Always", "resources": requests("200m") }],
        } });
        assert_eq!(shown(&pod_total(&pod, "requests")), ["cpu=1100m"]);
    }

    #[test]
    fn scopes_choose_pods() {
        let pod = json!({ "spec": { "activeDeadlineSeconds": 5, "priorityClassName": "high" }, "status": { "qosClass": "BestEffort" } });
        for (scope, expected) in
            [("Terminating", true), ("NotTerminating", false), ("BestEffort", true), ("NotBestEffort", false)]
        {
            assert_eq!(in_scope(scope, None, &pod), expected, "{scope}");
        }
        for (operator, values, expected) in [
            ("In", json!(["high"]), true),
            ("NotIn", json!(["high"]), false),
            ("DoesNotExist", json!([]), false),
        ] {
            let selector = json!({ "scopeName": "PriorityClass", "operator": operator, "values": values });
            assert_eq!(in_scope("PriorityClass", Some(&selector), &pod), expected, "{operator}");
        }
    }
}
