//! The tag that chooses which programs a cluster's control plane consists of. No version of the API has a field for it.

use std::collections::BTreeMap;

/// The tag's name, in any case.
pub const PAYLOAD_TAG: &str = "pilothouse.payload";

/// What it may be.
pub(crate) const PAYLOADS: [&str; 2] = ["light", "upstream"];

/// The payload that tags ask for.
pub fn payload(tags: &BTreeMap<String, String>) -> Option<&str> {
    let mut named = tags.iter().filter(|(key, _)| key.eq_ignore_ascii_case(PAYLOAD_TAG));
    named.next().map(|(_, value)| value.as_str())
}
