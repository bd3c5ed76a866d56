//! A request, read once: what it is about, in which version, for whom.

use axum::extract::FromRequestParts;
use http::header::HOST;
use http::request::Parts;
use http::{HeaderMap, Method};
use jiff::Timestamp;
use pilothouse_access::Principal;
use pilothouse_api::{FieldError, Invalid, Rules, Version};
use pilothouse_arm::{
    ApiVersion, Caller, CloudError, ErrorCode, OperationId, OperationLinks, ResourceId, SubscriptionId,
    SystemData, header,
};
use pilothouse_http::Context;
use pilothouse_records::{Stored, Subscription};
use serde_json::Value;
use url::Url;

use crate::answer::Refusal;
use crate::condition::Conditions;
use crate::path::Spelled;
use crate::service::App;
use crate::{gate, notification, query, subscription};

/// A request about resources of a subscription that may make it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The path as the client spelled it.
    path: String,
    query: String,
    method: Method,
    pub(crate) subscription: SubscriptionId,
    /// What is known of the subscription, as it was when the request was let in.
    pub(crate) told: Stored<Subscription>,
    pub(crate) version: Version,
    pub(crate) rules: Rules,
    pub(crate) received_at: Timestamp,
    pub(crate) context: Context,
    pub(crate) principal: Principal,
    pub(crate) correlation_id: String,
    pub(crate) tenant_id: Option<String>,
    pub(crate) client_id: Option<String>,
    pub(crate) conditions: Conditions,
    /// Where ARM wants to hear of the end of what it asks for.
    pub(crate) notification: Option<String>,
    sent: Headers,
}

/// Headers that matter to some requests only.
#[derive(Clone, Debug, Default)]
struct Headers {
    system_data: Option<String>,
    identity_url: Option<String>,
    referer: Option<String>,
    /// Under which the client called, as far as is known.
    scheme: &'static str,
    host: Option<String>,
}

/// A request whose path has an api-version of somebody else's, or none.
#[derive(Clone, Debug)]
pub(crate) struct Unversioned(pub(crate) Call);

/// The longest id that a resource can be stored under, in bytes.
const LONGEST_ID: usize = pilothouse_store::DocumentId::LONGEST;

impl Call {
    /// The resource that the path names.
    pub(crate) fn id(&self) -> Result<ResourceId, Refusal> {
        let id: ResourceId = self.path.parse().map_err(|_| CloudError::path_not_found())?;
        // The last character that there is stands for the end of everything in the store.
        if id.as_str().len() <= LONGEST_ID && !id.as_str().contains(char::MAX) {
            return Ok(id);
        }
        // Nothing can have this name; only whoever would give it to something is wrong about more than that.
        if self.method != Method::PUT {
            return Err(Refusal::Missing(id));
        }
        let message = format!("Too long: may not be more than {LONGEST_ID} bytes");
        Err(Invalid(vec![FieldError { target: "id".to_owned(), message }]).into())
    }

    /// The resource that lies above the list or the action that the path names: a scope or a cluster.
    pub(crate) fn above(&self) -> Result<ResourceId, Refusal> {
        let list = self.path.trim_end_matches('/');
        let above = list.rsplit_once('/').map(|(above, _)| above).unwrap_or_default();
        // In a list of clusters the provider is what is left; the scope lies before it.
        let scope = match above.to_ascii_lowercase().rfind("/providers/") {
            Some(at) if above[at + 1..].matches('/').count() == 1 => &above[..at],
            _ => above,
        };
        let id: ResourceId = scope.parse().map_err(|_| CloudError::path_not_found())?;
        if id.as_str().len() > LONGEST_ID || id.as_str().contains(char::MAX) {
            return Err(Refusal::Missing(id));
        }
        Ok(id)
    }

    /// The same in another version.
    pub(crate) fn in_version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    /// One segment of the path, as spelled.
    pub(crate) fn segment(&self, index: usize) -> &str {
        self.path.split('/').nth(index + 1).unwrap_or_default()
    }

    /// One parameter of the query.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        query::parameter(&self.query, name)
    }

    /// The way to an operation, for this caller.
    pub(crate) fn links(&self, operation: OperationId, location: &str) -> Result<OperationLinks, Refusal> {
        let version = self.version.api_version();
        Ok(OperationLinks::new(operation, self.subscription, location, version, &self.caller()?))
    }

    /// The way to the next page.
    pub(crate) fn next_page(&self, token: &str) -> Result<String, Refusal> {
        Ok(self.caller()?.next_page(token))
    }

    /// Who makes or changes a resource with this request.
    pub(crate) fn author(&self) -> Result<SystemData, Refusal> {
        let own = || SystemData {
            created_by: Some(self.principal.name().to_owned()),
            created_by_type: Some(self.principal.identity_type()),
            ..SystemData::default()
        };
        if !self.principal.believes_headers() {
            return Ok(own());
        }
        match &self.sent.system_data {
            Some(text) => {
                // By way of an object: a list would be read as well, member by member.
                let read = serde_json::from_str(text).map(Value::Object).and_then(serde_json::from_value);
                read.map_err(|error| {
                    wrong_header(header::SYSTEM_DATA, &format!("could not be read: {error}"))
                })
            }
            None if self.principal.is_arm() => Err(wrong_header(header::SYSTEM_DATA, "is missing")),
            None => Ok(own()),
        }
    }

    /// Where the credentials of a new cluster's identities are fetched.
    pub(crate) fn identity_url(&self, usual: Option<&str>) -> Result<Option<String>, Refusal> {
        let sent = self.sent.identity_url.as_deref().filter(|_| self.principal.believes_headers());
        match sent {
            Some(text) => match Url::parse(text) {
                Ok(url) if url.has_host() => Ok(Some(text.to_owned())),
                _ => Err(wrong_header(header::IDENTITY_URL, "is not a URL with a host")),
            },
            None if self.principal.is_arm() => Err(wrong_header(header::IDENTITY_URL, "is missing")),
            None => Ok(usual.map(str::to_owned)),
        }
    }

    /// Looks at the subscription again, for whoever found that something had changed since.
    pub(crate) async fn refresh(&mut self, app: &App) -> Result<(), Refusal> {
        self.told = admitted(app, self.subscription, &self.principal, &self.method).await?;
        Ok(())
    }

    fn caller(&self) -> Result<Caller, Refusal> {
        let Headers { referer, scheme, host, .. } = &self.sent;
        let seen = || {
            let host = host.as_deref().unwrap_or("localhost");
            Caller::of_request(scheme, host, &format!("{}?{}", self.path, self.query))
        };
        let sent = referer.as_deref().and_then(Caller::of_referer);
        Ok(sent.or_else(seen).ok_or_else(|| {
            CloudError::new(ErrorCode::InvalidParameter, "The header 'Host' does not name a host.")
        })?)
    }

    async fn read(parts: &mut Parts, app: &App, version: Option<Version>) -> Result<Self, Refusal> {
        let received_at = app.clock.now();
        let Spelled(path) = parts.extensions.remove::<Spelled>().ok_or_else(CloudError::path_not_found)?;
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let subscription = path.split('/').nth(2).unwrap_or_default();
        let subscription = subscription.parse().map_err(|_| subscription::unknown(subscription))?;
        let version = match version {
            Some(version) => version,
            None => served(&query)?,
        };
        let context = parts.extensions.get::<Context>().cloned().ok_or_else(CloudError::path_not_found)?;
        let principal = principal(parts);
        let told = admitted(app, subscription, &principal, &parts.method).await?;
        let text = |name: &str| text(&parts.headers, name);
        Ok(Self {
            path,
            query,
            subscription,
            version,
            received_at,
            rules: Rules {
                operator_identities: app.config.operator_identities_required,
                experimental: subscription::is_experimental(&told),
            },
            correlation_id: context.correlation_id().unwrap_or_else(|| context.request_id()).to_owned(),
            context,
            principal,
            tenant_id: text(header::HOME_TENANT_ID).or_else(|| told.tenant_id().map(str::to_owned)),
            client_id: text(header::CLIENT_OBJECT_ID),
            conditions: Conditions::of(&parts.headers)?,
            notification: notification::wanted(&parts.headers, &app.config.notifications)?,
            sent: Headers {
                system_data: text(header::SYSTEM_DATA),
                identity_url: text(header::IDENTITY_URL),
                referer: text(header::REFERER),
                scheme: match text(header::FORWARDED_PROTO).as_deref() {
                    Some("https") => "https",
                    Some("http") => "http",
                    _ if app.config.listener.tls.is_some() => "https",
                    _ => "http",
                },
                host: text(HOST.as_str()),
            },
            told,
            method: parts.method.clone(),
        })
    }
}

impl FromRequestParts<App> for Call {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        Self::read(parts, app, None).await
    }
}

impl FromRequestParts<App> for Unversioned {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        Call::read(parts, app, Some(Version::V20261001)).await.map(Self)
    }
}

/// Who calls. Without a gate before the routes everybody is on this machine.
pub(crate) fn principal(parts: &Parts) -> Principal {
    parts.extensions.get::<Principal>().cloned().unwrap_or_else(Principal::unauthenticated)
}

/// The subscription, if the caller may act on it and if it may do what is asked.
async fn admitted(
    app: &App,
    id: SubscriptionId,
    principal: &Principal,
    method: &Method,
) -> Result<Stored<Subscription>, Refusal> {
    let told = app.records.subscription_get(id).await?;
    if !principal.may_act_on(id, told.as_deref().and_then(Subscription::tenant_id)) {
        return Err(gate::not_allowed(principal, id));
    }
    gate::admit(id, told, method)
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

fn wrong_header(name: &str, problem: &str) -> Refusal {
    let message = format!("The header '{name}' {problem}.");
    CloudError::new(ErrorCode::InvalidParameter, message).with_target(name).into()
}

fn served(query: &str) -> Result<Version, Refusal> {
    let Some(text) = query::parameter(query, "api-version").filter(|text| !text.is_empty()) else {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_versions_are_dates_that_are_served() {
        let code = |query: &str| match served(query) {
            Ok(version) => version.api_version().to_string(),
            Err(Refusal::Said(error)) => error.details().code.clone(),
            Err(other) => panic!("{other}"),
        };
        for (query, expected) in [
            ("api-version=2026-10-01", "2026-10-01"),
            ("x=1&api-version=2024-06-10-preview&api-version=2.0", "2024-06-10-preview"),
            ("api%2Dversion=2026-10-01", "2026-10-01"),
            ("", "InvalidParameter"),
            ("api-version=", "InvalidParameter"),
            ("api-version", "InvalidParameter"),
            ("API-version=2026-10-01", "InvalidParameter"),
            ("api-version=2026-10-01-preview", "InvalidResourceType"),
            ("api-version=2020-01-01", "InvalidResourceType"),
            ("api-version=2.0", "InvalidResourceType"),
            ("api-version=2026-10-01%20", "InvalidResourceType"),
            ("api-version=%00", "InvalidResourceType"),
        ] {
            assert_eq!(code(query), expected, "{query}");
        }
    }
}
