//! Away with a cluster, in reverse: node pools, manifests, cloud, record.

use pilothouse_clusters_service_api::ClusterState;

use super::{Action, Plan, World, credentials, node_pools, plus};
use crate::manifests;

pub(super) fn plan(world: &World<'_>) -> Plan {
    let mut plan = Plan::unchanged(world);
    let waiting = world.waiting(next(world, &mut plan));
    let deadline = plus(plan.cluster.since, world.deadlines.delete.0);
    let late = match world.cluster.is_abandoned() {
        true => "without its management cluster; ",
        false if world.now >= deadline => "overdue; ",
        false => "",
    };
    plan.cluster.enter(ClusterState::Uninstalling, format!("{late}{waiting}"), world.now);
    if world.now < deadline {
        plan.look_again_at(deadline);
    }
    plan
}

/// Adds what can be done now, and answers what is waited for.
fn next(world: &World<'_>, plan: &mut Plan) -> String {
    let id = &world.cluster.cluster.id;
    for (index, record) in world.node_pools.iter().enumerate() {
        let name = manifests::node_pool_work_name(id, &record.node_pool.id);
        if world.removed(plan, &name) {
            plan.actions.push(Action::RemoveNodePool(index));
        } else {
            // The deadline of its cluster is the one to wake for.
            let _deadline = node_pools::describe_deletion(world, &mut plan.node_pools[index]);
        }
    }
    let late = world.bundles.keys().filter(|name| !known(world, name));
    let late = late.filter(|name| !world.removed(plan, name)).count();
    let no_credentials = credentials::remove(world, plan);
    match world.node_pools {
        [] => {}
        [one] => return format!("waiting for node pool `{}` to go", one.node_pool.id),
        several => return format!("waiting for {} node pools to go", several.len()),
    }
    if !no_credentials {
        return "waiting for the requests for administrators' credentials to go".to_owned();
    }
    if late > 0 {
        return format!("waiting for {late} bundles to go that were posted late");
    }
    let managed = world.removed(plan, &manifests::managed_cluster_work_name(id));
    let hosted = world.removed(plan, &manifests::cluster_work_name(id));
    if !(managed && hosted) {
        return "waiting for the management cluster to remove the hosted control plane".to_owned();
    }
    plan.actions.push(Action::DeleteCloud);
    plan.actions.push(Action::RemoveCluster);
    let group = &world.cluster.cluster.azure.managed_resource_group_name;
    format!("deleting resource group `{group}`")
}

/// Whether a bundle is of something that there is a record of. Others were under way when their record went.
fn known(world: &World<'_>, name: &str) -> bool {
    super::names(world.cluster, world.node_pools, world.credentials).iter().any(|known| known == name)
}
