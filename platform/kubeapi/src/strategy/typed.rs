//! What the table of types says about an object, as an answer to who sent it.

use serde_json::Value;

use crate::catalogue::Resource;
use crate::status::Failure;
use crate::types::{self, Message, canonical};

/// Drops what is not part of the kind, and names it; nulls go without mention. An object that cannot be read is refused.
pub(super) fn fit(resource: &Resource, object: &mut Value) -> Result<Vec<String>, Failure> {
    match types::of_kind(&resource.group, &resource.version, &resource.kind) {
        Some(message) => fit_part(resource, message, object, ""),
        None => Ok(Vec::new()),
    }
}

/// The same for the one part of a custom resource that its schema does not describe.
pub(super) fn fit_metadata(resource: &Resource, metadata: &mut Value) -> Result<Vec<String>, Failure> {
    match types::find("meta", "ObjectMeta") {
        Some(message) => fit_part(resource, message, metadata, "metadata"),
        None => Ok(Vec::new()),
    }
}

/// The status that a typed server shows of an object that has none yet.
pub(super) fn empty_status(resource: &Resource, object: &mut Value) {
    let message = types::of_kind(&resource.group, &resource.version, &resource.kind);
    let field = message.and_then(|message| message.field("status")).filter(|field| !field.pointer);
    if let Some(inner) = field.and_then(|field| field.of.message()) {
        let mut status = serde_json::Map::new();
        canonical::complete(inner, &mut status);
        object["status"] = Value::Object(status);
    }
}

fn fit_part(
    resource: &Resource,
    message: &'static Message,
    part: &mut Value,
    path: &str,
) -> Result<Vec<String>, Failure> {
    canonical::fit(message, part, path).map_err(|why| {
        let kind = &resource.kind;
        Failure::bad_request(format!(
            "{kind} in version \"{}\" cannot be handled as a {kind}: {why}",
            resource.version
        ))
    })
}
