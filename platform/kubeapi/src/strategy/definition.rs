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
    identity(new, &mut causes);
    let versions = items(spec, "/versions");
    one_storage(new, versions, &mut causes);
    let common = is_common(versions);
    for (place, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{place}]");
        if let Some(why) = names::label_problem(text(version, "/name")) {
            causes.push(Cause::invalid(format!("{path}.name"), &version["name"], why));
        }
        let columns = if common { "spec".to_owned() } else { path.clone() };
        self::columns(version, &format!("{columns}.additionalPrinterColumns"), &mut causes);
        match version.pointer("/schema/openAPIV3Schema") {
            // What all versions have in common is said once.
            Some(_) if common && place > 0 => {}
            Some(schema) if schema.is_object() => {
                let path = if common { "spec.validation".to_owned() } else { format!("{path}.schema") };
                causes.extend(Structural::problems(schema, &format!("{path}.openAPIV3Schema")));
            }
            _ => causes.push(Cause::required(format!("{path}.schema.openAPIV3Schema"), "")),
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

/// Whether all versions have one schema, which then is the definition's.
fn is_common(versions: &[Value]) -> bool {
    versions.windows(2).all(|pair| pair[0]["schema"] == pair[1]["schema"])
}

fn one_storage(new: &Value, versions: &[Value], causes: &mut Vec<Cause>) {
    let storage: Vec<_> = versions.iter().filter(|version| version["storage"] == true).collect();
    if storage.len() != 1 {
        // In the manner of Go, without what is common to all.
        let shown: Vec<String> = versions
            .iter()
            .map(|version| {
                let flag = |name: &str| version[name] == true;
                format!(
                    "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}}",
                    version["name"], flag("served"), flag("storage"), flag("deprecated"), version["deprecationWarning"]
                )
            })
            .collect();
        let why = "must have exactly one version marked as storage version";
        let message = format!("Invalid value: [{}]: {why}", shown.join(","));
        causes.push(Cause::new("FieldValueInvalid", message, "spec.versions"));
    }
    if let Some(last) = storage.last() {
        let stored = items(new, "/status/storedVersions");
        if !stored.is_empty() && !stored.contains(&last["name"]) {
            let why = format!("must have the storage version {}", text(last, "/name"));
            causes.push(Cause::invalid("status.storedVersions", &json!(stored), why));
        }
    }
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

fn columns(version: &Value, path: &str, causes: &mut Vec<Cause>) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 9] =
        ["byte", "date", "date-time", "double", "float", "int32", "int64", "name", "password"];
    for (place, column) in items(version, "/additionalPrinterColumns").iter().enumerate() {
        let at = |field: &str| format!("{path}[{place}].{field}");
        if text(column, "/name").is_empty() {
            causes.push(Cause::required(at("name"), ""));
        }
        let one_of = |words: &[&str]| format!("must be one of {}", words.join(","));
        match text(column, "/type") {
            "" => causes.push(Cause::required(at("type"), &one_of(&TYPES))),
            kind if TYPES.contains(&kind) => {}
            _ => causes.push(Cause::invalid(at("type"), &column["type"], one_of(&TYPES))),
        }
        let format = text(column, "/format");
        if !format.is_empty() && !FORMATS.contains(&format) {
            causes.push(Cause::invalid(at("format"), &column["format"], one_of(&FORMATS)));
        }
        if text(column, "/jsonPath").is_empty() {
            causes.push(Cause::required(at("JSONPath"), ""));
        }
    }
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
