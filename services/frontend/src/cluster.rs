//! Clusters.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::StatusCode;
use pilothouse_api::{FieldError, Invalid, Target, hub};
use pilothouse_arm::{
    CloudError, ErrorCode, OperationId, Page, ProvisioningState, ResourceId, SubscriptionId,
};
use pilothouse_http::Context;
use pilothouse_records::{Cluster, Error, Request, Stored};
use tracing::info;
use uuid::Uuid;

use crate::accept::{self, ATTEMPTS, Asked};
use crate::answer::{Accepted, Refusal};
use crate::call::Call;
use crate::preflight;
use crate::service::App;

pub(crate) async fn get(State(app): State<App>, call: Call) -> Result<Response, Refusal> {
    let id = call.id()?;
    match app.records.cluster_get(&id).await? {
        Some(stored) => Ok(Json(call.version.cluster_write(&stored.resource)).into_response()),
        None => Err(Refusal::Missing(id)),
    }
}

pub(crate) async fn list(State(app): State<App>, call: Call) -> Result<Response, Refusal> {
    let scope = call.scope()?;
    let (limit, token) = page(&app, &call)?;
    let listed = app
        .records
        .cluster_list(call.subscription, scope.resource_group_name(), limit, token.as_deref())
        .await?;
    let value = listed.items.iter().map(|stored| call.version.cluster_write(&stored.resource)).collect();
    Ok(Json(Page { value, next_link: listed.next.map(|token| call.next_page(&token)) }).into_response())
}

/// How much of a list is wanted, and from where on. A size counts only for the pages behind the first.
pub(crate) fn page(app: &App, call: &Call) -> Result<(usize, Option<String>), Refusal> {
    const LARGEST: usize = 1000;
    let token = call.parameter("$skipToken");
    let size = match call.parameter("$top").filter(|_| token.is_some()) {
        None => app.config.page_size,
        Some(text) => text.parse().ok().filter(|size| (1..=LARGEST).contains(size)).ok_or_else(|| {
            let message = format!("The parameter '$top' must be a number between 1 and {LARGEST}.");
            CloudError::new(ErrorCode::InvalidParameter, message).with_target("$top")
        })?,
    };
    Ok((size, token))
}

pub(crate) async fn put(State(app): State<App>, call: Call, body: Bytes) -> Result<Response, Refusal> {
    call.require_json()?;
    let id = call.id()?;
    for _ in 0..ATTEMPTS {
        let stored = app.records.cluster_get(&id).await?;
        let target = Target {
            id: id.clone(),
            location: app.config.location.clone(),
            existing: stored.as_deref().map(|stored| &stored.resource),
        };
        let wanted = call.version.cluster_put(&body, &target)?;
        let accepted = match stored.clone() {
            None => create(&app, &call, wanted).await,
            Some(stored) => replace(&app, &call, stored, wanted, Accepted::Replaced).await,
        };
        match accepted {
            Err(Refusal::Records(Error::Conflict(_))) => {}
            answer => return answer,
        }
    }
    Err(busy(&id))
}

pub(crate) async fn patch(State(app): State<App>, call: Call, body: Bytes) -> Result<Response, Refusal> {
    call.require_json()?;
    let id = call.id()?;
    for _ in 0..ATTEMPTS {
        let Some(stored) = app.records.cluster_get(&id).await? else { return Err(Refusal::Missing(id)) };
        let wanted = call.version.cluster_patch(&body, &stored.resource)?;
        match replace(&app, &call, stored, wanted, Accepted::Patched).await {
            Err(Refusal::Records(Error::Conflict(_))) => {}
            answer => return answer,
        }
    }
    Err(busy(&id))
}

pub(crate) async fn delete(State(app): State<App>, call: Call) -> Result<Response, Refusal> {
    let id = call.id()?;
    for _ in 0..ATTEMPTS {
        let Some(stored) = app.records.cluster_get(&id).await? else {
            return Ok(StatusCode::NO_CONTENT.into_response());
        };
        if stored.resource.status.provisioning_state == ProvisioningState::Deleting {
            return Err(CloudError::conflict(&id, "Resource is already deleting").into());
        }
        match begin_deletion(&app, call.subscription, &Asked::from(&call), stored).await {
            Ok(operation) => {
                let links = call.links(operation, &app.config.location);
                return Ok(Accepted::Deleting.with(&links, app.config.retry_after_seconds));
            }
            Err(Refusal::Records(Error::Conflict(_))) => {}
            Err(refusal) => return Err(refusal),
        }
    }
    Err(busy(&id))
}

/// Begins to delete every cluster of a subscription that is gone.
pub(crate) async fn delete_all(
    app: &App,
    subscription: SubscriptionId,
    context: &Context,
) -> Result<(), Refusal> {
    let asked = Asked {
        received_at: app.clock.now(),
        correlation_id: context.correlation_id().unwrap_or_else(|| context.request_id()).to_owned(),
        client_request_id: context.client_request_id().map(str::to_owned),
        // Nobody's: whoever could ask is gone with the subscription.
        tenant_id: None,
        client_id: None,
        routed: "follows from the deletion of the subscription".to_owned(),
    };
    let mut token = None;
    loop {
        let listed =
            app.records.cluster_list(subscription, None, app.config.page_size, token.as_deref()).await?;
        for stored in listed.items {
            if stored.resource.status.provisioning_state != ProvisioningState::Deleting {
                begin_deletion(app, subscription, &asked, stored).await?;
            }
        }
        token = listed.next;
        if token.is_none() {
            return Ok(());
        }
    }
}

async fn create(app: &App, call: &Call, mut cluster: hub::Cluster) -> Result<Response, Refusal> {
    let operation_id = accept::new_id();
    let group = &mut cluster.spec.platform.managed_resource_group;
    if group.is_none() {
        let name: String = cluster.id.name().chars().take(45).collect();
        *group = Some(format!("pilothouse-{name}-{}", Uuid::new_v4()));
    }
    let ask = preflight::new_cluster(call, &cluster, operation_id);
    app.clusters_service.cluster_preflight(&call.context, &ask).await?;

    let now = app.clock.now();
    cluster.system_data = call.system_data.clone().created(now);
    cluster.status.provisioning_state = ProvisioningState::Accepted;
    // Cannot fail: the request has text as keys of maps.
    let ask = serde_json::to_value(&ask).ok();
    let location = &app.config.location;
    let operation =
        accept::operation(&call.into(), operation_id, location, Request::Create, &cluster.id, ask, now);
    let shown = call.version.cluster_write(&cluster);
    let mut change = app.records.change(call.subscription)?;
    change.cluster_create(&Cluster::new(cluster, operation_id))?.operation_create(&operation)?;
    change.commit().await?;
    accepted(app, &operation);
    let links = call.links(operation_id, location);
    Ok(Accepted::Created(shown).with(&links, app.config.retry_after_seconds))
}

async fn replace(
    app: &App,
    call: &Call,
    mut stored: Stored<Cluster>,
    mut wanted: hub::Cluster,
    answer: fn(serde_json::Value) -> Accepted,
) -> Result<Response, Refusal> {
    let state = stored.resource.status.provisioning_state;
    let location = app.config.location.clone();
    if let Some(operation) = stored.active_operation
        && state != ProvisioningState::Deleting
        && wanted == stored.resource
    {
        // The same request again, perhaps because its first answer got lost.
        let shown = call.version.cluster_write(&stored.resource);
        let links = call.links(operation, &location);
        return Ok(answer(shown).with(&links, app.config.retry_after_seconds));
    }
    if !state.is_terminal() {
        let message = format!("Cannot update resource while resource is \"{state}\"");
        return Err(CloudError::conflict(&stored.resource.id, message).into());
    }
    not_yet_changeable(&wanted.spec, &stored.resource.spec)?;
    let now = app.clock.now();
    let operation_id = accept::new_id();
    wanted.system_data = call.system_data.clone().changed(&stored.resource.system_data, now);
    wanted.status.provisioning_state = ProvisioningState::Accepted;
    let operation =
        accept::operation(&call.into(), operation_id, &location, Request::Update, &wanted.id, None, now);
    let shown = call.version.cluster_write(&wanted);
    stored.resource = wanted;
    stored.active_operation = Some(operation_id);
    let mut change = app.records.change(call.subscription)?;
    change.cluster_replace(&stored)?.operation_create(&operation)?;
    change.commit().await?;
    accepted(app, &operation);
    Ok(answer(shown).with(&call.links(operation_id, &location), app.config.retry_after_seconds))
}

/// Clusters Service cannot change a cluster yet, so what it acts on stays as it was made.
fn not_yet_changeable(wanted: &hub::ClusterSpec, stored: &hub::ClusterSpec) -> Result<(), Invalid> {
    if wanted.version == stored.version {
        return Ok(());
    }
    let message = "Forbidden: a cluster's version cannot be changed yet".to_owned();
    Err(Invalid(vec![FieldError { target: "properties.version".to_owned(), message }]))
}

/// Marks the cluster and its node pools, and gives up whatever is under way on them, all at once.
async fn begin_deletion(
    app: &App,
    subscription: SubscriptionId,
    asked: &Asked,
    mut stored: Stored<Cluster>,
) -> Result<OperationId, Refusal> {
    let now = app.clock.now();
    let id = stored.resource.id.clone();
    let operation_id = accept::new_id();
    let operation =
        accept::operation(asked, operation_id, &app.config.location, Request::Delete, &id, None, now);
    let mut change = app.records.change(subscription)?;
    for mut under_way in app.records.operation_active_on(&id).await? {
        accept::cancel(&mut under_way, operation_id, now);
        change.operation_replace(&under_way)?;
    }
    for mut node_pool in app.records.node_pool_all(&id).await? {
        node_pool.resource.status.provisioning_state = ProvisioningState::Deleting;
        node_pool.active_operation = Some(operation_id);
        change.node_pool_replace(&node_pool)?;
    }
    stored.resource.status.provisioning_state = ProvisioningState::Deleting;
    stored.active_operation = Some(operation_id);
    change.cluster_replace(&stored)?.operation_create(&operation)?;
    change.commit().await?;
    accepted(app, &operation);
    Ok(operation_id)
}

pub(crate) fn accepted(app: &App, operation: &pilothouse_records::Operation) {
    app.metrics.accepted(operation.request);
    info!(
        operation = %operation.id,
        request = ?operation.request,
        resource = %operation.resource,
        correlation = operation.correlation_id,
        "accepted an operation"
    );
}

pub(crate) fn busy(id: &ResourceId) -> Refusal {
    CloudError::conflict(id, "The resource was modified by another request; try again.")
        .with_status(429)
        .with_retry_after(1)
        .into()
}
