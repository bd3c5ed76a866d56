//! What may be changed about a pod that runs: containers for debugging are added, and resources are set anew.

use serde_json::{Value, json};

use super::super::{ensure_object, items, items_mut, keep, names, text};
use crate::status::Cause;

/// What only a container that starts with its pod can have.
const NOT_FOR_DEBUGGING: [&str; 7] =
    ["ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resources", "resizePolicy"];

/// `pods/ephemeralcontainers` replaces the list of those, and nothing else.
pub(in crate::strategy) fn only_ephemeral(old: &Value, new: &mut Value) {
    let mut containers = new["spec"]["ephemeralContainers"].take();
    let fields = new["metadata"]["managedFields"].take();
    *new = old.clone();
    for container in containers.as_array_mut().into_iter().flatten() {
        super::container_defaults(container);
    }
    match containers.as_array().is_some_and(|containers| !containers.is_empty()) {
        true => new["spec"]["ephemeralContainers"] = containers,
        false => super::super::remove(&mut new["spec"], "ephemeralContainers"),
    }
    keep_owners(new, fields);
}

/// `pods/resize` replaces what containers get and how they take a change of it, and nothing else.
pub(in crate::strategy) fn only_resources(old: &Value, new: &mut Value) {
    let sent = new["spec"].take();
    let fields = new["metadata"]["managedFields"].take();
    *new = old.clone();
    for list in ["initContainers", "containers"] {
        let path = format!("/{list}");
        for container in items_mut(&mut new["spec"], list) {
            let name = text(container, "/name").to_owned();
            let Some(sent) = items(&sent, &path).iter().find(|one| text(one, "/name") == name) else {
                continue;
            };
            for part in ["resources", "resizePolicy"] {
                keep(sent, container, part);
            }
            ensure_object(&mut container["resources"]);
            super::requests_from_limits(container);
        }
    }
    keep_owners(new, fields);
}

fn keep_owners(new: &mut Value, fields: Value) {
    if !fields.is_null() {
        new["metadata"]["managedFields"] = fields;
    }
}

pub(in crate::strategy) fn validate_ephemeral(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (before, after) = (items(old, "/spec/ephemeralContainers"), items(new, "/spec/ephemeralContainers"));
    let named = |containers: &[Value], name: &str| containers.iter().any(|one| text(one, "/name") == name);
    let all = |list: &str| items(new, &format!("/spec/{list}"));
    for (place, container) in after.iter().enumerate() {
        let (name, path) = (text(container, "/name"), format!("spec.ephemeralContainers[{place}]"));
        let taken = named(all("containers"), name) || named(all("initContainers"), name);
        match names::label_problem(name) {
            Some(_) if name.is_empty() => causes.push(Cause::required(format!("{path}.name"), "")),
            Some(why) => causes.push(Cause::invalid(format!("{path}.name"), &json!(name), why)),
            None if taken || named(&after[..place], name) => {
                causes.push(Cause::duplicate(format!("{path}.name"), &json!(name)));
            }
            None => {}
        }
        let target = text(container, "/targetContainerName");
        if !target.is_empty() && !named(all("containers"), target) && !named(all("initContainers"), target) {
            let message = format!("Not found: {target:?}");
            causes.push(Cause::new("FieldValueNotFound", message, format!("{path}.targetContainerName")));
        }
        if text(container, "/image").trim().is_empty() {
            causes.push(Cause::required(format!("{path}.image"), ""));
        }
        for field in NOT_FOR_DEBUGGING {
            let empty = match &container[field] {
                Value::Null => true,
                Value::Object(map) => map.is_empty(),
                Value::Array(list) => list.is_empty(),
                _ => false,
            };
            if !empty {
                let why = "cannot be set for an Ephemeral Container";
                causes.push(Cause::forbidden(format!("{path}.{field}"), why));
            }
        }
    }
    for former in before {
        let name = text(former, "/name");
        let why = match after.iter().find(|one| text(one, "/name") == name) {
            Some(same) if same == former => continue,
            Some(_) => format!("existing ephemeral containers {name:?} may not be changed\n"),
            None => format!("existing ephemeral containers {name:?} may not be removed\n"),
        };
        causes.push(Cause::forbidden("spec.ephemeralContainers", &why));
    }
    causes
}

pub(in crate::strategy) fn validate_resize(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = super::validation::specification(&new["spec"], "spec", &[]);
    let class = super::quality_of_service(&old["spec"]);
    if class != super::quality_of_service(&new["spec"]) {
        let why = "Pod QOS Class may not change as a result of resizing";
        causes.push(Cause::invalid("spec", &json!(class), why));
    }
    // Whatever is left when the two that may change are put back was changed against the rules.
    let mut restored = new.clone();
    for list in ["initContainers", "containers"] {
        let before = items(old, &format!("/spec/{list}"));
        for (container, before) in items_mut(&mut restored["spec"], list).zip(before) {
            for kind in ["requests", "limits"] {
                for resource in ["cpu", "memory"] {
                    let before = &before["resources"][kind];
                    if before[resource].is_null() {
                        super::super::remove(&mut container["resources"][kind], resource);
                    } else {
                        container["resources"][kind][resource] = before[resource].clone();
                    }
                }
                let emptied = container["resources"][kind].as_object().is_some_and(serde_json::Map::is_empty);
                if emptied && before["resources"][kind].is_null() {
                    super::super::remove(&mut container["resources"], kind);
                }
            }
            keep(before, container, "resizePolicy");
        }
    }
    if restored["spec"] != old["spec"] {
        causes.push(Cause::forbidden("spec", "only cpu and memory resources are mutable"));
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(resources: Value, ephemeral: Value) -> Value {
        let mut pod = json!({
            "metadata": { "name": "p" },
            "spec": {
                "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
                "containers": [{ "name": "a", "image": "b", "imagePullPolicy": "Always", "resources": resources }],
            },
        });
        if !ephemeral.is_null() {
            pod["spec"]["ephemeralContainers"] = ephemeral;
        }
        pod
    }

    #[test]
    fn containers_for_debugging_are_added_and_stay() {
        let old = pod(json!({}), Value::Null);
        let mut new =
            pod(json!({ "requests": { "cpu": "1" } }), json!([{ "name": "d", "image": "busybox" }]));
        only_ephemeral(&old, &mut new);
        assert_eq!(new["spec"]["containers"], old["spec"]["containers"], "nothing else is taken over");
        assert_eq!(new["spec"]["ephemeralContainers"][0]["imagePullPolicy"], "Always");
        assert_eq!(validate_ephemeral(&old, &new), []);
        let fields = |old: &Value, new: Value| {
            let causes = validate_ephemeral(old, &new).into_iter();
            causes.map(|cause| format!("{} {}", cause.field, cause.message)).collect::<Vec<_>>()
        };
        let removed = fields(&new, old.clone());
        assert!(removed[0].contains("existing ephemeral containers \"d\" may not be removed"), "{removed:?}");
        let odd = json!([
            { "name": "a", "image": "x" },
            { "name": "e", "image": "x", "targetContainerName": "z" },
            { "name": "f", "image": "", "ports": [{ "containerPort": 80 }] },
        ]);
        assert_eq!(
            fields(&old, pod(json!({}), odd)),
            [
                "spec.ephemeralContainers[0].name Duplicate value: \"a\"",
                "spec.ephemeralContainers[1].targetContainerName Not found: \"z\"",
                "spec.ephemeralContainers[2].image Required value",
                "spec.ephemeralContainers[2].ports Forbidden: cannot be set for an Ephemeral Container",
            ]
        );
    }

    #[test]
    fn a_pod_is_resized_within_its_class_and_in_nothing_else() {
        let old = pod(json!({ "requests": { "cpu": "1" }, "limits": { "cpu": "2" } }), Value::Null);
        let resized = |resources: Value| {
            let mut new = pod(resources, Value::Null);
            new["spec"]["containers"][0]["image"] = json!("other");
            only_resources(&old, &mut new);
            assert_eq!(new["spec"]["containers"][0]["image"], "b");
            let causes = validate_resize(&old, &new);
            (new, causes.into_iter().map(|cause| cause.message).collect::<Vec<_>>())
        };
        let (new, causes) =
            resized(json!({ "requests": { "cpu": "1500m", "memory": "1Gi" }, "limits": { "cpu": "2" } }));
        assert_eq!(causes, [""; 0]);
        assert_eq!(new["spec"]["containers"][0]["resources"]["requests"]["memory"], "1Gi");
        // What is no longer asked for is as much as there may be.
        let (new, causes) = resized(json!({ "limits": { "cpu": "2" } }));
        assert_eq!(causes, [""; 0]);
        assert_eq!(new["spec"]["containers"][0]["resources"]["requests"]["cpu"], "2");
        let (_, causes) = resized(
            json!({ "requests": { "cpu": "1", "ephemeral-storage": "1Gi" }, "limits": { "cpu": "2" } }),
        );
        assert_eq!(causes, ["Forbidden: only cpu and memory resources are mutable"]);
        let all = json!({ "cpu": "2", "memory": "1Gi" });
        let (_, causes) = resized(json!({ "requests": all, "limits": all }));
        assert_eq!(
            causes,
            ["Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing"]
        );
        let (_, causes) = resized(json!({ "requests": { "cpu": "5" }, "limits": { "cpu": "2" } }));
        assert_eq!(causes, ["Invalid value: \"5\": must be less than or equal to cpu limit of 2"]);
    }
}
