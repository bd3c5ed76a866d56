//! What is in requests and answers.

use pilothouse_arm::{CloudError, OperationStatus};
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use crate::schema;
use crate::version::{Version, with_wire};
use crate::{
    v2024_06_10_preview, v2025_12_23_preview, v2026_06_30_preview, v2026_09_01_preview, v2026_10_01,
};

/// All models of a version, by name.
pub(super) fn all(version: Version) -> Value {
    let mut models = Map::new();
    let mut add = |name: &str, Resource { shown, put, patch }: Resource| {
        models.insert(format!("{name}List"), list_of(name));
        models.insert(format!("{name}CreateOrUpdate"), put);
        models.insert(format!("{name}Update"), patch);
        models.insert(name.to_owned(), shown);
    };
    add("HcpOpenShiftCluster", with_wire!(version, Cluster, resource(version)));
    add("NodePool", with_wire!(version, NodePool, resource(version)));
    add("ExternalAuth", with_wire!(version, ExternalAuth, resource(version)));
    for (name, shown) in [
        ("HcpOpenShiftVersion", with_wire!(version, OpenShiftVersion, output(version))),
        ("HcpOperatorIdentityRoleSet", with_wire!(version, RoleSet, output(version))),
    ] {
        models.insert(format!("{name}List"), list_of(name));
        models.insert(name.to_owned(), shown);
    }
    models.insert(
        "HcpOpenShiftClusterAdminCredential".to_owned(),
        with_wire!(version, Credential, output(version)),
    );
    if version >= Version::V20260901Preview {
        let request = published(schema::request::<v2026_09_01_preview::CredentialRequest>());
        models.insert("HcpOpenShiftClusterAdminCredentialRequest".to_owned(), request);
    }
    models.insert("OperationStatus".to_owned(), published(schema::output::<OperationStatus>()));
    models.insert("ErrorResponse".to_owned(), published(schema::output::<CloudError>()));
    models.insert("OperationList".to_owned(), list_of("Operation"));
    models.insert("Operation".to_owned(), operation());
    Value::Object(models)
}

struct Resource {
    shown: Value,
    put: Value,
    patch: Value,
}

fn resource<W: JsonSchema>(version: Version) -> Resource {
    let request = schema::request::<W>();
    let mut patch = request.clone();
    keep_changeable(&mut patch);
    Resource {
        shown: shown(version, schema::response::<W>()),
        put: published(request),
        patch: published(patch),
    }
}

fn output<W: JsonSchema>(version: Version) -> Value {
    shown(version, schema::output::<W>())
}

fn shown(version: Version, mut answer: Value) -> Value {
    if version.omits_zeros() {
        let_zeros_be_absent(&mut answer);
    }
    published(answer)
}

fn list_of(name: &str) -> Value {
    json!({
        "type": "object",
        "required": ["value"],
        "properties": {
            "value": {"type": "array", "items": {"$ref": format!("#/components/schemas/{name}")}},
            "nextLink": {"type": "string", "format": "uri", "description": "Where the list goes on."},
        },
    })
}

/// One of the provider's operations, for those who grant permissions.
fn operation() -> Value {
    let text = || json!({"type": "string"});
    json!({
        "type": "object",
        "required": ["name", "display"],
        "properties": {
            "name": text(),
            "isDataAction": {"type": "boolean"},
            "origin": text(),
            "display": {
                "type": "object",
                "properties": {
                    "provider": text(), "resource": text(), "operation": text(), "description": text(),
                },
            },
        },
    })
}

/// A member that a patch may not speak of is left out, and nothing is required. `null` removes what may be removed.
fn keep_changeable(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    let required = object.remove("required").unwrap_or_default();
    let is_required =
        |name: &str| required.as_array().is_some_and(|required| required.iter().any(|found| found == name));
    let Some(Value::Object(members)) = object.get_mut("properties") else { return };
    members.retain(|name, member| {
        let fixed = member
            .get("x-ms-mutability")
            .and_then(Value::as_array)
            .is_some_and(|words| !words.iter().any(|word| word == "update"));
        // These name the resource, and are no part of a change.
        if fixed || ["name", "location"].contains(&name.as_str()) {
            return false;
        }
        keep_changeable(member);
        let Some(member) = member.as_object_mut() else { return false };
        let has_default = member.remove("default").is_some();
        if has_default || is_required(name) || member.contains_key("x-never-null") {
            member.remove("nullable");
        }
        let is_empty = member.get("properties").and_then(Value::as_object).is_some_and(Map::is_empty);
        !is_empty
    });
}

/// Where zeros are left out, what can be zero is not always there.
fn let_zeros_be_absent(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Value::Object(members)) = object.get("properties") {
        let can_be_zero: Vec<_> = members
            .iter()
            .filter(|(_, member)| member["type"] == "integer" || member["type"] == "boolean")
            .map(|(name, _)| name.clone())
            .collect();
        if let Some(Value::Array(required)) = object.get_mut("required") {
            required.retain(|name| !can_be_zero.iter().any(|zero| name == zero));
            if required.is_empty() {
                object.remove("required");
            }
        }
    }
    if let Some(Value::Object(members)) = object.get_mut("properties") {
        members.values_mut().for_each(let_zeros_be_absent);
    }
}

/// Without our own words, and with a stable order of what has none.
fn published(mut schema: Value) -> Value {
    clean(&mut schema);
    schema
}

fn clean(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("x-never-null");
            if let Some(Value::Array(required)) = members.get_mut("required") {
                required.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
            }
            members.values_mut().for_each(clean);
        }
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
