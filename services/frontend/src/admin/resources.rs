//! Resources of all subscriptions, in short.

use axum::Json;
use axum::extract::State;
use http::request::Parts;
use pilothouse_api as api;
use pilothouse_arm::{CloudError, ErrorCode, OperationId, ProvisioningState, ResourceId};
use pilothouse_records::{Cluster, ExternalAuth, Hold, NodePool, Stored};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Paging, page, parameters, value};
use crate::answer::Refusal;
use crate::service::App;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    #[serde(rename = "type")]
    kind: Option<String>,
    limit: Option<usize>,
    token: Option<String>,
}

pub(super) async fn list(State(app): State<App>, parts: Parts) -> Result<Json<Value>, Refusal> {
    let Parameters { kind, limit, token } = parameters(&parts)?;
    let paging = Paging { limit, token };
    let (limit, token) = (paging.limit()?, paging.token.as_deref());
    let kind = kind.as_deref().unwrap_or(api::CLUSTERS);
    let is = |name: &str| kind.eq_ignore_ascii_case(name);
    let records = &app.records;
    if is(api::CLUSTERS) {
        Ok(page(&records.cluster_list_all(limit, token).await?, &parts, cluster))
    } else if is(api::NODE_POOLS) {
        Ok(page(&records.node_pool_list_all(limit, token).await?, &parts, node_pool))
    } else if is(api::EXTERNAL_AUTHS) {
        Ok(page(&records.external_auth_list_all(limit, token).await?, &parts, external_auth))
    } else {
        let known = [api::CLUSTERS, api::NODE_POOLS, api::EXTERNAL_AUTHS].join("', '");
        let message = format!("The parameter 'type' must be one of '{known}', not '{kind}'.");
        Err(CloudError::new(ErrorCode::InvalidParameter, message).with_target("type").into())
    }
}

pub(super) fn cluster(stored: &Stored<Cluster>) -> Value {
    summary(
        &stored.resource.id,
        stored.resource.status.provisioning_state,
        stored.active_operation,
        stored.clusters_service_id.as_deref(),
        stored.hold.as_ref(),
    )
}

pub(super) fn node_pool(stored: &Stored<NodePool>) -> Value {
    let NodePool { resource, active_operation, clusters_service_id, .. } = &stored.record;
    let state = resource.status.provisioning_state;
    summary(&resource.id, state, *active_operation, clusters_service_id.as_deref(), None)
}

pub(super) fn external_auth(stored: &Stored<ExternalAuth>) -> Value {
    let ExternalAuth { resource, active_operation, clusters_service_id, .. } = &stored.record;
    let state = resource.status.provisioning_state;
    summary(&resource.id, state, *active_operation, clusters_service_id.as_deref(), None)
}

fn summary(
    id: &ResourceId,
    state: ProvisioningState,
    operation: Option<OperationId>,
    clusters_service_id: Option<&str>,
    hold: Option<&Hold>,
) -> Value {
    json!({
        "id": id,
        "type": id.resource_type().as_str(),
        "provisioningState": state,
        "activeOperation": operation,
        "clustersServiceId": clusters_service_id,
        "hold": hold.map(value),
    })
}
