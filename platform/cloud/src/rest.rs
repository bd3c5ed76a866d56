//! Methods to calls. One handler for all paths: what a path means depends on its length and is the same in any case,
//! which is not what a router matches by.

use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use axum::{Extension, Json, Router};
use http::{Method, StatusCode, Uri};
use pilothouse_arm::{ApiVersion, Page};
use pilothouse_http::Context;
use serde_json::{Map, Value};

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
    body: Bytes,
) -> Response {
    match answer(&resources, &method, uri.path(), query.as_deref(), &body).await {
        Ok(response) => response,
        Err(refusal) => refusal.answer(&context),
    }
}

async fn answer(
    resources: &Resources,
    method: &Method,
    path: &str,
    query: Option<&str>,
    body: &Bytes,
) -> Result<Response, Refusal> {
    let target = Target::of(path).ok_or(Refusal::NoSuchPath)?;
    check_api_version(query)?;
    match (method, target) {
        (&Method::GET, Target::Groups { subscription }) => {
            Ok(page(resources.group_list(&subscription).await?))
        }
        (&Method::GET | &Method::HEAD, Target::Group(id)) => {
            Ok(Json(resources.group_get(&id).await?).into_response())
        }
        (&Method::PUT, Target::Group(id)) => Ok(put(resources.group_put(&id, object(body)?).await?)),
        (&Method::DELETE, Target::Group(id)) => Ok(deleted(resources.group_delete(&id).await?)),
        (&Method::GET, Target::GroupContent(group)) => Ok(page(resources.resource_list(&group, None).await?)),
        (&Method::GET, Target::OfType { group, kind }) => {
            let kind = Kind::of(&kind).ok_or(Refusal::UnknownType(kind))?;
            Ok(page(resources.resource_list(&group, Some(kind)).await?))
        }
        (&Method::GET | &Method::HEAD, Target::Resource { id, .. }) => {
            Ok(Json(resources.resource_get(&id).await?).into_response())
        }
        (&Method::PUT, Target::Resource { group, id }) => {
            let name = id.resource_type();
            let kind = Kind::of(name.as_str()).ok_or_else(|| Refusal::UnknownType(name.to_string()))?;
            Ok(put(resources.resource_put(&group, &id, kind, object(body)?).await?))
        }
        (&Method::DELETE, Target::Resource { id, .. }) => Ok(deleted(resources.resource_delete(&id).await?)),
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
            for decided in ["id", "name", "type"] {
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
    (status, Json(shown)).into_response()
}

fn deleted(existed: bool) -> Response {
    if existed { StatusCode::OK } else { StatusCode::NO_CONTENT }.into_response()
}

fn page(value: Vec<Value>) -> Response {
    Json(Page { value, next_link: None }).into_response()
}
