//! What a pod must say, and what it may not change once it exists.

use pilothouse_cel::Quantity;
use serde_json::{Value, json};

use super::super::{items, names, text};
use crate::status::Cause;

pub(in crate::strategy) fn validate(old: Option<&Value>, new: &Value) -> Vec<Cause> {
    match old {
        None => {
            let mut causes = specification(&new["spec"], "spec", &[]);
            if !items(new, "/spec/ephemeralContainers").is_empty() {
                causes.push(Cause::forbidden("spec.ephemeralContainers", "cannot be set on create"));
            }
            causes
        }
        Some(old) => unchanged(&old["spec"], &new["spec"]),
    }
}

/// Also used for the templates of workloads, whose pods may get further volumes: those are `claims`.
pub(in crate::strategy) fn specification(spec: &Value, path: &str, claims: &[&str]) -> Vec<Cause> {
    let mut causes = Vec::new();
    let volumes: Vec<_> = items(spec, "/volumes").iter().map(|volume| text(volume, "/name")).collect();
    for (place, name) in volumes.iter().enumerate() {
        let path = format!("{path}.volumes[{place}].name");
        match names::label_problem(name) {
            Some(_) if name.is_empty() => causes.push(Cause::required(path, "")),
            Some(why) => causes.push(Cause::invalid(path, &json!(name), why)),
            None if volumes[..place].contains(name) => causes.push(Cause::duplicate(path, &json!(name))),
            None => {}
        }
    }
    let mountable: Vec<_> = volumes.iter().chain(claims).copied().collect();
    if items(spec, "/containers").is_empty() {
        causes.push(Cause::required(format!("{path}.containers"), ""));
    }
    let mut seen: Vec<&str> = Vec::new();
    for list in ["initContainers", "containers"] {
        for (place, container) in items(spec, &format!("/{list}")).iter().enumerate() {
            let path = format!("{path}.{list}[{place}]");
            self::container(container, &path, &mountable, &mut causes);
            let name = text(container, "/name");
            if seen.contains(&name) {
                causes.push(Cause::duplicate(format!("{path}.name"), &json!(name)));
            }
            seen.push(name);
        }
    }
    for (key, allowed) in [
        ("restartPolicy", &["Always", "OnFailure", "Never"][..]),
        ("dnsPolicy", &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"][..]),
    ] {
        if !allowed.contains(&text(spec, &format!("/{key}"))) {
            causes.push(Cause::not_supported(format!("{path}.{key}"), &spec[key], allowed.iter().copied()));
        }
    }
    causes
}

fn container(container: &Value, path: &str, volumes: &[&str], causes: &mut Vec<Cause>) {
    let name = text(container, "/name");
    match names::label_problem(name) {
        Some(_) if name.is_empty() => causes.push(Cause::required(format!("{path}.name"), "")),
        Some(why) => causes.push(Cause::invalid(format!("{path}.name"), &json!(name), why)),
        None => {}
    }
    if text(container, "/image").trim().is_empty() {
        causes.push(Cause::required(format!("{path}.image"), ""));
    }
    let policies = ["Always", "IfNotPresent", "Never"];
    if !policies.contains(&text(container, "/imagePullPolicy")) {
        causes.push(Cause::not_supported(
            format!("{path}.imagePullPolicy"),
            &container["imagePullPolicy"],
            policies,
        ));
    }
    let mut mounts: Vec<&str> = Vec::new();
    for (place, mount) in items(container, "/volumeMounts").iter().enumerate() {
        let path = format!("{path}.volumeMounts[{place}]");
        let (volume, at) = (text(mount, "/name"), text(mount, "/mountPath"));
        if !volumes.contains(&volume) {
            let message = format!("Not found: {}", mount["name"]);
            causes.push(Cause::new("FieldValueNotFound", message, format!("{path}.name")));
        }
        if at.is_empty() {
            causes.push(Cause::required(format!("{path}.mountPath"), ""));
        } else if mounts.contains(&at) {
            causes.push(Cause::invalid(format!("{path}.mountPath"), &json!(at), "must be unique"));
        }
        mounts.push(at);
    }
    for (place, port) in items(container, "/ports").iter().enumerate() {
        let path = format!("{path}.ports[{place}]");
        match port["containerPort"].as_i64() {
            Some(1..=65535) => {}
            Some(_) => causes.push(Cause::invalid(
                format!("{path}.containerPort"),
                &port["containerPort"],
                "must be between 1 and 65535, inclusive",
            )),
            None => causes.push(Cause::required(format!("{path}.containerPort"), "")),
        }
    }
    for (place, variable) in items(container, "/env").iter().enumerate() {
        let (name, path) = (text(variable, "/name"), format!("{path}.env[{place}].name"));
        if name.is_empty() {
            causes.push(Cause::required(path, ""));
        } else if !name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
            let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
            causes.push(Cause::invalid(path, &json!(name), why));
        }
    }
    resources(&container["resources"], &format!("{path}.resources"), causes);
}

/// Nobody may ask for more than the most.
fn resources(resources: &Value, path: &str, causes: &mut Vec<Cause>) {
    let amount = |value: &Value| value.as_str().and_then(|text| Quantity::parse(text).ok());
    for (name, request) in resources["requests"].as_object().into_iter().flatten() {
        let limit = &resources["limits"][name];
        if let (Some(asked), Some(most)) = (amount(request), amount(limit))
            && asked.exceeds(most)
        {
            let why = format!(
                "must be less than or equal to {name} limit of {}",
                limit.as_str().unwrap_or_default()
            );
            causes.push(Cause::invalid(format!("{path}.requests"), request, why));
        }
    }
}

/// A running pod is what it is. Images, deadlines and further tolerations are the exceptions.
fn unchanged(old: &Value, new: &Value) -> Vec<Cause> {
    let mut comparable = new.clone();
    for list in ["containers", "initContainers"] {
        let before = items(old, &format!("/{list}"));
        let after = comparable.get_mut(list).and_then(Value::as_array_mut);
        for (container, before) in after.into_iter().flatten().zip(before) {
            if let Some(image) = before.get("image") {
                container["image"] = image.clone();
            }
        }
    }
    let before = items(old, "/tolerations");
    if before.iter().all(|toleration| items(new, "/tolerations").contains(toleration)) {
        restore(old, &mut comparable, "tolerations");
    }
    restore(old, &mut comparable, "activeDeadlineSeconds");
    // Removing a gate lets the scheduler go on.
    restore(old, &mut comparable, "schedulingGates");
    if comparable == *old {
        return Vec::new();
    }
    vec![Cause::forbidden(
        "spec",
        "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
         `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
         `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )]
}

fn restore(old: &Value, new: &mut Value, key: &str) {
    super::super::keep(old, new, key);
}
