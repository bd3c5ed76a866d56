//! Turning an accepted request into an operation.

use jiff::Timestamp;
use pilothouse_arm::{ErrorCode, ErrorDetails, OperationId, ProvisioningState, ResourceId};
use pilothouse_records::{Operation, Request};
use serde_json::Value;
use uuid::Uuid;

use crate::call::Call;

/// Who asks for an operation, and how.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) received_at: Timestamp,
    pub(crate) correlation_id: String,
    pub(crate) client_request_id: Option<String>,
    pub(crate) tenant_id: Option<String>,
    pub(crate) client_id: Option<String>,
    /// How the request found its handler.
    pub(crate) routed: String,
}

/// How often a handler reads again when others write at the same time.
pub(crate) const ATTEMPTS: usize = 5;

const COMPONENT: &str = "services/frontend";

/// A name for a new operation.
pub(crate) fn new_id() -> OperationId {
    OperationId::new(Uuid::new_v4())
}

impl From<&Call> for Asked {
    fn from(call: &Call) -> Self {
        Self {
            received_at: call.received_at,
            correlation_id: call.correlation_id.clone(),
            client_request_id: call.context.client_request_id().map(str::to_owned),
            tenant_id: call.tenant_id.clone(),
            client_id: call.client_id.clone(),
            routed: format!("routed by resource id and api-version {}", call.version.api_version()),
        }
    }
}

/// An operation with the steps that are behind it by the time it is stored.
pub(crate) fn operation(
    asked: &Asked,
    id: OperationId,
    location: &str,
    request: Request,
    resource: &ResourceId,
    ask: Option<Value>,
    now: Timestamp,
) -> Operation {
    let state = match request {
        Request::Create | Request::Update => ProvisioningState::Accepted,
        Request::Delete => ProvisioningState::Deleting,
    };
    let mut operation = Operation {
        schema: Operation::SCHEMA,
        id,
        location: location.to_owned(),
        request,
        resource: resource.clone(),
        state,
        error: None,
        started_at: asked.received_at,
        changed_at: now,
        correlation_id: asked.correlation_id.clone(),
        client_request_id: asked.client_request_id.clone(),
        tenant_id: asked.tenant_id.clone(),
        client_id: asked.client_id.clone(),
        clusters_service_request: ask,
        steps: Vec::new(),
    };
    let done = ProvisioningState::Succeeded;
    let mut step = |number, message: &str, at| operation.step_end(number, COMPONENT, done, message, at);
    step(1, "received", asked.received_at);
    step(2, &asked.routed, asked.received_at);
    step(3, "accepted from this machine; no authentication is configured", asked.received_at);
    step(4, "validated and stored", now);
    if let Some(step) = operation.steps.last_mut() {
        step.started_at = asked.received_at;
    }
    operation
}

/// Gives an operation up for a later one.
pub(crate) fn cancel(operation: &mut Operation, by: OperationId, now: Timestamp) {
    operation.steps_abandon(ProvisioningState::Canceled, now);
    operation.error = Some(ErrorDetails {
        target: Some(operation.resource.to_string()),
        ..ErrorDetails::new(
            ErrorCode::Canceled,
            format!("The operation was given up because deletion was requested; see operation {by}."),
        )
    });
    operation.enter(ProvisioningState::Canceled, now);
}
