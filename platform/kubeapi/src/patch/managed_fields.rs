//! `metadata.managedFields`: who last decided on each field.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::field_set::{Difference, FieldSet};
use super::shape::Shape;
use crate::catalogue::Resource;

/// More entries of updates than this are folded into one.
const MOST_UPDATERS: usize = 10;
/// Who the folded ones belong to.
const ANCIENT: &str = "ancient-changes";

/// Paths nobody can own: identity, and what the server itself writes.
const UNTRACKED: &[&[&str]] = &[
    &["f:apiVersion"],
    &["f:kind"],
    &["f:metadata", "f:name"],
    &["f:metadata", "f:namespace"],
    &["f:metadata", "f:creationTimestamp"],
    &["f:metadata", "f:selfLink"],
    &["f:metadata", "f:uid"],
    &["f:metadata", "f:clusterName"],
    &["f:metadata", "f:generation"],
    &["f:metadata", "f:generateName"],
    &["f:metadata", "f:deletionTimestamp"],
    &["f:metadata", "f:deletionGracePeriodSeconds"],
    &["f:metadata", "f:managedFields"],
    &["f:metadata", "f:resourceVersion"],
];

/// One entry.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) manager: String,
    /// `Apply` rather than `Update`.
    pub(super) applies: bool,
    pub(super) api_version: String,
    pub(super) subresource: String,
    pub(super) time: String,
    pub(super) fields: FieldSet,
}

/// Records in `new` what a create, an update or a patch other than server-side apply changed. Call it with defaults
/// filled in and server-owned fields restored.
pub(crate) fn track(
    resource: &Resource,
    subresource: Option<&str>,
    old: Option<&Value>,
    new: &mut Value,
    manager: &str,
    now: Timestamp,
) {
    let mut entries = match asked_reset(new) {
        true => {
            set(new, &[]);
            return;
        }
        false => known(old, new),
    };
    let nothing = json!({});
    let mut difference = Difference::between(old.unwrap_or(&nothing), new, Shape::of(resource));
    for set in [&mut difference.changed, &mut difference.removed] {
        forget_untracked(set);
    }
    for entry in &mut entries {
        let own = entry.is(manager, false, &resource.api_version(), subresource.unwrap_or_default());
        if !own {
            entry.fields.subtract(&difference.changed);
        }
        entry.fields.subtract(&difference.removed);
    }
    if !difference.changed.is_empty() {
        let entry = entry_of(&mut entries, manager, false, &resource.api_version(), subresource);
        entry.fields.add(&difference.changed);
        entry.time = written(now);
    }
    entries.retain(|entry| !entry.fields.is_empty());
    fold(&mut entries);
    set(new, &entries);
}

/// A client that sends an empty list, or one empty entry, wants to start over.
fn asked_reset(new: &Value) -> bool {
    match new["metadata"]["managedFields"].as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => only.as_object().is_some_and(serde_json::Map::is_empty),
        _ => false,
    }
}

/// What the client sent back, or, from a client that does not know of it, what there was.
fn known(old: Option<&Value>, new: &Value) -> Vec<Entry> {
    let sent = read(new);
    if sent.is_empty() { old.map(read).unwrap_or_default() } else { sent }
}

pub(super) fn read(object: &Value) -> Vec<Entry> {
    object["metadata"]["managedFields"].as_array().into_iter().flatten().map(Entry::from_value).collect()
}

pub(super) fn set(object: &mut Value, entries: &[Entry]) {
    let mut ordered: Vec<_> = entries.iter().collect();
    ordered.sort_by(|left, right| {
        (!left.applies, &left.time, &left.manager).cmp(&(!right.applies, &right.time, &right.manager))
    });
    let Some(metadata) = object["metadata"].as_object_mut() else { return };
    if ordered.is_empty() {
        metadata.remove("managedFields");
    } else {
        metadata.insert("managedFields".to_owned(), ordered.into_iter().map(Entry::to_value).collect());
    }
}

pub(super) fn entry_of<'a>(
    entries: &'a mut Vec<Entry>,
    manager: &str,
    applies: bool,
    api_version: &str,
    subresource: Option<&str>,
) -> &'a mut Entry {
    let subresource = subresource.unwrap_or_default();
    let place = entries.iter().position(|entry| entry.is(manager, applies, api_version, subresource));
    let place = place.unwrap_or_else(|| {
        entries.push(Entry {
            manager: manager.to_owned(),
            applies,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
            time: String::new(),
            fields: FieldSet::default(),
        });
        entries.len() - 1
    });
    &mut entries[place]
}

pub(super) fn forget_untracked(set: &mut FieldSet) {
    for path in UNTRACKED {
        set.forget(path);
    }
}

/// Whole seconds, as all timestamps of the API.
pub(super) fn written(now: Timestamp) -> String {
    crate::strategy::timestamp(now)
}

fn fold(entries: &mut Vec<Entry>) {
    let updaters = entries.iter().filter(|entry| !entry.applies).count();
    if updaters <= MOST_UPDATERS {
        return;
    }
    entries.sort_by(|left, right| (left.applies, &left.time).cmp(&(right.applies, &right.time)));
    let folded: Vec<_> = entries.drain(..=updaters - MOST_UPDATERS).collect();
    let Some(last) = folded.last() else { return };
    let mut ancient = Entry {
        manager: ANCIENT.to_owned(),
        applies: false,
        api_version: last.api_version.clone(),
        subresource: String::new(),
        time: last.time.clone(),
        fields: FieldSet::default(),
    };
    for entry in &folded {
        ancient.fields.add(&entry.fields);
    }
    entries.insert(0, ancient);
}

// === impl Entry ===

impl Entry {
    pub(super) fn is(&self, manager: &str, applies: bool, api_version: &str, subresource: &str) -> bool {
        self.manager == manager
            && self.applies == applies
            && self.api_version == api_version
            && self.subresource == subresource
    }

    fn from_value(value: &Value) -> Self {
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let mut fields = FieldSet::from_value(&value["fieldsV1"]);
        fields.owned = false;
        Self {
            manager: text("manager"),
            applies: value["operation"] == "Apply",
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time: text("time"),
            fields,
        }
    }

    fn to_value(&self) -> Value {
        let mut value = json!({
            "manager": self.manager,
            "operation": if self.applies { "Apply" } else { "Update" },
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.to_value(),
        });
        if !self.subresource.is_empty() {
            value["subresource"] = json!(self.subresource);
        }
        value
    }
}
