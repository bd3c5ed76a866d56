//! Subscriptions, as ARM tells about them.

use axum::extract::{FromRequestParts, State};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use http::request::Parts;
use pilothouse_access::Principal;
use pilothouse_api::{FieldError, Invalid};
use pilothouse_arm::{CloudError, ErrorCode, SubscriptionId};
use pilothouse_http::Context;
use pilothouse_records::{Subscription, SubscriptionState};
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::info;

use crate::answer::Refusal;
use crate::body::Content;
use crate::call::principal;
use crate::path::Spelled;
use crate::service::App;
use crate::{gate, json, sweep};

/// A feature that unlocks what is not for everybody yet.
const EXPERIMENTAL: &str = "Microsoft.RedHatOpenShift/ExperimentalReleaseFeatures";

/// As ARM sends it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Body {
    state: Option<String>,
    registration_date: Option<String>,
    properties: Option<serde_json::Map<String, Value>>,
}

/// Who asks about which subscription.
pub(crate) struct Asking {
    id: SubscriptionId,
    principal: Principal,
}

impl FromRequestParts<App> for Asking {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Refusal> {
        let spelled = parts.extensions.get::<Spelled>();
        let text = spelled.and_then(|Spelled(path)| path.split('/').nth(2)).unwrap_or_default();
        Ok(Self { id: text.parse().map_err(|_| unknown(text))?, principal: principal(parts) })
    }
}

pub(crate) async fn get(State(app): State<App>, asking: Asking) -> Result<Response, Refusal> {
    let Asking { id, principal } = asking;
    let stored = app.records.subscription_get(id).await?;
    if !principal.may_act_on(id, stored.as_deref().and_then(Subscription::tenant_id)) {
        return Err(gate::not_allowed(&principal, id));
    }
    match stored {
        Some(stored) => Ok(shown(&stored)),
        None => Err(unknown(&id.to_string()).into()),
    }
}

/// ARM says what it knows, as often as it likes; the last word counts.
pub(crate) async fn put(
    State(app): State<App>,
    asking: Asking,
    Extension(context): Extension<Context>,
    Content(body): Content,
) -> Result<Response, Refusal> {
    let Asking { id, principal } = asking;
    if !principal.may_manage(id) {
        return Err(gate::not_allowed(&principal, id));
    }
    json::check(&body)?;
    let mut told = read(&body)?;
    let stored = app.records.subscription_get(id).await?;
    if told.state == SubscriptionState::Deleted {
        // Once everything in it was given up, nothing new can come; but a deletion may have failed, and nobody else can ask
        // for it again.
        let swept = stored
            .as_deref()
            .is_some_and(|stored| stored.state == SubscriptionState::Deleted && !stored.deletion_pending);
        told.deletion_pending = !swept || sweep::is_left(&app, id).await?;
    }
    if stored.as_deref() != Some(&told) {
        app.records.subscription_put(id, &told).await?;
        info!(subscription = %id, state = %told.state, "the state of a subscription was told");
    }
    if told.deletion_pending {
        sweep::while_asked(&app, id, &context).await?;
    }
    Ok(shown(&told))
}

/// As ARM told it, and nothing else.
fn shown(subscription: &Subscription) -> Response {
    let Subscription { state, registration_date, properties, deletion_pending: _ } = subscription;
    let mut body = json!({"state": state, "registrationDate": registration_date});
    if let Some(properties) = properties {
        body["properties"] = properties.clone();
    }
    Json(body).into_response()
}

/// There is no such subscription.
pub(crate) fn unknown(id: &str) -> CloudError {
    let message = format!("The subscription '{id}' could not be found.");
    CloudError::new(ErrorCode::SubscriptionNotFound, message)
}

/// Whether the subscription may ask for what is not for everybody yet.
pub(crate) fn is_experimental(subscription: &Subscription) -> bool {
    let features =
        subscription.properties.as_ref().and_then(|properties| properties.get("registeredFeatures"));
    let is = |feature: &Value, member: &str, same: fn(&str) -> bool| {
        feature.get(member).and_then(Value::as_str).is_some_and(same)
    };
    features.and_then(Value::as_array).is_some_and(|features| {
        features.iter().any(|feature| {
            is(feature, "name", |name| name.eq_ignore_ascii_case(EXPERIMENTAL))
                && is(feature, "state", |state| state == "Registered")
        })
    })
}

fn read(body: &[u8]) -> Result<Subscription, Invalid> {
    let problem = |target: &str, message: String| FieldError { target: target.to_owned(), message };
    let unreadable = |target: &str, error: serde_json::Error| {
        Invalid(vec![problem(target, format!("The request content could not be deserialised: {error}."))])
    };
    // By way of an object: a list would be read as well, member by member.
    let members: serde_json::Map<String, Value> =
        serde_json::from_slice(body).map_err(|error| unreadable("", error))?;
    let Body { state, registration_date, properties } =
        serde_path_to_error::deserialize(Value::Object(members)).map_err(|error| {
            let path = error.path().to_string();
            unreadable(&path, error.into_inner())
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
        (Some(state), Some(registration_date)) if problems.is_empty() => Ok(Subscription {
            state,
            registration_date,
            properties: properties.map(without_email),
            deletion_pending: false,
        }),
        _ => Err(Invalid(problems)),
    }
}

/// A person's address is none of our business.
fn without_email(mut properties: serde_json::Map<String, Value>) -> Value {
    if let Some(owner) = properties.get_mut("accountOwner").and_then(Value::as_object_mut) {
        owner.remove("email");
    }
    Value::Object(properties)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_are_read_or_refused_with_their_fields() {
        for (body, targets) in [
            (r#"{}"#, vec!["state", "registrationDate"]),
            (r#"{"state": "registered", "registrationDate": ""}"#, vec!["state", "registrationDate"]),
            (r#"{"state": "Registered", "registrationDate": " now"}"#, vec!["registrationDate"]),
            (r#"{"state": 1}"#, vec!["state"]),
            (r#"{"state": "Warned", "registrationDate": "now", "properties": []}"#, vec!["properties"]),
            (r#"[]"#, vec![""]),
        ] {
            let Invalid(problems) = read(body.as_bytes()).unwrap_err();
            let found: Vec<_> = problems.iter().map(|problem| problem.target.as_str()).collect();
            assert_eq!(found, targets, "{body}");
        }
    }

    #[test]
    fn features_count_when_they_are_registered() {
        let of = |features: Value| {
            let body = json!({"state": "Registered", "registrationDate": "now",
                              "properties": {"registeredFeatures": features}});
            is_experimental(&read(body.to_string().as_bytes()).unwrap())
        };
        let name = EXPERIMENTAL.to_lowercase();
        assert!(of(json!([{"name": "x"}, {"name": name, "state": "Registered"}])));
        assert!(!of(json!([{"name": name, "state": "registered"}])));
        assert!(!of(json!([{"name": "other", "state": "Registered"}])));
        assert!(!of(json!([])));
        assert!(!of(json!("odd")));
    }
}
