//! What all requests share, and the way of one request through it.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use pilothouse_http::{Peer, Route};
use pilothouse_runtime::{Clock, Shutdown, Tasks};

use crate::admission::Quotas;
use crate::authentication::{self, User};
use crate::authorization::{Attributes, Authorizer, ResourceAttributes, node_name, reason_for_node};
use crate::catalogue::{Catalogue, Resource};
use crate::config::Config;
use crate::metrics::Metrics;
use crate::pods::Kubelets;
use crate::request::{Address, RequestInfo, Target, Verb};
use crate::services::Allocator;
use crate::static_tokens::StaticTokens;
use crate::status::Failure;
use crate::storage::Storage;
use crate::token_issuers::TokenIssuers;
use crate::tokens::Tokens;
use crate::{answer, connect, pages, verbs};

/// As upstream.
const LARGEST_BODY: usize = 3 << 20;
/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) shutdown: Shutdown,
    pub(crate) tasks: Tasks,
    pub(crate) storage: Storage,
    pub(crate) built_in: Catalogue,
    pub(crate) catalogue: ArcSwap<Catalogue>,
    pub(crate) tokens: Tokens,
    pub(crate) static_tokens: StaticTokens,
    pub(crate) token_issuers: TokenIssuers,
    pub(crate) authorizer: Authorizer,
    pub(crate) kubelets: Kubelets,
    pub(crate) allocator: Allocator,
    pub(crate) quotas: Quotas,
    pub(crate) metrics: Metrics,
}

/// A request to a resource, understood and allowed.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) server: Arc<Server>,
    pub(crate) user: User,
    pub(crate) info: RequestInfo,
    pub(crate) address: Address,
    pub(crate) resource: Arc<Resource>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Server {
    /// A kind that is always there.
    pub(crate) fn built_in(&self, group: &str, plural: &str) -> Result<Arc<Resource>, Failure> {
        self.built_in
            .resources()
            .find(|resource| resource.is(group, plural))
            .cloned()
            .ok_or_else(|| Failure::internal(format!("`{plural}` is not served")))
    }
}

pub(crate) async fn handle(State(server): State<Arc<Server>>, mut request: Request) -> Response {
    let yaml = answer::wants_yaml(request.headers());
    if yaml {
        // It is made from JSON, at the very end.
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(answer::JSON));
    }
    let path = request.uri().path();
    let info = RequestInfo::parse(request.method(), path, request.uri().query());
    let route = match (&info.target, info.verb.as_str()) {
        (Target::Path, _) => Route::named("path"),
        (Target::Resource(_), verb) => Route::named(verb),
    };
    let yaml = yaml && info.verb != Verb::Watch;
    let mut response = match answered(server, request, info).await {
        Ok(response) => response,
        Err(failure) => answer::failure(&failure),
    };
    if yaml {
        response = answer::in_yaml(response).await;
    }
    response.extensions_mut().insert(route);
    response
}

async fn answered(server: Arc<Server>, request: Request, info: RequestInfo) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let user =
        authentication::authenticate(&server, parts.extensions.get::<Peer>(), &parts.headers, &info.path)
            .await?;
    authorized(&server, &user, &info, parts.method.as_str())?;
    let address = match &info.target {
        Target::Path => return pages::handle(&server, &info, &parts.headers).await,
        Target::Resource(address) => address.clone(),
    };
    let resource = server.catalogue.load().find(&address.group, &address.version, &address.plural).cloned();
    let Some(resource) = resource else {
        // Groups of definitions come and go, and leave nothing behind.
        return match server.built_in.resources().any(|one| one.group == address.group) {
            true => Err(Failure::no_such_path()),
            false => Ok(answer::no_page()),
        };
    };
    let scoped = address.namespace.is_some() && !resource.is("", "namespaces");
    if scoped && !resource.namespaced {
        return Err(Failure::no_such_path());
    }
    if connect::is_wanted(&address) {
        return connect::handle(&server, &info, &address, &resource, (parts, body)).await;
    }
    if !matches!(
        parts.method,
        Method::GET | Method::HEAD | Method::POST | Method::PUT | Method::PATCH | Method::DELETE
    ) {
        return Err(Failure::method_not_allowed());
    }
    let body = read(body).await?;
    let call = Call { server, user, info, address, resource, headers: parts.headers, body };
    verbs::handle(call).await
}

fn authorized(server: &Server, user: &User, info: &RequestInfo, method: &str) -> Result<(), Failure> {
    let lower = method.to_ascii_lowercase();
    let attributes = match &info.target {
        Target::Path => Attributes::Path { verb: &lower, path: &info.path },
        Target::Resource(address) => Attributes::Resource(ResourceAttributes {
            verb: info.verb.as_str(),
            group: &address.group,
            resource: &address.plural,
            subresource: address.subresource.as_deref(),
            namespace: address.namespace.as_deref(),
            name: address.name.as_deref(),
            fields: info.query.get("fieldSelector"),
        }),
    };
    if server.authorizer.allows(server.storage.cache(), user, &attributes) {
        return Ok(());
    }
    server.metrics.denied.inc();
    Err(match attributes {
        Attributes::Path { verb, path } => Failure::new(
            403,
            "Forbidden",
            format!("forbidden: User \"{}\" cannot {verb} path \"{path}\"", user.name),
        )
        .with_details(crate::status::Details::default()),
        Attributes::Resource(wanted) => denied(user, &wanted),
    })
}

/// In the words that everybody knows how to search for.
fn denied(user: &User, wanted: &ResourceAttributes<'_>) -> Failure {
    let mut resource = wanted.resource.to_owned();
    let qualified =
        if wanted.group.is_empty() { resource.clone() } else { format!("{resource}.{}", wanted.group) };
    if let Some(subresource) = wanted.subresource {
        resource.push('/');
        resource.push_str(subresource);
    }
    let name = wanted.name.map(|name| format!(" \"{name}\"")).unwrap_or_default();
    let scope = wanted.namespace.map_or_else(
        || "at the cluster scope".to_owned(),
        |namespace| format!("in the namespace \"{namespace}\""),
    );
    let mut message = format!(
        "{qualified}{name} is forbidden: User \"{}\" cannot {} resource \"{resource}\" in API group \"{}\" {scope}",
        user.name, wanted.verb, wanted.group
    );
    if let Some(reason) = node_name(user).and_then(|node| reason_for_node(node, wanted)) {
        message.push_str(": ");
        message.push_str(&reason);
    }
    Failure::new(403, "Forbidden", message).with_details(crate::status::Details {
        name: wanted.name.unwrap_or_default().to_owned(),
        group: wanted.group.to_owned(),
        kind: wanted.resource.to_owned(),
        ..crate::status::Details::default()
    })
}

async fn read(body: axum::body::Body) -> Result<Bytes, Failure> {
    let collected = tokio::time::timeout(BODY_TIME, Limited::new(body, LARGEST_BODY).collect()).await;
    match collected {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Failure::too_large(LARGEST_BODY)),
        Ok(Err(_)) => Err(Failure::bad_request("the body could not be read")),
        Err(_) => Err(Failure::timeout("the body did not arrive in time")),
    }
}
