//! The same check for a proxy in front: a mesh asks here before it lets a request through.
//!
//! The question is the request itself without its body: method, path and headers as they came. A proxy that cannot keep
//! them puts the original into `X-Original-Method` and `X-Original-Uri` (or `X-Forwarded-Method` and
//! `X-Forwarded-Uri`). A path may be below `/authorize`, for proxies that want a prefix. The answer is 200 with the
//! headers that the request is to go on with, or the refusal as the caller is to see it. `X-Envoy-Auth-Headers-To-Remove`
//! names what must not go on.
//!
//! Whoever can ask may try out credentials, so this belongs on an internal listener.

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use pilothouse_http::{Context, Peer};

use crate::audit::Record;
use crate::gate::{Gate, Refused};
use crate::headers;

const PREFIX: &str = "/authorize";
const TO_REMOVE: HeaderName = HeaderName::from_static("x-envoy-auth-headers-to-remove");

/// Answers whether requests described to it may pass this gate.
pub fn authorize(gate: Gate) -> Router {
    Router::new().fallback(decide).with_state(gate)
}

async fn decide(State(gate): State<Gate>, request: Request) -> Response {
    let (method, path) = original(&request);
    let context = request.extensions().get::<Context>();
    // Who asks is the proxy: its certificate says nothing about whom it asks for.
    let (principal, allowed) = gate.decide(&method, &path, request.headers(), None).await;
    let now = gate.access().clock().now();
    let mut record = Record::new(&method, &path, request.headers(), now)
        .by(principal.as_ref(), request.extensions().get::<Peer>())
        .within(context);
    let response = match (principal, allowed) {
        (Some(principal), Ok(())) if principal.believes_headers() => StatusCode::OK.into_response(),
        (Some(principal), Ok(())) => {
            let mut answer = HeaderMap::from_iter(headers::derived(&principal, now));
            let dropped: Vec<_> = headers::identity_headers(request.headers())
                .into_iter()
                .filter(|name| !answer.contains_key(name))
                .map(|name| name.as_str().to_owned())
                .collect();
            if let Ok(names) = HeaderValue::from_str(&dropped.join(","))
                && !dropped.is_empty()
            {
                answer.insert(TO_REMOVE, names);
            }
            (StatusCode::OK, answer).into_response()
        }
        (_, Err(refused)) => {
            record = record.refused(&refused);
            refused.into_response()
        }
        // Cannot happen: whoever is allowed is known.
        (None, Ok(())) => Refused::Denied(crate::Denial::KeysUnavailable).into_response(),
    };
    gate.audit().record(record.answered(&response));
    response
}

/// The request that is asked about.
fn original(request: &Request) -> (Method, String) {
    let said =
        |names: [&str; 2]| names.into_iter().find_map(|name| request.headers().get(name)?.to_str().ok());
    let method = said(["x-original-method", "x-forwarded-method"])
        .and_then(|method| method.parse().ok())
        .unwrap_or_else(|| request.method().clone());
    let path = said(["x-original-uri", "x-forwarded-uri"])
        .and_then(|uri| Some(uri.parse::<Uri>().ok()?.path().to_owned()))
        .unwrap_or_else(|| {
            let path = request.uri().path();
            path.strip_prefix(PREFIX).filter(|rest| rest.starts_with('/')).unwrap_or(path).to_owned()
        });
    (method, path)
}
