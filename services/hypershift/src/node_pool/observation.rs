//! What is to be read off a pool, its cluster and its nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use pilothouse_crds::{HostedCluster, NodePool, PlatformType, is_condition_true};

use super::fleet::is_node_ready;
use super::status::Obstacle;
use super::virtual_machine::{self, PATCH};
use crate::hosted_cluster::running_release;
use crate::names;
use crate::versions::Release;

/// How many minor versions a node may be behind its control plane.
const LARGEST_SKEW: u32 = 3;

/// On a pool that follows the load: how many workers it has been found to need.
pub(super) const AUTOSCALED: &str = "pilothouse.dev/autoscaled-replicas";

/// How many workers there should be.
pub(super) fn desired(pool: &NodePool) -> usize {
    let asked = match (&pool.spec.auto_scaling, pool.spec.replicas) {
        (Some(bounds), _) => {
            let found = names::annotation(&pool.metadata, AUTOSCALED).and_then(|text| text.parse().ok());
            found.unwrap_or(bounds.min).clamp(bounds.min, bounds.max.max(bounds.min))
        }
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

/// What is to be changed in the manifests of virtual machines: what the cluster says, then what the pool says.
pub(super) fn patches<'a>(pool: &'a NodePool, cluster: &'a HostedCluster) -> Vec<&'a str> {
    if pool.spec.platform.type_ != PlatformType::KubeVirt {
        return Vec::new();
    }
    [&cluster.metadata, &pool.metadata]
        .iter()
        .filter_map(|metadata| names::annotation(metadata, PATCH))
        .collect()
}

/// What keeps a pool from having workers, apart from its release.
pub(super) fn obstacle(
    pool: &NodePool,
    cluster: &HostedCluster,
    release: Option<&Release>,
) -> Option<Obstacle> {
    platform(pool, cluster)
        .or_else(|| release.and_then(|release| skew(release, cluster)))
        .or_else(|| virtual_machine::obstacle(&patches(pool, cluster)))
        .or_else(|| {
            (!pool.spec.tuning_config.is_empty()).then(|| Obstacle {
                condition: "ValidTuningConfig",
                reason: "ValidationFailed",
                message: "spec.tuningConfig: nodes of payload `light` cannot be tuned; remove it".to_owned(),
            })
        })
        .or_else(|| release.and_then(|release| too_early(release, cluster)))
        .or_else(|| {
            (!is_available(cluster)).then(|| Obstacle {
                condition: "Ready",
                reason: "WaitingForAvailable",
                message: format!("HostedCluster {} is not available yet", cluster.name_any()),
            })
        })
}

fn platform(pool: &NodePool, cluster: &HostedCluster) -> Option<Obstacle> {
    let (of_pool, of_cluster) = (pool.spec.platform.type_, cluster.spec.platform.type_);
    if of_pool != of_cluster {
        return Some(Obstacle {
            condition: "ValidPlatformConfig",
            reason: "ValidationFailed",
            message: format!(
                "the pool's platform is {of_pool:?} and its cluster's {of_cluster:?}; they must be the same"
            ),
        });
    }
    let processors: &[&str] = match of_pool {
        PlatformType::KubeVirt => &["amd64", "s390x"],
        PlatformType::Agent => &["amd64", "arm64", "ppc64le"],
        _ => &["amd64", "arm64"],
    };
    let arch = &pool.spec.arch;
    (!processors.contains(&arch.as_str())).then(|| Obstacle {
        condition: "ValidArchPlatform",
        reason: "InvalidArchPlatform",
        message: format!(
            "spec.arch {arch} does not go with platform {of_pool:?}; use {}",
            processors.join(" or ")
        ),
    })
}

fn skew(release: &Release, cluster: &HostedCluster) -> Option<Obstacle> {
    let of_cluster = Release::of_image(&cluster.spec.release.image).ok()?;
    let ahead = release.minor > of_cluster.minor;
    (ahead || of_cluster.minor - release.minor > LARGEST_SKEW).then(|| Obstacle {
        condition: "SupportedVersionSkew",
        reason: "UnsupportedSkew",
        message: format!(
            "nodes of {} do not work with a control plane of {}; use a release that is not newer, and at most \
             {LARGEST_SKEW} minor versions older",
            release.version, of_cluster.version
        ),
    })
}

/// Nodes come last in an upgrade: none is newer than the control plane it asks.
fn too_early(release: &Release, cluster: &HostedCluster) -> Option<Obstacle> {
    let running = running_release(cluster)?;
    (release.minor > running.minor).then(|| Obstacle {
        condition: "Ready",
        reason: "WaitingForControlPlane",
        message: format!(
            "the control plane of HostedCluster {} runs {}; nodes of {} follow when it does",
            cluster.name_any(),
            running.version,
            release.version
        ),
    })
}

pub(super) fn is_available(cluster: &HostedCluster) -> bool {
    cluster.status.as_ref().is_some_and(|status| is_condition_true(&status.conditions, "Available"))
}

/// What kubelets say they are, counted: version → (ready, not ready).
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
