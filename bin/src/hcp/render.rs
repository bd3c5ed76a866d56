//! Objects as text.

use serde_json::Value;

/// Every object as YAML, its members in order, each with a line of dashes after it.
pub(super) fn yaml(objects: &[Value]) -> anyhow::Result<String> {
    let mut text = String::new();
    for object in objects {
        text.push_str(&serde_saphyr::to_string(object)?);
        text.push_str("---\n");
    }
    Ok(text)
}
