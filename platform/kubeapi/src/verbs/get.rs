use axum::response::Response;
use http::StatusCode;

use super::options::Freshness;
use crate::answer;
use crate::server::Call;
use crate::status::Failure;

pub(super) async fn handle(call: &Call) -> Result<Response, Failure> {
    // One object always comes from the store itself, so it is the latest; only the future has to be waited for.
    if let Freshness::NotOlderThan(version) = Freshness::of_get(&call.info.query)? {
        call.server.storage.not_older_than(version).await?;
    }
    let found = call.server.storage.get_bytes(&call.resource, call.namespace(), call.name()).await?;
    let object = found.ok_or_else(|| Failure::not_found(&call.resource, call.name()))?;
    let shown = call.form()?.show_bytes(&call.resource, &object, call.server.clock.now());
    Ok(answer::document(StatusCode::OK, shown))
}
