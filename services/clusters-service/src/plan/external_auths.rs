//! The external auths of a cluster that is to stay. They are part of its `HostedCluster`, so nothing is posted for them.

use pilothouse_clusters_service_api::ExternalAuthStateValue;

use super::{Plan, World, plus};
use crate::observed::Report;
use crate::record::ExternalAuthRecord;

/// Says of a `HostedCluster` whether everything is as it should be, and there, that it names.
const CONFIGURED: &str = "ValidConfiguration";
/// Says of a `HostedCluster` whether the API server that answers was told of the issuers. It is there only where there are any.
const BELIEVED: &str = "ValidOIDCConfiguration";

/// Before anything was posted.
pub(super) fn wait_for_cluster(world: &World<'_>, plan: &mut Plan) {
    let mut records = std::mem::take(&mut plan.cluster.external_auths);
    records.retain(|record| record.deletion.is_none());
    for record in &mut records {
        if record.external_auth.status.state.value != ExternalAuthStateValue::Error {
            let waiting = "waiting for its cluster to be handed to a management cluster".to_owned();
            wait_for(world, plan, record, ExternalAuthStateValue::Installing, waiting);
        }
    }
    plan.cluster.external_auths = records;
}

/// What the report on the `HostedCluster` as it is wanted now means for them.
pub(super) fn judge(world: &World<'_>, plan: &mut Plan, hosted: &Report) {
    let taken = hosted.applied && hosted.is_current();
    let mut records = std::mem::take(&mut plan.cluster.external_auths);
    // The `HostedCluster` that was applied has no word of them any more.
    records.retain(|record| record.deletion.is_none() || !taken);
    for record in &mut records {
        let state = record.external_auth.status.state.value;
        if record.deletion.is_some() {
            let waiting = "waiting for the management cluster to take it away".to_owned();
            wait_for(world, plan, record, ExternalAuthStateValue::Uninstalling, waiting);
        } else if let Some(refusal) = refusal(hosted).filter(|_| taken) {
            let message = format!("the management cluster refuses it: {refusal}");
            record.enter(ExternalAuthStateValue::Error, message, world.now);
        } else if taken && hosted.is_true(BELIEVED) && !hosted.is_false(CONFIGURED) {
            record.enter(
                ExternalAuthStateValue::Ready,
                hosted.words(BELIEVED).unwrap_or_default(),
                world.now,
            );
        } else if !matches!(state, ExternalAuthStateValue::Ready | ExternalAuthStateValue::Error) {
            // One that was ready, or failed, is what it is while its cluster is changed for other reasons, or is out of order.
            let waiting = waiting_for(hosted, taken);
            let under_way = match state {
                ExternalAuthStateValue::Updating => ExternalAuthStateValue::Updating,
                _ => ExternalAuthStateValue::Installing,
            };
            wait_for(world, plan, record, under_way, waiting);
        }
    }
    plan.cluster.external_auths = records;
}

/// Why nobody will ever be let in, if that is so.
fn refusal(hosted: &Report) -> Option<String> {
    let refused = [CONFIGURED, BELIEVED].into_iter().find(|condition| hosted.is_refused(condition));
    refused.and_then(|condition| hosted.words(condition))
}

fn waiting_for(hosted: &Report, taken: bool) -> String {
    if let Some(problem) = &hosted.problem {
        return format!("step 8: the manifests cannot be applied: {problem}");
    }
    if !taken {
        return "step 7: waiting for the management cluster to take it".to_owned();
    }
    let words = hosted.words(BELIEVED).unwrap_or_else(|| "it has not been looked at yet".to_owned());
    format!("step 9: waiting for the API server to know of it: {words}")
}

/// Stays under way until its time is up. One that is to go has no other end: there is nothing to fall back to.
fn wait_for(
    world: &World<'_>,
    plan: &mut Plan,
    record: &mut ExternalAuthRecord,
    state: ExternalAuthStateValue,
    waiting: String,
) {
    let waiting = world.waiting(waiting);
    record.enter(state, waiting.clone(), world.now);
    let limit = match state {
        ExternalAuthStateValue::Uninstalling => world.deadlines.delete.0,
        ExternalAuthStateValue::Updating => world.deadlines.install.0,
        // It may have to wait for its cluster first.
        _ => world.deadlines.of_cluster(),
    };
    let deadline = plus(record.external_auth.status.state.last_updated_timestamp, limit);
    if world.now < deadline {
        plan.look_again_at(deadline);
        return;
    }
    let remedy = "look at the HostedCluster on the management cluster";
    match state {
        ExternalAuthStateValue::Uninstalling => {
            record.enter(state, format!("overdue; {waiting}; {remedy}"), world.now);
        }
        _ => {
            let message = format!("not done by {deadline}; {waiting}; {remedy}");
            record.enter(ExternalAuthStateValue::Error, message, world.now);
        }
    }
}
