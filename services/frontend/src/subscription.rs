//! Subscriptions, as ARM tells about them.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use pilothouse_api::{FieldError, Invalid};
use pilothouse_arm::SubscriptionId;
use pilothouse_http::Context;
use pilothouse_records::{Subscription, SubscriptionState};
use serde::Deserialize;
use serde_json::Value;
use tracing::info;

use crate::answer::Refusal;
use crate::call::no_subscription;
use crate::cluster;
use crate::path::Spelled;
use crate::service::App;

/// As ARM sends it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Body {
    state: Option<String>,
    registration_date: Option<String>,
    properties: Option<Value>,
}

pub(crate) async fn get(
    State(app): State<App>,
    Extension(path): Extension<Spelled>,
) -> Result<Response, Refusal> {
    let id = id(&path)?;
    match app.records.subscription_get(id).await? {
        Some(stored) => Ok(Json(stored.record).into_response()),
        None => Err(no_subscription(&id.to_string()).into()),
    }
}

/// ARM says what it knows, as often as it likes; the last word counts.
pub(crate) async fn put(
    State(app): State<App>,
    Extension(path): Extension<Spelled>,
    Extension(context): Extension<Context>,
    body: Bytes,
) -> Result<Response, Refusal> {
    let id = id(&path)?;
    let subscription = read(&body)?;
    let stored = app.records.subscription_get(id).await?;
    if stored.as_deref() != Some(&subscription) {
        app.records.subscription_put(id, &subscription).await?;
        info!(subscription = %id, state = %subscription.state, "the state of a subscription was told");
    }
    if subscription.state == SubscriptionState::Deleted {
        // Told again until it was answered, so what is interrupted here is taken up.
        cluster::delete_all(&app, id, &context).await?;
    }
    Ok(Json(subscription).into_response())
}

fn id(Spelled(path): &Spelled) -> Result<SubscriptionId, Refusal> {
    let text = path.split('/').nth(2).unwrap_or_default();
    Ok(text.parse().map_err(|_| no_subscription(text))?)
}

fn read(body: &[u8]) -> Result<Subscription, Invalid> {
    let problem = |target: &str, message: String| FieldError { target: target.to_owned(), message };
    let Body { state, registration_date, properties } = serde_json::from_slice(body).map_err(|error| {
        Invalid(vec![problem("", format!("The request content could not be deserialised: {error}."))])
    })?;
    let mut problems = Vec::new();
    let known = match state.as_deref() {
        None => {
            problems.push(problem("state", "Required value".to_owned()));
            None
        }
        Some(name) => {
            let known = serde_json::from_value(Value::String(name.to_owned())).ok();
            if known.is_none() {
                let supported = r#""Deleted", "Registered", "Suspended", "Unregistered", "Warned""#;
                let message = format!("Unsupported value: {name:?}: supported values: {supported}");
                problems.push(problem("state", message));
            }
            known
        }
    };
    match registration_date.as_deref() {
        None | Some("") => problems.push(problem("registrationDate", "Required value".to_owned())),
        Some(date) if date.trim() != date => {
            let message = format!("Invalid value: {date:?}: must not begin or end with blanks");
            problems.push(problem("registrationDate", message));
        }
        Some(_) => {}
    }
    match (known, registration_date) {
        (Some(state), Some(registration_date)) if problems.is_empty() => {
            Ok(Subscription { state, registration_date, properties: properties.map(without_email) })
        }
        _ => Err(Invalid(problems)),
    }
}

/// A person's address is none of our business.
fn without_email(mut properties: Value) -> Value {
    if let Some(owner) = properties.get_mut("accountOwner").and_then(Value::as_object_mut) {
        owner.remove("email");
    }
    properties
}
