//! Requests for certificates: what they must hold, and what an answer to one may not take back.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{items, items_mut, text, timestamp};
use crate::status::Cause;

const HEAD: &[u8] = b"-----BEGIN CERTIFICATE REQUEST-----";

pub(super) fn validate(new: &Value) -> Vec<Cause> {
    let request = text(new, "/spec/request");
    let plain = STANDARD.decode(request).unwrap_or_default();
    match request.is_empty() || plain.trim_ascii_start().starts_with(HEAD) {
        true => Vec::new(),
        false => {
            let why = "PEM block type must be CERTIFICATE REQUEST";
            vec![Cause::invalid("spec.request", &new["spec"]["request"], why)]
        }
    }
}

/// A decision stands.
pub(super) fn validate_answer(old: &Value, new: &Value) -> Vec<Cause> {
    let has = |object: &Value, kind: &str| {
        items(object, "/status/conditions").iter().any(|one| one["type"] == kind)
    };
    ["Approved", "Denied", "Failed"]
        .into_iter()
        .filter(|kind| has(old, kind) && !has(new, kind))
        .map(|kind| {
            let why = format!("updates may not remove a condition of type {kind:?}");
            Cause::forbidden("status.conditions", &why)
        })
        .collect()
}

/// Says when a decision was made, where whoever made it did not.
pub(crate) fn stamp_conditions(old: &Value, new: &mut Value, now: Timestamp) {
    let before = items(old, "/status/conditions").to_vec();
    for condition in items_mut(&mut new["status"], "conditions") {
        if text(condition, "/lastUpdateTime").is_empty() {
            condition["lastUpdateTime"] = json!(timestamp(now));
        }
        if text(condition, "/lastTransitionTime").is_empty() {
            let former = before
                .iter()
                .find(|one| one["type"] == condition["type"] && one["status"] == condition["status"]);
            condition["lastTransitionTime"] = match former {
                Some(former) => former["lastTransitionTime"].clone(),
                None => json!(timestamp(now)),
            };
        }
    }
}
