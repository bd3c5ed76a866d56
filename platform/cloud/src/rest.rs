//! Methods to calls. One handler for all paths: what a path means depends on its length and is the same in any case,
//! which is not what a router matches by.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use axum::{Extension, Json, Router};
use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use pilothouse_arm::{ApiVersion, Page, ResourceId, header};
use pilothouse_http::{AllowedCallers, Context, Peer};
use pilothouse_store::Continue;
use serde_json::{Map, Value};

use crate::condition::Condition;
use crate::health::StoreState;
use crate::provider::Kind;
use crate::refusal::Refusal;
use crate::resources::{Listed, Put, Resources, Slice};
use crate::target::Target;
use crate::vault::Addresses;

/// What everybody is answered with.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    pub(crate) resources: Resources,
    /// How this server is reached, for whoever does not say.
    pub(crate) scheme: &'static str,
    pub(crate) local_address: SocketAddr,
    pub(crate) secret_readers: Arc<AllowedCallers>,
    pub(crate) store: StoreState,
}

/// All paths.
pub(crate) fn router(rest: Rest) -> Router {
    Router::new().route("/{*path}", any(handle)).with_state(rest)
}

async fn handle(
    State(rest): State<Rest>,
    Extension(context): Extension<Context>,
    Extension(peer): Extension<Peer>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let own = rest.local_address.to_string();
    let addresses = Addresses::of(rest.scheme, &headers, &uri, &own);
    let request = Request { method, uri, headers, body, peer, addresses };
    let answer = Box::pin(rest.answer(&request)).await;
    rest.store.note(answer.as_ref().err());
    answer.unwrap_or_else(|refusal| refusal.answer(&context))
}

/// What was asked, and by whom.
struct Request {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    peer: Peer,
    addresses: Addresses,
}

/// How many things a list has at most, and unless it is said.
const PAGE: usize = 1000;

impl Rest {
    async fn answer(&self, request: &Request) -> Result<Response, Refusal> {
        let target = Target::of(request.uri.path())?;
        if let Target::Secret { vault, name, version } = target {
            return self.secret(request, &vault, &name, version.as_deref()).await;
        }
        request.check_api_version()?;
        let condition = Condition::of(&request.headers)?;
        if request.method == Method::GET
            && let Some(list) = self.list(request, &target).await?
        {
            return Ok(list);
        }
        let resources = &self.resources;
        match (&request.method, target) {
            (&Method::GET | &Method::HEAD, Target::Group(id)) => {
                Ok(request.one(StatusCode::OK, resources.group_get(&id).await?))
            }
            (&Method::PUT, Target::Group(id)) => {
                Ok(request.put(resources.group_put(&id, object(&request.body)?, &condition).await?))
            }
            (&Method::DELETE, Target::Group(id)) => {
                Ok(deleted(resources.group_delete(&id, &condition).await?))
            }
            (&Method::GET | &Method::HEAD, Target::Resource { id, .. }) => {
                Ok(request.one(StatusCode::OK, resources.resource_get(&id).await?))
            }
            (&Method::PUT, Target::Resource { group, id }) => {
                let name = id.resource_type();
                let kind = Kind::of(name.as_str()).ok_or_else(|| Refusal::UnknownType(name.to_string()))?;
                let body = object(&request.body)?;
                Ok(request.put(resources.resource_put(&group, &id, kind, body, &condition).await?))
            }
            (&Method::DELETE, Target::Resource { group, id }) => {
                let kind = Kind::of(id.resource_type().as_str());
                if kind.is_some_and(|kind| !kind.can_be_deleted()) {
                    return Err(Refusal::Method);
                }
                Ok(deleted(resources.resource_delete(&group, &id, &condition).await?))
            }
            _ => Err(Refusal::Method),
        }
    }

    /// The list at a path; none if there is something else.
    async fn list(&self, request: &Request, target: &Target) -> Result<Option<Response>, Refusal> {
        let resources = &self.resources;
        let known = |kind: &str| Kind::of(kind).ok_or_else(|| Refusal::UnknownType(kind.to_owned()));
        let slice = request.slice()?;
        let listed = match target {
            Target::Groups { subscription } => resources.group_list(subscription, slice).await?,
            Target::Content { subscription, kind } => {
                let kind = kind.as_deref().map(known).transpose()?;
                resources.subscription_list(subscription, kind, slice).await?
            }
            Target::GroupContent(group) => resources.resource_list(group, None, slice).await?,
            Target::OfType { group, kind } => {
                resources.resource_list(group, Some(known(kind)?), slice).await?
            }
            Target::Below { parent, kind } => {
                // Two words for everything in a zone.
                let everything = ["recordsets", "all"].iter().any(|word| word.eq_ignore_ascii_case(kind));
                let kind = format!("{}/{kind}", parent.resource_type());
                let kind = if everything { None } else { Some(known(&kind)?) };
                resources.child_list(parent, kind, slice).await?
            }
            Target::Group(_) | Target::Resource { .. } | Target::Secret { .. } => return Ok(None),
        };
        request.page(listed).map(Some)
    }

    /// What a secret says, at its vault's own address.
    async fn secret(
        &self,
        request: &Request,
        vault: &ResourceId,
        name: &str,
        version: Option<&str>,
    ) -> Result<Response, Refusal> {
        if request.method != Method::GET {
            return Err(Refusal::Method);
        }
        let may_read = match request.peer.identity() {
            Some(identity) => self.secret_readers.admit(identity),
            None => self.local_address.ip().to_canonical().is_loopback(),
        };
        if !may_read {
            return Err(Refusal::NotForYou);
        }
        // Vaults' own versions are numbers.
        if request.parameter("api-version").is_none() {
            return Err(Refusal::ApiVersion);
        }
        let id = vault.child("secrets", name);
        let sealed = self.resources.secret_get(&id).await?;
        if version.is_some_and(|version| version != sealed.version) {
            return Err(Refusal::NotFound(id));
        }
        let told = request.addresses.told(vault, name, &sealed);
        Ok(([(CACHE_CONTROL, "no-store")], Json(told)).into_response())
    }
}

impl Request {
    fn parameter(&self, name: &str) -> Option<String> {
        let pairs = url::form_urlencoded::parse(self.uri.query().unwrap_or_default().as_bytes());
        let mut found = pairs.filter(|(found, _)| found.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.into_owned())
    }

    fn check_api_version(&self) -> Result<(), Refusal> {
        match self.parameter("api-version").map(|version| version.parse::<ApiVersion>()) {
            Some(Ok(_)) => Ok(()),
            Some(Err(_)) | None => Err(Refusal::ApiVersion),
        }
    }

    fn slice(&self) -> Result<Slice, Refusal> {
        let top = match self.parameter("$top").map(|top| top.parse::<usize>()) {
            None => PAGE,
            Some(Ok(top)) if (1..=PAGE).contains(&top) => top,
            Some(_) => return Err(Refusal::Top(PAGE)),
        };
        let from = self.parameter("$skipToken").map(|token| Continue::try_from_text(&token));
        Ok(Slice { top, from: from.transpose().map_err(|_| Refusal::SkipToken)? })
    }

    fn put(&self, (put, shown): (Put, Value)) -> Response {
        let status = match put {
            Put::Created => StatusCode::CREATED,
            Put::Replaced => StatusCode::OK,
        };
        self.one(status, shown)
    }

    /// A resource, and which state of it this is.
    fn one(&self, status: StatusCode, mut shown: Value) -> Response {
        self.addresses.complete(&mut shown);
        let etag = shown["etag"].as_str().and_then(|etag| HeaderValue::from_str(&format!("\"{etag}\"")).ok());
        let mut response = (status, Json(shown)).into_response();
        if let Some(etag) = etag {
            response.headers_mut().insert(header::ETAG, etag);
        }
        response
    }

    fn page(&self, listed: Listed) -> Result<Response, Refusal> {
        let Listed { mut value, next } = listed;
        value.iter_mut().for_each(|shown| self.addresses.complete(shown));
        let token = next.map(|next| next.to_text()).transpose()?;
        let next_link = token.and_then(|token| Some(self.addresses.caller(&self.uri)?.next_page(&token)));
        Ok(Json(Page { value, next_link }).into_response())
    }
}

/// The body without what only the cloud may say.
fn object(body: &Bytes) -> Result<Map<String, Value>, Refusal> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(mut members)) => {
            for decided in ["id", "name", "type", "etag"] {
                members.remove(decided);
            }
            match members.get("properties") {
                None | Some(Value::Object(_)) => {}
                // As good as not said.
                Some(Value::Null) => drop(members.remove("properties")),
                Some(_) => return Err(Refusal::Body("`properties` is not an object".to_owned())),
            }
            Ok(members)
        }
        Ok(_) => Err(Refusal::Body("it is not an object".to_owned())),
        Err(error) => Err(Refusal::Body(error.to_string())),
    }
}

fn deleted(existed: bool) -> Response {
    if existed { StatusCode::OK } else { StatusCode::NO_CONTENT }.into_response()
}
