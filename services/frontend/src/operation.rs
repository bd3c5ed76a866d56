//! Operations: what they are at, and what came of them.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use pilothouse_api::{EXTERNAL_AUTHS, NODE_POOLS};
use pilothouse_arm::{CloudError, ErrorCode, OperationId, ProvisioningState, header};
use pilothouse_records::{Operation, Request, Stored};

use crate::answer::{self, Refusal, Shown};
use crate::call::Call;
use crate::cluster::Clusters;
use crate::credential;
use crate::external_auth::ExternalAuths;
use crate::kind::{Kind, Record as _};
use crate::node_pool::NodePools;
use crate::service::App;

pub(crate) async fn status(State(app): State<App>, call: Call) -> Result<Response, Refusal> {
    // Nothing is said of operations that are somebody else's, not even that they are.
    let Some(operation) = find(&app, &call).await? else { return Ok(StatusCode::NOT_FOUND.into_response()) };
    let mut response = Json(operation.status(call.subscription)).into_response();
    if !operation.state.is_terminal() {
        let seconds = app.config.retry_after_seconds.to_string();
        answer::insert(response.headers_mut(), header::RETRY_AFTER, &seconds);
    }
    Ok(response)
}

pub(crate) async fn result(State(app): State<App>, call: Call) -> Result<Response, Refusal> {
    let Some(operation) = find(&app, &call).await? else { return Err(Refusal::Missing(call.id()?)) };
    match operation.state {
        ProvisioningState::Accepted
        | ProvisioningState::Provisioning
        | ProvisioningState::Updating
        | ProvisioningState::AwaitingSecret
        | ProvisioningState::Deleting => {
            let links = call.links(operation.id, &app.config.location)?;
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
            Request::Delete | Request::RevokeCredentials => Ok(StatusCode::NO_CONTENT.into_response()),
            Request::RequestCredential => {
                Ok(Json(credential::shown(&app, &call, &operation).await?).into_response())
            }
        },
    }
}

async fn resource(
    app: &App,
    call: &Call,
    operation: &Operation,
    status: StatusCode,
) -> Result<Response, Refusal> {
    let kind = operation.resource.resource_type();
    let kind = kind.as_str().rsplit('/').next().unwrap_or_default();
    if kind.eq_ignore_ascii_case(NODE_POOLS) {
        resource_of::<NodePools>(app, call, operation, status).await
    } else if kind.eq_ignore_ascii_case(EXTERNAL_AUTHS) {
        resource_of::<ExternalAuths>(app, call, operation, status).await
    } else {
        resource_of::<Clusters>(app, call, operation, status).await
    }
}

async fn resource_of<K: Kind>(
    app: &App,
    call: &Call,
    operation: &Operation,
    status: StatusCode,
) -> Result<Response, Refusal> {
    match K::get(&app.records, &operation.resource).await? {
        Some(stored) => {
            let body = K::show(call, stored.resource());
            Ok(Shown { body, etag: Some(stored.etag().to_owned()) }.with(status))
        }
        None => Err(Refusal::Missing(operation.resource.clone())),
    }
}

/// The operation that the path names, if it is this caller's.
async fn find(app: &App, call: &Call) -> Result<Option<Stored<Operation>>, Refusal> {
    match call.id()?.name().parse::<OperationId>() {
        Ok(id) => own(app, call, id).await,
        Err(_) => Ok(None),
    }
}

/// An operation, if it is this caller's. To everybody else it does not exist.
pub(crate) async fn own(
    app: &App,
    call: &Call,
    id: OperationId,
) -> Result<Option<Stored<Operation>>, Refusal> {
    let found = app.records.operation_get(call.subscription, id).await?;
    let same = |stored: &Option<String>, sent: &Option<String>| match (stored, sent) {
        (None, _) => true,
        (Some(stored), Some(sent)) => stored.eq_ignore_ascii_case(sent),
        (Some(_), None) => false,
    };
    let is_own = |operation: &Stored<Operation>| {
        same(&operation.tenant_id, &call.tenant_id) && same(&operation.client_id, &call.client_id)
    };
    Ok(found.filter(is_own))
}
