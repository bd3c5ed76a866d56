//! Upgrades that are to begin, and what becomes of those that have.
//!
//! What could have been refused when it was asked for is looked at again when it begins: in between versions were changed
//! and node pools made.

use jiff::Timestamp;
use pilothouse_clusters_service_api::{
    ClusterState, NodePool, NodePoolStateValue, UpgradePolicyStateValue, Version,
};

use super::{Plan, World, plus};
use crate::admission;
use crate::manifests;
use crate::record::{ClusterRecord, NodePoolRecord, Origin, Outcome, UpgradePolicies};
use crate::refusal::Refusal;

/// What has upgrades of its own.
trait Upgraded {
    fn policies(&mut self) -> &mut UpgradePolicies;

    /// What keeps it, and not the whole cluster, from being upgraded now.
    fn obstacle(&self, world: &World<'_>) -> Option<String>;

    /// Whether it can be had, looked at again.
    fn admit(&self, version: &str, world: &World<'_>) -> Result<Version, Refusal>;

    fn begin(&mut self, version: Version, origin: &Origin, now: Timestamp);
}

/// Begins what is due; true if anything was begun, and what is wanted now is another thing than was looked at.
pub(super) fn begin(world: &World<'_>, plan: &mut Plan) -> bool {
    let of_cluster = begin_one(world, &mut plan.cluster);
    let all: Vec<_> = std::iter::once(of_cluster)
        .chain(plan.node_pools.iter_mut().map(|node_pool| begin_one(world, node_pool)))
        .collect();
    all.iter().filter_map(|turn| turn.look_again).for_each(|moment| plan.look_again_at(moment));
    all.iter().any(|turn| turn.begun)
}

/// What came of one.
#[derive(Default)]
struct Turn {
    begun: bool,
    look_again: Option<Timestamp>,
}

fn begin_one(world: &World<'_>, record: &mut impl Upgraded) -> Turn {
    let Some(waiting) = record.policies().waiting() else { return Turn::default() };
    if world.now < waiting.policy.next_run {
        return Turn { look_again: Some(waiting.policy.next_run), begun: false };
    }
    let (version, origin) = (waiting.policy.version.clone(), waiting.origin.clone());
    let delayed_since = waiting.delayed_since.unwrap_or(world.now);
    let deadline = plus(delayed_since, world.deadlines.of_cluster());
    if let Some(obstacle) = obstacle(world).or_else(|| record.obstacle(world)) {
        if world.now < deadline {
            enter(record.policies(), UpgradePolicyStateValue::Delayed, obstacle, world.now);
            return Turn { look_again: Some(deadline), begun: false };
        }
        let why = format!("not begun by {deadline}; {obstacle}; ask for it again when that is over");
        enter(record.policies(), UpgradePolicyStateValue::Failed, why, world.now);
        return Turn::default();
    }
    match record.admit(&version, world) {
        Ok(version) => {
            record.begin(version, &origin, world.now);
            let begun = "it has begun".to_owned();
            enter(record.policies(), UpgradePolicyStateValue::Started, begun, world.now);
            Turn { begun: true, look_again: None }
        }
        Err(refusal) => {
            enter(record.policies(), UpgradePolicyStateValue::Failed, refusal.to_string(), world.now);
            Turn::default()
        }
    }
}

impl Upgraded for ClusterRecord {
    fn policies(&mut self) -> &mut UpgradePolicies {
        &mut self.upgrade_policies
    }

    fn obstacle(&self, _world: &World<'_>) -> Option<String> {
        None
    }

    fn admit(&self, version: &str, world: &World<'_>) -> Result<Version, Refusal> {
        let node_pools: Vec<NodePool> =
            world.node_pools.iter().map(|record| record.node_pool.clone()).collect();
        admission::control_plane_upgrade(version, &self.cluster, &node_pools, world.config)
    }

    fn begin(&mut self, version: Version, origin: &Origin, now: Timestamp) {
        self.begin_upgrade(version, origin, now);
    }
}

impl Upgraded for NodePoolRecord {
    fn policies(&mut self) -> &mut UpgradePolicies {
        &mut self.upgrade_policies
    }

    fn obstacle(&self, world: &World<'_>) -> Option<String> {
        let status = &self.node_pool.status;
        if status.state.value != NodePoolStateValue::Ready {
            return Some(format!("waiting for the node pool to be ready: {}", status.message));
        }
        let work = manifests::node_pool_work_name(&world.cluster.cluster.id, &self.node_pool.id);
        let unwell = unwell(world, &work, "NodePool", "Ready");
        unwell.map(|words| format!("waiting for the node pool to be ready again: {words}"))
    }

    fn admit(&self, version: &str, world: &World<'_>) -> Result<Version, Refusal> {
        admission::node_pool_upgrade(version, &self.node_pool, &world.cluster.cluster, world.config)
    }

    fn begin(&mut self, version: Version, origin: &Origin, now: Timestamp) {
        self.begin_upgrade(version, origin, now);
    }
}

/// What the states of what is upgraded mean for the upgrades.
pub(super) fn judge(world: &World<'_>, plan: &mut Plan) {
    let record = &mut plan.cluster;
    let status = &record.cluster.status;
    let outcome = match record.cluster.state {
        ClusterState::Ready => Outcome::Done,
        ClusterState::Error => Outcome::Failed(status.description.clone()),
        _ => Outcome::UnderWay(status.description.clone()),
    };
    let running = record.cluster.version.number().unwrap_or_default().to_owned();
    record.upgrade_policies.judge(&running, outcome, world.now);
    for record in &mut plan.node_pools {
        let status = &record.node_pool.status;
        let outcome = match status.state.value {
            NodePoolStateValue::Ready => Outcome::Done,
            NodePoolStateValue::Error => Outcome::Failed(status.message.clone()),
            _ => Outcome::UnderWay(status.message.clone()),
        };
        let running = record.node_pool.version.number().unwrap_or_default().to_owned();
        record.upgrade_policies.judge(&running, outcome, world.now);
    }
    // What waited for something to be ready has nobody else to tell it that this is so.
    plan.again |= is_ready_now(world, plan) && is_any_due(world, plan);
}

fn is_ready_now(world: &World<'_>, plan: &Plan) -> bool {
    let ready = |record: &ClusterRecord| record.cluster.state == ClusterState::Ready;
    let pool_ready =
        |record: &NodePoolRecord| record.node_pool.status.state.value == NodePoolStateValue::Ready;
    let mut pools = world.node_pools.iter().zip(&plan.node_pools);
    (!ready(world.cluster) && ready(&plan.cluster))
        || pools.any(|(before, after)| !pool_ready(before) && pool_ready(after))
}

fn is_any_due(world: &World<'_>, plan: &Plan) -> bool {
    let pools = plan.node_pools.iter().map(|record| &record.upgrade_policies);
    let mut all = std::iter::once(&plan.cluster.upgrade_policies).chain(pools);
    all.any(|policies| policies.waiting().is_some_and(|record| record.policy.next_run <= world.now))
}

/// What keeps anything of a cluster from being upgraded now.
fn obstacle(world: &World<'_>) -> Option<String> {
    if let Some(lost) = world.lost {
        return Some(format!("waiting for the management cluster: {lost}"));
    }
    let cluster = &world.cluster.cluster;
    if cluster.state != ClusterState::Ready {
        return Some(format!("waiting for the cluster to be ready: {}", cluster.status.description));
    }
    let unwell = unwell(world, &manifests::cluster_work_name(&cluster.id), "HostedCluster", "Available");
    unwell.map(|words| format!("waiting for the cluster to be available again: {words}"))
}

/// What was made stays ready through an outage; that it is out of order is known from what was last reported of it.
fn unwell(world: &World<'_>, work: &str, kind: &str, condition: &str) -> Option<String> {
    let report = world.bundles.get(work)?.nested_report(kind);
    report.words(condition).filter(|_| report.is_false(condition))
}

/// Of the one that has not begun.
fn enter(policies: &mut UpgradePolicies, value: UpgradePolicyStateValue, why: String, now: Timestamp) {
    let id = policies.waiting().map(|record| record.policy.id.clone());
    if let Some(record) = id.and_then(|id| policies.find_mut(&id)) {
        record.enter(value, why, now);
    }
}
