//! From a custom resource definition to the kinds it serves.

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use super::builtin::READ_WRITE;
use super::{Resource, Scale, Subresource, Text};
use crate::schema::Structural;
use crate::table::Column;

/// What every custom resource can do, in the order in which clients are told.
const VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// One resource for every served version.
pub(super) fn resources(definition: &Value) -> Vec<Resource> {
    let spec = &definition["spec"];
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let schemas: Vec<_> = versions.iter().map(schema).collect();
    let stored = versions.iter().position(|version| version["storage"] == true);
    let storage_version = stored.map(|place| text(&versions[place]["name"])).unwrap_or_default();
    let evolved = definition["metadata"]["generation"].as_u64().is_some_and(|generation| generation > 1);
    let mut resources = Vec::new();
    for (place, version) in versions.iter().enumerate().filter(|(_, version)| version["served"] == true) {
        let storage_schema =
            stored.filter(|stored| *stored != place).and_then(|stored| schemas[stored].clone());
        let schema = schemas[place].clone();
        let resource = resource(spec, version, schema, storage_version.clone(), storage_schema);
        resources.push(Resource { evolved, ..resource });
    }
    resources
}

fn schema(version: &Value) -> Option<Arc<Structural>> {
    version.pointer("/schema/openAPIV3Schema").map(|schema| Arc::new(Structural::parse(schema)))
}

fn resource(
    spec: &Value,
    version: &Value,
    schema: Option<Arc<Structural>>,
    storage_version: Text,
    storage_schema: Option<Arc<Structural>>,
) -> Resource {
    let names = &spec["names"];
    let kind = text(&names["kind"]);
    let own_name = text(&version["name"]);
    let published = version.pointer("/schema/openAPIV3Schema");
    let status_subresource = version.pointer("/subresources/status").is_some_and(Value::is_object);
    let scale = version.pointer("/subresources/scale").filter(|scale| scale.is_object()).map(scale_paths);
    let mut resource = Resource {
        singular: match text(&names["singular"]) {
            empty if empty.is_empty() => kind.to_ascii_lowercase().into(),
            singular => singular,
        },
        list_kind: match text(&names["listKind"]) {
            empty if empty.is_empty() => format!("{kind}List").into(),
            list_kind => list_kind,
        },
        group: text(&spec["group"]),
        plural: text(&names["plural"]),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        verbs: VERBS,
        subresources: Vec::new(),
        schema,
        published_schema: published.and_then(|schema| RawValue::from_string(schema.to_string()).ok()),
        printer_columns: version["additionalPrinterColumns"]
            .as_array()
            .map(|columns| columns.iter().map(Column::from_definition).collect())
            .unwrap_or_default(),
        selectable_fields: version["selectableFields"]
            .as_array()
            .map(|fields| fields.iter().map(|field| text(&field["jsonPath"]).into_owned()).collect())
            .unwrap_or_default(),
        custom: true,
        status_subresource,
        scale,
        storage_version,
        storage_schema,
        evolved: false,
        deprecation: deprecation(spec, version),
        kind,
        version: own_name,
    };
    if status_subresource {
        resource.subresources.push(Subresource {
            name: "status",
            kind: resource.kind.clone(),
            group: resource.group.clone(),
            version: resource.version.clone(),
            verbs: READ_WRITE,
        });
    }
    if resource.scale.is_some() {
        resource.subresources.push(Subresource {
            name: "scale",
            kind: "Scale".into(),
            group: "autoscaling".into(),
            version: "v1".into(),
            verbs: READ_WRITE,
        });
    }
    resource
}

fn scale_paths(scale: &Value) -> Scale {
    let selector = text(&scale["labelSelectorPath"]);
    Scale {
        spec_replicas: text(&scale["specReplicasPath"]),
        status_replicas: text(&scale["statusReplicasPath"]),
        label_selector: (!selector.is_empty()).then_some(selector),
    }
}

fn deprecation(spec: &Value, version: &Value) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    Some(match version["deprecationWarning"].as_str() {
        Some(warning) => warning.to_owned(),
        None => format!(
            "{}/{} {} is deprecated",
            text(&spec["group"]),
            text(&version["name"]),
            text(&spec["names"]["kind"])
        ),
    })
}

/// How versions are ranked: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, then other names by alphabet. Smaller is
/// preferred.
pub(super) fn priority(version: &str) -> impl Ord + use<> {
    match parse(version) {
        Some((major, stability, minor)) => {
            (0, Reverse(stability), Reverse(major), Reverse(minor), String::new())
        }
        None => (1, Reverse(0), Reverse(0), Reverse(0), version.to_owned()),
    }
}

/// Major version, stability (2 for none, 1 for beta, 0 for alpha), and the number after it.
fn parse(version: &str) -> Option<(u32, u8, u32)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    let major = rest[..digits].parse().ok()?;
    let rest = &rest[digits..];
    for (word, stability) in [("beta", 1), ("alpha", 0)] {
        if let Some(minor) = rest.strip_prefix(word) {
            return Some((major, stability, minor.parse().ok()?));
        }
    }
    rest.is_empty().then_some((major, 2, 0))
}

fn text(value: &Value) -> Text {
    value.as_str().unwrap_or_default().to_owned().into()
}

fn texts(value: &Value) -> Vec<Text> {
    value.as_array().map(|all| all.iter().map(text).collect()).unwrap_or_default()
}
