//! Upgrades that are to begin, and what becomes of those that have.
//!
//! What could have been refused when it was asked for is looked at again when it begins: in between versions were changed
//! and node pools made.

use jiff::Timestamp;
use pilothouse_clusters_service_api::{ClusterState, NodePool, NodePoolStateValue, UpgradePolicyStateValue};

use super::{Plan, World};
use crate::admission;
use crate::record::{ClusterRecord, NodePoolRecord, Origin, Outcome, UpgradePolicies};

/// What an upgrade that has not begun should do now.
enum Turn {
    /// Nothing waits, or not yet.
    Rest,
    /// Its time has come: to this version, for whoever asked.
    Due(String, Origin),
}

/// Begins what is due; true if anything was begun, and what is wanted now is another thing than was looked at.
pub(super) fn begin(world: &World<'_>, plan: &mut Plan) -> bool {
    let mut begun = control_plane(world, plan);
    for index in 0..plan.node_pools.len() {
        begun |= node_pool(world, plan, index);
    }
    begun
}

fn control_plane(world: &World<'_>, plan: &mut Plan) -> bool {
    let (turn, look_again) = turn(&mut plan.cluster.upgrade_policies, world.now);
    if let Some(moment) = look_again {
        plan.look_again_at(moment);
    }
    let Turn::Due(version, origin) = turn else { return false };
    let record = &mut plan.cluster;
    if let Some(obstacle) = obstacle(world) {
        delay(&mut record.upgrade_policies, obstacle, world.now);
        return false;
    }
    let node_pools: Vec<NodePool> = world.node_pools.iter().map(|record| record.node_pool.clone()).collect();
    match admission::control_plane_upgrade(&version, &record.cluster, &node_pools, world.config) {
        Ok(version) => {
            record.begin_upgrade(version, &origin, world.now);
            start(&mut record.upgrade_policies, world.now);
            true
        }
        Err(refusal) => {
            fail(&mut record.upgrade_policies, refusal.to_string(), world.now);
            false
        }
    }
}

fn node_pool(world: &World<'_>, plan: &mut Plan, index: usize) -> bool {
    let (turn, look_again) = turn(&mut plan.node_pools[index].upgrade_policies, world.now);
    if let Some(moment) = look_again {
        plan.look_again_at(moment);
    }
    let Turn::Due(version, origin) = turn else { return false };
    let record = &mut plan.node_pools[index];
    let state = record.node_pool.status.state.value;
    let own = (state != NodePoolStateValue::Ready)
        .then(|| format!("waiting for the node pool to be ready: {}", record.node_pool.status.message));
    if let Some(obstacle) = obstacle(world).or(own) {
        delay(&mut record.upgrade_policies, obstacle, world.now);
        return false;
    }
    match admission::node_pool_upgrade(&version, &record.node_pool, &world.cluster.cluster, world.config) {
        Ok(version) => {
            record.begin_upgrade(version, &origin, world.now);
            start(&mut record.upgrade_policies, world.now);
            true
        }
        Err(refusal) => {
            fail(&mut record.upgrade_policies, refusal.to_string(), world.now);
            false
        }
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

fn turn(policies: &mut UpgradePolicies, now: Timestamp) -> (Turn, Option<Timestamp>) {
    let Some(waiting) = policies.waiting() else { return (Turn::Rest, None) };
    let next_run = waiting.policy.next_run;
    if now >= next_run {
        return (Turn::Due(waiting.policy.version.clone(), waiting.origin.clone()), None);
    }
    (Turn::Rest, Some(next_run))
}

/// What keeps anything of a cluster from being upgraded now.
fn obstacle(world: &World<'_>) -> Option<String> {
    if let Some(lost) = world.lost {
        return Some(format!("waiting for the management cluster: {lost}"));
    }
    let cluster = &world.cluster.cluster;
    (cluster.state != ClusterState::Ready)
        .then(|| format!("waiting for the cluster to be ready: {}", cluster.status.description))
}

fn delay(policies: &mut UpgradePolicies, why: String, now: Timestamp) {
    enter(policies, UpgradePolicyStateValue::Delayed, why, now);
}

fn start(policies: &mut UpgradePolicies, now: Timestamp) {
    enter(policies, UpgradePolicyStateValue::Started, "it has begun".to_owned(), now);
}

fn fail(policies: &mut UpgradePolicies, why: String, now: Timestamp) {
    enter(policies, UpgradePolicyStateValue::Failed, why, now);
}

/// Of the one that has not begun.
fn enter(policies: &mut UpgradePolicies, value: UpgradePolicyStateValue, why: String, now: Timestamp) {
    let id = policies.waiting().map(|record| record.policy.id.clone());
    if let Some(record) = id.and_then(|id| policies.find_mut(&id)) {
        record.enter(value, why, now);
    }
}
