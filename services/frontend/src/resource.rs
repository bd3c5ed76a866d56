//! The flow of a request about a resource, whatever its kind: look, decide, ask in advance, store.
//!
//! Every decision is made on what was read, and what was read is checked again in the transaction that stores the result:
//! the resource, its subscription, its cluster, and what lies below the cluster. Whoever comes too late reads again.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use pilothouse_api::{Invalid, Target};
use pilothouse_arm::{CloudError, OperationId, ProvisioningState, ResourceId, header};
use pilothouse_records::{Cluster, Error, Request, Stored};

use crate::accept::{self, ATTEMPTS, Asked, accepted, busy};
use crate::answer::{Accepted, Refusal, Shown, insert};
use crate::body::Sent;
use crate::call::Call;
use crate::condition::quoted;
use crate::kind::{Hub as _, Kind, Record as _};
use crate::page::{self, Part};
use crate::service::App;
use crate::{json, operation};

pub(crate) async fn get<K: Kind>(State(app): State<App>, call: Call) -> Result<Response, Refusal> {
    let id = call.id()?;
    let Some(stored) = K::get(&app.records, &id).await? else { return Err(Refusal::Missing(id)) };
    if call.conditions.is_unmodified(stored.etag())? {
        let mut response = StatusCode::NOT_MODIFIED.into_response();
        insert(response.headers_mut(), header::ETAG, &quoted(stored.etag()));
        return Ok(response);
    }
    let body = K::show(&call, stored.resource());
    Ok(Shown { body, etag: Some(stored.etag().to_owned()) }.with(StatusCode::OK))
}

pub(crate) async fn list<K: Kind>(State(app): State<App>, call: Call) -> Result<Response, Refusal> {
    let above = call.above()?;
    if K::IS_CHILD && app.records.cluster_get(&above).await?.is_none() {
        return Err(Refusal::Missing(above));
    }
    let part = Part::of(&call, app.config.page_size)?;
    let listed = K::list(&app.records, &call, &above, &part).await?;
    page::answer(&call, listed, |record| K::show(&call, record.resource()))
}

pub(crate) async fn put<K: Kind>(State(app): State<App>, sent: Sent) -> Result<Response, Refusal> {
    let Sent { mut call, body } = sent;
    let id = call.id()?;
    json::check(&body)?;
    for _ in 0..ATTEMPTS {
        let parent = parent::<K>(&app, &id).await?;
        let stored = K::get(&app.records, &id).await?;
        call.conditions.allow_write(stored.as_ref().map(Stored::etag))?;
        let target = target(&app, &call, &id, stored.as_deref().map(K::Record::resource));
        let wanted = spelled(&body, &id, K::put(&call, &body, &target, parent.as_deref()))?;
        let accepted = match stored {
            None => create::<K>(&app, &call, parent, wanted).await,
            Some(stored) => replace::<K>(&app, &call, parent, stored, wanted, Accepted::Replaced).await,
        };
        match accepted {
            Err(Refusal::Records(Error::Conflict(_))) => call.refresh(&app).await?,
            answer => return answer,
        }
    }
    Err(busy(&id))
}

pub(crate) async fn patch<K: Kind>(State(app): State<App>, sent: Sent) -> Result<Response, Refusal> {
    let Sent { mut call, body } = sent;
    let id = call.id()?;
    json::check(&body)?;
    for _ in 0..ATTEMPTS {
        let Some(stored) = K::get(&app.records, &id).await? else { return Err(Refusal::Missing(id)) };
        call.conditions.allow_write(Some(stored.etag()))?;
        let parent = parent::<K>(&app, &id).await?;
        let target = target(&app, &call, &id, Some(stored.resource()));
        let wanted = spelled(&body, &id, K::patch(&call, &body, &target, parent.as_deref()))?;
        match replace::<K>(&app, &call, parent, stored, wanted, Accepted::Patched).await {
            Err(Refusal::Records(Error::Conflict(_))) => call.refresh(&app).await?,
            answer => return answer,
        }
    }
    Err(busy(&id))
}

pub(crate) async fn delete<K: Kind>(State(app): State<App>, mut call: Call) -> Result<Response, Refusal> {
    let id = call.id()?;
    for _ in 0..ATTEMPTS {
        let stored = K::get(&app.records, &id).await?;
        call.conditions.allow_write(stored.as_ref().map(Stored::etag))?;
        let Some(stored) = stored else { return Ok(StatusCode::NO_CONTENT.into_response()) };
        if stored.resource().state() == ProvisioningState::Deleting {
            return Err(CloudError::conflict(&id, "Resource is already deleting").into());
        }
        let operation = accept::new_id();
        let way = accept::way(&app, &call, operation)?;
        match begin_deletion::<K>(&app, &(&call).into(), operation, stored).await {
            Ok(()) => return Ok(Accepted::Begun.with(&way)),
            Err(Refusal::Records(Error::Conflict(_))) => call.refresh(&app).await?,
            Err(refusal) => return Err(refusal),
        }
    }
    Err(busy(&id))
}

/// What a body asks for, unless it spells the name in another way than the path.
fn spelled<H>(body: &[u8], id: &ResourceId, read: Result<H, Invalid>) -> Result<H, Invalid> {
    let Some(problem) = json::misspelled(body, id.name()) else { return read };
    let mut problems = match read {
        Ok(_) => Vec::new(),
        Err(Invalid(problems)) => problems,
    };
    if !problems.iter().any(|known| known.target == problem.target) {
        problems.push(problem);
    }
    Err(Invalid(problems))
}

fn target<'a, H>(app: &App, call: &Call, id: &ResourceId, existing: Option<&'a H>) -> Target<'a, H> {
    Target { id: id.clone(), location: app.config.location.clone(), existing, rules: call.rules }
}

/// The cluster that a resource lies below, if its kind does.
async fn parent<K: Kind>(app: &App, id: &ResourceId) -> Result<Option<Stored<Cluster>>, Refusal> {
    if !K::IS_CHILD {
        return Ok(None);
    }
    let cluster = id.parent().ok_or_else(CloudError::path_not_found)?;
    app.records.cluster_get(&cluster).await?.ok_or(Refusal::Missing(cluster)).map(Some)
}

/// A cluster that is being made or removed leaves what is below it alone.
fn require_settled(parent: Option<&Cluster>, verb: &str) -> Result<(), Refusal> {
    let Some(cluster) = parent else { return Ok(()) };
    let state = cluster.resource.status.provisioning_state;
    let settled = match state {
        ProvisioningState::Provisioning | ProvisioningState::Deleting => false,
        // It comes before both making and changing; what is being made has no id yet.
        ProvisioningState::Accepted => cluster.clusters_service_id.is_some(),
        ProvisioningState::Updating
        | ProvisioningState::AwaitingSecret
        | ProvisioningState::Succeeded
        | ProvisioningState::Failed
        | ProvisioningState::Canceled => true,
    };
    if settled {
        return Ok(());
    }
    let message = format!("Cannot {verb} resource while parent resource is \"{state}\"");
    Err(CloudError::conflict(&cluster.resource.id, message).into())
}

async fn create<K: Kind>(
    app: &App,
    call: &Call,
    mut parent: Option<Stored<Cluster>>,
    mut wanted: K::Hub,
) -> Result<Response, Refusal> {
    require_settled(parent.as_deref(), "create")?;
    let author = call.author()?;
    // A mark before the look at what else is there.
    let membership = match &parent {
        Some(cluster) if K::IS_ONLY_CHILD => Some(app.records.membership(&cluster.resource.id).await?),
        _ => None,
    };
    let reservations = K::admit(app, call, parent.as_deref(), &mut wanted).await?;
    let operation_id = accept::new_id();
    let way = accept::way(app, call, operation_id)?;
    let ask = K::ask_to_create(app, call, parent.as_deref(), &wanted, operation_id).await?;

    let now = app.clock.now();
    *wanted.system_data_mut() = author.created(now);
    *wanted.state_mut() = ProvisioningState::Accepted;
    let mut operation = accept::operation(app, &call.into(), operation_id, Request::Create, wanted.id(), now);
    operation.clusters_service_request = Some(ask);
    let body = K::show(call, &wanted);
    let record = K::record(app, call, wanted, operation_id, &reservations)?;

    let mut change = app.records.change(call.subscription)?;
    change.subscription_check(call.subscription, &call.told)?;
    match (&membership, &parent) {
        (Some(membership), _) => change.membership_check(membership)?,
        (None, Some(cluster)) => change.membership_note(&cluster.resource.id)?,
        (None, None) => &mut change,
    };
    match &mut parent {
        Some(cluster) if !reservations.is_empty() => {
            for reservation in &reservations {
                change.reservation_create(reservation, &cluster.resource.id)?;
            }
            cluster.reservations.extend(reservations);
            change.cluster_replace(cluster)?;
        }
        Some(cluster) => {
            change.cluster_check(cluster)?;
        }
        None => {}
    }
    K::stage_create(&mut change, &record)?;
    let committed = change.operation_create(&operation)?.commit().await?;
    accepted(app, &operation);
    let etag = committed.etag_of(record.resource().id()).map(str::to_owned);
    Ok(Accepted::Created(Shown { body, etag }).with(&way))
}

async fn replace<K: Kind>(
    app: &App,
    call: &Call,
    parent: Option<Stored<Cluster>>,
    mut stored: Stored<K::Record>,
    mut wanted: K::Hub,
    answer: fn(Shown) -> Accepted,
) -> Result<Response, Refusal> {
    let state = stored.resource().state();
    let author = call.author()?;
    if let Some(operation) = stored.active_operation()
        && state != ProvisioningState::Deleting
        && wanted == *stored.resource()
        // Whoever may not follow it learns no more than that something is under way.
        && operation::own(app, call, operation).await?.is_some()
    {
        // The same request again, perhaps because its first answer got lost.
        let way = accept::way(app, call, operation)?;
        let shown = Shown { body: K::show(call, &wanted), etag: Some(stored.etag().to_owned()) };
        return Ok(answer(shown).with(&way));
    }
    require_settled(parent.as_deref(), "update")?;
    if !state.is_terminal() {
        let message = format!("Cannot update resource while resource is \"{state}\"");
        return Err(CloudError::conflict(wanted.id(), message).into());
    }
    let operation_id = accept::new_id();
    let way = accept::way(app, call, operation_id)?;
    let ask = K::ask_to_update(app, call, parent.as_deref(), &stored, &wanted, operation_id).await?;

    let now = app.clock.now();
    let created = stored.resource_mut().system_data_mut();
    *wanted.system_data_mut() = author.changed(created, now);
    *wanted.state_mut() = ProvisioningState::Accepted;
    let mut operation = accept::operation(app, &call.into(), operation_id, Request::Update, wanted.id(), now);
    operation.clusters_service_request = ask;
    let body = K::show(call, &wanted);
    *stored.resource_mut() = wanted;
    stored.hold(operation_id);

    let mut change = app.records.change(call.subscription)?;
    change.subscription_check(call.subscription, &call.told)?;
    if let Some(cluster) = &parent {
        change.cluster_check(cluster)?;
    }
    K::stage_replace(&mut change, &stored)?;
    let committed = change.operation_create(&operation)?.commit().await?;
    accepted(app, &operation);
    let etag = committed.etag_of(stored.resource().id()).map(str::to_owned);
    Ok(answer(Shown { body, etag }).with(&way))
}

/// Marks a resource and what is below it, and gives up whatever is under way on them, all at once.
pub(crate) async fn begin_deletion<K: Kind>(
    app: &App,
    asked: &Asked,
    operation_id: OperationId,
    mut stored: Stored<K::Record>,
) -> Result<(), Refusal> {
    let id = stored.resource().id().clone();
    let parent = parent::<K>(app, &id).await?;
    require_settled(parent.as_deref(), "delete")?;
    let cluster = parent.as_ref().map_or(&id, |cluster| &cluster.resource.id).clone();
    // A mark before the look at what else is there.
    let membership = app.records.membership(&cluster).await?;
    K::admit_deletion(app, parent.as_deref(), &stored).await?;

    let now = app.clock.now();
    let operation = accept::operation(app, asked, operation_id, Request::Delete, &id, now);
    let subscription = id.subscription_id().map_err(|_| CloudError::path_not_found())?;
    let mut change = app.records.change(subscription)?;
    K::stage_deletion_below(app, &mut change, &id, &operation).await?;
    // Behind the look at the resources: what begins in between changes one of them.
    for mut under_way in app.records.operation_active_on(&cluster).await? {
        if under_way.resource == id || !K::IS_CHILD {
            let reason = format!(
                "The operation was given up because deletion was requested; see operation {operation_id}."
            );
            under_way.cancel(&reason, now);
            change.operation_replace(&under_way)?;
        }
    }
    *stored.resource_mut().state_mut() = ProvisioningState::Deleting;
    stored.hold(operation_id);
    change.membership_check(&membership)?;
    if let Some(cluster) = &parent {
        change.cluster_check(cluster)?;
    }
    K::stage_replace(&mut change, &stored)?;
    change.operation_create(&operation)?.commit().await?;
    accepted(app, &operation);
    Ok(())
}
