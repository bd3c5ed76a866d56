//! What is to be read off a pool, its cluster, its pods and its nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use pilothouse_crds::{HostedCluster, NodePool, is_condition_true};

use super::plan::Worker;
use super::status::Obstacle;
use crate::names;
use crate::pod::pod_state;
use crate::versions::Release;

/// How many minor versions a node may be behind its control plane.
const LARGEST_SKEW: u32 = 3;

/// How many workers there should be.
pub(super) fn desired(pool: &NodePool) -> usize {
    let asked = match (&pool.spec.auto_scaling, pool.spec.replicas) {
        (Some(bounds), _) => bounds.min,
        (None, replicas) => replicas.unwrap_or_default(),
    };
    usize::try_from(asked).unwrap_or_default()
}

pub(super) fn release_of(pool: &NodePool) -> Result<Release, Obstacle> {
    Release::of_image(&pool.spec.release.image).map_err(|error| Obstacle {
        condition: "ValidReleaseImage",
        reason: "ValidationFailed",
        message: error.to_string(),
    })
}

/// What keeps a pool from having workers, apart from its release.
pub(super) fn obstacle(
    pool: &NodePool,
    cluster: &HostedCluster,
    release: Option<&Release>,
) -> Option<Obstacle> {
    if pool.spec.platform.type_ != cluster.spec.platform.type_ {
        return Some(Obstacle {
            condition: "ValidPlatformConfig",
            reason: "ValidationFailed",
            message: format!(
                "the pool's platform is {:?} and its cluster's {:?}; they must be the same",
                pool.spec.platform.type_, cluster.spec.platform.type_
            ),
        });
    }
    if let (Some(release), Ok(of_cluster)) = (release, Release::of_image(&cluster.spec.release.image)) {
        let ahead = release.minor > of_cluster.minor;
        if ahead || of_cluster.minor - release.minor > LARGEST_SKEW {
            return Some(Obstacle {
                condition: "SupportedVersionSkew",
                reason: "UnsupportedSkew",
                message: format!(
                    "nodes of {} do not work with a control plane of {}; use a release that is not newer, and at most \
                     {LARGEST_SKEW} minor versions older",
                    release.version, of_cluster.version
                ),
            });
        }
    }
    if !is_available(cluster) {
        return Some(Obstacle {
            condition: "Ready",
            reason: "WaitingForAvailable",
            message: format!("HostedCluster {} is not available yet", cluster.name_any()),
        });
    }
    None
}

pub(super) fn is_available(cluster: &HostedCluster) -> bool {
    cluster.status.as_ref().is_some_and(|status| is_condition_true(&status.conditions, "Available"))
}

pub(super) fn worker(pod: &Pod, node: Option<Arc<Node>>) -> Worker {
    let ended = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let going = pod.metadata.deletion_timestamp.is_some();
    let state = match &node {
        _ if going => "it is being removed".to_owned(),
        None => format!("its node has not joined; its pod is {}", pod_state(pod)),
        Some(node) => node_state(node),
    };
    Worker {
        name: pod.name_any(),
        created: pod.metadata.creation_timestamp.as_ref().map(|created| created.0),
        config_hash: names::annotation(&pod.metadata, names::CONFIG_HASH).unwrap_or_default().to_owned(),
        going,
        ended: matches!(ended, Some("Failed" | "Succeeded")),
        ready: node.as_deref().map(is_node_ready),
        state,
    }
}

fn is_node_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn node_state(node: &Node) -> String {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready");
    let said = ready
        .map(|ready| ready.message.as_deref().or(ready.reason.as_deref()).unwrap_or("for no given reason"));
    format!("its node is not ready: {}", said.unwrap_or("it has not reported yet"))
}

pub(super) fn versions(nodes: &[Arc<Node>]) -> BTreeMap<String, (i32, i32)> {
    let mut versions = BTreeMap::<_, (i32, i32)>::new();
    for node in nodes {
        let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
        let version = info.map(|info| info.kubelet_version.clone()).unwrap_or_default();
        let (ready, unready) = versions.entry(version).or_default();
        if is_node_ready(node) {
            *ready += 1;
        } else {
            *unready += 1;
        }
    }
    versions
}
