//! Towards a cluster that answers.

use pilothouse_arm::Failure;
use pilothouse_clusters_service_api::ClusterState;

use super::{Action, Plan, World, node_pools, plus};
use crate::manifests::{self, NotWritten};
use crate::observed::{Bundle, Report};

/// What a `HostedCluster` that will never work says of itself, and the code for it.
const FATAL: [(&str, &str); 3] = [
    ("ValidConfiguration", "InvalidConfiguration"),
    ("ValidReleaseImage", "InvalidReleaseImage"),
    ("SupportedHostedCluster", "UnsupportedHostedCluster"),
];

pub(super) fn plan(world: &World<'_>) -> Result<Plan, NotWritten> {
    let mut plan = Plan::unchanged(world);
    if !world.cluster.cloud_prepared {
        prepare_cloud(world, &mut plan);
        node_pools::wait_for_cluster(world, &mut plan);
        return Ok(plan);
    }
    plan.cluster.cluster.status.dns_ready = true;
    let work = manifests::cluster_work(world.cluster, world.shard, world.settings)?;
    let hosted = world.ensure(&mut plan, work).map(|bundle| bundle.nested_report("HostedCluster"));
    let work = manifests::managed_cluster_work(world.cluster, world.shard)?;
    let managed = world.ensure(&mut plan, work).map(Bundle::direct_report);

    let hosted = hosted.unwrap_or_default();
    judge(world, &mut plan, &hosted, &managed.unwrap_or_default());
    node_pools::plan(world, &mut plan, hosted.applied)?;
    Ok(plan)
}

fn prepare_cloud(world: &World<'_>, plan: &mut Plan) {
    plan.actions.push(Action::PrepareCloud);
    if plan.cluster.cluster.state == ClusterState::Validating {
        let group = &world.cluster.cluster.azure.managed_resource_group_name;
        let description =
            format!("step 5: preparing resource group `{group}` with DNS zone, load balancer, identities");
        plan.cluster.enter(ClusterState::Pending, description, world.now);
    }
}

/// What the reports mean for the cluster's state.
fn judge(world: &World<'_>, plan: &mut Plan, hosted: &Report, managed: &Report) {
    let record = &mut plan.cluster;
    if let (Some(host), Some(port)) = (hosted.text("Endpoint-Host"), hosted.number("Endpoint-Port")) {
        record.cluster.api.url = Some(format!("https://{host}:{port}"));
    }
    if hosted.is_true("Available") && managed.is_true("ManagedClusterConditionAvailable") {
        record.enter(ClusterState::Ready, "the control plane answers", world.now);
        return;
    }
    let waiting = waiting_for(hosted, managed);
    if record.cluster.state == ClusterState::Ready {
        // What was made stays made: an outage is the monitor's news, told here in words.
        record.describe(format!("it was ready before; {waiting}"));
        return;
    }
    let fatal = FATAL.iter().find(|(condition, _)| hosted.is_false(condition));
    if let Some((condition, code)) = fatal {
        let observed = hosted.words(condition).unwrap_or_default();
        record.fail(
            code,
            failure(world, 9, observed, "delete the cluster and create it with what is supported"),
        );
        return;
    }
    if record.cluster.state != ClusterState::Error {
        record.enter(ClusterState::Installing, waiting.clone(), world.now);
    }
    let deadline = plus(record.since, world.deadlines.install.0);
    if world.now >= deadline {
        let remedy = "look at the HostedCluster and the pods of its control plane on the management cluster";
        record.fail("ClusterInstallTimeout", failure(world, 9, waiting, remedy));
    } else {
        plan.look_again_at(deadline);
    }
}

/// What an installing cluster waits for, along the flow: the first thing that is not there yet.
fn waiting_for(hosted: &Report, managed: &Report) -> String {
    if let Some(problem) = hosted.problem.as_ref().or(managed.problem.as_ref()) {
        return format!("step 8: the manifests cannot be applied: {problem}");
    }
    if !hosted.applied {
        return "step 7: waiting for the management cluster to apply the manifests".to_owned();
    }
    if !hosted.is_true("Available") {
        let words = hosted.words("Available").unwrap_or_else(|| "it has not been looked at yet".to_owned());
        return format!("step 9: waiting for the hosted control plane: {words}");
    }
    let words = managed
        .words("ManagedClusterConditionAvailable")
        .unwrap_or_else(|| "it has not been looked at yet".to_owned());
    format!("step 10: waiting for the ManagedCluster: {words}")
}

fn failure(world: &World<'_>, step: u8, observed: String, remedy: &str) -> String {
    Failure {
        step,
        component: "services/hypershift".to_owned(),
        object: format!("cluster {}", world.cluster.cluster.id),
        observed,
        remedy: remedy.to_owned(),
    }
    .to_string()
}
