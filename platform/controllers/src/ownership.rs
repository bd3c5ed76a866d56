//! Who controls whom, and what passes from an owner to what it makes.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::Resource;
use kube::core::{Selector, SelectorExt};

/// The annotation with the id that follows one piece of work through the whole system.
pub(crate) const CORRELATION: &str = "pilothouse.dev/correlation-id";

/// The reference by which `owner` controls what it makes.
pub(crate) fn controller_reference<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference { controller: Some(true), block_owner_deletion: Some(true), ..owner_reference(owner) }
}

/// The reference by which something goes when `owner` goes.
pub(crate) fn owner_reference<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    let metadata = owner.meta();
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        controller: None,
        block_owner_deletion: None,
    }
}

/// The one owner that controls an object.
pub(crate) fn controller_of(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true))
}

/// Whether an object is controlled by the one with this uid.
pub(crate) fn is_controlled_by(metadata: &ObjectMeta, uid: &str) -> bool {
    controller_of(metadata).is_some_and(|owner| owner.uid == uid)
}

/// Whether an object is on its way out.
pub(crate) fn is_deleting(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some()
}

/// The owner's correlation id, as annotations for what it makes.
pub(crate) fn correlation(owner: &ObjectMeta) -> BTreeMap<String, String> {
    let id = owner.annotations.as_ref().and_then(|annotations| annotations.get(CORRELATION));
    id.map(|id| (CORRELATION.to_owned(), id.clone())).into_iter().collect()
}

/// Whether the selector takes these labels. One that cannot be understood takes nothing, and so does the empty one, as
/// upstream's controllers have it.
pub(crate) fn selects(selector: &LabelSelector, labels: Option<&BTreeMap<String, String>>) -> bool {
    let Ok(selector) = Selector::try_from(selector.clone()) else { return false };
    let none = BTreeMap::new();
    !selector.selects_all() && selector.matches(labels.unwrap_or(&none))
}

/// The selector as a list takes it.
pub(crate) fn selector_text(selector: &LabelSelector) -> Option<String> {
    Selector::try_from(selector.clone()).ok().map(|selector| selector.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_selector_takes_nothing() {
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        let of = |pairs: &[(&str, &str)]| LabelSelector {
            match_labels: Some(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()),
            match_expressions: None,
        };
        assert!(!selects(&of(&[]), Some(&labels)));
        assert!(selects(&of(&[("app", "web")]), Some(&labels)));
        assert!(!selects(&of(&[("app", "db")]), Some(&labels)));
        assert!(!selects(&of(&[("app", "web")]), None));
    }
}
