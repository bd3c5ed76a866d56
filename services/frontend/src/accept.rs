//! Turning an accepted request into an operation.

use jiff::Timestamp;
use pilothouse_arm::{CloudError, OperationId, ProvisioningState, ResourceId};
use pilothouse_records::{Notification, Operation, Request};
use serde::Serialize;
use serde_json::Value;
use tracing::info;
use uuid::Uuid;

use crate::answer::{Refusal, Way};
use crate::call::Call;
use crate::service::App;

/// Who asks for an operation, and how.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) received_at: Timestamp,
    pub(crate) correlation_id: String,
    pub(crate) client_request_id: Option<String>,
    pub(crate) tenant_id: Option<String>,
    pub(crate) client_id: Option<String>,
    pub(crate) notification: Option<String>,
    /// How the request found its handler.
    pub(crate) routed: String,
    /// How it is known who asks.
    pub(crate) known_by: String,
}

/// How often a handler reads again when others write at the same time.
pub(crate) const ATTEMPTS: usize = 8;

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
            notification: call.notification.clone(),
            routed: format!("routed by resource id and api-version {}", call.version.api_version()),
            known_by: call.principal.how(),
        }
    }
}

/// An operation with the steps that are behind it by the time it is stored.
pub(crate) fn operation(
    app: &App,
    asked: &Asked,
    id: OperationId,
    request: Request,
    resource: &ResourceId,
    now: Timestamp,
) -> Operation {
    let new = Operation::new(id, request, resource.clone(), &app.config.location, now);
    let mut operation = Operation {
        started_at: asked.received_at,
        correlation_id: asked.correlation_id.clone(),
        client_request_id: asked.client_request_id.clone(),
        tenant_id: asked.tenant_id.clone(),
        client_id: asked.client_id.clone(),
        notification: asked.notification.clone().map(Notification::new),
        ..new
    };
    let done = ProvisioningState::Succeeded;
    let mut step = |number, message: &str, at| operation.step_end(number, COMPONENT, done, message, at);
    step(1, "received", asked.received_at);
    step(2, &asked.routed, asked.received_at);
    step(3, &asked.known_by, asked.received_at);
    step(4, "validated and stored", now);
    if let Some(step) = operation.steps.last_mut() {
        step.started_at = asked.received_at;
    }
    operation
}

/// What Clusters Service is to be asked for, as it is kept with the operation.
pub(crate) fn kept(ask: &impl Serialize) -> Value {
    // Cannot fail: requests have text as keys of maps.
    serde_json::to_value(ask).unwrap_or_default()
}

/// Tells of an operation that is now stored.
pub(crate) fn accepted(app: &App, operation: &Operation) {
    app.metrics.accepted(operation.request);
    info!(
        operation = %operation.id,
        request = ?operation.request,
        resource = %operation.resource,
        correlation = operation.correlation_id,
        "accepted an operation"
    );
}

/// The way to an operation. Asked for before anything is stored, since it can be refused.
pub(crate) fn way(app: &App, call: &Call, operation: OperationId) -> Result<Way, Refusal> {
    Ok(Way {
        links: call.links(operation, &app.config.location)?,
        retry_after: app.config.retry_after_seconds,
        notifies: call.notification.is_some(),
    })
}

/// Others wrote all the time.
pub(crate) fn busy(id: &ResourceId) -> Refusal {
    CloudError::conflict(id, "The resource was modified by another request; try again.")
        .with_status(429)
        .with_retry_after(1)
        .into()
}
