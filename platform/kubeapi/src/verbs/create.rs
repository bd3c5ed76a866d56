use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use crate::answer;
use crate::catalogue::Resource;
use crate::patch::managed_fields;
use crate::server::{Call, Server};
use crate::status::{Cause, Failure};
use crate::storage::WriteError;
use crate::strategy::{self, names};
use crate::{admission, crds, namespaces, pods};

/// Who the fields of a new object belong to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fields<'a> {
    /// This manager, by having sent them.
    Of(&'a str),
    /// Whom the object says: server-side apply has written it down.
    Recorded,
}

pub(super) async fn handle(call: &Call) -> Result<Response, Failure> {
    let mut object = call.body_object()?;
    let mut warnings = call.unknown_fields(&mut object)?;
    warnings.extend(strategy::warnings(&call.resource, &mut object));
    let namespace = call.namespace();
    if let Some(version) = object["metadata"]["resourceVersion"].as_str()
        && !version.is_empty()
    {
        return Err(Failure::unexpected("resourceVersion should not be set on objects to be created"));
    }
    if call.resource.is("certificates.k8s.io", "certificatesigningrequests") {
        requested_by(call, &mut object);
    }
    permitted(call, &mut object)?;
    let manager = call.manager()?;
    let dry_run = call.dry_run()?;
    let created = new(&call.server, &call.resource, namespace, object, Fields::Of(&manager), dry_run).await?;
    let mut response = call.show(StatusCode::CREATED, created)?;
    answer::warn(&mut response, &warnings);
    Ok(response)
}

/// Whether who asks may make this object at all. It is put where the path says.
pub(super) fn permitted(call: &Call, object: &mut Value) -> Result<(), Failure> {
    place(&call.resource, call.namespace(), object)?;
    let change =
        admission::nodes::Change { resource: &call.resource, subresource: None, new: object, old: None };
    admission::permit(&call.server, &call.user, call.namespace(), &change)
}

/// Who asks for a certificate is not for the asker to say.
fn requested_by(call: &Call, object: &mut Value) {
    let user = call.user.to_value();
    for (field, of_user) in
        [("username", "username"), ("uid", "uid"), ("groups", "groups"), ("extra", "extra")]
    {
        match &user[of_user] {
            Value::Null => {
                if let Some(spec) = object["spec"].as_object_mut() {
                    spec.remove(field);
                }
            }
            value => object["spec"][field] = value.clone(),
        }
    }
}

/// Makes an object, on behalf of the server itself or of a request.
pub(crate) async fn create(
    server: &Arc<Server>,
    resource: &Resource,
    namespace: &str,
    object: Value,
    manager: &str,
    dry_run: bool,
) -> Result<Value, Failure> {
    new(server, resource, namespace, object, Fields::Of(manager), dry_run).await
}

pub(super) async fn new(
    server: &Arc<Server>,
    resource: &Resource,
    namespace: &str,
    mut object: Value,
    fields: Fields<'_>,
    dry_run: bool,
) -> Result<Value, Failure> {
    place(resource, namespace, &mut object)?;
    let generate = wanted_name(resource, &object)?;
    let mut collided = None;
    for _ in 0..super::ATTEMPTS {
        let mut object = object.clone();
        if let Some(base) = generate {
            object["metadata"]["name"] = json!(names::generated(base, rand::random()));
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let within = namespaces::admit(server, resource, namespace, &name).await?;
        crds::admit(server, resource)?;
        let now = server.clock.now();
        let context = strategy::Context { now, uid: uuid::Uuid::new_v4() };
        strategy::decode(resource, &mut object)?;
        if let Fields::Of(manager) = fields {
            managed_fields::track(resource, None, None, &mut object, manager, now);
        }
        strategy::begin(resource, &mut object, &context);
        admission::prepare(server, resource, namespace, &mut object);
        if resource.is("", "pods") {
            pods::admit(server, resource, namespace, &mut object).await?;
        }
        admission::complete(server, resource, &mut object)?;
        // From before the choice until the Service is in the cache, where the next one looks.
        let mut turn = None;
        if resource.is("", "services") {
            turn = Some(server.allocator.turn().await);
            server.storage.consistent().await?;
            server.allocator.assign(server.storage.cache(), resource, None, &mut object)?;
        }
        strategy::validate(resource, None, None, &object)?;
        let quota = admission::check(server, resource, namespace, &object, None).await?;
        if dry_run {
            return match server.storage.get(resource, namespace, &name).await? {
                Some(_) => Err(exists(server, resource, namespace, &name).await),
                None => Ok(object),
            };
        }
        let along = admission::Turn::along(quota.as_ref());
        let at = (namespace, name.as_str());
        let written = server.storage.create(resource, at, within.as_ref(), object, along).await;
        drop(turn);
        drop(quota);
        match written {
            Ok(object) => return Ok(object),
            Err(WriteError::Failed(failure)) => return Err(failure),
            Err(WriteError::Exists) if generate.is_some() => {
                collided = Some(Failure::already_exists(resource, &name).with_retry_after(1));
            }
            Err(WriteError::Exists) => return Err(exists(server, resource, namespace, &name).await),
            Err(WriteError::Changed | WriteError::NamespaceChanged) => {}
        }
    }
    Err(collided.unwrap_or_else(|| Failure::unavailable("the namespace changes all the time")))
}

async fn exists(server: &Server, resource: &Resource, namespace: &str, name: &str) -> Failure {
    let mut failure = Failure::already_exists(resource, name);
    if let Ok(Some(stored)) = server.storage.get(resource, namespace, name).await
        && super::delete::is_deleting(&stored.value)
    {
        failure.message = format!("object is being deleted: {}", failure.message);
    }
    failure
}

/// The namespace of the path is the object's.
fn place(resource: &Resource, namespace: &str, object: &mut Value) -> Result<(), Failure> {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    let Some(metadata) = object["metadata"].as_object_mut() else { return Ok(()) };
    let given = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    if !given.is_empty() && given != namespace {
        return Err(Failure::bad_request(super::update::OTHER_NAMESPACE));
    }
    if resource.namespaced {
        metadata.insert("namespace".to_owned(), json!(namespace));
    } else {
        metadata.remove("namespace");
    }
    Ok(())
}

/// What a name is to be generated from, if it is.
fn wanted_name<'a>(resource: &Resource, object: &'a Value) -> Result<Option<&'a str>, Failure> {
    let text = |field: &str| object["metadata"][field].as_str().filter(|text| !text.is_empty());
    match (text("name"), text("generateName")) {
        (Some(_), _) => Ok(None),
        (None, Some(base)) => Ok(Some(base)),
        (None, None) => {
            let cause = Cause::required("metadata.name", "name or generateName is required");
            Err(Failure::invalid(resource, "", vec![cause]))
        }
    }
}
