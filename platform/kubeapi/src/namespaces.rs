//! The life of a namespace: nothing is made in one that is missing or going, and it goes only once it is empty.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use crate::catalogue::Resource;
use crate::server::{Call, Server};
use crate::status::{Cause, Failure};
use crate::storage::{Tie, WriteError};
use crate::verbs::{self, delete};

/// The namespace in which something is to be made. The write is tied to it being as it was read here, so that nothing
/// slips into a namespace while it is emptied.
pub(crate) async fn admit(
    server: &Server,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Option<Tie>, Failure> {
    if !resource.namespaced {
        return Ok(None);
    }
    let namespaces = server.built_in("", "namespaces")?;
    let found = server.storage.tie(&namespaces, "", namespace).await?;
    let (tie, found) = found.ok_or_else(|| Failure::not_found(&namespaces, namespace))?;
    // Nearly always a glance is enough.
    let is_deleting = found.text().contains("\"deletionTimestamp\"")
        && found.parse().is_ok_and(|value: Value| delete::is_deleting(&value));
    if is_deleting {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let cause = Cause::new(
            "NamespaceTerminating",
            format!("namespace {namespace} is being terminated"),
            "metadata.namespace",
        );
        return Err(Failure::forbidden(resource, name, why).with_cause(cause));
    }
    Ok(Some(tie))
}

/// `namespaces/finalize`: replaces what the namespace waits for. Without anything left, it is gone.
pub(crate) async fn finalize(call: &Call) -> Result<Response, Failure> {
    let asked = call.body_object()?;
    for _ in 0..verbs::ATTEMPTS {
        let stored = verbs::existing(call).await?;
        let version = asked["metadata"]["resourceVersion"].as_str().filter(|version| !version.is_empty());
        if version.is_some_and(|version| stored.value["metadata"]["resourceVersion"] != version) {
            return Err(Failure::modified(&call.resource, call.name()));
        }
        let mut namespace = stored.value.clone();
        let finalizers = asked["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
        namespace["spec"] =
            if finalizers.is_empty() { json!({}) } else { json!({ "finalizers": finalizers }) };
        if namespace == stored.value || call.dry_run()? {
            return call.show(StatusCode::OK, namespace);
        }
        let written = if delete::is_finished(&call.resource, &namespace) {
            call.server.storage.remove(&call.resource, &stored).await.map(|_| namespace)
        } else {
            call.server.storage.replace(&call.resource, &stored, &namespace).await
        };
        match written {
            Ok(namespace) => return call.show(StatusCode::OK, namespace),
            Err(WriteError::Failed(failure)) => return Err(failure),
            Err(_) => {}
        }
    }
    Err(Failure::modified(&call.resource, call.name()))
}
