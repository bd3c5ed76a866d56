use super::{
    Bytes, Context, Extension, Path, RawQuery, Response, Shared, State, StatusCode, body, created, list_query,
};
use axum::response::IntoResponse as _;
use pilothouse_clusters_service_api::{NewUpgradePolicy, UpgradePolicyUpdate};

use super::Rest;
use super::node_pools::node_pool_id;
use crate::clusters::{Mode, Upgraded};
use crate::refusal::{Refusal, cluster_id};

fn control_plane(cluster: &str) -> Result<Upgraded, Refusal> {
    Ok(Upgraded::ControlPlane(cluster_id(cluster)?))
}

fn node_pool(cluster: &str, node_pool: &str) -> Result<Upgraded, Refusal> {
    Ok(Upgraded::NodePool(cluster_id(cluster)?, node_pool_id(node_pool)?))
}

pub(super) async fn list(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(cluster): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    rest.upgrades_list(&context, control_plane(&cluster), query.as_deref()).await
}

pub(super) async fn create(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(cluster): Path<String>,
    mode: Mode,
    bytes: Bytes,
) -> Response {
    rest.upgrade_create(&context, control_plane(&cluster), mode, &bytes).await
}

pub(super) async fn get(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path((cluster, id)): Path<(String, String)>,
) -> Response {
    rest.upgrade_get(&context, control_plane(&cluster), &id).await
}

pub(super) async fn update(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path((cluster, id)): Path<(String, String)>,
    mode: Mode,
    bytes: Bytes,
) -> Response {
    rest.upgrade_update(&context, control_plane(&cluster), &id, mode, &bytes).await
}

pub(super) async fn delete(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path((cluster, id)): Path<(String, String)>,
    mode: Mode,
) -> Response {
    rest.upgrade_delete(&context, control_plane(&cluster), &id, mode).await
}

pub(super) async fn of_node_pool_list(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path((cluster, pool)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    rest.upgrades_list(&context, node_pool(&cluster, &pool), query.as_deref()).await
}

pub(super) async fn of_node_pool_create(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path((cluster, pool)): Path<(String, String)>,
    mode: Mode,
    bytes: Bytes,
) -> Response {
    rest.upgrade_create(&context, node_pool(&cluster, &pool), mode, &bytes).await
}

pub(super) async fn of_node_pool_get(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path((cluster, pool, id)): Path<(String, String, String)>,
) -> Response {
    rest.upgrade_get(&context, node_pool(&cluster, &pool), &id).await
}

pub(super) async fn of_node_pool_update(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path((cluster, pool, id)): Path<(String, String, String)>,
    mode: Mode,
    bytes: Bytes,
) -> Response {
    rest.upgrade_update(&context, node_pool(&cluster, &pool), &id, mode, &bytes).await
}

pub(super) async fn of_node_pool_delete(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path((cluster, pool, id)): Path<(String, String, String)>,
    mode: Mode,
) -> Response {
    rest.upgrade_delete(&context, node_pool(&cluster, &pool), &id, mode).await
}

/// What is upgraded, or that there is no such thing.
type Of = Result<Upgraded, Refusal>;

impl Rest {
    async fn upgrades_list(&self, context: &Context, of: Of, query: Option<&str>) -> Response {
        let outcome = async { self.clusters.upgrade_policy_list(&of?, &list_query(query)?).await };
        self.answer(context, StatusCode::OK, outcome.await)
    }

    async fn upgrade_create(&self, context: &Context, of: Of, mode: Mode, bytes: &Bytes) -> Response {
        let outcome = async {
            let new: NewUpgradePolicy = body(bytes)?;
            self.clusters.upgrade_policy_create(context, &of?, new, mode).await
        };
        self.answer(context, created(mode), outcome.await)
    }

    async fn upgrade_get(&self, context: &Context, of: Of, id: &str) -> Response {
        let outcome = async { self.clusters.upgrade_policy_get(&of?, id).await };
        self.answer(context, StatusCode::OK, outcome.await)
    }

    async fn upgrade_update(
        &self,
        context: &Context,
        of: Of,
        id: &str,
        mode: Mode,
        bytes: &Bytes,
    ) -> Response {
        let outcome = async {
            let update: UpgradePolicyUpdate = body(bytes)?;
            self.clusters.upgrade_policy_update(&of?, id, update, mode).await
        };
        self.answer(context, StatusCode::OK, outcome.await)
    }

    async fn upgrade_delete(&self, context: &Context, of: Of, id: &str, mode: Mode) -> Response {
        let outcome = async { self.clusters.upgrade_policy_delete(&of?, id, mode).await };
        match outcome.await {
            Ok(()) => StatusCode::NO_CONTENT.into_response(),
            Err(refusal) => self.refuse(context, refusal),
        }
    }
}
