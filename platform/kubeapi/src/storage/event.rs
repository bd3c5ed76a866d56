//! Events have two forms, one in the core group and one in their own, and are kept in the first.

use serde_json::{Map, Value};

use crate::catalogue::Resource;

/// What is called differently: in the core group, in the events' own.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Whether a kind is only another form of what is stored.
pub(super) fn is_other_form(resource: &Resource) -> bool {
    resource.is("events.k8s.io", "events")
}

pub(super) fn to_core(event: &mut Map<String, Value>) {
    rename(event, NAMES.map(|(core, own)| (own, core)));
}

pub(super) fn from_core(event: &mut Map<String, Value>) {
    rename(event, NAMES);
    // Only the older form always has them.
    for name in ["reportingController", "reportingInstance"] {
        if event.get(name).is_some_and(|value| value == "") {
            event.remove(name);
        }
    }
}

fn rename(event: &mut Map<String, Value>, names: [(&str, &str); 7]) {
    for (from, to) in names {
        if let Some(value) = event.remove(from) {
            event.insert(to.to_owned(), value);
        }
    }
}
