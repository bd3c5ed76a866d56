//! What runs is left as it is when nothing but this operator is newer.
//!
//! A StatefulSet says what its cluster asked for when its pods were described, and how they were described. If a cluster that
//! asks for the same would now be described otherwise, another version of this operator has written it, and that stays
//! for as long as enough pods run with it. What the cluster asks for next, a restart among it, is described as we do now.
//!
//! What those pods read is ours to keep: a Secret or a file that only earlier versions named must be there until they are gone.

use std::borrow::Cow;
use std::net::IpAddr;

use k8s_openapi::api::apps::v1::StatefulSet;
use serde::Serialize;

use super::blueprint::Blueprint;
use crate::names;

/// On a StatefulSet: what its cluster asked for when its pods were described.
const ASKED: &str = "pilothouse.dev/asked-for";
/// On a StatefulSet: how its pods were described.
const DESCRIBED: &str = "pilothouse.dev/described-as";

/// Writes on a StatefulSet what it was made from. `hash` is that of its component.
pub(super) fn sign(stateful_set: &mut StatefulSet, blueprint: &Blueprint, address: IpAddr, hash: &str) {
    let Some(spec) = &stateful_set.spec else { return };
    let metadata = spec.template.metadata.as_ref();
    let release = metadata.and_then(|metadata| names::annotation(metadata, names::RELEASE_IMAGE));
    let asked = [
        hash.to_owned(),
        release.unwrap_or_default().to_owned(),
        blueprint.restart_date.clone().unwrap_or_default(),
        blueprint.priority_class.clone(),
        spec.replicas.unwrap_or_default().to_string(),
        address.to_string(),
        text(&blueprint.labels),
        text(&blueprint.node_selector),
        text(&blueprint.tolerations),
        text(&blueprint.requests),
    ];
    let asked = names::stable_hash(asked.iter().map(String::as_str));
    let described = names::stable_hash([text(&spec.template).as_str()]);
    let annotations = stateful_set.metadata.annotations.get_or_insert_default();
    annotations.extend([(ASKED.to_owned(), asked), (DESCRIBED.to_owned(), described)]);
}

/// What is to be written where `found` is. `runs` says whether enough pods run as it describes them.
pub(super) fn keep<'a>(
    desired: &'a StatefulSet,
    found: Option<&StatefulSet>,
    runs: bool,
) -> Cow<'a, StatefulSet> {
    let of = |set: &StatefulSet, key| names::annotation(&set.metadata, key).map(str::to_owned);
    let written = found.filter(|found| {
        let asks_the_same = of(found, ASKED).is_some() && of(found, ASKED) == of(desired, ASKED);
        runs && asks_the_same && of(found, DESCRIBED) != of(desired, DESCRIBED)
    });
    let template = written.and_then(|found| found.spec.as_ref()).map(|spec| spec.template.clone());
    let described = written.and_then(|found| of(found, DESCRIBED));
    let (Some(template), Some(described)) = (template, described) else { return Cow::Borrowed(desired) };
    let mut kept = desired.clone();
    kept.metadata.annotations.get_or_insert_default().insert(DESCRIBED.to_owned(), described);
    kept.spec.get_or_insert_default().template = template;
    Cow::Owned(kept)
}

/// Objects of Kubernetes have string keys and finite numbers, so this cannot fail.
fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
