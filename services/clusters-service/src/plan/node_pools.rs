//! The node pools of a cluster that is to stay.

use pilothouse_arm::Failure;
use pilothouse_clusters_service_api::{NodePool, NodePoolStateValue};

use super::{Action, Plan, World, plus};
use crate::manifests::{self, NotWritten, VERSION_FEEDBACK};
use crate::observed::Report;
use crate::record::NodePoolRecord;

/// What a `NodePool` that will never work says of itself.
const FATAL: [&str; 3] = ["ValidReleaseImage", "SupportedVersionSkew", "ValidPlatformConfig"];

/// How many nodes there are to be: how many of these is decided below, by the load, and known from what is reported.
#[derive(Clone, Copy)]
struct Wanted {
    fewest: u32,
    most: u32,
}

/// Before there is a namespace for them.
pub(super) fn wait_for_cluster(world: &World<'_>, plan: &mut Plan) {
    for index in 0..plan.node_pools.len() {
        if plan.node_pools[index].deletion.is_some() {
            // Nothing was posted for it.
            plan.actions.push(Action::RemoveNodePool(index));
        } else {
            wait_for(world, plan, index, "waiting for its cluster to be handed to a management cluster");
        }
    }
}

/// `has_namespace`: a pool whose namespace is not there could not be applied, and nothing would wake it then.
///
/// Answers whether every pool that stays was applied as it should be now.
pub(super) fn plan(world: &World<'_>, plan: &mut Plan, has_namespace: bool) -> Result<bool, NotWritten> {
    let mut ready_nodes = 0;
    let mut all_applied = true;
    for (index, record) in world.node_pools.iter().enumerate() {
        let name = manifests::node_pool_work_name(&world.cluster.cluster.id, &record.node_pool.id);
        if record.deletion.is_some() {
            if world.removed(plan, &name) {
                plan.actions.push(Action::RemoveNodePool(index));
            } else {
                let deadline = describe_deletion(world, &mut plan.node_pools[index]);
                if world.now < deadline {
                    plan.look_again_at(deadline);
                }
            }
            continue;
        }
        let posted = world.bundles.contains_key(&name);
        if !has_namespace && !posted {
            wait_for(world, plan, index, "waiting for the namespace of its cluster");
            all_applied = false;
            continue;
        }
        let work = manifests::node_pool_work(world.cluster, record, world.shard, world.settings)?;
        let report = world.ensure(plan, work).map(|bundle| bundle.nested_report("NodePool"));
        let report = report.unwrap_or_default();
        all_applied &= report.applied;
        let node_pool = &mut plan.node_pools[index];
        let deadline = judge(world, node_pool, &report);
        ready_nodes += node_pool.node_pool.status.current_replicas;
        if let Some(deadline) = deadline {
            plan.look_again_at(deadline);
        }
    }
    plan.cluster.cluster.status.current_compute = ready_nodes;
    Ok(all_applied)
}

/// What the report means for the pool's state; answers when to look again by the clock.
fn judge(world: &World<'_>, record: &mut NodePoolRecord, report: &Report) -> Option<jiff::Timestamp> {
    let wanted = Wanted::of(&record.node_pool);
    if let Some(replicas) = report.number("Replicas") {
        record.node_pool.status.current_replicas = u32::try_from(replicas).unwrap_or_default();
    }
    let current = record.node_pool.status.current_replicas;
    // Until it was changed a pool has one version, and there is nothing to compare.
    let version = record.node_pool.version.number().filter(|_| record.update.is_some());
    let behind = version.zip(report.text(VERSION_FEEDBACK)).is_some_and(|(wanted, found)| wanted != found);
    if report.is_current() && report.is_true("Ready") && wanted.includes(current) && !behind {
        record.enter(NodePoolStateValue::Ready, wanted.told(current), world.now);
        return None;
    }
    let mut waiting = world.waiting(waiting_for(report, current, wanted));
    if behind && let (Some(wanted), Some(found)) = (version, report.text(VERSION_FEEDBACK)) {
        waiting = format!("{waiting}; nodes of version {found} are being replaced by {wanted}");
    }
    let state = record.node_pool.status.state.value;
    if state == NodePoolStateValue::Ready {
        record.enter(state, format!("it was ready before; {waiting}"), world.now);
        return None;
    }
    if state == NodePoolStateValue::Error {
        // Why it failed stays; how far it is by now is told by the number of nodes.
        return None;
    }
    if fatal(report).is_some() {
        let message = failure(world, record, waiting, "ask for what is supported");
        record.enter(NodePoolStateValue::Error, message, world.now);
        return None;
    }
    let under_way = match state {
        NodePoolStateValue::ValidatingUpdate | NodePoolStateValue::Updating => NodePoolStateValue::Updating,
        _ => NodePoolStateValue::Installing,
    };
    record.enter(under_way, waiting.clone(), world.now);
    let deadline = plus(record.node_pool.status.state.last_updated_timestamp, world.deadlines.node_pool.0);
    if world.now < deadline {
        return Some(deadline);
    }
    let remedy = "look at the NodePool and its machines on the management cluster";
    let message = failure(world, record, format!("{waiting}; its time is up"), remedy);
    record.enter(NodePoolStateValue::Error, message, world.now);
    None
}

impl Wanted {
    fn of(node_pool: &NodePool) -> Self {
        match (node_pool.replicas, node_pool.autoscaling) {
            (None, Some(bounds)) => Self { fewest: bounds.min_replica, most: bounds.max_replica },
            (replicas, _) => {
                Self { fewest: replicas.unwrap_or_default(), most: replicas.unwrap_or_default() }
            }
        }
    }

    fn includes(self, nodes: u32) -> bool {
        (self.fewest..=self.most).contains(&nodes)
    }

    fn told(self, ready: u32) -> String {
        let Self { fewest, most } = self;
        match fewest == most {
            true => format!("{ready} of {fewest} nodes are ready"),
            false => format!("{ready} nodes are ready, of {fewest} to {most} as the load asks for"),
        }
    }
}

/// What makes that it will never work, if anything does.
fn fatal(report: &Report) -> Option<&'static str> {
    FATAL.into_iter().find(|condition| report.is_current() && report.is_false(condition))
}

fn waiting_for(report: &Report, current: u32, wanted: Wanted) -> String {
    if let Some(problem) = &report.problem {
        return format!("step 8: the manifests cannot be applied: {problem}");
    }
    if !report.applied {
        return "step 7: waiting for the management cluster to apply the manifests".to_owned();
    }
    if let Some(fatal) = fatal(report) {
        return format!("step 9: {}", report.words(fatal).unwrap_or_default());
    }
    let words = report.words("Ready").filter(|_| report.is_current());
    let words = words.unwrap_or_else(|| "it has not been looked at yet".to_owned());
    format!("step 9: {}; {words}", wanted.told(current))
}

/// Says what a pool that is to go waits for; answers by when that should be over. Deletion has no other end: there is nothing
/// to fall back to.
pub(super) fn describe_deletion(world: &World<'_>, record: &mut NodePoolRecord) -> jiff::Timestamp {
    let waiting = world.waiting("waiting for the management cluster to remove its nodes".to_owned());
    record.enter(NodePoolStateValue::Uninstalling, waiting.clone(), world.now);
    let deadline = plus(record.node_pool.status.state.last_updated_timestamp, world.deadlines.delete.0);
    if world.now >= deadline {
        let remedy = "look at the NodePool and its machines on the management cluster";
        record.enter(NodePoolStateValue::Uninstalling, format!("overdue; {waiting}; {remedy}"), world.now);
    }
    deadline
}

/// A pool that waits for its cluster does so no longer than its cluster may take; afterwards it has failed until it is ready.
fn wait_for(world: &World<'_>, plan: &mut Plan, index: usize, waiting: &str) {
    let record = &mut plan.node_pools[index];
    if record.node_pool.status.state.value == NodePoolStateValue::Error {
        return;
    }
    let waiting = world.waiting(waiting.to_owned());
    record.enter(NodePoolStateValue::Pending, waiting.clone(), world.now);
    let limit = world.deadlines.of_cluster();
    let deadline = plus(record.node_pool.status.state.last_updated_timestamp, limit);
    if world.now < deadline {
        plan.look_again_at(deadline);
        return;
    }
    let remedy = "look at its cluster, which says what it waits for itself";
    let failure = Failure {
        step: 6,
        component: "services/clusters-service".to_owned(),
        object: format!("node pool {} of cluster {}", record.node_pool.id, world.cluster.cluster.id),
        observed: format!("{waiting}; its time is up"),
        remedy: remedy.to_owned(),
    };
    record.enter(NodePoolStateValue::Error, failure.to_string(), world.now);
}

/// What went wrong, in the words that arrive at whoever asked. The step is that of what was waited for.
fn failure(world: &World<'_>, record: &NodePoolRecord, waiting: String, remedy: &str) -> String {
    let number = waiting.strip_prefix("step ").and_then(|rest| rest.split_once(": "));
    let (step, observed) = match number.and_then(|(number, rest)| Some((number.parse().ok()?, rest))) {
        Some((step, observed)) => (step, observed.to_owned()),
        None => (9, waiting),
    };
    let component = if step == 9 { "services/hypershift" } else { "services/maestro" };
    Failure {
        step,
        component: component.to_owned(),
        object: format!("node pool {} of cluster {}", record.node_pool.id, world.cluster.cluster.id),
        observed,
        remedy: remedy.to_owned(),
    }
    .to_string()
}
