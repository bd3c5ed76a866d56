use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::delete::{self, Options};
use super::options::Selection;
use crate::admission;
use crate::answer::{self, Form};
use crate::server::Call;
use crate::status::Failure;
use crate::storage;

/// Deletes one after the other, each on its own: the whole is not atomic, and need not be.
pub(super) async fn handle(call: &Call) -> Result<Response, Failure> {
    let body = delete::body(call)?;
    let options = Options::of(&call.info.query, &body)?;
    let selection = Selection::parse(&call.resource, &call.info.query)?;
    let storage = &call.server.storage;
    storage.consistent().await?;
    let snapshot = storage.cache().snapshot(&storage::prefix(&call.resource, Some(call.namespace())));
    let mut gone = Vec::new();
    for (_, object) in &snapshot.objects {
        if !selection.matches_bytes(&call.resource, object) {
            continue;
        }
        let Ok(object) = serde_json::from_slice::<Value>(object) else { continue };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let Some(stored) = storage.get(&call.resource, call.namespace(), name).await? else { continue };
        admission::nodes::admit_deletion(&call.user, &call.resource, &stored.value)?;
        // As they were before.
        let shown = storage::text(&stored.value);
        match delete::delete(&call.server, &call.resource, stored, &options).await {
            Ok(_) => gone.push(shown),
            Err(failure) if failure.code == 404 => {}
            Err(failure) => return Err(failure),
        }
    }
    let mut metadata = json!({ "resourceVersion": storage.cache().through().to_string() });
    let form = call.form()?;
    if call.resource.custom && form == Form::Object {
        metadata["continue"] = json!("");
    }
    let list = form.list(&call.resource, &gone, metadata, call.server.clock.now());
    Ok(answer::document(StatusCode::OK, list))
}
