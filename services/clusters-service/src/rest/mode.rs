//! Whether a request that writes is carried out, or only tried.
//!
//! A reader may ignore a parameter that it does not know. A writer must not: whoever sends one wants something else to be
//! done, and would be told that it was.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{FromRequestParts, MatchedPath};
use axum::response::{IntoResponse, Response};
use http::Method;
use http::request::Parts;
use pilothouse_http::Context;

use super::{Rest, pairs};
use crate::clusters::Mode;
use crate::refusal::Refusal;

/// The path below each base that deletes a cluster, which knows more than the others.
const CLUSTER: &str = "/clusters/{cluster}";

impl FromRequestParts<Arc<Rest>> for Mode {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, rest: &Arc<Rest>) -> Result<Self, Response> {
        let path = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
        let deletes_cluster = parts.method == Method::DELETE && path.ends_with(CLUSTER);
        let mode = mode(parts.uri.query(), deletes_cluster);
        let Extension(context) = Extension::<Context>::from_request_parts(parts, rest)
            .await
            .map_err(IntoResponse::into_response)?;
        mode.map_err(|refusal| rest.refuse(&context, refusal))
    }
}

fn mode(query: Option<&str>, deletes_cluster: bool) -> Result<Mode, Refusal> {
    let mut mode = Mode::Create;
    for (name, value) in pairs(query) {
        match (name.as_str(), value.as_str()) {
            ("dryRun", "true") => mode = Mode::DryRun,
            ("dryRun", "false") => {}
            ("dryRun", other) => {
                let problem = format!("`{other}` is neither `true` nor `false`");
                return Err(Refusal::Query { name: "dryRun", problem });
            }
            // What the handler itself reads.
            ("best_effort", _) if deletes_cluster => {}
            // What is done anyway.
            ("deprovision", "true") if deletes_cluster => {}
            ("deprovision", _) if deletes_cluster => {
                let problem =
                    "a cluster is not forgotten while what it is made of stays; leave it out".to_owned();
                return Err(Refusal::Query { name: "deprovision", problem });
            }
            _ => return Err(Refusal::Parameter(name)),
        }
    }
    Ok(mode)
}
