use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::create::{self, Fields};
use super::delete;
use crate::answer;
use crate::catalogue::Resource;
use crate::patch::managed_fields;
use crate::server::{Call, Server};
use crate::status::{Cause, Failure};
use crate::storage::{Stored, WriteError};
use crate::strategy;

/// What is to be written over what.
#[derive(Debug)]
pub(super) struct Change<'a> {
    pub(super) resource: &'a Resource,
    pub(super) subresource: Option<&'a str>,
    pub(super) fields: Fields<'a>,
    pub(super) dry_run: bool,
}

pub(super) async fn handle(call: &Call) -> Result<Response, Failure> {
    let mut object = call.body_object()?;
    let warnings = call.unknown_fields(&mut object)?;
    let (resource, name) = (&call.resource, call.name());
    identical(call, &object)?;
    let manager = call.manager()?;
    let subresource = call.address.subresource.as_deref();
    let version = object["metadata"]["resourceVersion"].as_str().filter(|version| !version.is_empty());
    let change = Change { resource, subresource, fields: Fields::Of(&manager), dry_run: call.dry_run()? };
    for _ in 0..super::ATTEMPTS {
        let Some(stored) = call.server.storage.get(resource, call.namespace(), name).await? else {
            if subresource.is_none() && resource.creates_on_update() && version.is_none() {
                let mut object = object.clone();
                object["metadata"]["name"] = json!(name);
                let fields = Fields::Of(&manager);
                let created =
                    create::new(&call.server, resource, call.namespace(), object, fields, change.dry_run)
                        .await?;
                return call.show(StatusCode::CREATED, created);
            }
            return Err(Failure::not_found(resource, name));
        };
        match version {
            Some(version) if stored.value["metadata"]["resourceVersion"] != version => {
                return Err(Failure::modified(resource, name));
            }
            None if !resource.updates_unconditionally() => {
                let cause =
                    Cause::invalid("metadata.resourceVersion", &json!(0), "must be specified for an update");
                return Err(Failure::invalid(resource, name, vec![cause]));
            }
            _ => {}
        }
        let uid = object["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty());
        if uid.is_some_and(|uid| stored.value["metadata"]["uid"] != uid) {
            let found = stored.value["metadata"]["uid"].as_str().unwrap_or_default();
            let why = format!(
                "Precondition failed: UID in precondition: {}, UID in object meta: {found}",
                uid.unwrap_or_default()
            );
            return Err(Failure::conflict(resource, name, why));
        }
        match write(&call.server, &change, &stored, object.clone()).await? {
            Some(written) => {
                let mut response = call.show(StatusCode::OK, written)?;
                answer::warn(&mut response, &warnings);
                return Ok(response);
            }
            // The client said which version it means, and that one is no more.
            None if version.is_some() => return Err(Failure::modified(resource, name)),
            None => {}
        }
    }
    Err(Failure::modified(resource, name))
}

/// An object's name and place are those of its path.
fn identical(call: &Call, object: &Value) -> Result<(), Failure> {
    for (field, expected) in [("name", call.name()), ("namespace", call.namespace())] {
        let given = object["metadata"][field].as_str().unwrap_or_default();
        if !given.is_empty() && given != expected {
            return Err(Failure::bad_request(format!(
                "the {field} of the object ({given}) does not match the {field} on the URL ({expected})"
            )));
        }
    }
    Ok(())
}

/// Writes `new` over what was read, or finishes a deletion that waited for just this. Nothing if somebody was faster.
pub(super) async fn write(
    server: &Arc<Server>,
    change: &Change<'_>,
    stored: &Stored,
    mut new: Value,
) -> Result<Option<Value>, Failure> {
    let Change { resource, subresource, fields, dry_run } = *change;
    let (old, now) = (&stored.value, server.clock.now());
    strategy::prepare_update(resource, subresource, old, &mut new)?;
    strategy::validate(resource, subresource, Some(old), &new)?;
    if let Fields::Of(manager) = fields {
        managed_fields::track(resource, subresource, Some(old), &mut new, manager, now);
    }
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
    if same(old, &new) {
        return Ok(Some(old.clone()));
    }
    if dry_run {
        return Ok(Some(new));
    }
    let written = if delete::is_finished(resource, &new) {
        server.storage.remove(resource, stored).await.map(|gone| {
            new["metadata"]["resourceVersion"] = gone["metadata"]["resourceVersion"].clone();
            new
        })
    } else {
        server.storage.replace(resource, stored, &new).await
    };
    match written {
        Ok(object) => Ok(Some(object)),
        Err(WriteError::Failed(failure)) => Err(failure),
        Err(_) => Ok(None),
    }
}

/// Whether a write would change nothing but the time at which nothing changed.
fn same(old: &Value, new: &Value) -> bool {
    if old == new {
        return true;
    }
    let without = |object: &Value| {
        let mut object = object.clone();
        let entries = object["metadata"]["managedFields"].as_array_mut();
        for entry in entries.into_iter().flatten().filter_map(Value::as_object_mut) {
            entry.remove("time");
        }
        object
    };
    without(old) == without(new)
}
