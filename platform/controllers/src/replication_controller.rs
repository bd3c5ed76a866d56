//! Replication controllers: what replica sets were before there were deployments. They are looked after in the same way.

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use pilothouse_informer::Informer;

use crate::replica_set::Replicated;
use crate::watches::Caches;

impl Replicated for ReplicationController {
    fn as_set(&self) -> ReplicaSet {
        let spec = self.spec.as_ref();
        let selector = spec.and_then(|spec| spec.selector.clone());
        // Their status says the same in the same words.
        let status = serde_json::to_value(&self.status).and_then(serde_json::from_value).unwrap_or_default();
        ReplicaSet {
            metadata: self.metadata.clone(),
            spec: Some(ReplicaSetSpec {
                replicas: spec.and_then(|spec| spec.replicas),
                min_ready_seconds: spec.and_then(|spec| spec.min_ready_seconds),
                selector: LabelSelector { match_labels: selector, match_expressions: None },
                template: spec.and_then(|spec| spec.template.clone()),
            }),
            status,
        }
    }

    fn cache(caches: &Caches) -> &Informer<Self> {
        &caches.replication_controllers
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn everything_that_counts_is_the_same_as_a_replica_set() {
        let controller: ReplicationController = serde_json::from_value(json!({
            "metadata": { "name": "web", "uid": "1" },
            "spec": { "replicas": 3, "minReadySeconds": 5, "selector": { "app": "web" }, "template": {
                "metadata": { "labels": { "app": "web" } },
            } },
            "status": { "replicas": 2, "conditions": [{ "type": "ReplicaFailure", "status": "True" }] },
        }))
        .unwrap();
        let expected: ReplicaSet = serde_json::from_value(json!({
            "metadata": { "name": "web", "uid": "1" },
            "spec": { "replicas": 3, "minReadySeconds": 5, "selector": { "matchLabels": { "app": "web" } }, "template": {
                "metadata": { "labels": { "app": "web" } },
            } },
            "status": { "replicas": 2, "conditions": [{ "type": "ReplicaFailure", "status": "True" }] },
        }))
        .unwrap();
        assert_eq!(controller.as_set(), expected);
    }
}
