//! The administrators' surface: what is under way across subscriptions, and the few things that can be done about it.
//!
//! It has a listener and credentials of its own. What it changes, it changes by the records alone, in one transaction with
//! an [`AdminAction`] that says who, what and why; the backend finds out as it does about
//! any other change. Doing the same again changes nothing.

use axum::extract::{FromRequestParts, Query};
use axum::middleware::from_fn;
use axum::routing::{MethodFilter, on};
use axum::{Json, Router};
use bytes::Bytes;
use http::request::Parts;
use pilothouse_access::Principal;
use pilothouse_arm::{CloudError, ErrorCode, OperationId, ResourceId, header};
use pilothouse_http::Context;
use pilothouse_records::{AdminAction, Listed, Stored};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::answer::{self, Refusal};
use crate::service::App;

mod actions;
mod hcp;
mod hold;
mod operations;
mod redact;
mod resources;

/// How often a change is tried that others keep getting in the way of.
const ATTEMPTS: usize = 8;

/// The longest reason that is kept.
const LONGEST_REASON: usize = 1000;

/// What administrators may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    OperationList,
    OperationShow,
    OperationCancel,
    OperationRequeue,
    ResourceList,
    Hcp,
    HoldPut,
    HoldDelete,
    ActionList,
}

/// Which request is which.
const ROUTES: &[(Route, MethodFilter, &str)] = &[
    (Route::OperationList, MethodFilter::GET, "/admin/v1/operations"),
    (Route::OperationShow, MethodFilter::GET, "/admin/v1/operations/{subscription}/{operation}"),
    (Route::OperationCancel, MethodFilter::POST, "/admin/v1/operations/{subscription}/{operation}/cancel"),
    (Route::OperationRequeue, MethodFilter::POST, "/admin/v1/operations/{subscription}/{operation}/requeue"),
    (Route::ResourceList, MethodFilter::GET, "/admin/v1/resources"),
    (Route::Hcp, MethodFilter::GET, "/admin/v1/hcp/{*resource}"),
    (Route::HoldPut, MethodFilter::PUT, "/admin/v1/hcp/{*resource}"),
    (Route::HoldDelete, MethodFilter::DELETE, "/admin/v1/hcp/{*resource}"),
    (Route::ActionList, MethodFilter::GET, "/admin/v1/actions"),
];

/// Everything that administrators are answered.
pub(crate) fn routes(app: App) -> Router {
    let mut router = Router::new();
    for (route, method, path) in ROUTES {
        let handler = match route {
            Route::OperationList => on(*method, operations::list),
            Route::OperationShow => on(*method, operations::show),
            Route::OperationCancel => on(*method, operations::cancel),
            Route::OperationRequeue => on(*method, operations::requeue),
            Route::ResourceList => on(*method, resources::list),
            Route::Hcp => on(*method, hcp::get),
            Route::HoldPut => on(*method, hold::put),
            Route::HoldDelete => on(*method, hold::delete),
            Route::ActionList => on(*method, actions::list),
        };
        router = router.route(path, handler);
    }
    router
        .fallback(nothing)
        .method_not_allowed_fallback(nothing)
        .layer(from_fn(answer::identify))
        .with_state(app)
}

/// Every path, for whoever has to visit all of them.
pub(crate) fn paths() -> Vec<String> {
    ROUTES.iter().map(|(_, _, path)| (*path).to_owned()).collect()
}

async fn nothing() -> Refusal {
    CloudError::path_not_found().into()
}

/// Who does something, and with which request.
pub(crate) struct Administrator {
    name: String,
    request_id: String,
}

/// What every change wants to know.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    #[serde(default)]
    reason: String,
}

/// How much of a list is wanted, and from where on.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Paging {
    limit: Option<usize>,
    token: Option<String>,
}

impl Administrator {
    /// What is recorded of one action.
    fn action(
        &self,
        app: &App,
        action: &str,
        resource: &ResourceId,
        operation: Option<OperationId>,
        reason: &str,
    ) -> AdminAction {
        AdminAction {
            id: Uuid::now_v7(),
            at: app.clock.now(),
            by: self.name.clone(),
            action: action.to_owned(),
            resource: resource.clone(),
            operation,
            reason: reason.to_owned(),
            request_id: self.request_id.clone(),
        }
    }
}

impl FromRequestParts<App> for Administrator {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Refusal> {
        // Without the gate there is nobody: better no answer than an open door.
        let principal =
            parts.extensions.get::<Principal>().cloned().ok_or_else(CloudError::path_not_found)?;
        let said = parts.headers.get(header::CLIENT_PRINCIPAL_NAME).and_then(|value| value.to_str().ok());
        let context = parts.extensions.get::<Context>();
        Ok(Self {
            name: said
                .filter(|_| principal.believes_headers())
                .unwrap_or_else(|| principal.name())
                .to_owned(),
            request_id: context.map(|context| context.request_id().to_owned()).unwrap_or_default(),
        })
    }
}

/// Why something is done. Without a reason nothing is.
fn reason(body: &Bytes) -> Result<String, Refusal> {
    let wrong =
        |message: String| CloudError::new(ErrorCode::InvalidRequestContent, message).with_target("reason");
    let text = if body.is_empty() { b"{}" } else { body.as_ref() };
    let Body { reason } = serde_json::from_slice(text)
        .map_err(|error| wrong(format!("The body must be {{\"reason\": \"...\"}}: {error}.")))?;
    let reason = reason.trim();
    if reason.is_empty() {
        return Err(wrong("A 'reason' is required: it is kept with what was done.".to_owned()).into());
    }
    if reason.chars().count() > LONGEST_REASON {
        let message = format!("The 'reason' may have at most {LONGEST_REASON} characters.");
        return Err(wrong(message).into());
    }
    Ok(reason.to_owned())
}

fn parameters<T: DeserializeOwned>(parts: &Parts) -> Result<T, Refusal> {
    match Query::try_from_uri(&parts.uri) {
        Ok(Query(parameters)) => Ok(parameters),
        Err(error) => {
            let message = format!("The query cannot be understood: {}.", error.body_text());
            Err(CloudError::new(ErrorCode::InvalidParameter, message).into())
        }
    }
}

impl Paging {
    fn limit(&self) -> Result<usize, Refusal> {
        const USUAL: usize = 100;
        const LARGEST: usize = 1000;
        let limit = self.limit.unwrap_or(USUAL);
        if (1..=LARGEST).contains(&limit) {
            return Ok(limit);
        }
        let message = format!("The parameter 'limit' must be a number between 1 and {LARGEST}.");
        Err(CloudError::new(ErrorCode::InvalidParameter, message).with_target("limit").into())
    }
}

/// A part of a list and the way to the next.
fn page<T>(listed: &Listed<T>, parts: &Parts, shown: impl Fn(&Stored<T>) -> Value) -> Json<Value> {
    let mut page = json!({ "value": listed.items.iter().map(shown).collect::<Vec<_>>() });
    if let Some(token) = &listed.next {
        let query = parts.uri.query().unwrap_or_default();
        let kept = query.split('&').filter(|part| !part.is_empty() && !part.starts_with("token="));
        let token = format!("token={}", escaped(token));
        let query: Vec<_> = kept.chain([token.as_str()]).collect();
        page["nextLink"] = format!("{}?{}", parts.uri.path(), query.join("&")).into();
    }
    Json(page)
}

/// A value as it may stand in a query.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// A record as JSON. Records are what the store itself writes as JSON, so there is nothing to refuse.
fn value(record: &impl Serialize) -> Value {
    serde_json::to_value(record).unwrap_or_default()
}

/// Others keep writing.
fn busy(id: &ResourceId) -> Refusal {
    CloudError::conflict(id, "The records kept changing while this was tried; try again.")
        .with_status(429)
        .with_retry_after(1)
        .into()
}
