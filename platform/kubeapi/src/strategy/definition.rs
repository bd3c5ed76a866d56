//! Custom resource definitions.

use serde_json::{Value, json};

use super::{ensure_object, fill, items, items_mut, names, text};
use crate::schema::Structural;
use crate::status::Cause;

pub(super) fn defaults(object: &mut Value) {
    let spec = &mut object["spec"];
    ensure_object(spec);
    ensure_object(&mut spec["names"]);
    let kind = text(spec, "/names/kind").to_owned();
    fill(&mut spec["names"], "singular", json!(kind.to_ascii_lowercase()));
    fill(&mut spec["names"], "listKind", json!(format!("{kind}List")));
    fill(spec, "conversion", json!({ "strategy": "None" }));
    for version in items_mut(spec, "versions") {
        for column in items_mut(version, "additionalPrinterColumns") {
            if column["priority"] == 0 {
                super::remove(column, "priority");
            }
        }
    }
}

pub(super) fn initial_status(object: &mut Value) {
    let stored: Vec<_> = items(object, "/spec/versions")
        .iter()
        .filter(|version| version["storage"] == true)
        .map(|version| version["name"].clone())
        .collect();
    object["status"] = json!({
        "conditions": [],
        "acceptedNames": { "plural": "", "kind": "" },
        "storedVersions": stored,
    });
}

pub(super) fn validate(old: Option<&Value>, new: &Value) -> Vec<Cause> {
    let spec = &new["spec"];
    let mut causes = Vec::new();
    identity(new, &mut causes);
    let versions = items(spec, "/versions");
    let storage = versions.iter().filter(|version| version["storage"] == true).count();
    if storage != 1 {
        causes.push(Cause::invalid(
            "spec.versions",
            &json!(versions.iter().map(|version| text(version, "/name")).collect::<Vec<_>>()),
            "must have exactly one version marked as storage version",
        ));
    }
    for (place, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{place}]");
        if let Some(why) = names::label_problem(text(version, "/name")) {
            causes.push(Cause::invalid(format!("{path}.name"), &version["name"], why));
        }
        let path = format!("{path}.schema.openAPIV3Schema");
        match version.pointer("/schema/openAPIV3Schema") {
            Some(schema) if schema.is_object() => causes.extend(Structural::problems(schema, &path)),
            _ => causes.push(Cause::required(path, "schemas are required")),
        }
    }
    if spec["preserveUnknownFields"] == true {
        causes.push(Cause::invalid(
            "spec.preserveUnknownFields",
            &json!(true),
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ));
    }
    if spec["conversion"]["strategy"] != "None" {
        // Nobody could convert, so nobody may promise it.
        causes.push(Cause::not_supported(
            "spec.conversion.strategy",
            &spec["conversion"]["strategy"],
            ["None"],
        ));
    }
    if let Some(old) = old {
        unchanged(old, new, &mut causes);
    }
    causes
}

fn identity(new: &Value, causes: &mut Vec<Cause>) {
    let spec = &new["spec"];
    let (group, plural) = (text(spec, "/group"), text(spec, "/names/plural"));
    for (field, value) in
        [("spec.group", group), ("spec.names.plural", plural), ("spec.names.kind", text(spec, "/names/kind"))]
    {
        if value.is_empty() {
            causes.push(Cause::required(field, ""));
        }
    }
    if !group.is_empty() && !group.contains('.') {
        causes.push(Cause::invalid("spec.group", &json!(group), "should be a domain with at least one dot"));
    }
    let name = text(new, "/metadata/name");
    if name != format!("{plural}.{group}") {
        causes.push(Cause::invalid(
            "metadata.name",
            &json!(name),
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    let scopes = ["Cluster", "Namespaced"];
    if !scopes.contains(&text(spec, "/scope")) {
        causes.push(Cause::not_supported("spec.scope", &spec["scope"], scopes));
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
        if !versions.contains(&stored.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid(
                format!("status.storedVersions[{place}]"),
                stored,
                "missing from spec.versions; must be removed from status.storedVersions first",
            ));
        }
    }
}
