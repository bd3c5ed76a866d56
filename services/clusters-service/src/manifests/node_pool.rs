//! A `NodePool`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilothouse_crds::{
    AutoScaling, ManifestConfig, NodePool, NodePoolManagement, NodePoolPlatform, NodePoolSpec, NodeTaint,
    PlatformType, Release, ResourceIdentifier, UpgradeType,
};
use serde_json::Value;

use super::{
    GENERATION_FEEDBACK, NODE_POOL_CONDITIONS, Names, NotWritten, OBSERVED_GENERATION_FEEDBACK, Settings,
    VERSION_FEEDBACK, condition_paths, config, image_of, mark, metadata, path, settings,
};
use crate::record::{ClusterRecord, NodePoolRecord};

pub(super) fn manifest(
    cluster: &ClusterRecord,
    record: &NodePoolRecord,
    general: &Settings,
    names: &Names,
) -> Result<Value, NotWritten> {
    let asked = &record.node_pool;
    let version = asked.version.number().unwrap_or_default();
    let spec = NodePoolSpec {
        cluster_name: names.hosted_cluster.clone(),
        release: Release { image: image_of(&general.release_repository, version) },
        platform: NodePoolPlatform {
            type_: PlatformType::Azure,
            azure: Some(settings::of_machines(asked)),
            ..NodePoolPlatform::default()
        },
        replicas: asked.replicas.map(number),
        auto_scaling: asked.autoscaling.map(|scaling| AutoScaling {
            min: number(scaling.min_replica),
            max: number(scaling.max_replica),
        }),
        management: NodePoolManagement {
            upgrade_type: UpgradeType::Replace,
            auto_repair: asked.auto_repair,
            ..NodePoolManagement::default()
        },
        node_labels: asked.labels.clone(),
        taints: asked
            .taints
            .iter()
            .map(|taint| NodeTaint {
                key: taint.key.clone(),
                value: taint.value.clone(),
                effect: taint.effect.clone(),
            })
            .collect(),
        arch: "amd64".to_owned(),
        other: settings::of_node_pool(asked, &cluster.cluster),
        ..NodePoolSpec::default()
    };
    let name = names.node_pool(&asked.id);
    let mut node_pool = NodePool::new(&name, spec);
    node_pool.metadata = ObjectMeta {
        namespace: Some(names.namespace.clone()),
        ..metadata(&name, cluster, record.latest_origin())
    };
    mark::put(&mut node_pool.metadata.annotations);
    serde_json::to_value(node_pool)
}

fn number(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

pub(super) fn feedback(record: &NodePoolRecord, names: &Names) -> Vec<ManifestConfig> {
    let mut paths = condition_paths(&NODE_POOL_CONDITIONS);
    paths.push(path("Replicas", ".status.replicas"));
    paths.push(path(VERSION_FEEDBACK, ".status.version"));
    paths.push(path(GENERATION_FEEDBACK, ".metadata.generation"));
    let observed = r#".status.conditions[?(@.type=="Ready")].observedGeneration"#;
    paths.push(path(OBSERVED_GENERATION_FEEDBACK, observed));
    paths.push(mark::feedback());
    let identifier = ResourceIdentifier {
        group: "hypershift.openshift.io".to_owned(),
        resource: "nodepools".to_owned(),
        name: names.node_pool(&record.node_pool.id),
        namespace: names.namespace.clone(),
    };
    vec![config(identifier, paths)]
}
