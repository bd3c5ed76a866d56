//! Node pools.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::StatusCode;
use pilothouse_api::{FieldError, Invalid, NodePoolName, Target, hub};
use pilothouse_arm::{CloudError, OperationId, Page, ProvisioningState, ResourceId};
use pilothouse_records::{Cluster, Error, NodePool, Request, Stored};

use crate::accept::{self, ATTEMPTS, Asked};
use crate::answer::{Accepted, Refusal};
use crate::call::Call;
use crate::cluster::{accepted, busy, page};
use crate::preflight;
use crate::service::App;

pub(crate) async fn get(State(app): State<App>, call: Call) -> Result<Response, Refusal> {
    let id = call.id()?;
    match app.records.node_pool_get(&id).await? {
        Some(stored) => Ok(Json(call.version.node_pool_write(&stored.resource)).into_response()),
        None => Err(Refusal::Missing(id)),
    }
}

pub(crate) async fn list(State(app): State<App>, call: Call) -> Result<Response, Refusal> {
    let cluster = call.scope()?;
    if app.records.cluster_get(&cluster).await?.is_none() {
        return Err(Refusal::Missing(cluster));
    }
    let (limit, token) = page(&app, &call)?;
    let listed = app.records.node_pool_list(&cluster, limit, token.as_deref()).await?;
    let value = listed.items.iter().map(|stored| call.version.node_pool_write(&stored.resource)).collect();
    Ok(Json(Page { value, next_link: listed.next.map(|token| call.next_page(&token)) }).into_response())
}

pub(crate) async fn put(State(app): State<App>, call: Call, body: Bytes) -> Result<Response, Refusal> {
    call.require_json()?;
    let id = call.id()?;
    for _ in 0..ATTEMPTS {
        let cluster = cluster_of(&app, &id).await?;
        let stored = app.records.node_pool_get(&id).await?;
        let target = Target {
            id: id.clone(),
            location: app.config.location.clone(),
            existing: stored.as_deref().map(|stored| &stored.resource),
        };
        let wanted = call.version.node_pool_put(&body, &target, &cluster.resource)?;
        let accepted = match stored.clone() {
            None => create(&app, &call, &cluster, wanted).await,
            Some(stored) => replace(&app, &call, &cluster, stored, wanted, Accepted::Replaced).await,
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
        let cluster = cluster_of(&app, &id).await?;
        let Some(stored) = app.records.node_pool_get(&id).await? else { return Err(Refusal::Missing(id)) };
        let wanted = call.version.node_pool_patch(&body, &stored.resource, &cluster.resource)?;
        match replace(&app, &call, &cluster, stored, wanted, Accepted::Patched).await {
            Err(Refusal::Records(Error::Conflict(_))) => {}
            answer => return answer,
        }
    }
    Err(busy(&id))
}

pub(crate) async fn delete(State(app): State<App>, call: Call) -> Result<Response, Refusal> {
    let id = call.id()?;
    for _ in 0..ATTEMPTS {
        let Some(stored) = app.records.node_pool_get(&id).await? else {
            return Ok(StatusCode::NO_CONTENT.into_response());
        };
        let cluster = cluster_of(&app, &id).await?;
        match begin_deletion(&app, &call, &cluster, stored).await {
            Err(Refusal::Records(Error::Conflict(_))) => {}
            answer => return answer,
        }
    }
    Err(busy(&id))
}

async fn cluster_of(app: &App, id: &ResourceId) -> Result<Stored<Cluster>, Refusal> {
    let cluster = id.parent().ok_or_else(CloudError::path_not_found)?;
    app.records.cluster_get(&cluster).await?.ok_or(Refusal::Missing(cluster))
}

/// A cluster that is being made or removed leaves its node pools alone.
fn require_settled(cluster: &Cluster, verb: &str) -> Result<(), Refusal> {
    let state = cluster.resource.status.provisioning_state;
    match state {
        ProvisioningState::Accepted | ProvisioningState::Provisioning | ProvisioningState::Deleting => {
            let message = format!("Cannot {verb} resource while parent resource is \"{state}\"");
            Err(CloudError::conflict(&cluster.resource.id, message).into())
        }
        ProvisioningState::Updating
        | ProvisioningState::Succeeded
        | ProvisioningState::Failed
        | ProvisioningState::Canceled => Ok(()),
    }
}

async fn create(
    app: &App,
    call: &Call,
    cluster: &Stored<Cluster>,
    mut node_pool: hub::NodePool,
) -> Result<Response, Refusal> {
    require_settled(cluster, "create")?;
    let Some(cluster_id) = cluster.clusters_service_id.as_ref().and_then(|id| id.parse().ok()) else {
        let message =
            "Cannot create resource because the parent resource was never made; delete it and make it anew";
        return Err(CloudError::conflict(&cluster.resource.id, message).into());
    };
    if node_pool.spec.platform.subnet_id.is_none() {
        node_pool.spec.platform.subnet_id = cluster.resource.spec.platform.subnet_id.clone();
    }
    let operation_id = accept::new_id();
    let Some(ask) = preflight::new_node_pool(call, &node_pool, operation_id) else {
        let message = format!("Invalid value: {:?}: {}", node_pool.id.name(), NodePoolName::RULE);
        return Err(Invalid(vec![FieldError { target: "id".to_owned(), message }]).into());
    };
    app.clusters_service.node_pool_preflight(&call.context, &cluster_id, &ask).await?;

    let now = app.clock.now();
    let location = &app.config.location;
    node_pool.system_data = call.system_data.clone().created(now);
    node_pool.status.provisioning_state = ProvisioningState::Accepted;
    // Cannot fail: the request has text as keys of maps.
    let ask = serde_json::to_value(&ask).ok();
    let operation =
        accept::operation(&call.into(), operation_id, location, Request::Create, &node_pool.id, ask, now);
    let shown = call.version.node_pool_write(&node_pool);
    let mut change = app.records.change(call.subscription)?;
    // The cluster must not begin to be deleted meanwhile.
    change
        .cluster_check(cluster)?
        .node_pool_create(&NodePool::new(node_pool, operation_id))?
        .operation_create(&operation)?;
    change.commit().await?;
    accepted(app, &operation);
    let links = call.links(operation_id, location);
    Ok(Accepted::Created(shown).with(&links, app.config.retry_after_seconds))
}

async fn replace(
    app: &App,
    call: &Call,
    cluster: &Stored<Cluster>,
    mut stored: Stored<NodePool>,
    mut wanted: hub::NodePool,
    answer: fn(serde_json::Value) -> Accepted,
) -> Result<Response, Refusal> {
    let state = stored.resource.status.provisioning_state;
    let location = app.config.location.clone();
    if let Some(operation) = stored.active_operation
        && state != ProvisioningState::Deleting
        && wanted == stored.resource
    {
        // The same request again, perhaps because its first answer got lost.
        let shown = call.version.node_pool_write(&stored.resource);
        let links = call.links(operation, &location);
        return Ok(answer(shown).with(&links, app.config.retry_after_seconds));
    }
    require_settled(cluster, "update")?;
    if !state.is_terminal() {
        let message = format!("Cannot update resource while resource is \"{state}\"");
        return Err(CloudError::conflict(&stored.resource.id, message).into());
    }
    not_yet_changeable(&wanted.spec, &stored.resource.spec)?;
    let operation_id = accept::new_id();
    // What did not come to be is asked for again, even if it is the same.
    let ask =
        if wanted.spec.replicas != stored.resource.spec.replicas || state != ProvisioningState::Succeeded {
            Some(change_in_advance(app, call, cluster, &wanted, operation_id).await?)
        } else {
            None
        };
    let now = app.clock.now();
    wanted.system_data = call.system_data.clone().changed(&stored.resource.system_data, now);
    wanted.status.provisioning_state = ProvisioningState::Accepted;
    let operation =
        accept::operation(&call.into(), operation_id, &location, Request::Update, &wanted.id, ask, now);
    let shown = call.version.node_pool_write(&wanted);
    stored.resource = wanted;
    stored.active_operation = Some(operation_id);
    let mut change = app.records.change(call.subscription)?;
    change.cluster_check(cluster)?.node_pool_replace(&stored)?.operation_create(&operation)?;
    change.commit().await?;
    accepted(app, &operation);
    Ok(answer(shown).with(&call.links(operation_id, &location), app.config.retry_after_seconds))
}

/// What Clusters Service is to be asked for, once it has agreed to it.
async fn change_in_advance(
    app: &App,
    call: &Call,
    cluster: &Cluster,
    wanted: &hub::NodePool,
    operation_id: OperationId,
) -> Result<serde_json::Value, Refusal> {
    let never_made = || {
        let message = "Cannot update resource because it was never made; delete it and make it anew";
        Refusal::from(CloudError::conflict(&wanted.id, message))
    };
    let cluster_id = cluster.clusters_service_id.as_ref().and_then(|id| id.parse().ok());
    let id = wanted.id.name().to_ascii_lowercase().parse().ok();
    let (Some(cluster_id), Some(id)) = (cluster_id, id) else { return Err(never_made()) };
    let ask = preflight::node_pool_update(call, wanted, operation_id);
    let client = &app.clusters_service;
    match client.node_pool_update_preflight(&call.context, &cluster_id, &id, &ask).await {
        // Cannot fail: the request has text as keys of maps.
        Ok(_) => Ok(serde_json::to_value(&ask).unwrap_or_default()),
        Err(error) if error.is_not_found() => Err(never_made()),
        Err(error) => Err(error.into()),
    }
}

/// Of what Clusters Service acts on, only the number of nodes can be changed yet; the rest stays as it was made.
fn not_yet_changeable(wanted: &hub::NodePoolSpec, stored: &hub::NodePoolSpec) -> Result<(), Invalid> {
    let fields = [
        ("properties.version", wanted.version == stored.version),
        ("properties.autoScaling", wanted.auto_scaling == stored.auto_scaling),
        ("properties.labels", wanted.labels == stored.labels),
        ("properties.taints", wanted.taints == stored.taints),
    ];
    let changed = fields.into_iter().filter(|(_, same)| !same).map(|(target, _)| FieldError {
        target: target.to_owned(),
        message: "Forbidden: the field of a node pool cannot be changed yet".to_owned(),
    });
    let changed: Vec<_> = changed.collect();
    if changed.is_empty() { Ok(()) } else { Err(Invalid(changed)) }
}

async fn begin_deletion(
    app: &App,
    call: &Call,
    cluster: &Stored<Cluster>,
    mut stored: Stored<NodePool>,
) -> Result<Response, Refusal> {
    let id = stored.resource.id.clone();
    if stored.resource.status.provisioning_state == ProvisioningState::Deleting {
        return Err(CloudError::conflict(&id, "Resource is already deleting").into());
    }
    let state = cluster.resource.status.provisioning_state;
    if matches!(state, ProvisioningState::Provisioning | ProvisioningState::Deleting) {
        require_settled(cluster, "delete")?;
    }
    let others = app.records.node_pool_all(&cluster.resource.id).await?;
    let stays = |pool: &Stored<NodePool>| {
        pool.resource.id != id && pool.resource.status.provisioning_state != ProvisioningState::Deleting
    };
    if !others.iter().any(stays) {
        let message =
            "Forbidden: the last node pool of a cluster cannot be deleted; delete the cluster instead";
        return Err(
            Invalid(vec![FieldError { target: "name".to_owned(), message: message.to_owned() }]).into()
        );
    }
    let now = app.clock.now();
    let operation_id = accept::new_id();
    let location = &app.config.location;
    let operation =
        accept::operation(&Asked::from(call), operation_id, location, Request::Delete, &id, None, now);
    let mut change = app.records.change(call.subscription)?;
    for mut under_way in app.records.operation_active_on(&cluster.resource.id).await? {
        if under_way.resource == id {
            accept::cancel(&mut under_way, operation_id, now);
            change.operation_replace(&under_way)?;
        }
    }
    stored.resource.status.provisioning_state = ProvisioningState::Deleting;
    stored.active_operation = Some(operation_id);
    change.cluster_check(cluster)?.node_pool_replace(&stored)?.operation_create(&operation)?;
    change.commit().await?;
    accepted(app, &operation);
    Ok(Accepted::Deleting.with(&call.links(operation_id, location), app.config.retry_after_seconds))
}
