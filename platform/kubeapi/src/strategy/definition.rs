//! Custom resource definitions.

use serde_json::{Value, json};

use super::{ensure_object, fill, items, items_mut, names, text};
use crate::status::Cause;

mod conversion;
#[cfg(test)]
mod tests;
mod versions;

pub(super) fn defaults(object: &mut Value) {
    let spec = &mut object["spec"];
    ensure_object(spec);
    ensure_object(&mut spec["names"]);
    let kind = text(spec, "/names/kind").to_owned();
    if !kind.is_empty() {
        fill(&mut spec["names"], "singular", json!(kind.to_ascii_lowercase()));
        fill(&mut spec["names"], "listKind", json!(format!("{kind}List")));
    }
    fill(spec, "conversion", json!({ "strategy": "None" }));
    for version in items_mut(spec, "versions") {
        for column in items_mut(version, "additionalPrinterColumns") {
            if column["priority"] == 0 {
                super::remove(column, "priority");
            }
        }
    }
}

/// A version in which objects are stored from now on is one in which objects may be stored.
pub(super) fn remember_storage(object: &mut Value) {
    let storage = items(object, "/spec/versions").iter().find(|version| version["storage"] == true);
    let Some(name) = storage.map(|version| version["name"].clone()) else { return };
    if let Some(stored) = object.pointer_mut("/status/storedVersions").and_then(Value::as_array_mut)
        && !stored.contains(&name)
    {
        stored.push(name);
    }
}

/// What is let pass and not understood.
pub(super) fn warnings(object: &Value) -> Vec<String> {
    let schemas = items(object, "/spec/versions").iter().map(|version| &version["schema"]["openAPIV3Schema"]);
    let formats = schemas.flat_map(crate::schema::Structural::unknown_formats);
    formats.map(|format| format!("unrecognized format {format:?}")).collect()
}

pub(super) fn initial_status(object: &mut Value) {
    let stored = items(object, "/spec/versions").iter().find(|version| version["storage"] == true);
    let stored: Vec<_> = stored.map(|version| version["name"].clone()).into_iter().collect();
    object["status"] = json!({
        "conditions": null,
        "acceptedNames": { "plural": "", "kind": "" },
        "storedVersions": stored,
    });
}

pub(super) fn validate(old: Option<&Value>, new: &Value) -> Vec<Cause> {
    let spec = &new["spec"];
    let mut causes = Vec::new();
    approval(old, new, &mut causes);
    identity(new, old.is_some(), &mut causes);
    naming(&spec["names"], &mut causes);
    versions::check(new, &mut causes);
    if spec["preserveUnknownFields"] == true {
        causes.push(Cause::invalid(
            "spec.preserveUnknownFields",
            &json!(true),
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ));
    }
    conversion::check(&spec["conversion"], &mut causes);
    if let Some(old) = old {
        unchanged(old, new, &mut causes);
    }
    causes
}

const APPROVAL: &str = "api-approved.kubernetes.io";

/// Groups of the community are not for everybody. Answers with what the annotation says, and whether that will do.
pub(crate) fn approved(definition: &Value) -> Option<Result<&str, &str>> {
    let group = text(definition, "/spec/group");
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
    if !protected {
        return None;
    }
    let said = definition["metadata"]["annotations"][APPROVAL].as_str().unwrap_or_default();
    let is_link = url::Url::parse(said).is_ok_and(|link| link.has_host());
    Some(if is_link { Ok(said) } else { Err(said) })
}

fn approval(old: Option<&Value>, new: &Value, causes: &mut Vec<Cause>) {
    let Some(Err(said)) = approved(new) else { return };
    if said.starts_with("unapproved") || old.is_some_and(|old| approved(old) == Some(Err(said))) {
        return;
    }
    let at = format!("metadata.annotations[{APPROVAL}]");
    const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    causes.push(match said {
        "" => Cause::required(at, &format!("protected groups must have approval annotation \"{APPROVAL}\", {SEE}")),
        said => {
            let why = format!(
                "protected groups must have approval annotation \"{APPROVAL}\" with either a URL or a reason starting with \"unapproved\", {SEE}"
            );
            Cause::invalid(at, &json!(said), why)
        }
    });
}

fn identity(new: &Value, exists: bool, causes: &mut Vec<Cause>) {
    let spec = &new["spec"];
    let (group, plural) = (text(spec, "/group"), text(spec, "/names/plural"));
    if group.is_empty() {
        causes.push(Cause::required("spec.group", ""));
    } else if let Some(why) = names::subdomain_problem(group) {
        causes.push(Cause::invalid("spec.group", &json!(group), why));
    } else if !group.contains('.') {
        causes.push(Cause::invalid("spec.group", &json!(group), "should be a domain with at least one dot"));
    }
    let name = text(new, "/metadata/name");
    // What exists has its name, and may not change the others.
    if !exists && name != format!("{plural}.{group}") {
        causes.push(Cause::invalid(
            "metadata.name",
            &json!(name),
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    let scopes = ["Cluster", "Namespaced"];
    match text(spec, "/scope") {
        "" => causes.push(Cause::required("spec.scope", "")),
        scope if scopes.contains(&scope) => {}
        _ => causes.push(Cause::not_supported("spec.scope", &spec["scope"], scopes)),
    }
}

/// Names in paths are those of hosts; those of kinds may have capitals.
fn naming(given: &Value, causes: &mut Vec<Cause>) {
    for field in ["plural", "singular", "kind", "listKind"] {
        let (at, name) = (format!("spec.names.{field}"), text(given, &format!("/{field}")));
        let mixed = field.ends_with("ind");
        if name.is_empty() {
            causes.push(Cause::required(at, ""));
        } else if mixed && let Some(why) = names::service_problem(&name.to_ascii_lowercase()) {
            let why = format!("may have mixed case, but should otherwise match: {why}");
            causes.push(Cause::invalid(at, &json!(name), why));
        } else if !mixed && let Some(why) = names::service_problem(name) {
            causes.push(Cause::invalid(at, &json!(name), why));
        }
    }
    for field in ["shortNames", "categories"] {
        for (place, name) in items(given, &format!("/{field}")).iter().enumerate() {
            if let Some(why) = names::service_problem(name.as_str().unwrap_or_default()) {
                causes.push(Cause::invalid(format!("spec.names.{field}[{place}]"), name, why));
            }
        }
    }
    let kind = text(given, "/kind");
    if !kind.is_empty() && kind == text(given, "/listKind") {
        causes.push(Cause::invalid(
            "spec.names.listKind",
            &json!(kind),
            "kind and listKind may not be the same",
        ));
    }
}

fn unchanged(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let established = items(old, "/status/conditions")
        .iter()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
    for (pointer, field) in [("/spec/group", "spec.group"), ("/spec/names/plural", "spec.names.plural")] {
        if old.pointer(pointer) != new.pointer(pointer) {
            causes.push(Cause::invalid(field, &json!(text(new, pointer)), "field is immutable"));
        }
    }
    if established {
        for (pointer, field) in [("/spec/scope", "spec.scope"), ("/spec/names/kind", "spec.names.kind")] {
            if old.pointer(pointer) != new.pointer(pointer) {
                causes.push(Cause::invalid(field, &json!(text(new, pointer)), "field is immutable"));
            }
        }
    }
    let versions: Vec<_> =
        items(new, "/spec/versions").iter().map(|version| text(version, "/name")).collect();
    for (place, stored) in items(old, "/status/storedVersions").iter().enumerate() {
        let name = stored.as_str().unwrap_or_default();
        if !versions.contains(&name) {
            causes.push(Cause::invalid(
                format!("status.storedVersions[{place}]"),
                stored,
                format!(
                    "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
                ),
            ));
        }
    }
}
