use super::{
    Bytes, Context, Extension, Path, RawQuery, Response, Shared, State, StatusCode, body, created,
    list_query, pairs,
};
use axum::response::IntoResponse as _;
use pilothouse_clusters_service_api::{Autoscaler, ClusterUpdate, NewCluster};
use serde::Serialize;
use serde_json::json;

use crate::clusters::Mode;
use crate::refusal::{Refusal, cluster_id};

/// How a cluster's node pools are scaled, as something with a path of its own.
#[derive(Serialize)]
struct Scaling {
    kind: &'static str,
    href: String,
    #[serde(flatten)]
    settings: Autoscaler,
}

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
    mode: Mode,
    bytes: Bytes,
) -> Response {
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
    mode: Mode,
    bytes: Bytes,
) -> Response {
    let outcome = async {
        let update: ClusterUpdate = body(&bytes)?;
        rest.clusters.cluster_update(&context, &cluster_id(&id)?, update, mode).await
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

/// One of these, by its id.
pub(super) async fn inflight_check(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path((id, check)): Path<(String, String)>,
) -> Response {
    let outcome = async { rest.clusters.inflight_check(&cluster_id(&id)?, check).await };
    rest.answer(&context, StatusCode::OK, outcome.await)
}

/// How the node pools of a cluster are scaled: what was asked for, and nothing that was not.
pub(super) async fn autoscaler(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(id): Path<String>,
) -> Response {
    let outcome = async {
        let cluster = rest.clusters.cluster_get(&cluster_id(&id)?).await?;
        let href = format!("{}/autoscaler", cluster.href);
        Ok(Scaling { kind: "ClusterAutoscaler", href, settings: cluster.autoscaler.unwrap_or_default() })
    };
    rest.answer(&context, StatusCode::OK, outcome.await)
}

pub(super) async fn delete(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    mode: Mode,
) -> Response {
    match best_effort(query.as_deref()) {
        Ok(false) => {}
        Ok(true) => {
            let outcome = async { rest.clusters.cluster_abandon(&cluster_id(&id)?, mode).await };
            return rest.answer(&context, StatusCode::OK, outcome.await);
        }
        Err(refusal) => return rest.refuse(&context, refusal),
    }
    let outcome = async { rest.clusters.cluster_delete(&cluster_id(&id)?, mode).await };
    match outcome.await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(refusal) => rest.refuse(&context, refusal),
    }
}

/// Whether what cannot be reached is not waited for.
fn best_effort(query: Option<&str>) -> Result<bool, Refusal> {
    let asked = pairs(query).into_iter().find(|(name, _)| name == "best_effort");
    match asked.as_ref().map(|(_, value)| value.as_str()) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(value) => {
            let problem = format!("it is `true` or `false`, not `{value}`");
            Err(Refusal::Query { name: "best_effort", problem })
        }
    }
}
