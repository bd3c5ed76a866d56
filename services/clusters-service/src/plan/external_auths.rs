//! The external auths of a cluster that is to stay. They are part of its `HostedCluster`, so nothing is posted for them.

use pilothouse_clusters_service_api::ExternalAuthStateValue;

use super::{Plan, World};
use crate::observed::Report;

/// What is true of every one that was handed over. The payload's API server knows only its own tokens and certificates.
const HANDED_OVER: &str = "the management cluster has taken it; the API server of payload `light` does not accept tokens of \
                           other issuers yet, so nobody gets in with one";

/// Before anything was posted.
pub(super) fn wait_for_cluster(world: &World<'_>, plan: &mut Plan) {
    let records = &mut plan.cluster.external_auths;
    records.retain(|record| record.deletion.is_none());
    for record in records {
        let waiting = "waiting for its cluster to be handed to a management cluster";
        record.enter(ExternalAuthStateValue::Installing, waiting, world.now);
    }
}

/// What the report on the `HostedCluster` as it is wanted now means for them.
pub(super) fn judge(world: &World<'_>, plan: &mut Plan, hosted: &Report) {
    let taken = hosted.applied && hosted.is_current();
    let records = &mut plan.cluster.external_auths;
    // The `HostedCluster` that was applied has no word of them any more.
    records.retain(|record| record.deletion.is_none() || !taken);
    for record in records {
        let state = record.external_auth.status.state.value;
        if record.deletion.is_some() {
            let waiting = "waiting for the management cluster to take it away";
            record.enter(ExternalAuthStateValue::Uninstalling, waiting, world.now);
        } else if taken && hosted.is_false("ValidConfiguration") {
            let words = hosted.words("ValidConfiguration").unwrap_or_default();
            record.enter(
                ExternalAuthStateValue::Error,
                format!("the management cluster refuses it: {words}"),
                world.now,
            );
        } else if taken {
            record.enter(ExternalAuthStateValue::Ready, HANDED_OVER, world.now);
        } else if !matches!(state, ExternalAuthStateValue::Ready | ExternalAuthStateValue::Error) {
            // One that was ready, or failed, is what it is while its cluster is changed for other reasons.
            let waiting = match &hosted.problem {
                Some(problem) => format!("step 8: the manifests cannot be applied: {problem}"),
                None => "step 7: waiting for the management cluster to take it".to_owned(),
            };
            let under_way = match state {
                ExternalAuthStateValue::Updating => ExternalAuthStateValue::Updating,
                _ => ExternalAuthStateValue::Installing,
            };
            record.enter(under_way, waiting, world.now);
        }
    }
}
