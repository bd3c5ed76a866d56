//! Deployments and their relatives in one line.

use serde_json::{Value, json};

use super::{Heading, NONE, list, number, text};
use crate::selector::LabelSelector;

pub(super) const DEPLOYMENT: &[Heading] = &[
    Heading::text("Name"),
    Heading::text("Ready"),
    Heading::text("Up-to-date"),
    Heading::text("Available"),
    Heading::text("Age"),
    Heading::wide("Containers"),
    Heading::wide("Images"),
    Heading::wide("Selector"),
];

pub(super) const REPLICA_SET: &[Heading] = &[
    Heading::text("Name"),
    Heading::number("Desired"),
    Heading::number("Current"),
    Heading::number("Ready"),
    Heading::text("Age"),
    Heading::wide("Containers"),
    Heading::wide("Images"),
    Heading::wide("Selector"),
];

pub(super) const STATEFUL_SET: &[Heading] = &[
    Heading::text("Name"),
    Heading::text("Ready"),
    Heading::text("Age"),
    Heading::wide("Containers"),
    Heading::wide("Images"),
];

pub(super) const DAEMON_SET: &[Heading] = &[
    Heading::text("Name"),
    Heading::number("Desired"),
    Heading::number("Current"),
    Heading::number("Ready"),
    Heading::number("Up-to-date"),
    Heading::number("Available"),
    Heading::text("Node Selector"),
    Heading::text("Age"),
    Heading::wide("Containers"),
    Heading::wide("Images"),
    Heading::wide("Selector"),
];

pub(super) fn deployment(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let ready = format!("{}/{}", number(object, "/status/readyReplicas"), number(object, "/spec/replicas"));
    let (containers, images) = containers(object);
    vec![
        name,
        json!(ready),
        json!(number(object, "/status/updatedReplicas")),
        json!(number(object, "/status/availableReplicas")),
        age,
        containers,
        images,
        selector(object),
    ]
}

pub(super) fn replica_set(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let (containers, images) = containers(object);
    vec![
        name,
        json!(number(object, "/spec/replicas")),
        json!(number(object, "/status/replicas")),
        json!(number(object, "/status/readyReplicas")),
        age,
        containers,
        images,
        selector(object),
    ]
}

pub(super) fn replication_controller(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let mut cells = replica_set(object, name, age);
    // Its selector is older than the others: plain labels.
    cells.pop();
    cells.push(json!(labels(&object["spec"]["selector"])));
    cells
}

pub(super) fn pod_template(object: &Value, name: Value) -> Vec<Value> {
    let containers = list(object, "/template/spec/containers");
    let joined = |key: &str| {
        json!(containers.iter().map(|container| text(container, key)).collect::<Vec<_>>().join(","))
    };
    vec![name, joined("/name"), joined("/image"), json!(labels(&object["template"]["metadata"]["labels"]))]
}

pub(super) fn stateful_set(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let ready = format!("{}/{}", number(object, "/status/readyReplicas"), number(object, "/spec/replicas"));
    let (containers, images) = containers(object);
    vec![name, json!(ready), age, containers, images]
}

pub(super) fn daemon_set(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let (containers, images) = containers(object);
    vec![
        name,
        json!(number(object, "/status/desiredNumberScheduled")),
        json!(number(object, "/status/currentNumberScheduled")),
        json!(number(object, "/status/numberReady")),
        json!(number(object, "/status/updatedNumberScheduled")),
        json!(number(object, "/status/numberAvailable")),
        json!(labels(&object["spec"]["template"]["spec"]["nodeSelector"])),
        age,
        containers,
        images,
        selector(object),
    ]
}

/// `a=b,c=d`.
pub(super) fn labels(labels: &Value) -> String {
    match labels.as_object() {
        Some(labels) if !labels.is_empty() => labels
            .iter()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect::<Vec<_>>()
            .join(","),
        _ => NONE.to_owned(),
    }
}

fn containers(object: &Value) -> (Value, Value) {
    containers_at(object, "/spec/template/spec/containers")
}

/// Their names and their images.
pub(super) fn containers_at(object: &Value, pointer: &str) -> (Value, Value) {
    let containers = list(object, pointer);
    let joined = |key: &str| {
        let all: Vec<_> = containers.iter().map(|container| text(container, key)).collect();
        json!(all.join(","))
    };
    (joined("/name"), joined("/image"))
}

fn selector(object: &Value) -> Value {
    selected(&object["spec"]["selector"])
}

/// A selector as text.
pub(super) fn selected(selector: &Value) -> Value {
    match LabelSelector::from_object(selector) {
        Some(selector) if !selector.is_empty() => json!(selector.to_string()),
        _ => json!(NONE),
    }
}
