//! Built-in objects have types, and what is stored must fit them.
//!
//! Clients read lists into those types, and one object that does not fit would spoil the list for all of them. So an
//! object is read into the type of its kind and written out again: what cannot be read is refused, and what does not
//! come out again was never part of the kind.

use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::coordination::v1 as coordination;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::api::rbac::v1 as rbac;
use k8s_openapi::api::scheduling::v1 as scheduling;
use k8s_openapi::api::storage::v1 as storage;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalogue::Resource;
use crate::status::Failure;

/// Reads an object into its type and writes it out again.
type RoundTrip = fn(&Value) -> Result<Value, serde_json::Error>;

/// Drops what is not part of the kind, and names it; nulls go without mention. An object that cannot be read is refused.
pub(super) fn fit(resource: &Resource, object: &mut Value) -> Result<Vec<String>, Failure> {
    let Some(round_trip) = round_trip_of(resource) else { return Ok(Vec::new()) };
    if has_quantities(resource) {
        spell_quantities(object);
    }
    fit_part(resource, round_trip, object, "")
}

/// The same for the one part of a custom resource that its schema does not describe.
pub(super) fn fit_metadata(resource: &Resource, metadata: &mut Value) -> Result<Vec<String>, Failure> {
    fit_part(resource, round_trip::<ObjectMeta>, metadata, "metadata")
}

fn fit_part(
    resource: &Resource,
    round_trip: RoundTrip,
    part: &mut Value,
    path: &str,
) -> Result<Vec<String>, Failure> {
    let mut dropped = Vec::new();
    match round_trip(part) {
        Ok(known) => {
            retain(part, &known, path, &mut dropped);
            Ok(dropped)
        }
        Err(error) => {
            let inner = culprit(round_trip, part, &error.to_string());
            let place = format!("{path}{inner}");
            let kind = &resource.kind;
            Err(Failure::bad_request(format!(
                "{kind} in version \"{}\" cannot be handled as a {kind}: {}: {error}",
                resource.version,
                place.strip_prefix('.').unwrap_or(&place)
            )))
        }
    }
}

fn round_trip<T: for<'a> Deserialize<'a> + Serialize>(object: &Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(T::deserialize(object)?)
}

fn round_trip_of(resource: &Resource) -> Option<RoundTrip> {
    Some(match (resource.group.as_ref(), resource.plural.as_ref()) {
        ("", "configmaps") => round_trip::<core::ConfigMap>,
        ("", "endpoints") => round_trip::<core::Endpoints>,
        ("", "events") => round_trip::<core::Event>,
        ("", "namespaces") => round_trip::<core::Namespace>,
        ("", "nodes") => round_trip::<core::Node>,
        ("", "persistentvolumeclaims") => round_trip::<core::PersistentVolumeClaim>,
        ("", "persistentvolumes") => round_trip::<core::PersistentVolume>,
        ("", "pods") => round_trip::<core::Pod>,
        ("", "secrets") => round_trip::<core::Secret>,
        ("", "serviceaccounts") => round_trip::<core::ServiceAccount>,
        ("", "services") => round_trip::<core::Service>,
        ("apps", "controllerrevisions") => round_trip::<apps::ControllerRevision>,
        ("apps", "daemonsets") => round_trip::<apps::DaemonSet>,
        ("apps", "deployments") => round_trip::<apps::Deployment>,
        ("apps", "replicasets") => round_trip::<apps::ReplicaSet>,
        ("apps", "statefulsets") => round_trip::<apps::StatefulSet>,
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            round_trip::<apiextensions::CustomResourceDefinition>
        }
        ("coordination.k8s.io", "leases") => round_trip::<coordination::Lease>,
        ("discovery.k8s.io", "endpointslices") => round_trip::<discovery::EndpointSlice>,
        ("rbac.authorization.k8s.io", "clusterrolebindings") => round_trip::<rbac::ClusterRoleBinding>,
        ("rbac.authorization.k8s.io", "clusterroles") => round_trip::<rbac::ClusterRole>,
        ("rbac.authorization.k8s.io", "rolebindings") => round_trip::<rbac::RoleBinding>,
        ("rbac.authorization.k8s.io", "roles") => round_trip::<rbac::Role>,
        ("scheduling.k8s.io", "priorityclasses") => round_trip::<scheduling::PriorityClass>,
        ("storage.k8s.io", "storageclasses") => round_trip::<storage::StorageClass>,
        _ => return None,
    })
}

fn retain(object: &mut Value, known: &Value, path: &str, dropped: &mut Vec<String>) {
    match (object, known) {
        (Value::Object(fields), Value::Object(known)) => fields.retain(|name, value| {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            match known.get(name) {
                Some(known) => retain(value, known, &path, dropped),
                None if value.is_null() => return false,
                None => {
                    dropped.push(path);
                    return false;
                }
            }
            true
        }),
        (Value::Array(items), Value::Array(known)) => {
            for (place, (item, known)) in items.iter_mut().zip(known).enumerate() {
                retain(item, known, &format!("{path}[{place}]"), dropped);
            }
        }
        _ => {}
    }
}

/// Where an error comes from: the reader does not say, but without the wrong field it has nothing to complain about.
fn culprit(round_trip: RoundTrip, object: &Value, error: &str) -> String {
    let mut path: Vec<Step> = Vec::new();
    loop {
        let mut node = object;
        for step in &path {
            node = step.of(node);
        }
        let steps: Vec<Step> = match node {
            Value::Object(fields) => fields.keys().map(|name| Step::Field(name.clone())).collect(),
            Value::Array(items) => (0..items.len()).map(Step::Item).collect(),
            _ => Vec::new(),
        };
        let wrong = steps.into_iter().find(|step| {
            let mut without = object.clone();
            let mut place = &mut without;
            for step in &path {
                place = step.of_mut(place);
            }
            step.cut(place);
            round_trip(&without).map_err(|error| error.to_string()).err().as_deref() != Some(error)
        });
        match wrong {
            Some(step) => path.push(step),
            None => break,
        }
    }
    path.iter().map(Step::to_string).collect()
}

enum Step {
    Field(String),
    Item(usize),
}

impl Step {
    fn of<'a>(&self, value: &'a Value) -> &'a Value {
        match self {
            Self::Field(name) => &value[name],
            Self::Item(place) => &value[*place],
        }
    }

    /// Only for places that exist.
    fn of_mut<'a>(&self, value: &'a mut Value) -> &'a mut Value {
        match self {
            Self::Field(name) => &mut value[name],
            Self::Item(place) => &mut value[*place],
        }
    }

    fn cut(&self, value: &mut Value) {
        match (self, value) {
            (Self::Field(name), Value::Object(fields)) => {
                fields.remove(name);
            }
            (Self::Item(place), Value::Array(items)) => {
                items.remove(*place);
            }
            _ => {}
        }
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Field(name) => write!(formatter, ".{name}"),
            Self::Item(place) => write!(formatter, "[{place}]"),
        }
    }
}

/// In these kinds, maps called so hold quantities. (In a definition they could be anything.)
fn has_quantities(resource: &Resource) -> bool {
    matches!(
        (resource.group.as_ref(), resource.plural.as_ref()),
        ("", "pods" | "nodes" | "persistentvolumes" | "persistentvolumeclaims")
            | ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
    )
}

/// `cpu: 1` means `cpu: "1"`.
fn spell_quantities(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields.iter_mut() {
                match (name.as_str(), inner) {
                    (
                        "limits" | "requests" | "capacity" | "allocatable" | "overhead",
                        Value::Object(amounts),
                    ) => {
                        amounts.values_mut().for_each(spell);
                    }
                    ("sizeLimit", inner) => spell(inner),
                    ("labels" | "annotations" | "data", _) => {}
                    (_, inner) => spell_quantities(inner),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(spell_quantities),
        _ => {}
    }
}

fn spell(amount: &mut Value) {
    if let Value::Number(number) = amount {
        *amount = Value::String(number.to_string());
    }
}
