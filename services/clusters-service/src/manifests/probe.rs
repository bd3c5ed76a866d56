//! What asks a management cluster whether it is there.

use std::collections::BTreeMap;

use jiff::Timestamp;
use pilothouse_maestro_api::{ManifestBundle, Work};
use serde_json::json;

use super::foreground;
use crate::config::Shard;

/// On the bundle: whose question it is.
pub(crate) const SHARD_LABEL: &str = "pilothouse.dev/provision-shard";
const ASKED_AT: &str = "asked-at";

pub(crate) fn probe_work_name(shard: &str) -> String {
    format!("probe-{shard}")
}

pub(crate) fn probe_work(shard: &Shard, now: Timestamp) -> Work {
    let name = probe_work_name(&shard.id);
    let manifest = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": shard.work_namespace},
        "data": {ASKED_AT: now.to_string()},
    });
    Work {
        consumer: shard.consumer.clone(),
        labels: BTreeMap::from([(SHARD_LABEL.to_owned(), shard.id.clone())]),
        bundle: ManifestBundle {
            manifests: vec![manifest],
            delete_option: Some(foreground()),
            manifest_configs: Vec::new(),
            executor: None,
        },
        name,
        ..Work::default()
    }
}

/// When a question was asked; `None` if it is none.
pub(crate) fn probe_asked_at(bundle: &ManifestBundle) -> Option<Timestamp> {
    bundle.manifests.first()?["data"][ASKED_AT].as_str()?.parse().ok()
}
