//! Limit ranges: what containers get that say nothing, and the least and the most that anything may ask for.

use std::collections::BTreeMap;

use pilothouse_cel::Quantity;
use serde_json::{Map, Value, json};

use super::{items, text, usage};
use crate::catalogue::Resource;
use crate::status::Failure;
use crate::strategy::pod;

type Amounts = BTreeMap<String, Quantity>;

/// Fills in requests and limits.
pub(super) fn defaults(ranges: &[Value], object: &mut Value) {
    let mut notes = Vec::new();
    for range in ranges {
        let of_containers =
            || items(range, "/spec/limits").iter().filter(|limit| limit["type"] == "Container");
        let gathered = |field: &str| -> Map<String, Value> {
            of_containers().filter_map(|limit| limit[field].as_object().cloned()).flatten().collect()
        };
        let (requests, limits) = (gathered("defaultRequest"), gathered("default"));
        // The note of the last range stays.
        let mut added = Vec::new();
        for (field, name) in [("containers", "container"), ("initContainers", "init container")] {
            let containers = object["spec"].get_mut(field).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                let note = |what: &str, names: &[String], container: &Value| {
                    format!("{} {what} for {name} {}", names.join(", "), text(container, "/name"))
                };
                let asked = merge(container, "requests", &requests);
                let limited = merge(container, "limits", &limits);
                if !asked.is_empty() {
                    added.push(note("request", &asked, container));
                }
                if !limited.is_empty() {
                    added.push(note("limit", &limited, container));
                }
            }
        }
        if !added.is_empty() {
            notes = added;
        }
    }
    if notes.is_empty() {
        return;
    }
    if !object["metadata"]["annotations"].is_object() {
        object["metadata"]["annotations"] = json!({});
    }
    let note = format!("LimitRanger plugin set: {}", notes.join("; "));
    object["metadata"]["annotations"]["kubernetes.io/limit-ranger"] = json!(note);
    object["status"]["qosClass"] = json!(pod::quality_of_service(&object["spec"]));
}

/// Sets what is not there, and names it.
fn merge(container: &mut Value, field: &str, defaults: &Map<String, Value>) -> Vec<String> {
    let mut set = Vec::new();
    for (name, amount) in defaults {
        if !container["resources"].is_object() {
            container["resources"] = json!({});
        }
        if !container["resources"][field].is_object() {
            container["resources"][field] = json!({});
        }
        if container["resources"][field].get(name).is_none() {
            container["resources"][field][name] = amount.clone();
            set.push(name.clone());
        }
    }
    set.sort();
    set
}

/// Refuses what is outside a range.
pub(super) fn check(ranges: &[Value], resource: &Resource, object: &Value) -> Result<(), Failure> {
    for range in ranges {
        let problems = match resource.plural.as_ref() {
            "pods" => of_pod(range, object),
            _ => of_claim(range, object),
        };
        let why = match problems.as_slice() {
            [] => continue,
            [only] => only.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        return Err(Failure::forbidden(resource, text(object, "/metadata/name"), why));
    }
    Ok(())
}

fn of_pod(range: &Value, pod: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for limit in items(range, "/spec/limits") {
        match text(limit, "/type") {
            "Container" => {
                for container in
                    items(pod, "/spec/containers").iter().chain(items(pod, "/spec/initContainers"))
                {
                    let requests = usage::amounts(&container["resources"]["requests"]);
                    let limits = usage::amounts(&container["resources"]["limits"]);
                    constraints("Container", limit, &requests, &limits, &mut problems);
                }
            }
            "Pod" => {
                let (requests, limits) = (usage::pod_total(pod, "requests"), usage::pod_total(pod, "limits"));
                constraints("Pod", limit, &requests, &limits, &mut problems);
            }
            _ => {}
        }
    }
    dedup(problems)
}

fn of_claim(range: &Value, claim: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let requests = usage::amounts(&claim["spec"]["resources"]["requests"]);
    let claims = items(range, "/spec/limits").iter().filter(|limit| limit["type"] == "PersistentVolumeClaim");
    for limit in claims {
        let kind = "PersistentVolumeClaim";
        for (name, least) in usage::amounts(&limit["min"]) {
            problems.extend(minimum(kind, &name, least, &requests, &Amounts::new()));
        }
        for (name, most) in usage::amounts(&limit["max"]) {
            problems.extend(match requests.get(&name) {
                None => Some(format!("maximum {name} usage per {kind} is {most}.  No request is specified")),
                Some(asked) if asked.exceeds(most) => {
                    Some(format!("maximum {name} usage per {kind} is {most}, but request is {asked}"))
                }
                Some(_) => None,
            });
        }
    }
    dedup(problems)
}

/// Each problem is said once, however many have it.
fn dedup(problems: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for problem in problems {
        if !kept.contains(&problem) {
            kept.push(problem);
        }
    }
    kept
}

fn constraints(kind: &str, limit: &Value, requests: &Amounts, limits: &Amounts, problems: &mut Vec<String>) {
    for (name, least) in usage::amounts(&limit["min"]) {
        problems.extend(minimum(kind, &name, least, requests, limits));
    }
    for (name, most) in usage::amounts(&limit["max"]) {
        let start = format!("maximum {name} usage per {kind} is {most}");
        problems.extend(match (requests.get(&name), limits.get(&name)) {
            (_, None) => Some(format!("{start}.  No limit is specified")),
            (_, Some(limit)) if limit.exceeds(most) => Some(format!("{start}, but limit is {limit}")),
            (Some(asked), _) if asked.exceeds(most) => Some(format!("{start}, but request is {asked}")),
            _ => None,
        });
    }
    for (name, most) in usage::amounts(&limit["maxLimitRequestRatio"]) {
        let start = format!("{name} max limit to request ratio per {kind} is {most}");
        let given = |amounts: &Amounts| amounts.get(&name).copied().filter(|amount| !amount.is_zero());
        problems.extend(match (given(requests), given(limits)) {
            (None, _) => Some(format!("{start}, but no request is specified or request is 0")),
            (_, None) => Some(format!("{start}, but no limit is specified or limit is 0")),
            (Some(asked), Some(limit)) => {
                let ratio = limit.as_f64() / asked.as_f64();
                (ratio > most.as_f64()).then(|| format!("{start}, but provided ratio is {ratio:.6}"))
            }
        });
    }
}

fn minimum(kind: &str, name: &str, least: Quantity, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let start = format!("minimum {name} usage per {kind} is {least}");
    match (requests.get(name), limits.get(name)) {
        (None, _) => Some(format!("{start}.  No request is specified")),
        (Some(asked), _) if least.exceeds(*asked) => Some(format!("{start}, but request is {asked}")),
        (_, Some(limit)) if least.exceeds(*limit) => Some(format!("{start}, but limit is {limit}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(limit: Value) -> Vec<Value> {
        vec![json!({ "spec": { "limits": [limit] } })]
    }

    #[test]
    fn what_a_container_does_not_say_it_is_given() {
        let ranges = range(json!({
            "type": "Container", "default": { "cpu": "1", "memory": "64Mi" }, "defaultRequest": { "cpu": "100m" },
        }));
        let mut pod = json!({
            "metadata": {},
            "spec": { "containers": [{ "name": "a", "resources": { "limits": { "memory": "1Gi" } } }, { "name": "b" }] },
        });
        defaults(&ranges, &mut pod);
        let given = json!({ "limits": { "memory": "1Gi", "cpu": "1" }, "requests": { "cpu": "100m" } });
        assert_eq!(pod["spec"]["containers"][0]["resources"], given);
        assert_eq!(
            pod["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
            "LimitRanger plugin set: cpu request for container a; cpu limit for container a; cpu request for container b; cpu, memory limit for container b"
        );
    }

    #[test]
    fn what_is_outside_the_range_is_said() {
        let pod = json!({ "spec": { "containers": [
            { "name": "a", "resources": { "requests": { "cpu": "100m" }, "limits": { "cpu": "2" } } },
        ] } });
        for (limit, expected) in [
            (
                json!({ "type": "Container", "max": { "cpu": "1" } }),
                "maximum cpu usage per Container is 1, but limit is 2",
            ),
            (
                json!({ "type": "Container", "min": { "cpu": "0.5" } }),
                "minimum cpu usage per Container is 500m, but request is 100m",
            ),
            (
                json!({ "type": "Pod", "max": { "memory": "1" } }),
                "maximum memory usage per Pod is 1.  No limit is specified",
            ),
            (
                json!({ "type": "Container", "maxLimitRequestRatio": { "cpu": "4" } }),
                "cpu max limit to request ratio per Container is 4, but provided ratio is 20.000000",
            ),
        ] {
            assert_eq!(of_pod(&range(limit)[0], &pod), [expected]);
        }
        let claim = json!({ "spec": { "resources": { "requests": { "storage": "3Gi" } } } });
        let limit = range(json!({ "type": "PersistentVolumeClaim", "max": { "storage": "2Gi" } }));
        assert_eq!(
            of_claim(&limit[0], &claim),
            ["maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"]
        );
    }
}
