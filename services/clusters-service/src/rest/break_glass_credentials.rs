//! Credentials for administrators: the paths are there, and say what is not.
//!
//! Nothing below signs for a single cluster on this service's behalf. Until each cluster has a signer of its own, none is
//! issued, so the list is empty and revoking all of them is done as soon as it is asked for.

use super::{Bytes, Context, Extension, Path, Response, Shared, State, StatusCode, body};
use axum::response::IntoResponse as _;
use pilothouse_clusters_service_api::{BreakGlassCredential, List, NewBreakGlassCredential};

use crate::refusal::{Refusal, cluster_id};

/// What a request is refused for.
const FIELD: &str = "break_glass_credentials";

pub(super) async fn list(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(cluster): Path<String>,
) -> Response {
    let outcome = async {
        rest.clusters.cluster_get(&cluster_id(&cluster)?).await?;
        Ok(List::<BreakGlassCredential>::empty("BreakGlassCredentialList"))
    };
    rest.answer(&context, StatusCode::OK, outcome.await)
}

pub(super) async fn create(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(cluster): Path<String>,
    bytes: Bytes,
) -> Response {
    let outcome = async {
        let _new: NewBreakGlassCredential = body(&bytes)?;
        rest.clusters.cluster_get(&cluster_id(&cluster)?).await?;
        let problem = "no cluster has a signer for administrators' certificates; until it has, get in with the kubeconfig \
                       that the HostedCluster names in its status";
        Err::<BreakGlassCredential, _>(Refusal::not_yet(FIELD, problem))
    };
    rest.answer(&context, StatusCode::CREATED, outcome.await)
}

pub(super) async fn get(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path((cluster, id)): Path<(String, String)>,
) -> Response {
    let outcome = async {
        rest.clusters.cluster_get(&cluster_id(&cluster)?).await?;
        Err::<BreakGlassCredential, _>(Refusal::NotFound { kind: "Break glass credential", id })
    };
    rest.answer(&context, StatusCode::OK, outcome.await)
}

pub(super) async fn revoke(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(cluster): Path<String>,
) -> Response {
    let outcome = async { rest.clusters.cluster_get(&cluster_id(&cluster)?).await };
    match outcome.await {
        Ok(_) => StatusCode::NO_CONTENT.into_response(),
        Err(refusal) => rest.refuse(&context, refusal),
    }
}
