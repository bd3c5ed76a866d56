//! Operations of all subscriptions: what they are at, and giving one up or beginning it anew.

use axum::Json;
use axum::extract::{Path, State};
use bytes::Bytes;
use http::request::Parts;
use jiff::Timestamp;
use pilothouse_arm::{CloudError, ErrorCode, OperationId, ProvisioningState, ResourceId, SubscriptionId};
use pilothouse_records::{Change, Error, Operation, OperationFilter, Request, Stored};
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::info;

use super::{ATTEMPTS, Administrator, Paging, page, parameters, reason, value};
use crate::answer::Refusal;
use crate::service::App;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    #[serde(default)]
    active: bool,
    subscription: Option<SubscriptionId>,
    resource: Option<ResourceId>,
    limit: Option<usize>,
    token: Option<String>,
}

pub(super) async fn list(State(app): State<App>, parts: Parts) -> Result<Json<Value>, Refusal> {
    let Parameters { active, subscription, resource, limit, token } = parameters(&parts)?;
    let paging = Paging { limit, token };
    let filter = OperationFilter { subscription, active_only: active, resource };
    let listed = app.records.operation_list(&filter, paging.limit()?, paging.token.as_deref()).await?;
    Ok(page(&listed, &parts, summary))
}

pub(super) async fn show(
    State(app): State<App>,
    Path((subscription, id)): Path<(String, String)>,
) -> Result<Json<Value>, Refusal> {
    let (_, stored) = find(&app, &subscription, &id).await?;
    Ok(Json(whole(&stored)))
}

pub(super) async fn cancel(
    State(app): State<App>,
    Path((subscription, id)): Path<(String, String)>,
    administrator: Administrator,
    body: Bytes,
) -> Result<Json<Value>, Refusal> {
    let reason = reason(&body)?;
    for _ in 0..ATTEMPTS {
        let (subscription, mut stored) = find(&app, &subscription, &id).await?;
        // Given up already: the same request again, perhaps because its first answer got lost.
        if stored.state == ProvisioningState::Canceled {
            return Ok(Json(whole(&stored)));
        }
        not_ended(&stored)?;
        if stored.request == Request::Delete {
            let message = "A deletion cannot be cancelled: parts of the resource are gone already. Requeue it if it is stuck.";
            return Err(CloudError::conflict(&stored.resource, message).into());
        }
        let now = app.clock.now();
        stored.cancel(&format!("Cancelled by an administrator: {reason}"), now);
        let mut change = app.records.change(subscription)?;
        release(&app, &mut change, &stored).await?;
        let done = administrator.action(&app, "cancel", &stored.resource, Some(stored.id), &reason);
        change.operation_replace(&stored)?.action_create(&done)?;
        match change.commit().await {
            Ok(_) => {
                info!(operation = %stored.id, by = done.by, "an administrator cancelled an operation");
                return Ok(Json(whole(&stored)));
            }
            Err(Error::Conflict(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ever_changing(&id))
}

/// Begins anew: its deadline counts from now, and what it waited for is forgotten. Writing it wakes the backend.
pub(super) async fn requeue(
    State(app): State<App>,
    Path((subscription, id)): Path<(String, String)>,
    administrator: Administrator,
    body: Bytes,
) -> Result<Json<Value>, Refusal> {
    let reason = reason(&body)?;
    for _ in 0..ATTEMPTS {
        let (subscription, mut stored) = find(&app, &subscription, &id).await?;
        not_ended(&stored)?;
        stored.requeued_at = Some(app.clock.now());
        stored.waiting = None;
        let done = administrator.action(&app, "requeue", &stored.resource, Some(stored.id), &reason);
        let mut change = app.records.change(subscription)?;
        change.operation_replace(&stored)?.action_create(&done)?;
        match change.commit().await {
            Ok(_) => {
                info!(operation = %stored.id, by = done.by, "an administrator requeued an operation");
                return Ok(Json(whole(&stored)));
            }
            Err(Error::Conflict(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ever_changing(&id))
}

/// What the operation held is free again, and says that it was not finished.
async fn release(app: &App, change: &mut Change<'_>, operation: &Stored<Operation>) -> Result<(), Refusal> {
    let (id, records) = (&operation.resource, &app.records);
    let canceled = ProvisioningState::Canceled;
    if let Some(mut cluster) = records.cluster_get(id).await? {
        let holds = cluster.active_operation == Some(operation.id);
        let revokes = cluster.revocation == Some(operation.id);
        if holds {
            cluster.active_operation = None;
            cluster.resource.status.provisioning_state = canceled;
        }
        if revokes {
            cluster.revocation = None;
        }
        if holds || revokes {
            change.cluster_replace(&cluster)?;
        }
    } else if let Some(mut node_pool) = records.node_pool_get(id).await? {
        if node_pool.active_operation == Some(operation.id) {
            node_pool.active_operation = None;
            node_pool.resource.status.provisioning_state = canceled;
            change.node_pool_replace(&node_pool)?;
        }
    } else if let Some(mut external_auth) = records.external_auth_get(id).await?
        && external_auth.active_operation == Some(operation.id)
    {
        external_auth.active_operation = None;
        external_auth.resource.status.provisioning_state = canceled;
        change.external_auth_replace(&external_auth)?;
    }
    Ok(())
}

async fn find(
    app: &App,
    subscription: &str,
    id: &str,
) -> Result<(SubscriptionId, Stored<Operation>), Refusal> {
    let missing = || {
        let message = format!("The operation '{id}' of subscription '{subscription}' was not found.");
        CloudError::new(ErrorCode::NotFound, message)
    };
    let subscription: SubscriptionId = subscription.parse().map_err(|_| missing())?;
    let operation: OperationId = id.parse().map_err(|_| missing())?;
    let stored = app.records.operation_get(subscription, operation).await?.ok_or_else(missing)?;
    Ok((subscription, stored))
}

fn not_ended(operation: &Operation) -> Result<(), Refusal> {
    if !operation.state.is_terminal() {
        return Ok(());
    }
    let (state, at) = (operation.state, operation.changed_at);
    let message =
        format!("The operation has ended as '{state}' at {at}; nothing can be done about it any more.");
    Err(CloudError::conflict(&operation.resource, message).into())
}

fn ever_changing(id: &str) -> Refusal {
    CloudError::new(
        ErrorCode::Conflict,
        format!("The operation '{id}' kept changing while this was tried; try again."),
    )
    .with_status(429)
    .with_retry_after(1)
    .into()
}

/// What a list shows.
pub(super) fn summary(stored: &Stored<Operation>) -> Value {
    let operation = &stored.record;
    json!({
        "id": operation.id,
        "subscription": operation.resource.subscription_name(),
        "resource": operation.resource,
        "request": operation.request,
        "state": operation.state,
        "startedAt": operation.started_at,
        "changedAt": operation.changed_at,
        "endedAt": ended_at(operation),
        "requeuedAt": operation.requeued_at,
        "waiting": operation.waiting.as_ref().map(value),
        "correlationId": operation.correlation_id,
    })
}

fn ended_at(operation: &Operation) -> Option<Timestamp> {
    operation.state.is_terminal().then_some(operation.changed_at)
}

/// The same with its timeline, and who asked.
fn whole(stored: &Stored<Operation>) -> Value {
    let operation = &stored.record;
    let mut whole = summary(stored);
    whole["steps"] = operation.steps.iter().map(value).collect();
    whole["error"] = operation.error.as_ref().map(value).into();
    whole["tenantId"] = operation.tenant_id.clone().into();
    whole["clientId"] = operation.client_id.clone().into();
    whole["clientRequestId"] = operation.client_request_id.clone().into();
    whole["notification"] = operation.notification.as_ref().map(value).into();
    whole["location"] = operation.location.clone().into();
    whole
}
