//! The tag that chooses how often every part of a cluster's control plane runs. No version of the API has a field for it.

use std::collections::BTreeMap;

/// The tag's name, in any case.
pub const AVAILABILITY_TAG: &str = "pilothouse.availability";

/// Every part once, which is also what is done without the tag.
pub const SINGLE_REPLICA: &str = "SingleReplica";

/// What it may be.
pub(crate) const AVAILABILITIES: [&str; 2] = ["HighlyAvailable", SINGLE_REPLICA];

/// The availability that tags ask for.
pub fn availability(tags: &BTreeMap<String, String>) -> Option<&str> {
    let mut named = tags.iter().filter(|(key, _)| key.eq_ignore_ascii_case(AVAILABILITY_TAG));
    named.next().map(|(_, value)| value.as_str())
}
