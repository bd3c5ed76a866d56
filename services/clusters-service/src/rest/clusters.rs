use super::{
    Bytes, Context, Extension, Path, RawQuery, Response, Shared, State, StatusCode, body, created,
    list_query, mode,
};
use axum::response::IntoResponse as _;
use pilothouse_clusters_service_api::{ClusterUpdate, NewCluster};
use serde_json::json;

use crate::refusal::cluster_id;

pub(super) async fn list(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    RawQuery(query): RawQuery,
) -> Response {
    let outcome = async { rest.clusters.cluster_list(list_query(query.as_deref())?).await };
    rest.answer(&context, StatusCode::OK, outcome.await)
}

pub(super) async fn create(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    RawQuery(query): RawQuery,
    bytes: Bytes,
) -> Response {
    let mode = mode(query.as_deref());
    let outcome = async {
        let new: NewCluster = body(&bytes)?;
        rest.clusters.cluster_create(&context, new, mode).await
    };
    rest.answer(&context, created(mode), outcome.await)
}

pub(super) async fn get(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(id): Path<String>,
) -> Response {
    let outcome = async { rest.clusters.cluster_get(&cluster_id(&id)?).await };
    rest.answer(&context, StatusCode::OK, outcome.await)
}

pub(super) async fn status(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(id): Path<String>,
) -> Response {
    let outcome = async { Ok(rest.clusters.cluster_get(&cluster_id(&id)?).await?.status) };
    rest.answer(&context, StatusCode::OK, outcome.await)
}

/// Where on its management cluster a cluster is.
pub(super) async fn hypershift(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(id): Path<String>,
) -> Response {
    let outcome = async {
        let id = cluster_id(&id)?;
        let shard = rest.clusters.cluster_shard(&id).await?;
        let namespace = format!("ocm-{}-{id}", rest.clusters.config.environment);
        Ok(
            json!({"enabled": true, "management_cluster": shard.maestro_config.consumer_name, "hcp_namespace": namespace}),
        )
    };
    rest.answer(&context, StatusCode::OK, outcome.await)
}

pub(super) async fn update(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    bytes: Bytes,
) -> Response {
    let outcome = async {
        let update: ClusterUpdate = body(&bytes)?;
        rest.clusters.cluster_update(&context, &cluster_id(&id)?, update, mode(query.as_deref())).await
    };
    rest.answer(&context, StatusCode::OK, outcome.await)
}

/// What of the customer's was looked at.
pub(super) async fn inflight_checks(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(id): Path<String>,
) -> Response {
    let outcome = async { rest.clusters.inflight_checks(&cluster_id(&id)?).await };
    rest.answer(&context, StatusCode::OK, outcome.await)
}

pub(super) async fn delete(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(id): Path<String>,
) -> Response {
    let outcome = async { rest.clusters.cluster_delete(&cluster_id(&id)?).await };
    match outcome.await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(refusal) => rest.refuse(&context, refusal),
    }
}
