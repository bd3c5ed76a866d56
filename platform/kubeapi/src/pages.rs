//! Everything that is no object: version, health, discovery, OpenAPI, keys.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Value, json};

use crate::answer;
use crate::catalogue::Catalogue;
use crate::request::{RequestInfo, Verb};
use crate::server::Server;
use crate::status::Failure;
use crate::{discovery, health, openapi, version};

pub(crate) async fn handle(
    server: &Server,
    info: &RequestInfo,
    headers: &HeaderMap,
) -> Result<Response, Failure> {
    if info.verb != Verb::Get {
        return Err(Failure::method_not_allowed());
    }
    match health::handle(server, info).await {
        Some(answer) => answer,
        None => document(server, info, headers),
    }
}

fn document(server: &Server, info: &RequestInfo, headers: &HeaderMap) -> Result<Response, Failure> {
    let catalogue = server.catalogue.load();
    let segments: Vec<&str> = info.path.split('/').filter(|segment| !segment.is_empty()).collect();
    let found = |value: Option<Value>| value.ok_or_else(Failure::no_such_path);
    match segments.as_slice() {
        [] => Ok(answer::json(StatusCode::OK, &root(&catalogue))),
        ["version"] => Ok(answer::json(StatusCode::OK, &version::page(&server.config.version))),
        ["api"] if aggregated(headers) => Ok(cached(&discovery::aggregated(&catalogue, true), headers, true)),
        ["apis"] if aggregated(headers) => {
            Ok(cached(&discovery::aggregated(&catalogue, false), headers, true))
        }
        ["api"] => {
            let address = server.config.advertise.map(|address| address.to_string()).unwrap_or_default();
            Ok(cached(&discovery::api_versions(&catalogue, &address), headers, false))
        }
        ["apis"] => Ok(cached(&discovery::api_group_list(&catalogue), headers, false)),
        ["apis", group] => Ok(match discovery::api_group(&catalogue, group) {
            Some(group) => cached(&group, headers, false),
            None => answer::no_page(),
        }),
        ["api", version] => {
            Ok(cached(&found(discovery::api_resource_list(&catalogue, "", version))?, headers, false))
        }
        ["apis", group, version] => {
            Ok(cached(&found(discovery::api_resource_list(&catalogue, group, version))?, headers, false))
        }
        ["openapi", "v2"] if !accepts_json(headers) => Err(Failure::not_acceptable()),
        ["openapi", "v2"] => Ok(cached_text(openapi::second::document(&catalogue), headers)),
        ["openapi", "v3"] => Ok(cached(&openapi::index(&catalogue), headers, false)),
        ["openapi", "v3", rest @ ..] => openapi_document(&catalogue, &rest.join("/"), info, headers),
        ["openid", "v1", "jwks"] => Ok(answer::json(StatusCode::OK, &server.tokens.key_set())),
        [".well-known", "openid-configuration"] => {
            let issuer = server.tokens.issuer();
            let base = server.config.external_url.as_deref().unwrap_or(issuer);
            let document = json!({
                "issuer": issuer,
                "jwks_uri": format!("{}/openid/v1/jwks", base.trim_end_matches('/')),
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": [server.tokens.key_set()["keys"][0]["alg"]],
            });
            Ok(answer::json(StatusCode::OK, &document))
        }
        _ => Ok(answer::no_page()),
    }
}

fn root(catalogue: &Catalogue) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for group in catalogue.groups().iter().filter(|group| !group.name.is_empty()) {
        paths.push(format!("/apis/{}", group.name));
        paths.extend(group.versions.iter().map(|version| format!("/apis/{}/{version}", group.name)));
    }
    paths.extend(
        ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/openid/v1/jwks", "/readyz", "/version"]
            .map(String::from),
    );
    json!({ "paths": paths })
}

fn aggregated(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|clause| {
        let parts: Vec<_> = clause.split(';').map(str::trim).collect();
        ["application/json", "g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"]
            .iter()
            .all(|part| parts.contains(part))
    })
}

/// Clients written in Go ask for a form of version 2 that is not served; they have version 3.
fn accepts_json(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
    accept.split(',').any(|clause| {
        let media = clause.split(';').next().unwrap_or_default().trim();
        matches!(media, "" | "*/*" | "application/*" | answer::JSON)
    })
}

/// A document that clients keep and ask about by its tag.
fn cached(document: &Value, headers: &HeaderMap, aggregated: bool) -> Response {
    let mut response = cached_text(answer::encode(document), headers);
    if aggregated {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(discovery::AGGREGATED));
    }
    response
}

fn cached_text(text: Bytes, headers: &HeaderMap) -> Response {
    let tag = discovery::entity_tag(&text);
    let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let mut response = if known.is_some_and(|known| known.split(',').any(|one| one.trim() == tag)) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        answer::document(StatusCode::OK, text)
    };
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

fn openapi_document(
    catalogue: &Catalogue,
    path: &str,
    info: &RequestInfo,
    headers: &HeaderMap,
) -> Result<Response, Failure> {
    let (document, hash) = openapi::document(catalogue, path).ok_or_else(Failure::no_such_path)?;
    let mut response = cached(&document, headers, false);
    match info.query.get("hash") {
        Some(known) if known == hash => {
            let immutable = HeaderValue::from_static("public, immutable, max-age=31536000");
            response.headers_mut().insert(CACHE_CONTROL, immutable);
        }
        // The client's index is old; the document it names is elsewhere now.
        Some(_) => {
            *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
            if let Ok(location) = HeaderValue::from_str(&format!("/openapi/v3/{path}?hash={hash}")) {
                response.headers_mut().insert(LOCATION, location);
            }
        }
        None => {}
    }
    Ok(response)
}
