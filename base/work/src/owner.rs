//! Owner references: by whom an object is wanted.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::DynamicObject;

const API_VERSION: &str = "work.open-cluster-management.io/v1";
const KIND: &str = "AppliedManifestWork";

/// The reference to the record of a work.
pub(crate) fn reference(name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    }
}

/// Whether a reference is to the record of some work.
pub(crate) fn is_record(reference: &OwnerReference) -> bool {
    reference.kind == KIND && reference.api_version.starts_with("work.open-cluster-management.io/")
}

/// Whether an object is wanted by any work.
pub(crate) fn has_record(object: &DynamicObject) -> bool {
    object.metadata.owner_references.iter().flatten().any(is_record)
}

/// How an object stands to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// Not its own.
    Not,
    /// Its own alone.
    Sole,
    /// Its own, and other records'.
    Shared,
}

/// How `object` stands to the record with this uid.
pub(crate) fn ownership(object: &DynamicObject, uid: &str) -> Ownership {
    let records: Vec<_> =
        object.metadata.owner_references.iter().flatten().filter(|owner| is_record(owner)).collect();
    match (records.iter().any(|owner| owner.uid == uid), records.len()) {
        (false, _) => Ownership::Not,
        (true, 1) => Ownership::Sole,
        (true, _) => Ownership::Shared,
    }
}

/// The references with `wanted` among them, or without it; `None` if they are so already.
pub(crate) fn changed(
    present: Option<&Vec<OwnerReference>>,
    wanted: &OwnerReference,
    is_wanted: bool,
) -> Option<Vec<OwnerReference>> {
    let present = present.cloned().unwrap_or_default();
    let has = present.iter().any(|owner| owner.uid == wanted.uid);
    match (has, is_wanted) {
        (true, true) | (false, false) => None,
        (false, true) => Some(present.into_iter().chain([wanted.clone()]).collect()),
        (true, false) => Some(present.into_iter().filter(|owner| owner.uid != wanted.uid).collect()),
    }
}
