//! What a namespace says about how much its pods may do. It is checked that it means something; nothing holds pods to it.

use serde_json::{Map, Value};

use super::text;
use crate::status::Cause;

const DOMAIN: &str = "pod-security.kubernetes.io";
const LEVELS: [&str; 3] = ["privileged", "baseline", "restricted"];

/// Labels that are new or changed have to be understood.
pub(super) fn validate_labels(old: Option<&Value>, new: &Value) -> Vec<Cause> {
    let labels = new["metadata"]["labels"].as_object();
    let former = |label: &str| old.and_then(|old| old["metadata"]["labels"].get(label));
    let wrong = |mode: &str| {
        let label = format!("{DOMAIN}/{mode}");
        let value = labels.and_then(|labels: &Map<String, Value>| labels.get(&label))?;
        if former(&label) == Some(value) {
            return None;
        }
        let why = match mode.ends_with("-version") {
            true if is_version(text(value, "")) => return None,
            true => "must be \"latest\" or \"v1.x\"".to_owned(),
            false if LEVELS.contains(&text(value, "")) => return None,
            false => format!("must be one of {}", LEVELS.join(", ")),
        };
        Some(Cause::invalid(format!("metadata.labels[{label}]"), value, why))
    };
    ["enforce", "enforce-version", "audit", "audit-version", "warn", "warn-version"]
        .into_iter()
        .filter_map(wrong)
        .collect()
}

/// `latest`, or a minor version without anything before or behind it.
fn is_version(text: &str) -> bool {
    let number = text.strip_prefix("v1.").unwrap_or_default();
    let plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    text == "latest" || (plain && (number == "0" || !number.starts_with('0')))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn levels_and_versions_have_to_exist_when_they_are_set() {
        let namespace = |label: &str, value: &str| json!({ "metadata": { "labels": { format!("{DOMAIN}/{label}"): value } } });
        for (label, value) in
            [("enforce", "baseline"), ("warn-version", "v1.34"), ("audit-version", "latest")]
        {
            assert_eq!(validate_labels(None, &namespace(label, value)), [], "{label}={value}");
        }
        for (label, value) in [("enforce", "none"), ("warn-version", "1.34"), ("audit-version", "v1.01")] {
            let wrong = namespace(label, value);
            assert_eq!(validate_labels(None, &wrong).len(), 1, "{label}={value}");
            assert_eq!(validate_labels(Some(&wrong), &wrong), [], "it was like that before");
        }
    }
}
