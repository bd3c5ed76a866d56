//! Changing an object by describing the change.
//!
//! Four languages: RFC 6902 operations, RFC 7386 merge, Kubernetes' strategic merge (built-in kinds only), and
//! server-side apply. All are functions of the current object; whoever stores runs them again when the object changed in
//! between. What a patch makes of server-owned fields does not matter: `strategy` restores those afterwards.

use jiff::Timestamp;
use serde_json::Value;

use crate::catalogue::Resource;
use crate::status::{Cause, Failure};

mod apply;
mod field_set;
pub(crate) mod managed_fields;
mod shape;
mod strategic;
#[cfg(test)]
mod tests;

/// Upstream's limit; a longer list is a mistake or an attack.
const MOST_OPERATIONS: usize = 10_000;

/// The language of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// A patch as it came in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patch<'a> {
    pub(crate) kind: PatchKind,
    pub(crate) body: &'a [u8],
    /// Through which subresource it came.
    pub(crate) subresource: Option<&'a str>,
    /// Who applies; only server-side apply asks.
    pub(crate) manager: &'a str,
    /// Take fields from other managers; only server-side apply asks.
    pub(crate) force: bool,
    pub(crate) now: Timestamp,
}

/// The object after the patch. Without a current object only server-side apply has something to do: it creates.
///
/// Server-side apply returns the object with its managed fields; after any other patch (and after every create and
/// update) [`managed_fields::track`] records who changed what, once defaults are filled in.
pub(crate) fn apply(
    resource: &Resource,
    current: Option<&Value>,
    patch: &Patch<'_>,
) -> Result<Value, Failure> {
    if patch.kind == PatchKind::Apply {
        return apply::apply(resource, current, patch);
    }
    let Some(current) = current else { return Err(Failure::not_found(resource, "")) };
    let body: Value = serde_json::from_slice(patch.body)
        .map_err(|error| Failure::bad_request(format!("error decoding patch: {error}")))?;
    let mut object = current.clone();
    match patch.kind {
        PatchKind::Json => json(resource, &mut object, body)?,
        PatchKind::Merge => {
            must_be_object(&body)?;
            json_patch::merge(&mut object, &body);
        }
        PatchKind::Strategic if resource.custom => {
            return Err(Failure::unsupported_media_type(&[
                PatchKind::Json.media_type(),
                PatchKind::Merge.media_type(),
                PatchKind::Apply.media_type(),
            ]));
        }
        PatchKind::Strategic => {
            must_be_object(&body)?;
            strategic::merge(&mut object, &body, shape::Shape::of(resource))?;
        }
        PatchKind::Apply => {}
    }
    Ok(object)
}

fn must_be_object(body: &Value) -> Result<(), Failure> {
    match body {
        Value::Object(_) => Ok(()),
        _ => Err(Failure::bad_request("error decoding patch: the patch must be an object")),
    }
}

fn json(resource: &Resource, object: &mut Value, body: Value) -> Result<(), Failure> {
    let operations: json_patch::Patch = serde_json::from_value(body)
        .map_err(|error| Failure::bad_request(format!("error decoding patch: {error}")))?;
    if operations.0.len() > MOST_OPERATIONS {
        return Err(Failure::new(
            413,
            "RequestEntityTooLarge",
            format!(
                "The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}",
                operations.0.len()
            ),
        ));
    }
    json_patch::patch(object, &operations).map_err(|error| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        Failure::invalid(
            resource,
            name,
            vec![Cause::new("", format!("the patch cannot be applied: {error}"), "")],
        )
    })
}

// === impl PatchKind ===

impl PatchKind {
    pub(crate) const ALL: [Self; 4] = [Self::Json, Self::Merge, Self::Strategic, Self::Apply];

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }

    /// Parameters such as `charset` are not looked at.
    pub(crate) fn from_media_type(media_type: &str) -> Option<Self> {
        let name = media_type.split(';').next().unwrap_or_default().trim();
        Self::ALL.into_iter().find(|kind| kind.media_type().eq_ignore_ascii_case(name))
    }
}
