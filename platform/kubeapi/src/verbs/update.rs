use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::create::{self, Fields};
use super::{delete, options};
use crate::answer;
use crate::authentication::User;
use crate::catalogue::Resource;
use crate::patch::managed_fields;
use crate::server::{Call, Server};
use crate::status::{Cause, Failure};
use crate::storage::{Stored, WriteError};
use crate::{admission, strategy};

/// Of an object that says it is elsewhere.
pub(super) const OTHER_NAMESPACE: &str =
    "the namespace of the provided object does not match the namespace sent on the request";

/// What is to be written over what.
#[derive(Debug)]
pub(super) struct Change<'a> {
    pub(super) resource: &'a Resource,
    pub(super) subresource: Option<&'a str>,
    pub(super) fields: Fields<'a>,
    pub(super) dry_run: bool,
    pub(super) user: &'a User,
}

pub(super) async fn handle(call: &Call) -> Result<Response, Failure> {
    let mut object = call.body_object()?;
    let mut warnings = call.unknown_fields(&mut object)?;
    warnings.extend(strategy::warnings(&call.resource, &mut object));
    let (resource, name) = (&call.resource, call.name());
    identical(call, &object)?;
    let manager = call.manager()?;
    let subresource = call.address.subresource.as_deref();
    let version = object["metadata"]["resourceVersion"].as_str().filter(|version| !version.is_empty());
    if let Some(version) = version.filter(|version| version.parse::<u64>().is_err()) {
        return Err(Failure::unexpected(options::no_number("Uint", version)));
    }
    let change = Change {
        resource,
        subresource,
        fields: Fields::Of(&manager),
        dry_run: call.dry_run()?,
        user: &call.user,
    };
    for _ in 0..super::ATTEMPTS {
        let Some(stored) = call.server.storage.get(resource, call.namespace(), name).await? else {
            if subresource.is_none() && resource.creates_on_update() && version.is_none() {
                let mut object = object.clone();
                object["metadata"]["name"] = json!(name);
                create::permitted(call, &mut object)?;
                let fields = Fields::Of(&manager);
                let created =
                    create::new(&call.server, resource, call.namespace(), object, fields, change.dry_run)
                        .await?;
                let mut response = call.show(StatusCode::CREATED, created)?;
                answer::warn(&mut response, &warnings);
                return Ok(response);
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
                return Err(Failure::invalid_in_collection(resource, name, cause));
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
        if field == "namespace" && !given.is_empty() && given != expected {
            return Err(Failure::bad_request(OTHER_NAMESPACE));
        }
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
    let Change { resource, subresource, fields, dry_run, user } = *change;
    let (old, now) = (&stored.value, server.clock.now());
    // Through `scale` only the object's own number is written.
    let part = subresource.filter(|part| *part != "scale");
    strategy::prepare_update(resource, part, old, &mut new)?;
    if part == Some("approval") {
        strategy::certificate::stamp_conditions(old, &mut new, now);
    }
    let namespace = old["metadata"]["namespace"].as_str().unwrap_or_default();
    let permitted = admission::nodes::Change { resource, subresource: part, new: &new, old: Some(old) };
    admission::permit(server, user, namespace, &permitted)?;
    strategy::validate(resource, part, Some(old), &new)?;
    if let Fields::Of(manager) = fields {
        managed_fields::track(resource, subresource, Some(old), &mut new, manager, now);
    }
    // Until the Service is in the cache, where the next one looks.
    let mut _turn = None;
    if resource.is("", "services") && part.is_none() {
        _turn = Some(server.allocator.turn().await);
        server.storage.consistent().await?;
        server.allocator.assign(server.storage.cache(), resource, Some(old), &mut new)?;
    }
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
    for _ in 0..super::ATTEMPTS {
        // In the same order as on creation, so that nobody waits for one who waits for them.
        let quota = match part {
            None | Some("resize") => admission::check(server, resource, namespace, &new, Some(old)).await?,
            Some(_) => None,
        };
        if same(old, &new) {
            return Ok(Some(old.clone()));
        }
        if dry_run {
            return Ok(Some(new));
        }
        let written = if delete::is_finished(resource, &new) {
            server.storage.remove(resource, stored).await.map(|_| new.clone())
        } else {
            let along = admission::Turn::along(quota.as_ref());
            server.storage.replace_along(resource, stored, &new, along).await
        };
        match written {
            Ok(object) => return Ok(Some(object)),
            Err(WriteError::Failed(failure)) => return Err(failure),
            // A quota was used through another server meanwhile: what is left of it is counted again.
            Err(WriteError::NamespaceChanged) => {}
            Err(WriteError::Changed | WriteError::Exists) => return Ok(None),
        }
    }
    Err(Failure::unavailable("the quotas of the namespace change all the time"))
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
