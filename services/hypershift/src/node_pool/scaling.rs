//! Letting the number of a pool's workers follow the load of its cluster.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Toleration};
use kube::Api;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams};
use pilothouse_crds::{ClusterAutoscaling, Machine, NodePool, Scaling};
use pilothouse_informer::ObjectKey;
use serde_json::json;
use tokio::time::timeout;
use tracing::info;

use super::autoscaler::{self, Bounds, Decision, Load, Room};
use super::fleet::{self, Hosted};
use super::observation::{AUTOSCALED, desired};
use super::plan::Worker;
use super::{FIRST_LIST, NodePools, Scene, describe};
use crate::apply;
use crate::error::Error;

/// How long a node has to be of no use before it goes, unless the cluster says otherwise.
const UNNEEDED: Duration = Duration::from_secs(600);

/// Since when nodes have had nothing to do, by pool and name. Whoever comes after us counts anew.
#[derive(Debug, Default)]
pub(crate) struct Idle(Mutex<HashMap<ObjectKey, BTreeMap<String, Timestamp>>>);

/// How far a look at the load came.
pub(super) enum Scaled {
    /// The pool was changed, which brings the next pass.
    Changed,
    /// It is as it should be, until then if nothing happens.
    Kept(Option<Duration>),
}

// === impl NodePools ===

impl NodePools {
    /// Changes the number of workers a pool should have, if its load asks for it.
    pub(super) async fn follow_load(
        &self,
        scene: &Scene<'_>,
        workers: &[Worker],
        hosted: &Hosted,
    ) -> Result<Scaled, Error> {
        let Some(bounds) = bounds(scene) else { return Ok(Scaled::Kept(None)) };
        let Some(pods) = self.nodes.pods(scene.cluster_key, scene.key) else { return Ok(Scaled::Kept(None)) };
        if timeout(FIRST_LIST, pods.synced()).await.is_err() {
            return Ok(Scaled::Kept(Some(FIRST_LIST)));
        }
        let now = self.clock.now();
        let current = desired(scene.pool);
        let nodes = fleet::nodes(scene.key, hosted);
        let load = self.load(scene, workers, &nodes, &pods.list(), now);
        match bounds.decide(current, &load, now) {
            Decision::Keep(next) => Ok(Scaled::Kept(next)),
            Decision::Grow(replicas) => {
                info!(pool = %scene.key, replicas, "the number of nodes follows the load");
                self.remember(scene, replicas).await?;
                Ok(Scaled::Changed)
            }
            Decision::Shrink(node) => {
                info!(pool = %scene.key, node, "a node is not needed any more");
                self.remember(scene, current.saturating_sub(1)).await?;
                let machines: Api<Machine> = Api::namespaced(self.client.clone(), &scene.namespace);
                apply::ensure_deleted(&machines, &node, &DeleteParams::default()).await?;
                Ok(Scaled::Changed)
            }
        }
    }

    fn load(
        &self,
        scene: &Scene<'_>,
        workers: &[Worker],
        nodes: &[Arc<Node>],
        pods: &[Arc<Pod>],
        now: Timestamp,
    ) -> Load {
        let current = desired(scene.pool);
        let waiting =
            pods.iter().filter(|pod| autoscaler::waits_for_room(pod) && suits(pod, scene.pool, nodes));
        let busy = |node: &Arc<Node>| {
            let name = node.name_any();
            let here =
                |pod: &&Arc<Pod>| pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) == Some(&name);
            pods.iter().filter(here).any(|pod| autoscaler::needs_its_node(pod))
        };
        let mut known = self.idle.lock();
        let before = known.remove(scene.key).unwrap_or_default();
        let idle: BTreeMap<_, _> = nodes
            .iter()
            .filter(|node| fleet::is_node_ready(node) && !busy(node))
            .map(|node| (node.name_any(), before.get(&node.name_any()).copied().unwrap_or(now)))
            .collect();
        known.insert(scene.key.clone(), idle.clone());
        Load {
            waiting: waiting.map(|pod| Room::of_pod(pod)).collect(),
            node: nodes.first().map_or_else(|| of_machine(scene.pool), |node| Room::of_node(node)),
            idle,
            settled: workers.len() == current && workers.iter().all(Worker::is_ready),
        }
    }

    /// Writes the number down that was decided on, beside what the user asked for.
    async fn remember(&self, scene: &Scene<'_>, replicas: usize) -> Result<(), Error> {
        let patch = json!({ "metadata": {
            "annotations": { AUTOSCALED: replicas.to_string() },
            "resourceVersion": scene.pool.metadata.resource_version,
        } });
        self.pools(scene.key)
            .patch(&scene.key.name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map_err(|error| Error::management("change", describe(scene.key), error))?;
        Ok(())
    }
}

// === impl Idle ===

impl Idle {
    /// The pool is gone.
    pub(super) fn forget(&self, pool: &ObjectKey) {
        self.lock().remove(pool);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, BTreeMap<String, Timestamp>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bounds of a pool; nothing if it does not follow the load.
fn bounds(scene: &Scene<'_>) -> Option<Bounds> {
    let bounds = scene.pool.spec.auto_scaling.as_ref()?;
    let usual = ClusterAutoscaling::default();
    let settings = scene.cluster.spec.autoscaling.as_ref().unwrap_or(&usual);
    let asked = settings.scale_down.as_ref().and_then(|down| down.unneeded_duration_seconds);
    let unneeded =
        asked.and_then(|seconds| u64::try_from(seconds).ok()).map_or(UNNEEDED, Duration::from_secs);
    Some(Bounds {
        least: usize::try_from(bounds.min).unwrap_or_default(),
        most: usize::try_from(bounds.max).unwrap_or_default(),
        unneeded: (settings.scaling == Scaling::ScaleUpAndScaleDown).then_some(unneeded),
    })
}

/// Whether a pod could run on a node of this pool, if there were room.
fn suits(pod: &Pod, pool: &NodePool, nodes: &[Arc<Node>]) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let selected = spec.node_selector.iter().flatten().all(|(key, value)| {
        pool.spec.node_labels.get(key) == Some(value)
            || nodes.first().is_some_and(|node| node.labels().get(key) == Some(value))
    });
    let tolerated = pool.spec.taints.iter().filter(|taint| taint.effect != "PreferNoSchedule").all(|taint| {
        spec.tolerations.iter().flatten().any(|toleration| {
            tolerates(toleration, &taint.key, &taint.value)
                && toleration
                    .effect
                    .as_ref()
                    .is_none_or(|effect| effect.is_empty() || *effect == taint.effect)
        })
    });
    selected && tolerated
}

fn tolerates(toleration: &Toleration, key: &str, value: &str) -> bool {
    let exists = toleration.operator.as_deref() == Some("Exists");
    match toleration.key.as_deref().unwrap_or_default() {
        "" => exists,
        known => known == key && (exists || toleration.value.as_deref().unwrap_or_default() == value),
    }
}

/// What a node of this pool would have, as far as its machine says.
fn of_machine(pool: &NodePool) -> Room {
    let Some(kubevirt) = &pool.spec.platform.kubevirt else { return Room::default() };
    Room {
        processor: i128::from(kubevirt.compute.cores) * 1000,
        memory: autoscaler::thousandths(&kubevirt.compute.memory).unwrap_or_default(),
        pods: 250_000,
    }
}
