//! Credentials for administrators.

use super::{
    Bytes, Context, Extension, Path, RawQuery, Response, Shared, State, StatusCode, body, created, list_query,
};
use axum::response::IntoResponse as _;
use pilothouse_clusters_service_api::{BreakGlassCredentialId, InvalidId, NewBreakGlassCredential};

use crate::clusters::Mode;
use crate::refusal::{Refusal, cluster_id};

/// An id that is none is the id of nothing.
fn credential_id(text: &str) -> Result<BreakGlassCredentialId, Refusal> {
    text.parse().map_err(|_: InvalidId| Refusal::credential_not_found(text))
}

pub(super) async fn list(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(cluster): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let outcome =
        async { rest.clusters.credential_list(&cluster_id(&cluster)?, list_query(query.as_deref())?).await };
    rest.answer(&context, StatusCode::OK, outcome.await)
}

pub(super) async fn create(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(cluster): Path<String>,
    mode: Mode,
    bytes: Bytes,
) -> Response {
    let outcome = async {
        let new: NewBreakGlassCredential = body(&bytes)?;
        rest.clusters.credential_create(&context, &cluster_id(&cluster)?, new, mode).await
    };
    rest.answer(&context, created(mode), outcome.await)
}

pub(super) async fn get(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path((cluster, id)): Path<(String, String)>,
) -> Response {
    let outcome = async { rest.clusters.credential_get(&cluster_id(&cluster)?, &credential_id(&id)?).await };
    rest.answer(&context, StatusCode::OK, outcome.await)
}

pub(super) async fn revoke(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(cluster): Path<String>,
    mode: Mode,
) -> Response {
    let outcome = async { rest.clusters.credentials_revoke(&cluster_id(&cluster)?, mode).await };
    match outcome.await {
        Ok(()) if mode == Mode::DryRun => StatusCode::NO_CONTENT.into_response(),
        Ok(()) => StatusCode::ACCEPTED.into_response(),
        Err(refusal) => rest.refuse(&context, refusal),
    }
}
