//! The versions of a definition: their schemas, what is printed, what can be selected by, and how they scale.
//!
//! What all versions have in common is said once, and complained about once: of the definition, and not of each version.

use serde_json::{Value, json};

use crate::schema::Structural;
use crate::status::Cause;
use crate::strategy::{items, names, text};

/// So many fields of a version may be selected by.
const MOST_SELECTABLE: usize = 8;
/// The longest warning about a version that is deprecated, in bytes.
const LONGEST_WARNING: usize = 256;

pub(super) fn check(new: &Value, causes: &mut Vec<Cause>) {
    let versions = items(&new["spec"], "/versions");
    one_storage(new, versions, causes);
    let common = |field: &str| versions.windows(2).all(|pair| pair[0][field] == pair[1][field]);
    let [schemas, columns, subresources, selectable] =
        ["schema", "additionalPrinterColumns", "subresources", "selectableFields"].map(common);
    for (place, version) in versions.iter().enumerate() {
        let own = format!("spec.versions[{place}]");
        name(version, place, causes);
        warning(version, &own, causes);
        let said = |is_common: bool| match (is_common, place) {
            (true, 0) => Some("spec"),
            (true, _) => None,
            (false, _) => Some(own.as_str()),
        };
        let schema = version.pointer("/schema/openAPIV3Schema").filter(|schema| schema.is_object());
        match (schema, said(schemas)) {
            (None, _) => causes.push(Cause::required(format!("{own}.schema.openAPIV3Schema"), "")),
            (Some(schema), Some(at)) => {
                let word = if schemas { "validation" } else { "schema" };
                causes.extend(Structural::problems(schema, &format!("{at}.{word}.openAPIV3Schema")));
            }
            (Some(_), None) => {}
        }
        if let Some(at) = said(columns) {
            self::columns(version, &format!("{at}.additionalPrinterColumns"), causes);
        }
        if let Some(at) = said(subresources) {
            scale(version, &format!("{at}.subresources.scale"), causes);
        }
        if let (Some(at), Some(schema)) = (said(selectable), schema) {
            let at = format!("{at}.selectableFields");
            match (selectable, schemas) {
                _ if items(version, "/selectableFields").is_empty() => {}
                // Fields are looked up in the schema that stands at the same place.
                (true, false) => {
                    let why = "may only be set when validations.schema is included";
                    causes.push(Cause::invalid(at, &json!(""), why));
                }
                (false, true) => {
                    let why = "may only be set when `version.schema.openAPIV3Schema` is not included";
                    causes.push(Cause::invalid(at, &json!(""), why));
                }
                _ => self::selectable(version, schema, &at, causes),
            }
        }
    }
}

fn one_storage(new: &Value, versions: &[Value], causes: &mut Vec<Cause>) {
    let storage: Vec<_> = versions.iter().filter(|version| version["storage"] == true).collect();
    let all: Vec<&str> = versions.iter().map(|version| text(version, "/name")).collect();
    let unique = all.iter().enumerate().all(|(place, name)| !all[..place].contains(name));
    let refuse = |why: &str| {
        let message = format!("Invalid value: {}: {why}", shown(new, versions));
        Cause::new("FieldValueInvalid", message, "spec.versions")
    };
    if !unique {
        causes.push(refuse("must contain unique version names"));
    }
    if storage.len() != 1 {
        causes.push(refuse("must have exactly one version marked as storage version"));
    }
    let stored = items(new, "/status/storedVersions");
    if stored.is_empty() {
        let why = "must have at least one stored version";
        causes.push(Cause::invalid("status.storedVersions", &Value::Null, why));
    } else if let Some(last) = storage.last()
        && !stored.contains(&last["name"])
    {
        let why = format!("must have the storage version {}", text(last, "/name"));
        causes.push(Cause::invalid("status.storedVersions", &json!(stored), why));
    }
}

/// In the manner of Go, without what is common to all.
fn shown(new: &Value, versions: &[Value]) -> String {
    if new["spec"]["versions"].is_null() {
        return "null".to_owned();
    }
    let each = versions.iter().map(|version| {
        let flag = |name: &str| version[name] == true;
        format!(
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}}",
            version["name"], flag("served"), flag("storage"), flag("deprecated"), version["deprecationWarning"]
        )
    });
    format!("[{}]", each.collect::<Vec<_>>().join(","))
}

fn name(version: &Value, place: usize, causes: &mut Vec<Cause>) {
    let Some(why) = names::service_problem(text(version, "/name")) else { return };
    causes.push(Cause::invalid(format!("spec.versions[{place}].name"), &version["name"], why));
    // Once, the first version was the version.
    if place == 0 {
        causes.push(Cause::invalid("spec.version", &version["name"], why));
    }
}

fn warning(version: &Value, path: &str, causes: &mut Vec<Cause>) {
    let Some(said) = version["deprecationWarning"].as_str() else { return };
    let why = if version["deprecated"] != true {
        "can only be set for deprecated versions".to_owned()
    } else if said.is_empty() {
        "must not be an empty string".to_owned()
    } else if said.len() > LONGEST_WARNING {
        format!("must be <= {LONGEST_WARNING} characters long")
    } else {
        return;
    };
    let shown = json!(said).to_string();
    let message = format!("Invalid value: {shown}: {why}");
    causes.push(Cause::new("FieldValueInvalid", message, format!("{path}.deprecationWarning")));
}

fn columns(version: &Value, path: &str, causes: &mut Vec<Cause>) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
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
        match text(column, "/jsonPath") {
            "" => causes.push(Cause::required(at("JSONPath"), "")),
            path if is_path(path) => {}
            _ => causes.push(Cause::invalid(at("JSONPath"), &column["jsonPath"], NO_PATH)),
        }
    }
}

const NO_PATH: &str = "must be a simple json path starting with .";

fn is_path(path: &str) -> bool {
    path.starts_with('.')
}

fn scale(version: &Value, path: &str, causes: &mut Vec<Cause>) {
    let Some(scale) = version.pointer("/subresources/scale").filter(|scale| scale.is_object()) else {
        return;
    };
    let under = |path: &str, roots: &[&str]| {
        roots.iter().any(|root| path.strip_prefix(root).is_some_and(|rest| rest.starts_with('.')))
    };
    for (field, roots, what) in [
        ("specReplicasPath", &[".spec"][..], "should be a json path under .spec"),
        ("statusReplicasPath", &[".status"][..], "should be a json path under .status"),
        (
            "labelSelectorPath",
            &[".spec", ".status"][..],
            "should be a json path under either .spec or .status",
        ),
    ] {
        let at = format!("{path}.{field}");
        match text(scale, &format!("/{field}")) {
            "" if field == "labelSelectorPath" => {}
            "" => causes.push(Cause::required(at, "")),
            path if !is_path(path) => causes.push(Cause::invalid(at, &json!(path), NO_PATH)),
            path if !under(path, roots) => causes.push(Cause::invalid(at, &json!(path), what)),
            _ => {}
        }
    }
}

fn selectable(version: &Value, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let fields = items(version, "/selectableFields");
    let before = causes.len();
    let mut seen: Vec<&str> = Vec::new();
    for (place, field) in fields.iter().enumerate() {
        let (at, given) = (format!("{path}[{place}].jsonPath"), text(field, "/jsonPath"));
        let refused = |why: &str| Cause::invalid(at.clone(), &json!(given), why);
        if given.is_empty() {
            causes.push(Cause::required(at, ""));
        } else if seen.contains(&given) {
            causes.push(Cause::duplicate(at, &json!(given)));
        } else if let Err(why) = selected(given, schema) {
            causes.push(refused(&why));
        }
        seen.push(given);
    }
    if causes.len() == before && fields.len() > MOST_SELECTABLE {
        causes.push(Cause::too_many(path, fields.len(), MOST_SELECTABLE as u64));
    }
}

/// Follows a path to a field that can be compared with a text.
fn selected(path: &str, schema: &Value) -> Result<(), String> {
    if path.contains('[') {
        return Err("is an invalid path: array notation is not allowed".to_owned());
    }
    let Some(names) = path.strip_prefix('.') else {
        let first = path.split('.').next().unwrap_or_default();
        return Err(format!("is an invalid path: expected [ or . but got: {first}"));
    };
    // What every object has can be selected by anyway.
    let identity = ["metadata", "apiVersion", "kind"].contains(&names.split('.').next().unwrap_or_default());
    let found = names.split('.').try_fold(schema, |node, name| match node["properties"].get(name) {
        Some(inner) => Some(inner),
        None => node.get("additionalProperties").filter(|inner| inner.is_object()),
    });
    let Some(found) = found.filter(|_| !identity) else {
        return Err("is an invalid path: does not refer to a valid field".to_owned());
    };
    match found["type"].as_str() {
        Some("string" | "boolean" | "integer") if found["x-kubernetes-int-or-string"] != true => Ok(()),
        _ => Err("must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.".to_owned()),
    }
}
