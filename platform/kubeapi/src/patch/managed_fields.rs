//! `metadata.managedFields`: who last decided on each field.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::field_set::{Difference, FieldSet};
use super::shape::Shape;
use crate::catalogue::Resource;
use crate::types;

/// More entries of updates than this are folded into one.
const MOST_UPDATERS: usize = 10;
/// Who the folded ones belong to.
const ANCIENT: &str = "ancient-changes";
/// Who owns what was there before the first apply, if nobody was recorded.
const UNRECORDED: &str = "before-first-apply";

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
    // The server decides on most of a request for a certificate, and nobody shares it.
    if resource.group == "certificates.k8s.io" {
        set(new, &[]);
        return;
    }
    let mut entries = known(subresource, old, new);
    // Where nobody is recorded, nobody begins to be, but by creating or applying.
    if entries.is_empty() && old.is_some() {
        set(new, &[]);
        return;
    }
    let difference = changes(resource, subresource, old, new);
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
        // Who scaled is kept without a time.
        entry.time = if subresource == Some("scale") { String::new() } else { written(now) };
    }
    entries.retain(|entry| !entry.fields.is_empty());
    fold(&mut entries);
    set(new, &entries);
}

/// The one owner of everything in an object that was written before anybody was recorded.
pub(super) fn before_first_apply(
    resource: &Resource,
    subresource: Option<&str>,
    object: &Value,
    now: Timestamp,
) -> Vec<Entry> {
    let mut entries = Vec::new();
    let difference = changes(resource, subresource, None, object);
    if !difference.changed.is_empty() {
        let entry = entry_of(&mut entries, UNRECORDED, false, &resource.api_version(), subresource);
        entry.fields = difference.changed;
        entry.time = written(now);
    }
    entries
}

/// What a write changed, as far as it can be owned. Without an old object: everything beyond an empty one.
pub(super) fn changes(
    resource: &Resource,
    subresource: Option<&str>,
    old: Option<&Value>,
    new: &Value,
) -> Difference {
    let nothing = if old.is_none() { empty(resource) } else { Value::Null };
    let mut difference = Difference::between(old.unwrap_or(&nothing), new, Shape::of(resource));
    for set in [&mut difference.changed, &mut difference.removed] {
        forget_untracked(set);
        if resource.status_subresource && subresource.is_none() {
            set.forget(&["f:status"]);
        }
    }
    difference
}

/// An object of a kind before anybody said anything: the parts that a typed one always has are there.
pub(super) fn empty(resource: &Resource) -> Value {
    match types::of_kind(&resource.group, &resource.version, &resource.kind) {
        Some(message) if !resource.custom => types::canonical::empty(message),
        _ => json!({}),
    }
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
fn known(subresource: Option<&str>, old: Option<&Value>, new: &Value) -> Vec<Entry> {
    let before = || old.map(read).unwrap_or_default();
    match subresource {
        // Nobody changes owners from there.
        Some(_) => before(),
        None if asked_reset(new) => Vec::new(),
        None => Some(read(new)).filter(|sent| !sent.is_empty()).unwrap_or_else(before),
    }
}

pub(super) fn read(object: &Value) -> Vec<Entry> {
    object["metadata"]["managedFields"].as_array().into_iter().flatten().map(Entry::from_value).collect()
}

pub(super) fn set(object: &mut Value, entries: &[Entry]) {
    let mut ordered: Vec<_> = entries.iter().collect();
    ordered.sort_by(|left, right| left.rank().cmp(&right.rank()));
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
    api_version.clone_into(&mut entries[place].api_version);
    &mut entries[place]
}

pub(super) fn forget_untracked(set: &mut FieldSet) {
    for path in UNTRACKED {
        set.forget(path);
    }
    if let Some(metadata) = set.children.get_mut("f:metadata") {
        metadata.owned = false;
        if metadata.is_empty() {
            set.children.remove("f:metadata");
        }
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
            // Who applies is the same in all versions.
            && (applies || self.api_version == api_version)
            && self.subresource == subresource
    }

    /// As a conflict names it.
    pub(super) fn described(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if !self.applies {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }

    /// Its place among others.
    fn rank(&self) -> (bool, &str, &str, &str, &str) {
        (!self.applies, &self.time, &self.manager, &self.api_version, &self.subresource)
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
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.to_value(),
        });
        if !self.time.is_empty() {
            value["time"] = json!(self.time);
        }
        if !self.subresource.is_empty() {
            value["subresource"] = json!(self.subresource);
        }
        value
    }
}
