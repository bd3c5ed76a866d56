//! Operations: what they are at, and what came of them.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use pilothouse_arm::{CloudError, ErrorCode, OperationId, ProvisioningState, header};
use pilothouse_records::{Operation, Request, Stored};

use crate::answer::{self, Refusal};
use crate::call::Call;
use crate::service::App;

pub(crate) async fn status(State(app): State<App>, call: Call) -> Result<Response, Refusal> {
    let Some(operation) = find(&app, &call).await? else {
        return Err(Refusal::Missing(call.id()?));
    };
    let mut response = Json(operation.status(call.subscription)).into_response();
    if !operation.state.is_terminal() {
        let seconds = app.config.retry_after_seconds.to_string();
        answer::insert(response.headers_mut(), header::RETRY_AFTER, &seconds);
    }
    Ok(response)
}

pub(crate) async fn result(State(app): State<App>, call: Call) -> Result<Response, Refusal> {
    let Some(operation) = find(&app, &call).await? else {
        return Err(Refusal::Missing(call.id()?));
    };
    match operation.state {
        ProvisioningState::Accepted
        | ProvisioningState::Provisioning
        | ProvisioningState::Updating
        | ProvisioningState::Deleting => {
            let links = call.links(operation.id, &app.config.location);
            let mut response = StatusCode::ACCEPTED.into_response();
            let headers = response.headers_mut();
            answer::insert(headers, header::LOCATION, &links.result);
            answer::insert(headers, header::RETRY_AFTER, &app.config.retry_after_seconds.to_string());
            Ok(response)
        }
        ProvisioningState::Failed | ProvisioningState::Canceled => {
            let error = match operation.record.error.clone() {
                Some(details) => CloudError::from(details),
                None => CloudError::new(ErrorCode::InternalServerError, "The operation did not succeed."),
            };
            Err(error.with_status(500).into())
        }
        ProvisioningState::Succeeded => match operation.request {
            Request::Create => resource(&app, &call, &operation, StatusCode::CREATED).await,
            Request::Update => resource(&app, &call, &operation, StatusCode::OK).await,
            Request::Delete => Ok(StatusCode::NO_CONTENT.into_response()),
        },
    }
}

async fn resource(
    app: &App,
    call: &Call,
    operation: &Operation,
    status: StatusCode,
) -> Result<Response, Refusal> {
    let id = &operation.resource;
    let shown = if operation.cluster() == *id {
        app.records.cluster_get(id).await?.map(|stored| call.version.cluster_write(&stored.resource))
    } else {
        app.records.node_pool_get(id).await?.map(|stored| call.version.node_pool_write(&stored.resource))
    };
    match shown {
        Some(shown) => Ok((status, Json(shown)).into_response()),
        None => Err(Refusal::Missing(id.clone())),
    }
}

/// The operation, if it is this caller's.
async fn find(app: &App, call: &Call) -> Result<Option<Stored<Operation>>, Refusal> {
    let Ok(id) = call.id()?.name().parse::<OperationId>() else { return Ok(None) };
    let found = app.records.operation_get(call.subscription, id).await?;
    let same = |stored: &Option<String>, sent: &Option<String>| match (stored, sent) {
        (None, _) => true,
        (Some(stored), Some(sent)) => stored.eq_ignore_ascii_case(sent),
        (Some(_), None) => false,
    };
    Ok(found.filter(|operation| {
        same(&operation.tenant_id, &call.tenant_id) && same(&operation.client_id, &call.client_id)
    }))
}
