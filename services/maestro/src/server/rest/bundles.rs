//! Bundles over REST. They are made by gRPC only.

use axum::Json;
use axum::extract::{Path, State};
use http::HeaderMap;
use http::StatusCode;
use jiff::Timestamp;
use pilothouse_maestro_api::{List, ResourceBundle};
use serde_json::{Value, json};

use super::find::find;
use super::list::ListQuery;
use super::{Api, Refused, operation_id};
use crate::server::error::Refusal;
use crate::server::records::Resource;

pub(super) async fn get(
    State(api): State<Api>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, Refused> {
    let found = async {
        let found = api.bundles.records.resource(&id).await?;
        found.map(|(_, resource)| presented(&resource)).ok_or(Refusal::NotFound { kind: "Resource", id })
    };
    found.await.map(Json).map_err(|refusal| Refused(refusal, operation_id(&headers)))
}

pub(super) async fn delete(
    State(api): State<Api>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Refused> {
    let deleted = api.bundles.delete(&id, None).await;
    deleted.map(|()| StatusCode::NO_CONTENT).map_err(|refusal| Refused(refusal, operation_id(&headers)))
}

pub(super) async fn list(
    State(api): State<Api>,
    query: ListQuery,
    headers: HeaderMap,
) -> Result<Json<List<Value>>, Refused> {
    let found = find(&api.bundles.records, &api.found, &query, &COLUMNS, column, row).await;
    let (total, found) = found.map_err(|refusal| Refused(refusal, operation_id(&headers)))?;
    Ok(Json(query.present("ResourceBundleList", total, &found, presented)))
}

/// What a search sees. It never sees manifests: they hold secrets.
fn row(resource: &Resource) -> Value {
    let mut payload = resource.payload.clone();
    if let Some(payload) = payload.as_object_mut() {
        payload.remove("data");
    }
    json!({
        "id": resource.id, "name": resource.name, "source": resource.source,
        "consumer_name": resource.consumer_name, "version": resource.version, "type": null,
        "payload": payload, "status": resource.status,
        "created_at": resource.created_at, "updated_at": resource.updated_at, "deleted_at": resource.deleted_at,
    })
}

/// What bundles can be ordered by.
const COLUMNS: [&str; 8] =
    ["id", "name", "source", "consumer_name", "version", "created_at", "updated_at", "deleted_at"];

/// What a bundle has in a column, written so that it sorts like itself.
fn column(resource: &Resource, column: &str) -> String {
    match column {
        "name" => resource.name.clone(),
        "source" => resource.source.clone(),
        "consumer_name" => resource.consumer_name.clone(),
        "version" => format!("{:012}", resource.version),
        "created_at" => moment(resource.created_at),
        "updated_at" => moment(resource.updated_at),
        // What has none comes last, as in SQL.
        "deleted_at" => resource.deleted_at.map_or_else(|| "~".to_owned(), moment),
        _ => resource.id.clone(),
    }
}

/// A moment whose text sorts like itself.
pub(super) fn moment(at: Timestamp) -> String {
    format!("{:020}", at.as_nanosecond())
}

/// A bundle as it is shown.
fn presented(resource: &Resource) -> Value {
    let data = resource.payload.get("data");
    let part = |name: &str| data.and_then(|data| data.get(name)).cloned();
    let mut metadata = resource.payload.get("metadata").filter(|metadata| metadata.is_object()).cloned();
    if let Some(metadata) = &mut metadata {
        metadata["creationTimestamp"] = json!(whole_second(resource.created_at));
        if let Some(deleted_at) = resource.deleted_at {
            metadata["deletionTimestamp"] = json!(whole_second(deleted_at));
        }
    }
    let list = |value: Option<Value>| value.and_then(|value| value.as_array().cloned()).unwrap_or_default();
    let bundle = ResourceBundle {
        id: resource.id.clone(),
        kind: "ResourceBundle".to_owned(),
        href: format!("/api/maestro/v1/resource-bundles/{}", resource.id),
        name: resource.name.clone(),
        consumer_name: resource.consumer_name.clone(),
        version: resource.version,
        created_at: resource.created_at.to_string(),
        updated_at: resource.updated_at.to_string(),
        deleted_at: resource.deleted_at.map(|at| at.to_string()),
        metadata,
        manifests: list(part("manifests")),
        delete_option: part("deleteOption"),
        manifest_configs: list(part("manifestConfigs")),
        status: None,
    };
    let mut value = serde_json::to_value(bundle).unwrap_or_default();
    // The agent's words, whatever they are; only the version and the number come from around them.
    if let Some(status) = &resource.status {
        let mut shown = json!({
            "ObservedVersion": integer(&status["resourceversion"]),
            "SequenceID": status["sequenceid"].as_str().unwrap_or_default(),
        });
        for name in ["conditions", "resourceStatus"] {
            if let Some(part) = status.pointer(&format!("/data/{name}")) {
                shown[name] = part.clone();
            }
        }
        value["status"] = shown;
    }
    value
}

fn integer(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.parse().unwrap_or_default(),
        other => other.as_i64().unwrap_or_default(),
    }
}

fn whole_second(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}
