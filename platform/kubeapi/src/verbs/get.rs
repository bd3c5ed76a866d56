use axum::response::Response;
use http::StatusCode;

use super::options::Freshness;
use crate::server::Call;
use crate::status::Failure;

pub(super) async fn handle(call: &Call) -> Result<Response, Failure> {
    // One object always comes from the store itself, so it is the latest; only the future has to be waited for.
    if let Freshness::NotOlderThan(version) = Freshness::of_get(&call.info.query)? {
        call.server.storage.not_older_than(version).await?;
    }
    let stored = super::existing(call).await?;
    call.show(StatusCode::OK, stored.value)
}
