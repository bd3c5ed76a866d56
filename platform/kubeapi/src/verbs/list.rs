use axum::response::Response;
use http::StatusCode;
use serde_json::json;

use super::options::{self, Freshness, Selection};
use crate::answer::{self, Form};
use crate::server::Call;
use crate::status::Failure;
use crate::storage::Listing;

pub(super) async fn handle(call: &Call) -> Result<Response, Failure> {
    let query = &call.info.query;
    let form = call.form()?;
    let selection = Selection::parse(&call.resource, query)?;
    // Less than nothing is no limit either.
    let limit = options::number(query, "limit")?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(0);
    options::number(query, "timeoutSeconds")?;
    let storage = &call.server.storage;
    let freshness = Freshness::of_list(query)?;
    match freshness {
        Freshness::Latest => storage.consistent().await?,
        Freshness::NotOlderThan(version) => storage.not_older_than(version).await?,
        Freshness::Any | Freshness::Exactly(_) => {}
    }
    let listing = Listing {
        resource: &call.resource,
        namespace: call.resource.namespaced.then_some(call.address.namespace.as_deref()).flatten(),
        name: selection.name(),
        limit,
        continue_token: query.get("continue"),
        exactly: match freshness {
            Freshness::Exactly(version) => Some(version),
            _ => None,
        },
    };
    let page = storage.page(&listing, |object| selection.matches_bytes(&call.resource, object)).await?;
    let mut metadata = json!({ "resourceVersion": page.revision.to_string() });
    if let Some(next) = page.next {
        metadata["continue"] = json!(next);
        if selection.is_everything()
            && let Some(remaining) = page.remaining
        {
            metadata["remainingItemCount"] = json!(remaining);
        }
    }
    // Where types do not say that it may be left out, it is there.
    if call.resource.custom && form == Form::Object && metadata.get("continue").is_none() {
        metadata["continue"] = json!("");
    }
    let list = form.list(&call.resource, &page.objects, metadata, call.server.clock.now());
    Ok(answer::document(StatusCode::OK, list))
}
