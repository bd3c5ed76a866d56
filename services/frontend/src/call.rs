//! A request, read once: what it is about, in which version, for whom.

use axum::extract::FromRequestParts;
use http::header::{CONTENT_TYPE, HOST};
use http::request::Parts;
use http::{HeaderMap, Method};
use jiff::Timestamp;
use pilothouse_api::Version;
use pilothouse_arm::{
    ApiVersion, Caller, CloudError, ErrorCode, OperationId, OperationLinks, ResourceId, SubscriptionId,
    SystemData, header,
};
use pilothouse_http::Context;
use pilothouse_records::SubscriptionState;

use crate::answer::Refusal;
use crate::path::{self, Spelled};
use crate::service::App;

/// A request about resources of a subscription that may make it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The path as the client spelled it.
    path: String,
    query: String,
    has_body_of_json: bool,
    pub(crate) subscription: SubscriptionId,
    pub(crate) version: Version,
    pub(crate) received_at: Timestamp,
    pub(crate) context: Context,
    pub(crate) correlation_id: String,
    pub(crate) tenant_id: Option<String>,
    pub(crate) client_id: Option<String>,
    pub(crate) system_data: SystemData,
    caller: Caller,
}

impl Call {
    /// The resource that the path names.
    pub(crate) fn id(&self) -> Result<ResourceId, Refusal> {
        Ok(self.path.parse().map_err(|_| CloudError::path_not_found())?)
    }

    /// The resource that lies above the list that the path names: a scope or a cluster.
    pub(crate) fn scope(&self) -> Result<ResourceId, Refusal> {
        let list = self.path.trim_end_matches('/');
        let above = list.rsplit_once('/').map(|(above, _)| above).unwrap_or_default();
        // In a list of clusters the provider is what is left; the scope lies before it.
        let scope = match above.to_ascii_lowercase().rfind("/providers/") {
            Some(at) if above[at + 1..].matches('/').count() == 1 => &above[..at],
            _ => above,
        };
        Ok(scope.parse().map_err(|_| CloudError::path_not_found())?)
    }

    /// One parameter of the query.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        parameter(&self.query, name)
    }

    /// The body must say that it is JSON.
    pub(crate) fn require_json(&self) -> Result<(), Refusal> {
        if self.has_body_of_json {
            return Ok(());
        }
        let message = "The content type of the body must be 'application/json'.";
        Err(CloudError::new(ErrorCode::UnsupportedMediaType, message).into())
    }

    /// The way to an operation, for this caller.
    pub(crate) fn links(&self, operation: OperationId, location: &str) -> OperationLinks {
        OperationLinks::new(operation, self.subscription, location, self.version.api_version(), &self.caller)
    }

    /// The way to the next page.
    pub(crate) fn next_page(&self, token: &str) -> String {
        self.caller.next_page(token)
    }
}

impl FromRequestParts<App> for Call {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let received_at = app.clock.now();
        let Spelled(path) =
            parts.extensions.get::<Spelled>().cloned().ok_or_else(CloudError::path_not_found)?;
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let subscription = path.split('/').nth(2).unwrap_or_default();
        let subscription = subscription.parse().map_err(|_| no_subscription(subscription))?;
        let version = version(&query)?;
        let context = parts.extensions.get::<Context>().cloned().ok_or_else(CloudError::path_not_found)?;
        let stored = app.records.subscription_get(subscription).await?;
        gate(subscription, stored.as_deref().map(|stored| stored.state), &parts.method)?;
        let text = |name: &str| parts.headers.get(name)?.to_str().ok().map(str::to_owned);
        Ok(Self {
            caller: caller(&parts.headers, &path, &query)?,
            has_body_of_json: is_json(&parts.headers),
            path,
            query,
            subscription,
            version,
            received_at,
            correlation_id: context.correlation_id().unwrap_or_else(|| context.request_id()).to_owned(),
            context,
            tenant_id: text(header::HOME_TENANT_ID)
                .or_else(|| stored.as_deref()?.tenant_id().map(str::to_owned)),
            client_id: text(header::CLIENT_OBJECT_ID),
            system_data: system_data(text(header::SYSTEM_DATA))?,
        })
    }
}

pub(crate) fn no_subscription(id: &str) -> CloudError {
    let message = format!("The subscription '{id}' could not be found.");
    CloudError::new(ErrorCode::SubscriptionNotFound, message)
}

fn version(query: &str) -> Result<Version, Refusal> {
    let Some(text) = parameter(query, "api-version").filter(|text| !text.is_empty()) else {
        let message = "The request is missing the required parameter 'api-version'.";
        return Err(CloudError::new(ErrorCode::InvalidParameter, message).into());
    };
    let served = text.parse::<ApiVersion>().ok().and_then(Version::of);
    Ok(served.ok_or_else(|| {
        let versions: Vec<_> = Version::ALL.iter().map(|version| version.api_version().to_string()).collect();
        let message = format!(
            "The resource type is not served in api-version '{text}'; the api-versions served are '{}'.",
            versions.join("', '")
        );
        CloudError::new(ErrorCode::InvalidResourceType, message)
    })?)
}

/// Who may do what: looking and cleaning up is possible for longer than making something.
fn gate(id: SubscriptionId, state: Option<SubscriptionState>, method: &Method) -> Result<(), Refusal> {
    let looks = matches!(*method, Method::GET | Method::HEAD | Method::DELETE);
    let (status, said) = match state {
        Some(SubscriptionState::Registered) => return Ok(()),
        Some(SubscriptionState::Warned | SubscriptionState::Suspended) if looks => return Ok(()),
        Some(state @ (SubscriptionState::Warned | SubscriptionState::Suspended)) => (409, state.to_string()),
        Some(state @ (SubscriptionState::Unregistered | SubscriptionState::Deleted)) => {
            (400, state.to_string())
        }
        None => (400, SubscriptionState::Unregistered.to_string()),
    };
    let message = format!("The request is not allowed in the state '{said}' of subscription '{id}'.");
    Err(CloudError::new(ErrorCode::InvalidSubscriptionState, message).with_status(status).into())
}

fn caller(headers: &HeaderMap, path: &str, query: &str) -> Result<Caller, Refusal> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let sent = text(header::REFERER).and_then(Caller::of_referer);
    let seen = || {
        let scheme =
            text("x-forwarded-proto").filter(|scheme| matches!(*scheme, "http" | "https")).unwrap_or("http");
        Caller::of_request(scheme, text(HOST.as_str()).unwrap_or("localhost"), &format!("{path}?{query}"))
    };
    Ok(sent.or_else(seen).ok_or_else(|| {
        CloudError::new(ErrorCode::InvalidParameter, "The header 'Host' does not name a host.")
    })?)
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

fn system_data(header: Option<String>) -> Result<SystemData, Refusal> {
    let Some(text) = header else { return Ok(SystemData::default()) };
    Ok(serde_json::from_str(&text).map_err(|error| {
        let message = format!("The header '{}' could not be read: {error}.", header::SYSTEM_DATA);
        CloudError::new(ErrorCode::InvalidParameter, message)
    })?)
}

/// The first value of a parameter. Names are compared exactly, as ARM does it.
fn parameter(query: &str, name: &str) -> Option<String> {
    let plain = |text: &str| path::decoded(&text.replace('+', " "), |_| true);
    query.split('&').find_map(|pair| {
        let (found, value) = pair.split_once('=').unwrap_or((pair, ""));
        (plain(found) == name).then(|| plain(value))
    })
}
