//! Which objects a client means: label selectors and field selectors.

use serde_json::Value;

use crate::catalogue::Resource;
use crate::status::Failure;
use crate::table::json_path::JsonPath;

mod label;
#[cfg(test)]
mod tests;

pub(crate) use label::LabelSelector;

/// A parsed `fieldSelector`: all parts must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    field: String,
    equal: bool,
    value: String,
}

// === impl FieldSelector ===

impl FieldSelector {
    /// Fields the kind does not offer are refused, not ignored: a client that filters must not be sent everything.
    pub(crate) fn parse(text: &str, resource: &Resource) -> Result<Self, Failure> {
        let mut parts = Vec::new();
        for term in split_terms(text) {
            let term = term.trim();
            if term.is_empty() {
                continue;
            }
            let part = Part::parse(term).ok_or_else(|| {
                Failure::bad_request(format!("invalid selector: '{text}'; can't understand '{term}'"))
            })?;
            if !offered(resource, &part.field) {
                return Err(unsupported(resource, &part.field));
            }
            parts.push(part);
        }
        Ok(Self { parts })
    }

    pub(crate) fn matches(&self, resource: &Resource, object: &Value) -> bool {
        self.parts.iter().all(|part| (field(resource, object, &part.field) == part.value) == part.equal)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The one name that objects may have, if there is one.
    pub(crate) fn name(&self) -> Option<&str> {
        let part = self.parts.iter().find(|part| part.field == "metadata.name" && part.equal)?;
        Some(&part.value)
    }
}

/// Kinds with fields of their own say which field they do not have; the others, which they have.
fn unsupported(resource: &Resource, field: &str) -> Failure {
    Failure::bad_request(match (extra_fields(resource), resource.custom) {
        ([], false) => {
            format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        }
        _ => format!("field label not supported: {field}"),
    })
}

// === impl Part ===

impl Part {
    fn parse(term: &str) -> Option<Self> {
        // The longest operators first: `!=` and `==` both contain `=`.
        for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some((field, value)) = term.split_once(operator) {
                return Some(Self { field: field.trim().to_owned(), equal, value: unescape(value.trim())? });
            }
        }
        None
    }
}

/// At commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn unescape(value: &str) -> Option<String> {
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => plain.push(characters.next()?),
            '=' => return None,
            character => plain.push(character),
        }
    }
    Some(plain)
}

/// Beside these, every kind offers its name and (when namespaced) namespace.
fn extra_fields(resource: &Resource) -> &'static [&'static str] {
    match (resource.group.as_ref(), resource.plural.as_ref()) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "namespaces") => &["status.phase"],
        ("", "secrets") => &["type"],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "events") => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        ("", "replicationcontrollers") | ("apps", "replicasets") => &["status.replicas"],
        ("batch", "jobs") => &["status.successful"],
        ("certificates.k8s.io", _) => &["spec.signerName"],
        ("resource.k8s.io", "resourceslices") => &["spec.nodeName", "spec.driver"],
        _ => &[],
    }
}

fn offered(resource: &Resource, field: &str) -> bool {
    field == "metadata.name"
        || field == "metadata.namespace"
        || extra_fields(resource).contains(&field)
        || resource.selectable_fields.iter().any(|path| path.strip_prefix('.') == Some(field))
}

/// The field as text; absent is empty, except for booleans, which are false.
fn field(resource: &Resource, object: &Value, path: &str) -> String {
    if path == "source" && resource.is("", "events") {
        let component = &object["source"]["component"];
        return component
            .as_str()
            .or_else(|| object["reportingComponent"].as_str())
            .unwrap_or_default()
            .to_owned();
    }
    if path == "status.successful" {
        return object["status"]["succeeded"].as_i64().unwrap_or_default().to_string();
    }
    let found = if resource.custom && !path.starts_with("metadata.") {
        JsonPath::parse(&format!(".{path}")).and_then(|parsed| parsed.first(object).cloned())
    } else {
        path.split('.').try_fold(object, |value, key| value.get(key)).cloned()
    };
    match found {
        Some(Value::String(text)) => text,
        Some(Value::Bool(flag)) => flag.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        _ if matches!(path, "spec.unschedulable" | "spec.hostNetwork") => "false".to_owned(),
        _ if path == "status.replicas" => "0".to_owned(),
        _ => String::new(),
    }
}
