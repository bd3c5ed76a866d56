//! Towards a cluster that answers.

use pilothouse_arm::Failure;
use pilothouse_clusters_service_api::ClusterState;

use super::{Action, Plan, World, credentials, external_auths, node_pools, plus, upgrades};
use crate::manifests::{self, NotWritten, VERSION_FEEDBACK, VERSION_STATE_FEEDBACK};
use crate::observed::{Bundle, Report};
use crate::record::ClusterRecord;

/// What a `HostedCluster` that will never work says of itself, and the code for it.
const FATAL: [(&str, &str); 3] = [
    ("ValidConfiguration", "InvalidConfiguration"),
    ("ValidReleaseImage", "InvalidReleaseImage"),
    ("SupportedHostedCluster", "UnsupportedHostedCluster"),
];

/// Codes of what took too long.
const INSTALL_TIMEOUT: &str = "ClusterInstallTimeout";
const UPDATE_TIMEOUT: &str = "ClusterUpdateTimeout";

pub(super) fn plan(world: &World<'_>) -> Result<Plan, NotWritten> {
    let mut plan = Plan::unchanged(world);
    let begun = upgrades::begin(world, &mut plan);
    if !world.cluster.cloud_prepared {
        // What can go without the cloud must not wait for it.
        external_auths::wait_for_cluster(world, &mut plan);
        node_pools::wait_for_cluster(world, &mut plan);
        prepare_cloud(world, &mut plan);
        return Ok(plan);
    }
    if begun {
        plan.again = true;
        return Ok(plan);
    }
    if !world.missing.is_empty() {
        plan.actions.push(Action::RestoreCloud);
    }
    plan.cluster.cluster.status.dns_ready = true;
    let work = manifests::cluster_work(world.cluster, world.shard, world.settings)?;
    let hosted = world.ensure(&mut plan, work).map(|bundle| bundle.nested_report("HostedCluster"));
    let work = manifests::managed_cluster_work(world.cluster, world.shard)?;
    let managed = world.ensure(&mut plan, work).map(Bundle::direct_report);

    let hosted = hosted.unwrap_or_default();
    let pools_applied = node_pools::plan(world, &mut plan, hosted.applied)?;
    judge(world, &mut plan, &hosted, &managed.unwrap_or_default(), pools_applied);
    external_auths::judge(world, &mut plan, &hosted);
    upgrades::judge(world, &mut plan);
    credentials::plan(world, &mut plan)?;
    Ok(plan)
}

fn prepare_cloud(world: &World<'_>, plan: &mut Plan) {
    plan.actions.push(Action::PrepareCloud);
    plan.cluster.begin_checks(world.now);
    if plan.cluster.cluster.state == ClusterState::Validating {
        let group = &world.cluster.cluster.azure.managed_resource_group_name;
        let description =
            format!("step 5: preparing resource group `{group}` with DNS zone, load balancer, identities");
        plan.cluster.enter(ClusterState::Pending, description, world.now);
    }
}

/// What the reports mean for the cluster's state. `pools_applied`: what node pools take from their cluster has arrived.
fn judge(world: &World<'_>, plan: &mut Plan, hosted: &Report, managed: &Report, pools_applied: bool) {
    let record = &mut plan.cluster;
    if let (Some(host), Some(port)) = (hosted.text("Endpoint-Host"), hosted.number("Endpoint-Port")) {
        record.cluster.api.url = Some(format!("https://{host}:{port}"));
    }
    // A cluster that nobody has changed is ready as soon as it answers; one that was changed answered all along.
    let changed = record.update.is_none() || (pools_applied && is_done(record, hosted));
    if hosted.is_true("Available") && managed.is_true("ManagedClusterConditionAvailable") && changed {
        let description = match world.lost {
            None => "the control plane answers".to_owned(),
            // Its state is what was last seen of it, and is said to be that.
            Some(lost) => format!("{lost}; when it was last heard of, the control plane answered"),
        };
        record.enter(ClusterState::Ready, description, world.now);
        return;
    }
    let waiting = world.waiting(waiting_for(record, hosted, managed));
    if record.cluster.state == ClusterState::Ready {
        // What was made stays made: an outage is the monitor's news, told here in words.
        record.describe(format!("it was ready before; {waiting}"));
        return;
    }
    let updating = record.cluster.state == ClusterState::Updating;
    let fatal = FATAL.iter().find(|(condition, _)| hosted.is_refused(condition));
    // What was said of a former request says nothing about this one.
    if let Some((condition, code)) = fatal.filter(|_| !updating || hosted.is_current()) {
        let observed = hosted.words(condition).unwrap_or_default();
        let remedy = match updating {
            true => "ask for what is supported",
            false => "delete the cluster and create it with what is supported",
        };
        record.fail(code, failure(world, 9, observed, remedy));
        return;
    }
    match record.cluster.state {
        ClusterState::Error => {}
        ClusterState::Updating => record.enter(ClusterState::Updating, waiting.clone(), world.now),
        _ => record.enter(ClusterState::Installing, waiting.clone(), world.now),
    }
    let deadline = plus(record.since, world.deadlines.install.0);
    if world.now >= deadline {
        let remedy = "look at the HostedCluster and the pods of its control plane on the management cluster";
        // One that failed to change stays that way until it is done, or asked for again.
        let former = record.cluster.status.provision_error_code.as_deref();
        let code = if updating || former == Some(UPDATE_TIMEOUT) { UPDATE_TIMEOUT } else { INSTALL_TIMEOUT };
        record.fail(code, failure(world, 9, waiting, remedy));
    } else {
        plan.look_again_at(deadline);
    }
}

/// Whether what is asked of the cluster now was seen and carried out.
fn is_done(record: &ClusterRecord, hosted: &Report) -> bool {
    hosted.applied && hosted.is_current() && version_obstacle(record, hosted).is_none()
}

/// What keeps the control plane from the version that is asked for, as far as that was fed back.
fn version_obstacle(record: &ClusterRecord, hosted: &Report) -> Option<String> {
    let wanted = record.cluster.version.number()?;
    let (running, state) = (hosted.text(VERSION_FEEDBACK)?, hosted.text(VERSION_STATE_FEEDBACK)?);
    (running != wanted || state != "Completed")
        .then(|| format!("version {running} is {state}, {wanted} is wanted"))
}

/// What a cluster waits for, along the flow: the first thing that is not there yet.
fn waiting_for(record: &ClusterRecord, hosted: &Report, managed: &Report) -> String {
    if let Some(problem) = hosted.problem.as_ref().or(managed.problem.as_ref()) {
        return format!("step 8: the manifests cannot be applied: {problem}");
    }
    if !hosted.applied {
        return "step 7: waiting for the management cluster to apply the manifests".to_owned();
    }
    if record.update.is_some() && !hosted.is_current() {
        return "step 9: waiting for the hosted control plane to take the change".to_owned();
    }
    let is_missing = |condition: &str| hosted.is_false(condition) && !hosted.is_refused(condition);
    // One that was made runs on with what it has.
    if record.cluster.state != ClusterState::Ready
        && let Some((condition, _)) = FATAL.iter().find(|(condition, _)| is_missing(condition))
    {
        let words = hosted.words(condition).unwrap_or_default();
        return format!("step 9: waiting for what the hosted control plane is made from: {words}");
    }
    if !hosted.is_true("Available") {
        let words = hosted.words("Available").unwrap_or_else(|| "it has not been looked at yet".to_owned());
        return format!("step 9: waiting for the hosted control plane: {words}");
    }
    if let Some(obstacle) = version_obstacle(record, hosted).filter(|_| record.update.is_some()) {
        return format!("step 9: waiting for the hosted control plane: {obstacle}");
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
