//! Methods to calls. One handler for all paths: what a path means depends on its length and is the same in any case,
//! which is not what a router matches by.

use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use axum::{Extension, Json, Router};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use pilothouse_arm::{ApiVersion, Page, header};
use pilothouse_http::Context;
use serde_json::{Map, Value};

use crate::condition::Condition;
use crate::provider::Kind;
use crate::refusal::Refusal;
use crate::resources::{Put, Resources};
use crate::target::Target;

/// All paths.
pub(crate) fn router(resources: Resources) -> Router {
    Router::new().route("/{*path}", any(handle)).with_state(resources)
}

async fn handle(
    State(resources): State<Resources>,
    Extension(context): Extension<Context>,
    method: Method,
    uri: Uri,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let request = Request { method, path: uri.path(), query: query.as_deref(), headers, body };
    match answer(&resources, &request).await {
        Ok(response) => response,
        Err(refusal) => refusal.answer(&context),
    }
}

/// What was asked.
struct Request<'a> {
    method: Method,
    path: &'a str,
    query: Option<&'a str>,
    headers: HeaderMap,
    body: Bytes,
}

async fn answer(resources: &Resources, request: &Request<'_>) -> Result<Response, Refusal> {
    let target = Target::of(request.path).ok_or(Refusal::NoSuchPath)?;
    check_api_version(request.query)?;
    let condition = Condition::of(&request.headers)?;
    match (&request.method, target) {
        (&Method::GET, Target::Groups { subscription }) => {
            Ok(page(resources.group_list(&subscription).await?))
        }
        (&Method::GET | &Method::HEAD, Target::Group(id)) => {
            Ok(one(StatusCode::OK, resources.group_get(&id).await?))
        }
        (&Method::PUT, Target::Group(id)) => {
            Ok(put(resources.group_put(&id, object(&request.body)?, &condition).await?))
        }
        (&Method::DELETE, Target::Group(id)) => Ok(deleted(resources.group_delete(&id, &condition).await?)),
        (&Method::GET, Target::GroupContent(group)) => Ok(page(resources.resource_list(&group, None).await?)),
        (&Method::GET, Target::OfType { group, kind }) => {
            let kind = Kind::of(&kind).ok_or(Refusal::UnknownType(kind))?;
            Ok(page(resources.resource_list(&group, Some(kind)).await?))
        }
        (&Method::GET, Target::Below { parent, kind }) => {
            // Two words for everything in a zone.
            if ["recordsets", "all"].iter().any(|word| word.eq_ignore_ascii_case(&kind)) {
                return Ok(page(resources.child_list(&parent, None).await?));
            }
            let kind = format!("{}/{kind}", parent.resource_type());
            let kind = Kind::of(&kind).ok_or(Refusal::UnknownType(kind))?;
            Ok(page(resources.child_list(&parent, Some(kind)).await?))
        }
        (&Method::GET | &Method::HEAD, Target::Resource { id, .. }) => {
            Ok(one(StatusCode::OK, resources.resource_get(&id).await?))
        }
        (&Method::PUT, Target::Resource { group, id }) => {
            let name = id.resource_type();
            let kind = Kind::of(name.as_str()).ok_or_else(|| Refusal::UnknownType(name.to_string()))?;
            let body = object(&request.body)?;
            Ok(put(resources.resource_put(&group, &id, kind, body, &condition).await?))
        }
        (&Method::DELETE, Target::Resource { group, id }) => {
            Ok(deleted(resources.resource_delete(&group, &id, &condition).await?))
        }
        _ => Err(Refusal::Method),
    }
}

fn check_api_version(query: Option<&str>) -> Result<(), Refusal> {
    let given = query.unwrap_or_default().split('&').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.eq_ignore_ascii_case("api-version").then_some(value)
    });
    match given.map(str::parse::<ApiVersion>) {
        Some(Ok(_)) => Ok(()),
        Some(Err(_)) | None => Err(Refusal::ApiVersion),
    }
}

/// The body without what only the cloud may say.
fn object(body: &Bytes) -> Result<Map<String, Value>, Refusal> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(mut members)) => {
            for decided in ["id", "name", "type", "etag"] {
                members.remove(decided);
            }
            Ok(members)
        }
        Ok(_) => Err(Refusal::Body("it is not an object".to_owned())),
        Err(error) => Err(Refusal::Body(error.to_string())),
    }
}

fn put((put, shown): (Put, Value)) -> Response {
    let status = match put {
        Put::Created => StatusCode::CREATED,
        Put::Replaced => StatusCode::OK,
    };
    one(status, shown)
}

/// A resource, and which state of it this is.
fn one(status: StatusCode, shown: Value) -> Response {
    let etag = shown["etag"].as_str().and_then(|etag| HeaderValue::from_str(&format!("\"{etag}\"")).ok());
    let mut response = (status, Json(shown)).into_response();
    if let Some(etag) = etag {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}

fn deleted(existed: bool) -> Response {
    if existed { StatusCode::OK } else { StatusCode::NO_CONTENT }.into_response()
}

fn page(value: Vec<Value>) -> Response {
    Json(Page { value, next_link: None }).into_response()
}
