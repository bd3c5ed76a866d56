//! By what a report shows which version of a bundle it is about.
//!
//! The outer agent feeds back the status of the inner work, as whoever reads it elsewhere expects, and nothing beside it. So
//! it does not say whether the inner agent has seen the work as it is now. The object that the work is about does: it is
//! marked with the version of the bundle that it was posted in, and the mark comes back with what else is fed back of it.
//! What is posted once and never changed needs none.

use std::collections::BTreeMap;

use pilothouse_crds::JsonPath;
use pilothouse_maestro_api::ManifestBundle;
use serde_json::Value;

use super::path;

const ANNOTATION: &str = "pilothouse.dev/bundle-version";
/// The version that a bundle has when it is new.
const FIRST: &str = "1";
/// Where the objects of the inner work are. The marked one is the last of them.
const OBJECTS: &str = "/spec/workload/manifests";

/// The name of the rule that feeds it back.
pub(crate) const FEEDBACK: &str = "BundleVersion";

/// The rule. Its dot is escaped in the one way that every agent understands.
pub(super) fn feedback() -> JsonPath {
    path(FEEDBACK, r".metadata.annotations.pilothouse\.dev/bundle-version")
}

/// Marks an object that is posted for the first time.
pub(super) fn put(annotations: &mut Option<BTreeMap<String, String>>) {
    annotations.get_or_insert_default().insert(ANNOTATION.to_owned(), FIRST.to_owned());
}

/// The mark in a bundle. There is none in those that were posted before there were marks.
pub(crate) fn read(bundle: &ManifestBundle) -> Option<&str> {
    let objects = bundle.manifests.first()?.pointer(OBJECTS)?.as_array()?;
    objects.last()?["metadata"]["annotations"][ANNOTATION].as_str()
}

/// Marks a bundle otherwise, if it is one with a mark.
pub(crate) fn replace(bundle: &mut ManifestBundle, version: &str) {
    let objects = bundle.manifests.first_mut().and_then(|work| work.pointer_mut(OBJECTS));
    let object = objects.and_then(Value::as_array_mut).and_then(|objects| objects.last_mut());
    let annotations = object.and_then(|object| object.pointer_mut("/metadata/annotations"));
    if let Some(mark) = annotations.and_then(|annotations| annotations.get_mut(ANNOTATION)) {
        *mark = Value::from(version);
    }
}
