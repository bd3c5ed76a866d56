//! The hash by which both sides tell whether they know the same status.

use pilothouse_crds::ManifestWorkStatus;
use pilothouse_maestro_api::BundleStatus;
use pilothouse_work::sha256_hex;
use serde_json::{Map, Value, json};

/// The hash of no status at all.
pub(crate) const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The hash of a status. It is taken of the form a `ManifestWork` has, compact, with sorted keys, escaped as Go does.
pub(crate) fn status_hash(status: &BundleStatus) -> String {
    let status = ManifestWorkStatus {
        conditions: status.conditions.clone(),
        resource_status: pilothouse_crds::ManifestResourceStatus {
            manifests: status.resource_status.clone(),
        },
    };
    let mut value = serde_json::to_value(status).unwrap_or_else(|_| json!({}));
    normalize(&mut value);
    sha256_hex(escape(&value.to_string()).as_bytes())
}

/// Leaves out generations of zero, and sorts keys: they are already, unless some crate of the build asks serde_json to keep
/// their order.
fn normalize(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.get("observedGeneration").and_then(Value::as_i64) == Some(0) {
                map.remove("observedGeneration");
            }
            map.values_mut().for_each(normalize);
            let mut entries: Vec<_> = std::mem::take(map).into_iter().collect();
            entries.sort_by(|one, other| one.0.cmp(&other.0));
            *map = Map::from_iter(entries);
        }
        Value::Array(list) => list.iter_mut().for_each(normalize),
        _ => {}
    }
}

/// These appear in JSON only within texts.
fn escape(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' => escaped.push_str("\\u003c"),
            '>' => escaped.push_str("\\u003e"),
            '&' => escaped.push_str("\\u0026"),
            '\u{2028}' => escaped.push_str("\\u2028"),
            '\u{2029}' => escaped.push_str("\\u2029"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A status and its hash as published.
    const SAMPLE: &str = r#"{"conditions":[{"type":"Applied","status":"True","observedGeneration":1,"lastTransitionTime":"2026-01-02T03:04:05Z","reason":"AppliedManifestWorkComplete","message":"Apply manifest work complete"},
  {"type":"Available","status":"True","observedGeneration":1,"lastTransitionTime":"2026-01-02T03:04:05Z","reason":"ResourcesAvailable","message":"All resources are available"}],
 "resourceStatus":[{"resourceMeta":{"ordinal":0,"group":"","version":"v1","kind":"ConfigMap","resource":"configmaps","name":"cm1","namespace":"default"},
  "statusFeedback":{"values":[{"name":"data","fieldValue":{"type":"JsonRaw","jsonRaw":"{\"k\":\"v\"}"}}]},
  "conditions":[{"type":"Applied","status":"True","observedGeneration":1,"lastTransitionTime":"2026-01-02T03:04:05Z","reason":"AppliedManifestComplete","message":"Apply manifest complete"},
   {"type":"Available","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z","reason":"ResourceAvailable","message":"Resource is available"},
   {"type":"StatusFeedbackSynced","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z","reason":"StatusFeedbackSynced","message":""}]}]}"#;

    #[test]
    fn hash_of_the_published_sample_is_the_published_one() {
        let status: BundleStatus = serde_json::from_str(SAMPLE).unwrap();
        assert_eq!(status_hash(&status), "a231bd807b2ce930439caf3731f7fd87c75dfb60cf983be42b7815dee6f1614c");
    }

    #[test]
    fn hash_of_nothing_is_that_of_no_bytes() {
        assert_eq!(sha256_hex(b""), EMPTY);
        assert_eq!(status_hash(&BundleStatus::default()), sha256_hex(br#"{"resourceStatus":{}}"#));
    }

    #[test]
    fn texts_are_escaped_as_go_does() {
        assert_eq!(escape("\"<a>&\u{2028}\""), "\"\\u003ca\\u003e\\u0026\\u2028\"");
    }
}
