//! OpenAPI: what `kubectl` reads before it writes, and what it explains.
//!
//! `kubectl apply` looks for the kind's PATCH operation and for the parameters `fieldValidation` and `dryRun` on it;
//! from the media types of the body it learns whether strategic merge is possible. Custom resources carry the schema
//! of their definition, built-in kinds that of the table of types.
//!
//! A document is made when it is asked for and not kept: it is large, and clients keep it. The index names it by a hash of
//! what it is made from, so that reading the index makes no documents.

use aws_lc_rs::digest;
use serde_json::{Map, Value, json};

use crate::catalogue::{Catalogue, Resource, group_version};
use crate::patch::PatchKind;
use crate::types::{self, openapi::reference};

pub(crate) mod second;
#[cfg(test)]
mod tests;

/// Changes with the form of the documents: clients keep what they got under a hash for a year.
const FORM: &str = "2";

/// `/openapi/v3`: every document with the hash of its content.
pub(crate) fn index(catalogue: &Catalogue) -> Value {
    let mut paths = Map::new();
    for group in catalogue.groups() {
        for version in &group.versions {
            let path = path_of(group.name, version);
            let hash = hash(catalogue, group.name, version);
            let url = format!("/openapi/v3/{path}?hash={hash}");
            paths.insert(path, json!({ "serverRelativeURL": url }));
        }
    }
    json!({ "paths": paths })
}

/// `/openapi/v3/api/v1` or `/openapi/v3/apis/G/V` with its hash; `path` is what follows `/openapi/v3/`.
pub(crate) fn document(catalogue: &Catalogue, path: &str) -> Option<(Value, String)> {
    let groups = catalogue.groups();
    let (group, version) = groups
        .iter()
        .flat_map(|group| group.versions.iter().map(move |version| (group.name, *version)))
        .find(|(group, version)| path_of(group, version) == path)?;
    Some((describe(catalogue, group, version), hash(catalogue, group, version)))
}

/// The hash under which the index names a document: of what it is made from.
fn hash(catalogue: &Catalogue, group: &str, version: &str) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    let mut add = |text: &str| {
        context.update(text.as_bytes());
        context.update(&[0]);
    };
    add(FORM);
    add(env!("CARGO_PKG_VERSION"));
    add(types::fingerprint());
    for resource in catalogue.of_version(group, version) {
        add(&resource.kind);
        add(&resource.plural);
        add(if resource.namespaced { "namespaced" } else { "" });
        for part in &resource.subresources {
            add(part.name);
        }
        add(resource.published_schema.as_ref().map(|schema| schema.get()).unwrap_or_default());
    }
    context.finish().as_ref().iter().take(16).map(|byte| format!("{byte:02X}")).collect()
}

fn path_of(group: &str, version: &str) -> String {
    match group {
        "" => format!("api/{version}"),
        group => format!("apis/{group}/{version}"),
    }
}

fn describe(catalogue: &Catalogue, group: &str, version: &str) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for resource in catalogue.of_version(group, version) {
        describe_paths(resource, &mut paths);
        let described = schema(resource, &mut schemas);
        schemas.insert(schema_name(resource), described);
        if resource.offers("list") {
            let list = list_schema(resource, &mut schemas);
            schemas.insert(format!("{}List", schema_name(resource)), list);
        }
        let parts = resource.subresources.iter();
        for message in parts.filter_map(|part| types::of_kind(&part.group, &part.version, &part.kind)) {
            types::openapi::add(message, &mut schemas);
        }
    }
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": group_version(group, version) },
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

fn describe_paths(resource: &Resource, paths: &mut Map<String, Value>) {
    let root = format!("/{}", path_of(&resource.group, &resource.version));
    let collection = match resource.namespaced {
        true => format!("{root}/namespaces/{{namespace}}/{}", resource.plural),
        false => format!("{root}/{}", resource.plural),
    };
    let mut on_collection = shared_parameters(resource, false);
    if resource.offers("list") {
        on_collection["get"] =
            operation(resource, "list", &["labelSelector", "fieldSelector", "limit", "watch"]);
    }
    if resource.offers("create") {
        on_collection["post"] =
            with_body(operation(resource, "create", WRITE), resource, &["application/json"]);
    }
    if resource.offers("deletecollection") {
        on_collection["delete"] =
            operation(resource, "deletecollection", &["labelSelector", "fieldSelector"]);
    }
    paths.insert(collection.clone(), on_collection);
    if !resource.offers("get") {
        return;
    }
    let mut on_object = shared_parameters(resource, true);
    on_object["get"] = operation(resource, "get", &[]);
    on_object["put"] = with_body(operation(resource, "put", WRITE), resource, &["application/json"]);
    on_object["patch"] = patch_operation(resource);
    on_object["delete"] =
        operation(resource, "delete", &["dryRun", "gracePeriodSeconds", "propagationPolicy"]);
    paths.insert(format!("{collection}/{{name}}"), on_object);
    for part in &resource.subresources {
        let mut on_part = shared_parameters(resource, true);
        for (verb, method) in [("get", "get"), ("update", "put"), ("create", "post")] {
            if part.verbs.contains(&verb) {
                on_part[method] = part_operation(part, method, verb);
            }
        }
        if part.verbs.contains(&"patch") {
            let mut patch = part_operation(part, "patch", "patch");
            patch["requestBody"] = body(&json!({ "type": "object" }), &patch_types(resource));
            on_part["patch"] = patch;
        }
        paths.insert(format!("{collection}/{{name}}/{}", part.name), on_part);
    }
}

/// What every write understands.
const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];

fn patch_operation(resource: &Resource) -> Value {
    let patch = operation(resource, "patch", &["dryRun", "fieldManager", "fieldValidation", "force"]);
    with_body(patch, resource, &patch_types(resource))
}

fn patch_types(resource: &Resource) -> Vec<&'static str> {
    PatchKind::ALL
        .iter()
        .filter(|kind| !(resource.custom && **kind == PatchKind::Strategic))
        .map(|kind| kind.media_type())
        .collect()
}

fn part_operation(part: &crate::catalogue::Subresource, method: &str, verb: &str) -> Value {
    let names: &[&str] = if verb == "get" { &[] } else { WRITE };
    json!({
        "operationId": format!("{verb}{}{}", part.kind, part.name),
        "parameters": names.iter().map(|name| parameter(name)).collect::<Vec<_>>(),
        "responses": { "200": { "description": "OK" } },
        "x-kubernetes-action": method,
        "x-kubernetes-group-version-kind": {
            "group": part.group, "version": part.version, "kind": part.kind,
        },
    })
}

fn operation(resource: &Resource, action: &str, names: &[&str]) -> Value {
    let list = matches!(action, "list" | "deletecollection");
    let returned = match list {
        true => format!("{}List", schema_name(resource)),
        false => schema_name(resource),
    };
    let scope = if resource.namespaced { "Namespaced" } else { "" };
    json!({
        "operationId": format!("{action}{}{scope}{}", pascal(&resource.version), resource.kind),
        "parameters": names.iter().map(|name| parameter(name)).collect::<Vec<_>>(),
        "responses": {
            "200": {
                "description": "OK",
                "content": { "application/json": { "schema": reference(&returned) } },
            },
        },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": identity(resource),
    })
}

fn with_body(mut operation: Value, resource: &Resource, media_types: &[&str]) -> Value {
    operation["requestBody"] = body(&reference(&schema_name(resource)), media_types);
    operation
}

fn body(schema: &Value, media_types: &[&str]) -> Value {
    let content: Map<_, _> =
        media_types.iter().map(|&media_type| (media_type.to_owned(), json!({ "schema": schema }))).collect();
    json!({ "content": content, "required": true })
}

fn shared_parameters(resource: &Resource, name: bool) -> Value {
    let mut parameters = Vec::new();
    for (wanted, name) in [(resource.namespaced, "namespace"), (name, "name")] {
        if wanted {
            parameters.push(
                json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string", "uniqueItems": true } }),
            );
        }
    }
    json!({ "parameters": parameters })
}

fn parameter(name: &str) -> Value {
    let kind = match name {
        "limit" | "gracePeriodSeconds" => "integer",
        "watch" | "force" => "boolean",
        _ => "string",
    };
    json!({ "name": name, "in": "query", "schema": { "type": kind, "uniqueItems": true } })
}

fn identity(resource: &Resource) -> Value {
    json!({ "group": resource.group, "version": resource.version, "kind": resource.kind })
}

/// `dev.pilothouse.v1.Ship`: the group's labels from the right, as Kubernetes names models.
fn schema_name(resource: &Resource) -> String {
    match types::of_kind(&resource.group, &resource.version, &resource.kind) {
        Some(message) if !resource.custom => types::openapi::name(message),
        _ => {
            let mut labels: Vec<_> = resource.group.split('.').collect();
            labels.reverse();
            format!("{}.{}.{}", labels.join("."), resource.version, resource.kind)
        }
    }
}

fn schema(resource: &Resource, schemas: &mut Map<String, Value>) -> Value {
    let built_in = types::of_kind(&resource.group, &resource.version, &resource.kind);
    let mut schema = match built_in.filter(|_| !resource.custom) {
        Some(message) => {
            types::openapi::add(message, schemas);
            schemas.remove(&types::openapi::name(message)).unwrap_or_default()
        }
        None => resource
            .published_schema
            .as_ref()
            .and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok())
            .unwrap_or_else(|| json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })),
    };
    if resource.custom {
        embed(&mut schema, schemas);
    }
    give_identity(&mut schema, schemas);
    schema["x-kubernetes-group-version-kind"] = json!([identity(resource)]);
    schema
}

/// Every object has these, whatever its schema says.
fn give_identity(schema: &mut Value, schemas: &mut Map<String, Value>) {
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    let text = json!({ "type": "string" });
    let properties = &mut schema["properties"];
    properties["apiVersion"] = text.clone();
    properties["kind"] = text;
    properties["metadata"] = types::openapi::object_metadata(schemas);
}

/// An object inside another says what it is.
fn embed(schema: &mut Value, schemas: &mut Map<String, Value>) {
    for word in ["items", "additionalProperties"] {
        if schema.get(word).is_some_and(Value::is_object) {
            embed(&mut schema[word], schemas);
        }
    }
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(|inner| embed(inner, schemas));
    }
    if schema["x-kubernetes-embedded-resource"] != true {
        return;
    }
    give_identity(schema, schemas);
    let mut required = schema["required"].as_array().cloned().unwrap_or_default();
    for name in ["kind", "apiVersion"] {
        if !required.iter().any(|one| one == name) {
            required.push(json!(name));
        }
    }
    schema["required"] = json!(required);
}

fn list_schema(resource: &Resource, schemas: &mut Map<String, Value>) -> Value {
    json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": { "type": "string" },
            "kind": { "type": "string" },
            "metadata": types::openapi::list_metadata(schemas),
            "items": { "type": "array", "items": reference(&schema_name(resource)) },
        },
        "x-kubernetes-group-version-kind": [
            { "group": resource.group, "version": resource.version, "kind": resource.list_kind },
        ],
    })
}

fn pascal(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map(|first| first.to_ascii_uppercase().to_string() + characters.as_str())
        .unwrap_or_default()
}
