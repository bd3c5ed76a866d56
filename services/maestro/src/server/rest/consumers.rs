//! Consumers over REST.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use http::{HeaderMap, StatusCode};
use pilothouse_maestro_api::{Consumer, List};
use pilothouse_store::{Conflict, DocumentId, Error as StoreError, Precondition};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use super::bundles::moment;
use super::list::ListQuery;
use super::{Api, Refused, operation_id};
use crate::server::error::Refusal;
use crate::server::records::ConsumerRecord;
use crate::{server::search, topic};

#[derive(Debug, Deserialize)]
pub(super) struct Patch {
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

pub(super) async fn list(
    State(api): State<Api>,
    query: ListQuery,
    headers: HeaderMap,
) -> Result<Json<List<Value>>, Refused> {
    let found = async {
        let records = &api.bundles.records;
        let mut found: Vec<ConsumerRecord> = records.all(&records.consumers).await?;
        if let Some(text) = query.search.as_deref() {
            let search = search::parse(text)?;
            found.retain(|record| serde_json::to_value(record).is_ok_and(|row| search.selects(&row)));
        }
        query.sort(
            &mut found,
            &["id", "name", "created_at", "updated_at"],
            |record, column| match column {
                "name" => record.name.clone(),
                "created_at" => moment(record.created_at),
                "updated_at" => moment(record.updated_at),
                _ => record.id.clone(),
            },
        )?;
        Ok(found)
    };
    let found = found.await.map_err(|refusal| Refused(refusal, operation_id(&headers)))?;
    let shown = |record: &ConsumerRecord| serde_json::to_value(presented(record.clone())).unwrap_or_default();
    Ok(Json(query.page("ConsumerList", &found, shown)))
}

pub(super) async fn get(
    State(api): State<Api>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Consumer>, Refused> {
    let found = async {
        let found = api.bundles.records.consumer_by_id(&id).await?;
        found.map(|(_, record)| presented(record)).ok_or(Refusal::NotFound { kind: "Consumer", id })
    };
    found.await.map(Json).map_err(|refusal| Refused(refusal, operation_id(&headers)))
}

pub(super) async fn create(
    State(api): State<Api>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(StatusCode, Json<Consumer>), Refused> {
    let made = async {
        let wanted: Consumer = read(&body)?;
        if !wanted.id.is_empty() {
            return Err(Refusal::Invalid("id must be empty".to_owned()));
        }
        let id = Uuid::new_v4().to_string();
        let name = if wanted.name.is_empty() { id.clone() } else { wanted.name };
        if !topic::is_name(&name) || name.len() > 63 {
            return Err(Refusal::Invalid(format!("`{name}` is not a DNS label")));
        }
        let now = api.bundles.clock.now();
        let record = ConsumerRecord { id, name, labels: wanted.labels, created_at: now, updated_at: now };
        let records = &api.bundles.records;
        let document = DocumentId::try_new(&record.name)?;
        match records.store.create(&records.consumers, &records.partition, document, &record).await {
            Ok(_) => Ok(record),
            Err(StoreError::Conflict(Conflict::Exists { .. })) => {
                Err(Refusal::Conflict(format!("there is already a consumer `{}`", record.name)))
            }
            Err(error) => Err(error.into()),
        }
    };
    let made = made.await.map_err(|refusal| Refused(refusal, operation_id(&headers)))?;
    Ok((StatusCode::CREATED, Json(presented(made))))
}

pub(super) async fn patch(
    State(api): State<Api>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Consumer>, Refused> {
    let patched = async {
        let wanted: Patch = read(&body)?;
        let records = &api.bundles.records;
        let Some((document, mut record)) = records.consumer_by_id(&id).await? else {
            return Err(Refusal::NotFound { kind: "Consumer", id });
        };
        if let Some(labels) = wanted.labels {
            record.labels = labels;
            record.updated_at = api.bundles.clock.now();
            let precondition = Precondition::Etag(document.etag);
            records
                .store
                .put(&records.consumers, &records.partition, document.id, precondition, &record)
                .await?;
        }
        Ok(record)
    };
    let patched = patched.await.map_err(|refusal| Refused(refusal, operation_id(&headers)))?;
    Ok(Json(presented(patched)))
}

pub(super) async fn delete(
    State(api): State<Api>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Refused> {
    let deleted = async {
        let records = &api.bundles.records;
        let Some((document, record)) = records.consumer_by_id(&id).await? else { return Ok(()) };
        let used = records.count_of_consumer(&record.name).await?;
        if used > 0 {
            return Err(Refusal::Forbidden(format!(
                "consumer `{}` still has {used} bundles; delete them first",
                record.name
            )));
        }
        let precondition = Precondition::Etag(document.etag);
        records.store.delete(&records.consumers, &records.partition, document.id, precondition).await?;
        Ok(())
    };
    deleted
        .await
        .map(|()| StatusCode::NO_CONTENT)
        .map_err(|refusal: Refusal| Refused(refusal, operation_id(&headers)))
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::Malformed(format!("the request's body cannot be read: {error}")))
}

fn presented(record: ConsumerRecord) -> Consumer {
    Consumer {
        href: format!("/api/maestro/v1/consumers/{}", record.id),
        id: record.id,
        kind: "Consumer".to_owned(),
        name: record.name,
        labels: record.labels,
        created_at: Some(record.created_at.to_string()),
        updated_at: Some(record.updated_at.to_string()),
    }
}
