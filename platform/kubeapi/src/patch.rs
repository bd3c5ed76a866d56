//! Changing an object by describing the change.
//!
//! Four languages: RFC 6902 operations, RFC 7386 merge, Kubernetes' strategic merge (built-in kinds only), and
//! server-side apply. All are functions of the current object; whoever stores runs them again when the object changed in
//! between. What a patch makes of server-owned fields does not matter: `strategy` restores those afterwards.

use jiff::Timestamp;
use serde_json::Value;

use crate::catalogue::Resource;
use crate::status::Failure;

mod apply;
mod checked;
mod field_set;
pub(crate) mod managed_fields;
mod shape;
mod strategic;
#[cfg(test)]
mod tests;

/// Upstream's limit; a longer list is a mistake or an attack.
const MOST_OPERATIONS: usize = 10_000;

/// Upstream's limit for what the copies of one patch may add: copies of copies double with every operation.
const MOST_COPIED: usize = 3 << 20;

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
    /// Of the object; only server-side apply asks.
    pub(crate) name: &'a str,
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
    let body: Value = serde_json::from_slice(patch.body).map_err(|error| {
        let why = if error.is_eof() { "unexpected end of JSON input".to_owned() } else { error.to_string() };
        Failure::bad_request(match patch.kind {
            PatchKind::Strategic => why,
            _ => format!("error decoding patch: {why}"),
        })
    })?;
    let mut object = current.clone();
    match patch.kind {
        PatchKind::Json => json(&mut object, body)?,
        PatchKind::Merge => {
            must_be_object(&body)?;
            json_patch::merge(&mut object, &without_nothing_in_lists(body));
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

/// Upstream takes `null` for "not there" also inside lists, which merging itself does not look into.
fn without_nothing_in_lists(value: Value) -> Value {
    fn within(value: Value) -> Value {
        match value {
            Value::Object(fields) => {
                let there = fields.into_iter().filter(|(_, value)| !value.is_null());
                Value::Object(there.map(|(key, value)| (key, within(value))).collect())
            }
            Value::Array(items) => Value::Array(items.into_iter().map(within).collect()),
            other => other,
        }
    }
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| (key, without_nothing_in_lists(value)));
            Value::Object(fields.collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(within).collect()),
        other => other,
    }
}

fn must_be_object(body: &Value) -> Result<(), Failure> {
    match body {
        Value::Object(_) => Ok(()),
        other => Err(misread(other, "map[string]interface {}")),
    }
}

/// A patch that is JSON, but not of the right sort.
fn misread(body: &Value, wanted: &str) -> Failure {
    let given = match body {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    Failure::bad_request(format!(
        "error decoding patch: json: cannot unmarshal {given} into Go value of type {wanted}"
    ))
}

fn json(object: &mut Value, body: Value) -> Result<(), Failure> {
    if !body.is_array() {
        return Err(misread(&body, "[]handlers.jsonPatchOp"));
    }
    let operation = |one: &Value| {
        matches!(one["op"].as_str(), Some("add" | "remove" | "replace" | "move" | "copy" | "test"))
    };
    if body.as_array().is_some_and(|operations| !operations.iter().all(operation)) {
        return Err(Failure::rejected_patch());
    }
    let mut operations: json_patch::Patch = serde_json::from_value(body)
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
    let mut copied = 0;
    for operation in &mut operations.0 {
        replace_or_add(object, operation);
        if let json_patch::PatchOperation::Copy(copy) = operation {
            copied += copy.from.resolve(object).map_or(0, |value| value.to_string().len());
            if copied > MOST_COPIED {
                return Err(Failure::rejected_patch());
            }
        }
        json_patch::patch(object, std::slice::from_ref(operation)).map_err(|_| Failure::rejected_patch())?;
    }
    Ok(())
}

/// The real server takes the replacement of a field that is not there for its addition.
fn replace_or_add(object: &Value, operation: &mut json_patch::PatchOperation) {
    let json_patch::PatchOperation::Replace(replace) = operation else { return };
    let path = replace.path.to_string();
    let absent = path.rsplit_once('/').is_some_and(|(parent, _)| {
        object.pointer(parent).is_some_and(Value::is_object) && object.pointer(&path).is_none()
    });
    if absent {
        *operation = json_patch::PatchOperation::Add(json_patch::AddOperation {
            path: replace.path.clone(),
            value: replace.value.take(),
        });
    }
}

/// What a complaint about the result of a patch quotes: the result, or of a strategic merge the patch.
pub(crate) fn quoted(media_type: &str, body: &[u8], patched: &Value) -> String {
    match PatchKind::from_media_type(media_type) {
        Some(PatchKind::Strategic) => {
            serde_json::from_slice(body).map_or_else(|_| patched.to_string(), |patch: Value| in_go(&patch))
        }
        _ => patched.to_string(),
    }
}

/// A value as messages of the real server show those they do not know the type of.
pub(crate) fn in_go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(in_go).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let fields: Vec<_> =
                fields.iter().map(|(name, value)| format!("{name}:{}", in_go(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
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
