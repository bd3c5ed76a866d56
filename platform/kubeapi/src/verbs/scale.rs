//! `…/scale`: the number of replicas of anything that has one, in the same place for all of them.

use axum::response::Response;
use http::StatusCode;
use serde_json::Value;

use super::create::Fields;
use super::update::{self, Change};
use crate::answer;
use crate::patch::PatchKind;
use crate::request::Verb;
use crate::server::Call;
use crate::status::Failure;
use crate::strategy::scale;

pub(super) async fn get(call: &Call) -> Result<Response, Failure> {
    let stored = super::existing(call).await?;
    Ok(answer::json(StatusCode::OK, &shown(call, &stored.value)?))
}

pub(super) async fn change(call: &Call) -> Result<Response, Failure> {
    let manager = call.manager()?;
    let change = Change {
        resource: &call.resource,
        subresource: Some("scale"),
        fields: Fields::Of(&manager),
        dry_run: call.dry_run()?,
        user: &call.user,
    };
    for _ in 0..super::ATTEMPTS {
        let stored = super::existing(call).await?;
        let old = shown(call, &stored.value)?;
        let new = if call.info.verb == Verb::Update { call.body_value()? } else { patched(call, &old)? };
        let version = new["metadata"]["resourceVersion"].as_str().filter(|version| !version.is_empty());
        if version.is_some_and(|version| stored.value["metadata"]["resourceVersion"] != version) {
            return Err(Failure::modified(&call.resource, call.name()));
        }
        let object = scale::merge(&call.resource, &stored.value, &new)?;
        if let Some(written) = update::write(&call.server, &change, &stored, object).await? {
            return Ok(answer::json(StatusCode::OK, &shown(call, &written)?));
        }
    }
    Err(Failure::modified(&call.resource, call.name()))
}

fn patched(call: &Call, scale: &Value) -> Result<Value, Failure> {
    let body: Value = serde_json::from_slice(&call.body)
        .map_err(|error| Failure::bad_request(format!("error decoding patch: {error}")))?;
    let mut scale = scale.clone();
    match PatchKind::from_media_type(call.media_type()) {
        // There are no lists in it, so both merge alike.
        Some(PatchKind::Merge | PatchKind::Strategic) => json_patch::merge(&mut scale, &body),
        Some(PatchKind::Json) => {
            let operations: json_patch::Patch = serde_json::from_value(body)
                .map_err(|error| Failure::bad_request(format!("error decoding patch: {error}")))?;
            json_patch::patch(&mut scale, &operations)
                .map_err(|error| Failure::bad_request(format!("the patch cannot be applied: {error}")))?;
        }
        _ => {
            let known = [PatchKind::Json.media_type(), PatchKind::Merge.media_type()];
            return Err(Failure::unsupported_media_type(&known));
        }
    }
    Ok(scale)
}

fn shown(call: &Call, object: &Value) -> Result<Value, Failure> {
    scale::view(&call.resource, object).ok_or_else(Failure::no_such_path)
}
