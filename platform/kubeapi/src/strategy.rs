//! What the server itself does to an object on its way in.
//!
//! On create it gives identity and drops what a client may not decide; on update it restores what the server owns; on
//! both it fills in the defaults that controllers and clients rely on, and then says what is wrong. All of it is a
//! function of the old object and the new one.
//!
//! The order of a write: decode, [`decode`] and [`begin`] or [`prepare_update`], admission, [`validate`], store.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::catalogue::Resource;
use crate::status::{Cause, Failure};

mod access;
mod admission;
mod autoscaling;
mod batch;
pub(crate) mod certificate;
mod configuration;
pub(crate) mod definition;
mod metadata;
pub(crate) mod names;
mod network;
pub(crate) mod pod;
mod quota;
pub(crate) mod scale;
mod security;
mod service;
mod storage;
#[cfg(test)]
mod tests;
mod typed;
mod workload;

/// What a new object is given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context {
    pub(crate) now: Timestamp,
    pub(crate) uid: Uuid,
}

/// A timestamp as the API writes them: whole seconds, UTC.
pub(crate) fn timestamp(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// Drops fields the kind does not have, and names them. An object that does not fit its kind's type is refused.
///
/// Preparing does it too; who wants to tell a client about such fields does it before.
pub(crate) fn prune(resource: &Resource, object: &mut Value) -> Result<Vec<String>, Failure> {
    ensure_object(object);
    object["apiVersion"] = json!(resource.api_version());
    object["kind"] = json!(resource.kind);
    if !resource.custom {
        return typed::fit(resource, object);
    }
    let mut dropped = match object.get_mut("metadata") {
        Some(metadata) if !metadata.is_null() => typed::fit_metadata(resource, metadata)?,
        _ => Vec::new(),
    };
    if let Some(schema) = &resource.schema {
        dropped.extend(schema.prune(object));
    }
    Ok(dropped)
}

/// Makes a new object out of what a client sent. Answers with the fields the kind does not have.
#[cfg(test)]
pub(crate) fn prepare_create(
    resource: &Resource,
    object: &mut Value,
    context: &Context,
) -> Result<Vec<String>, Failure> {
    let dropped = decode(resource, object)?;
    begin(resource, object, context);
    Ok(dropped)
}

/// What a client sent, with everything it means by it: this is what belongs to it. Answers with the fields the kind does not
/// have.
pub(crate) fn decode(resource: &Resource, object: &mut Value) -> Result<Vec<String>, Failure> {
    let dropped = prune(resource, object)?;
    ensure_object(&mut object["metadata"]);
    defaults(resource, object);
    if resource.is("apps", "daemonsets") {
        workload::count_templates(None, object);
    }
    Ok(dropped)
}

/// Gives a new object what the server decides.
pub(crate) fn begin(resource: &Resource, object: &mut Value, context: &Context) {
    metadata::for_create(resource, object, context);
    // A node registers itself with what it knows; all other kinds get their status from a controller, later.
    if resource.status_subresource && !resource.is("", "nodes") {
        remove(object, "status");
        if !resource.custom {
            typed::empty_status(resource, object);
        }
        // A schema may have something to say about a status that nobody has written yet.
        if let Some(schema) = &resource.schema {
            schema.default(object);
        }
    }
    match (resource.group.as_ref(), resource.plural.as_ref()) {
        ("batch", "jobs") => batch::select_own_pods(object, context.uid),
        ("", "namespaces") => namespace_finalizer(object),
        ("", "services") => service::families(object),
        _ => {}
    }
    initial_status(resource, object);
    if resource.is("", "persistentvolumes") {
        object["status"]["lastPhaseTransitionTime"] = json!(timestamp(context.now));
    }
}

/// Restores in `new` what this endpoint may not change, and counts the generation. Answers with the fields the kind does
/// not have.
pub(crate) fn prepare_update(
    resource: &Resource,
    subresource: Option<&str>,
    old: &Value,
    new: &mut Value,
) -> Result<Vec<String>, Failure> {
    let dropped = prune(resource, new)?;
    match subresource {
        Some("status") => only_status(resource, old, new),
        Some("approval") => only_conditions(old, new),
        Some("finalize") => only_finalizers(old, new),
        Some(part @ ("ephemeralcontainers" | "resize")) => {
            match part {
                "resize" => pod::running::only_resources(old, new),
                _ => pod::running::only_ephemeral(old, new),
            }
            metadata::count_generation(resource, old, new);
        }
        _ => {
            metadata::for_update(resource, old, new);
            if resource.status_subresource {
                keep(old, new, "status");
            }
            if resource.is("", "namespaces") {
                keep(old, new, "spec");
            }
            if resource.is("", "services") {
                service::keep_allocated(old, new);
            }
            if resource.is("certificates.k8s.io", "certificatesigningrequests") {
                keep(old, new, "spec");
            }
            defaults(resource, new);
            if resource.is("apps", "daemonsets") {
                workload::count_templates(Some(old), new);
            }
            if resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
                definition::remember_storage(new);
            }
            if resource.is("", "services") {
                service::families(new);
            }
            metadata::count_generation(resource, old, new);
        }
    }
    Ok(dropped)
}

/// What a client is told beside the answer. What is only said twice is put right.
pub(crate) fn warnings(resource: &Resource, object: &mut Value) -> Vec<String> {
    let mut warnings: Vec<_> = metadata::one_of_each_owner(&mut object["metadata"]).into_iter().collect();
    if resource.is("", "services") {
        warnings.extend(service::warnings(object));
    }
    if resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
        warnings.extend(definition::warnings(object));
    }
    if resource.is("", "serviceaccounts") {
        warnings.extend(pod::mountable::warning(object));
    }
    warnings
}

/// What is wrong with an object that was prepared.
pub(crate) fn validate(
    resource: &Resource,
    subresource: Option<&str>,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), Failure> {
    let mut causes = metadata::validate(resource, old, new);
    if let Some(schema) = &resource.schema {
        causes.extend(scale::problems(resource, new));
        causes.extend(schema.validate(new, old));
    }
    if subresource.is_none() && !resource.custom {
        causes.extend(content(resource, old, new));
    }
    match (subresource, old) {
        (Some("approval"), Some(old)) => causes.extend(certificate::validate_answer(old, new)),
        (Some("ephemeralcontainers"), Some(old)) => causes.extend(pod::running::validate_ephemeral(old, new)),
        (Some("resize"), Some(old)) => causes.extend(pod::running::validate_resize(old, new)),
        _ => {}
    }
    match causes.is_empty() {
        true => Ok(()),
        false => {
            let name = new["metadata"]["name"].as_str().unwrap_or_default();
            Err(Failure::invalid(resource, name, causes))
        }
    }
}

fn defaults(resource: &Resource, object: &mut Value) {
    if let Some(schema) = &resource.schema {
        schema.default(object);
        return;
    }
    match (resource.group.as_ref(), resource.plural.as_ref()) {
        ("", "pods") => pod::own_defaults(&mut object["spec"]),
        ("", "services") => service::defaults(object),
        ("", "endpoints") => service::endpoints_defaults(object),
        ("discovery.k8s.io", "endpointslices") => service::slice_defaults(object),
        ("", "secrets") => configuration::secret_defaults(object),
        ("", "namespaces") => namespace_defaults(object),
        ("", "persistentvolumeclaims") => storage::claim_defaults(object),
        ("", "persistentvolumes") => storage::volume_defaults(object),
        ("storage.k8s.io", "storageclasses") => storage::class_defaults(object),
        ("scheduling.k8s.io", "priorityclasses") => {
            fill(object, "preemptionPolicy", json!("PreemptLowerPriority"))
        }
        ("", "nodes") => node_defaults(object),
        ("apps", plural) => workload::defaults(plural, object),
        ("", "replicationcontrollers") => workload::controller_defaults(object),
        ("", "podtemplates") => pod::defaults(&mut object["template"]["spec"]),
        ("", "limitranges") => configuration::limit_defaults(object),
        ("batch", "jobs") => {
            batch::job_defaults(object);
            fill(&mut object["spec"], "manualSelector", json!(false));
        }
        ("batch", "cronjobs") => batch::cron_job_defaults(object),
        ("autoscaling", _) => autoscaling::defaults(object),
        ("networking.k8s.io", "networkpolicies") => network::policy_defaults(object),
        ("storage.k8s.io", "csidrivers") => storage::driver_defaults(object),
        ("admissionregistration.k8s.io", plural) => admission::defaults(plural, object),
        ("apiregistration.k8s.io", _) => admission::service_defaults(object),
        ("rbac.authorization.k8s.io", plural) => access::defaults(plural, object),
        ("apiextensions.k8s.io", "customresourcedefinitions") => definition::defaults(object),
        _ => {}
    }
}

fn content(resource: &Resource, old: Option<&Value>, new: &Value) -> Vec<Cause> {
    match (resource.group.as_ref(), resource.plural.as_ref()) {
        ("", "pods") => pod::validation::validate(old, new),
        ("", "services") => service::validate(old, new),
        ("", "secrets" | "configmaps") => configuration::validate(old, new),
        ("", "persistentvolumeclaims") => storage::validate_claim(old, new),
        ("", "persistentvolumes") => storage::validate_volume(old, new),
        ("", "nodes") => validate_node(old, new),
        ("", "namespaces") => security::validate_labels(old, new),
        ("", "resourcequotas") => quota::validate(new),
        ("storage.k8s.io", "storageclasses") => storage::validate_class(old, new),
        ("scheduling.k8s.io", "priorityclasses") => immutable(old, new, &["value", "preemptionPolicy"]),
        ("apps", plural) => workload::validate(plural, old, new),
        ("batch", "jobs") => batch::validate_job(old, new),
        ("batch", "cronjobs") => batch::validate_cron_job(new),
        ("autoscaling", _) => autoscaling::validate(new),
        ("policy", "poddisruptionbudgets") => batch::validate_budget(new),
        ("networking.k8s.io", "ingresses") => network::validate_ingress(new),
        ("networking.k8s.io", "ingressclasses") => network::validate_class(old, new),
        ("networking.k8s.io", "networkpolicies") => network::validate_policy(new),
        ("coordination.k8s.io", "leases") => validate_lease(new),
        ("", "events") => validate_event(new),
        ("node.k8s.io", "runtimeclasses") => immutable(old, new, &["handler"]),
        ("certificates.k8s.io", _) => {
            let mut causes = access::validate_request(old, new);
            causes.extend(certificate::validate(new));
            causes
        }
        ("admissionregistration.k8s.io", plural) => admission::validate(plural, new),
        ("rbac.authorization.k8s.io", plural) => access::validate(plural, old, new),
        ("apiextensions.k8s.io", "customresourcedefinitions") => definition::validate(old, new),
        _ => Vec::new(),
    }
}

/// What a kind's status is before any controller saw the object.
fn initial_status(resource: &Resource, object: &mut Value) {
    match (resource.group.as_ref(), resource.plural.as_ref()) {
        ("", "pods") => {
            let class = pod::quality_of_service(&object["spec"]);
            object["status"] = json!({ "phase": "Pending", "qosClass": class });
        }
        ("", "namespaces") => object["status"] = json!({ "phase": "Active" }),
        ("", "services") => object["status"] = json!({ "loadBalancer": {} }),
        ("", "persistentvolumes" | "persistentvolumeclaims") => {
            object["status"] = json!({ "phase": "Pending" })
        }
        ("autoscaling", _) => object["status"] = json!({ "desiredReplicas": 0, "currentMetrics": null }),
        ("apiextensions.k8s.io", "customresourcedefinitions") => definition::initial_status(object),
        _ => {}
    }
}

/// Everything but the status is as it was. Pods and nodes also take labels and annotations this way: their kubelet has no
/// other.
fn only_status(resource: &Resource, old: &Value, new: &mut Value) {
    let status = new.get_mut("status").map(Value::take);
    let sent = new["metadata"].take();
    *new = old.clone();
    match status {
        Some(status) if !status.is_null() => new["status"] = status,
        _ => remove(new, "status"),
    }
    ensure_object(&mut new["metadata"]);
    let kept_by_client: &[&str] = match resource.is("", "pods") || resource.is("", "nodes") {
        true => &["labels", "annotations", "managedFields"],
        false => &["managedFields"],
    };
    for key in kept_by_client {
        match sent.get(key) {
            Some(value) if !value.is_null() => new["metadata"][*key] = value.clone(),
            // Labels that are left out are gone; managed fields that are left out are only not understood.
            _ if *key != "managedFields" => remove(&mut new["metadata"], key),
            _ => {}
        }
    }
    if resource.group == "autoscaling"
        && let Some(status) = new.get_mut("status").and_then(Value::as_object_mut)
    {
        // Clients of its type expect it, if only to be told that there are none.
        status.entry("currentMetrics").or_insert(Value::Null);
    }
    if let Some(schema) = &resource.schema {
        schema.default(new);
    }
}

/// `certificatesigningrequests/approval` replaces the conditions and nothing else.
fn only_conditions(old: &Value, new: &mut Value) {
    let conditions = new.pointer_mut("/status/conditions").map(Value::take).unwrap_or_default();
    *new = old.clone();
    ensure_object(&mut new["status"]);
    match conditions.is_null() {
        true => remove(&mut new["status"], "conditions"),
        false => new["status"]["conditions"] = conditions,
    }
}

/// `namespaces/finalize` replaces `spec.finalizers` and nothing else.
fn only_finalizers(old: &Value, new: &mut Value) {
    let finalizers = new.pointer_mut("/spec/finalizers").map(Value::take).unwrap_or_default();
    *new = old.clone();
    ensure_object(&mut new["spec"]);
    match finalizers.as_array() {
        Some(left) if !left.is_empty() => new["spec"]["finalizers"] = finalizers,
        _ => remove(&mut new["spec"], "finalizers"),
    }
}

fn namespace_defaults(object: &mut Value) {
    let name = object["metadata"]["name"].clone();
    if name.as_str().is_some_and(|name| !name.is_empty()) {
        ensure_object(&mut object["metadata"]["labels"]);
        object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
    }
}

/// Whatever is in a namespace has to go before it does.
fn namespace_finalizer(object: &mut Value) {
    ensure_object(&mut object["spec"]);
    let finalizers = &mut object["spec"]["finalizers"];
    match finalizers.as_array_mut() {
        Some(finalizers) if finalizers.iter().any(|one| one == "kubernetes") => {}
        Some(finalizers) => finalizers.push(json!("kubernetes")),
        None => *finalizers = json!(["kubernetes"]),
    }
}

/// The first range is in two places.
fn node_defaults(object: &mut Value) {
    let spec = &mut object["spec"];
    match (text(spec, "/podCIDR").to_owned(), text(spec, "/podCIDRs/0").to_owned()) {
        (one, _) if !one.is_empty() => fill(spec, "podCIDRs", json!([one])),
        (_, first) if !first.is_empty() => spec["podCIDR"] = json!(first),
        _ => {}
    }
}

fn validate_node(old: Option<&Value>, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (place, taint) in items(new, "/spec/taints").iter().enumerate() {
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        // The real server looks twice at a node that changes, and says so twice.
        let times = if old.is_some() { 2 } else { 1 };
        for _ in (0..times).filter(|_| !effects.contains(&text(taint, "/effect"))) {
            let path = format!("metadata.taints[{place}].effect");
            causes.push(Cause::not_supported(path, &taint["effect"], effects));
        }
        if let Some(why) = names::label_key_problem(text(taint, "/key")) {
            causes.push(Cause::invalid(format!("metadata.taints[{place}].key"), &taint["key"], why));
        }
    }
    let Some(old) = old else { return causes };
    let (before, after) = (&old["spec"]["podCIDR"], &new["spec"]["podCIDR"]);
    if before.as_str().is_some_and(|range| !range.is_empty()) && before != after {
        let why = "node updates may not change podCIDR except from \"\" to valid";
        causes.push(Cause::forbidden("spec.podCIDR", why));
    }
    causes
}

fn validate_lease(new: &Value) -> Vec<Cause> {
    let spec = &new["spec"];
    let mut causes = Vec::new();
    if let Some(seconds) = spec["leaseDurationSeconds"].as_i64().filter(|seconds| *seconds <= 0) {
        let why = "must be greater than 0";
        causes.push(Cause::invalid("spec.leaseDurationSeconds", &json!(seconds), why));
    }
    if let Some(count) = spec["leaseTransitions"].as_i64().filter(|count| *count < 0) {
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid("spec.leaseTransitions", &json!(count), why));
    }
    causes
}

/// An event is where what it tells of is; of what is nowhere it is told in `default`.
fn validate_event(new: &Value) -> Vec<Cause> {
    let (of, own) = (text(new, "/involvedObject/namespace"), text(new, "/metadata/namespace"));
    match of {
        "" if matches!(own, "default" | "kube-system") => Vec::new(),
        namespace if namespace == own => Vec::new(),
        namespace => vec![Cause::invalid(
            "involvedObject.namespace",
            &json!(namespace),
            "does not match event.namespace",
        )],
    }
}

/// Complaints about fields that differ from the old object.
fn immutable(old: Option<&Value>, new: &Value, fields: &[&str]) -> Vec<Cause> {
    let Some(old) = old else { return Vec::new() };
    fields
        .iter()
        .filter(|field| old[**field] != new[**field])
        .map(|field| Cause::invalid(*field, &new[*field], "field is immutable"))
        .collect()
}

/// The same for fields of an inner object, which are named with their path.
fn immutable_in(old: &Value, new: &Value, path: &str, fields: &[&str]) -> Vec<Cause> {
    fields
        .iter()
        .filter(|field| old[**field] != new[**field])
        .map(|field| Cause::invalid(format!("{path}.{field}"), &new[*field], "field is immutable"))
        .collect()
}

/// Sets a field that is absent, null or, where text is expected, empty.
fn fill(object: &mut Value, key: &str, value: Value) {
    if let Some(map) = object.as_object_mut() {
        let place = map.entry(key).or_insert(Value::Null);
        if place.is_null() || (value.is_string() && place == "") {
            *place = value;
        }
    }
}

fn remove(object: &mut Value, key: &str) {
    if let Some(map) = object.as_object_mut() {
        map.remove(key);
    }
}

/// Takes a field over from the old object, or out where there was none.
fn keep(old: &Value, new: &mut Value, key: &str) {
    match old.get(key) {
        Some(value) => new[key] = value.clone(),
        None => remove(new, key),
    }
}

fn ensure_object(value: &mut Value) {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn items_mut<'a>(object: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}
