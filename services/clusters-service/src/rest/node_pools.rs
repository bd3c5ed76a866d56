use super::{
    Bytes, Context, Extension, Path, RawQuery, Response, Shared, State, StatusCode, body, created, list_query,
};
use axum::response::IntoResponse as _;
use pilothouse_clusters_service_api::{InvalidId, NewNodePool, NodePoolId, NodePoolUpdate};

use crate::clusters::Mode;
use crate::refusal::{Refusal, cluster_id};

/// An id that is none is the id of nothing.
pub(super) fn node_pool_id(text: &str) -> Result<NodePoolId, Refusal> {
    text.parse().map_err(|_: InvalidId| Refusal::node_pool_not_found(text))
}

pub(super) async fn list(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(cluster): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let outcome =
        async { rest.clusters.node_pool_list(&cluster_id(&cluster)?, list_query(query.as_deref())?).await };
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
        let new: NewNodePool = body(&bytes)?;
        rest.clusters.node_pool_create(&context, &cluster_id(&cluster)?, new, mode).await
    };
    rest.answer(&context, created(mode), outcome.await)
}

pub(super) async fn get(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path((cluster, id)): Path<(String, String)>,
) -> Response {
    let outcome = async { rest.clusters.node_pool_get(&cluster_id(&cluster)?, &node_pool_id(&id)?).await };
    rest.answer(&context, StatusCode::OK, outcome.await)
}

pub(super) async fn status(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path((cluster, id)): Path<(String, String)>,
) -> Response {
    let outcome =
        async { Ok(rest.clusters.node_pool_get(&cluster_id(&cluster)?, &node_pool_id(&id)?).await?.status) };
    rest.answer(&context, StatusCode::OK, outcome.await)
}

pub(super) async fn update(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path((cluster, id)): Path<(String, String)>,
    mode: Mode,
    bytes: Bytes,
) -> Response {
    let outcome = async {
        let update: NodePoolUpdate = body(&bytes)?;
        let (cluster, id) = (cluster_id(&cluster)?, node_pool_id(&id)?);
        rest.clusters.node_pool_update(&context, &cluster, &id, update, mode).await
    };
    rest.answer(&context, StatusCode::OK, outcome.await)
}

pub(super) async fn delete(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path((cluster, id)): Path<(String, String)>,
    mode: Mode,
) -> Response {
    let outcome =
        async { rest.clusters.node_pool_delete(&cluster_id(&cluster)?, &node_pool_id(&id)?, mode).await };
    match outcome.await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(refusal) => rest.refuse(&context, refusal),
    }
}
