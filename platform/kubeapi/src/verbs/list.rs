use axum::response::Response;
use http::StatusCode;
use serde_json::json;

use super::options::{Freshness, Selection};
use crate::answer;
use crate::server::Call;
use crate::status::Failure;
use crate::storage::Listing;

pub(super) async fn handle(call: &Call) -> Result<Response, Failure> {
    let query = &call.info.query;
    let form = call.form()?;
    let selection = Selection::parse(&call.resource, query)?;
    let limit = query.get("limit").map(str::parse).transpose();
    let limit = limit.map_err(|_| Failure::bad_request("limit: it is not a number"))?.unwrap_or(0);
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
    let list = form.list(&call.resource, &page.objects, metadata, call.server.clock.now());
    Ok(answer::document(StatusCode::OK, list))
}
