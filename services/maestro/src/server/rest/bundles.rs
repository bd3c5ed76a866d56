//! Bundles over REST. They are made by gRPC only.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::Deref;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use pilothouse_maestro_api::{InvalidEvent, List, extension};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::find::{Look, find};
use super::list::ListQuery;
use super::{Api, Refused, operation_id};
use crate::server::error::Refusal;
use crate::server::records::{Resource, Seen};

pub(super) async fn get(
    State(api): State<Api>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let found = async {
        let found = api.bundles.records.resource(&id).await?;
        let (_, resource) = found.ok_or(Refusal::NotFound { kind: "Resource", id })?;
        let mut shown = Vec::new();
        present(&resource, resource.payload.data().map(RawValue::get), &mut shown)?;
        Ok(written([shown.into()]))
    };
    found.await.map_err(|refusal| Refused(refusal, operation_id(&headers)))
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
) -> Result<Response, Refused> {
    let listed = async {
        let mut shown = Shown::default();
        let show = |resource: &Seen<'_>, manifests: Option<&str>| shown.add(resource, manifests, &query);
        let look = Look { columns: &COLUMNS, column, row };
        let total = find(&api.bundles.records, &api.found, &query, &look, show).await?;
        if let Some(error) = shown.failed {
            return Err(error.into());
        }
        let list = List { size: shown.count, ..query.list("ResourceBundleList", total, Vec::new()) };
        let [head, tail] = around(&list)?;
        Ok(written([head, shown.items.into(), tail]))
    };
    listed.await.map_err(|refusal| Refused(refusal, operation_id(&headers)))
}

/// What stands before and behind the items of a list that has none yet.
fn around(list: &List<()>) -> Result<[Bytes; 2], InvalidEvent> {
    let mut head = serde_json::to_vec(list).map_err(InvalidEvent::Json)?;
    // They are the last that is written of it.
    let tail = head.split_off(head.len().saturating_sub("]}".len()));
    Ok([head.into(), tail.into()])
}

/// An answer in JSON that is written already.
fn written<const PARTS: usize>(parts: [Bytes; PARTS]) -> Response {
    let parts = futures::stream::iter(parts.map(Ok::<_, Infallible>));
    ([(CONTENT_TYPE, "application/json")], Body::from_stream(parts)).into_response()
}

/// The bundles of a page, written one after the other: a page may come to many megabytes, and is there only once.
#[derive(Default)]
struct Shown {
    items: Vec<u8>,
    count: usize,
    /// What could not be shown.
    failed: Option<InvalidEvent>,
}

impl Shown {
    fn add(&mut self, resource: &Seen<'_>, manifests: Option<&str>, query: &ListQuery) {
        if self.count > 0 {
            self.items.push(b',');
        }
        self.count += 1;
        if let Err(error) = self.write(resource, manifests, query) {
            self.failed = Some(error);
        }
    }

    fn write(
        &mut self,
        resource: &Seen<'_>,
        manifests: Option<&str>,
        query: &ListQuery,
    ) -> Result<(), InvalidEvent> {
        if !query.is_projected() {
            return present(resource, manifests, &mut self.items);
        }
        let mut whole = Vec::new();
        present(resource, manifests, &mut whole)?;
        let whole = serde_json::from_slice(&whole).map_err(InvalidEvent::Json)?;
        serde_json::to_writer(&mut self.items, &query.project(whole)).map_err(InvalidEvent::Json)
    }
}

/// What a search sees. It never sees manifests: they hold secrets.
fn row(resource: &Seen<'_>) -> Value {
    json!({
        "id": resource.id, "name": resource.name, "source": resource.source,
        "consumer_name": resource.consumer_name, "version": resource.version, "type": null,
        "payload": resource.payload.attributes(), "status": resource.status,
        "created_at": resource.created_at, "updated_at": resource.updated_at, "deleted_at": resource.deleted_at,
    })
}

/// What bundles can be ordered by.
const COLUMNS: [&str; 8] =
    ["id", "name", "source", "consumer_name", "version", "created_at", "updated_at", "deleted_at"];

/// What a bundle has in a column, written so that it sorts like itself.
fn column(resource: &Seen<'_>, column: &str) -> String {
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

/// A bundle as it is shown. What source and agent have said is passed on as they wrote it.
#[derive(Serialize)]
struct Presented<'a> {
    id: &'a str,
    kind: &'static str,
    href: String,
    name: &'a str,
    consumer_name: &'a str,
    version: i32,
    created_at: Timestamp,
    updated_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    manifests: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delete_option: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest_configs: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<PresentedStatus<'a>>,
}

/// The agent's words, whatever they are; only the version and the number come from around them.
#[derive(Serialize)]
struct PresentedStatus<'a> {
    #[serde(rename = "ObservedVersion")]
    observed_version: i64,
    #[serde(rename = "SequenceID")]
    sequence_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    conditions: Option<&'a RawValue>,
    #[serde(rename = "resourceStatus", skip_serializing_if = "Option::is_none")]
    resource_status: Option<&'a RawValue>,
}

/// Writes a bundle as it is shown.
fn present<D: Deref<Target = RawValue>>(
    resource: &Resource<D>,
    manifests: Option<&str>,
    out: &mut Vec<u8>,
) -> Result<(), InvalidEvent> {
    let metadata = resource.payload.get(extension::METADATA).filter(|metadata| metadata.is_object());
    let mut metadata = metadata.cloned();
    if let Some(metadata) = &mut metadata {
        metadata["creationTimestamp"] = json!(whole_second(resource.created_at));
        if let Some(deleted_at) = resource.deleted_at {
            metadata["deletionTimestamp"] = json!(whole_second(deleted_at));
        }
    }
    let data = parts(manifests);
    let list = |name: &str| data.get(name).copied().filter(|text| is_list_of_some(text.get()));
    let status = resource.status.as_ref().map(|status| {
        let data = parts(status.data().map(RawValue::get));
        PresentedStatus {
            observed_version: status.get(extension::RESOURCE_VERSION).map(integer).unwrap_or_default(),
            sequence_id: status.get(extension::SEQUENCE_ID).and_then(Value::as_str).unwrap_or_default(),
            conditions: data.get("conditions").copied(),
            resource_status: data.get("resourceStatus").copied(),
        }
    });
    let shown = Presented {
        id: &resource.id,
        kind: "ResourceBundle",
        href: format!("/api/maestro/v1/resource-bundles/{}", resource.id),
        name: &resource.name,
        consumer_name: &resource.consumer_name,
        version: resource.version,
        created_at: resource.created_at,
        updated_at: resource.updated_at,
        deleted_at: resource.deleted_at,
        metadata,
        manifests: list("manifests"),
        delete_option: data.get("deleteOption").copied(),
        manifest_configs: list("manifestConfigs"),
        status,
    };
    serde_json::to_writer(out, &shown).map_err(InvalidEvent::Json)
}

/// The members of an event's data; none, if that is no object.
fn parts(data: Option<&str>) -> HashMap<String, &RawValue> {
    data.and_then(|data| serde_json::from_str(data).ok()).unwrap_or_default()
}

fn is_list_of_some(text: &str) -> bool {
    text.strip_prefix('[').is_some_and(|rest| !rest.trim_start().starts_with(']'))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_written_into_their_list() {
        let list = List { kind: "L".to_owned(), page: 2, size: 3, total: 9, items: Vec::new() };
        let [head, tail] = around(&list).unwrap();
        let whole = [&head[..], b"1,2,3", &tail[..]].concat();
        let read: List<i32> = serde_json::from_slice(&whole).unwrap();
        assert_eq!(read, List { kind: "L".to_owned(), page: 2, size: 3, total: 9, items: vec![1, 2, 3] });
    }
}
