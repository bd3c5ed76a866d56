use super::{
    Bytes, Context, Extension, Path, RawQuery, Response, Shared, State, StatusCode, body, created, list_query,
};
use axum::response::IntoResponse as _;
use pilothouse_clusters_service_api::{NewProvisionShard, ProvisionShardUpdate};

use crate::clusters::Mode;
use crate::refusal::cluster_id;

pub(super) async fn of_cluster(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(cluster): Path<String>,
) -> Response {
    let outcome = async { rest.clusters.cluster_shard(&cluster_id(&cluster)?).await };
    rest.answer(&context, StatusCode::OK, outcome.await)
}

pub(super) async fn list(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    RawQuery(query): RawQuery,
) -> Response {
    let outcome = async { rest.clusters.shard_list(&list_query(query.as_deref())?).await };
    rest.answer(&context, StatusCode::OK, outcome.await)
}

pub(super) async fn create(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    mode: Mode,
    bytes: Bytes,
) -> Response {
    let outcome = async {
        let new: NewProvisionShard = body(&bytes)?;
        let made = rest.clusters.shard_create(new, mode).await?;
        if mode == Mode::Create {
            // Now rather than at the next look at all of them: from two on they are asked whether they are there.
            rest.shards.wake_all();
        }
        Ok(made)
    };
    rest.answer(&context, created(mode), outcome.await)
}

pub(super) async fn get(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(id): Path<String>,
) -> Response {
    rest.answer(&context, StatusCode::OK, rest.clusters.shard_get(&id).await)
}

pub(super) async fn update(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(id): Path<String>,
    mode: Mode,
    bytes: Bytes,
) -> Response {
    let outcome = async {
        let update: ProvisionShardUpdate = body(&bytes)?;
        let changed = rest.clusters.shard_update(&id, &update, mode).await?;
        if mode == Mode::Create {
            rest.shards.wake(id);
        }
        Ok(changed)
    };
    rest.answer(&context, StatusCode::OK, outcome.await)
}

pub(super) async fn delete(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(id): Path<String>,
    mode: Mode,
) -> Response {
    match rest.clusters.shard_delete(&id, mode).await {
        Ok(()) => {
            if mode == Mode::Create {
                rest.shards.wake_all();
            }
            StatusCode::NO_CONTENT.into_response()
        }
        Err(refusal) => rest.refuse(&context, refusal),
    }
}
