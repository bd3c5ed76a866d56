//! Telling the API what became of a pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use pilothouse_runtime::TaskError;
use serde_json::json;

use super::Pods;
use super::local::Local;
use super::plan::{Phase, Plan, Waiting};
use super::specification::{Refusal, all_containers, containers};
use super::status::{self, Report};
use super::termination;
use crate::shim::protocol::State;

impl Pods {
    pub(super) async fn report(&self, pod: &Pod, local: &Local, plan: &Plan<'_>) -> Result<(), TaskError> {
        let state = local.state();
        self.send(pod, local, &state, &plan.waiting, plan.initialized, plan.phase).await
    }

    /// Reports a pod of which nothing runs yet, and why.
    pub(super) async fn report_waiting(
        &self,
        pod: &Pod,
        local: &Local,
        cause: &str,
    ) -> Result<(), TaskError> {
        let waiting = Waiting { reason: "ContainerCreating", message: Some(cause.to_owned()) };
        let waiting: BTreeMap<_, _> =
            all_containers(pod).map(|container| (container.name.clone(), waiting.clone())).collect();
        self.send(pod, local, &local.state(), &waiting, false, Phase::Pending).await
    }

    /// Reports a pod whose processes were ended because it is being deleted.
    pub(super) async fn report_ended(&self, pod: &Arc<Pod>, local: &Local) -> Result<(), TaskError> {
        let state = local.state();
        if super::specification::is_finished(pod) || state.containers.is_empty() {
            return Ok(());
        }
        let well = containers(pod).iter().all(|container| {
            let known = state.containers.get(&container.name);
            known.is_some_and(|known| known.run.exit.as_ref().is_some_and(|exit| exit.code == 0))
        });
        let phase = if well { Phase::Succeeded } else { Phase::Failed };
        self.send(pod, local, &state, &BTreeMap::new(), true, phase).await
    }

    pub(super) async fn refuse(&self, pod: &Pod, refusal: &Refusal) -> Result<(), TaskError> {
        self.patch(pod, &status::refused(refusal)).await
    }

    async fn send(
        &self,
        pod: &Pod,
        local: &Local,
        state: &State,
        waiting: &BTreeMap<String, Waiting>,
        initialized: bool,
        phase: Phase,
    ) -> Result<(), TaskError> {
        let reported = local.reported();
        let ended = all_containers(pod).filter_map(|container| {
            let known = state.containers.get(&container.name)?;
            Some((container.name.clone(), termination::messages(&local.folder, container, known)))
        });
        let messages = ended.collect();
        let status = Report {
            pod,
            state,
            health: &local.health(),
            waiting,
            initialized,
            phase,
            address: local.address(),
            node_address: self.node_address(),
            started_at: local.record().started_at,
            messages: &messages,
            reported: reported.as_ref(),
            now: self.around().clock.now(),
        }
        .status();
        let known = reported.as_ref().or(pod.status.as_ref()) == Some(&status);
        if known && !is_overruled(&status, pod.status.as_ref()) {
            return Ok(());
        }
        self.patch(pod, &status).await?;
        let before = reported.or_else(|| pod.status.clone());
        self.inner.events.note_changes(pod, before.as_ref(), &status);
        local.set_reported(status);
        Ok(())
    }

    async fn patch(&self, pod: &Pod, status: &PodStatus) -> Result<(), TaskError> {
        let api: Api<Pod> =
            Api::namespaced(self.around().client.clone(), &pod.namespace().unwrap_or_default());
        // With the uid, so that a pod of the same name that came after it does not get its status.
        let patch = json!({"metadata": {"uid": pod.uid()}, "status": status});
        match api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(refused)) if matches!(refused.code, 404 | 409) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether somebody has changed a condition of ours since: pods of a node that was silent for too long are said to be not ready,
/// and nobody but their node ever says that they are. A copy that is merely older than our report has no later time.
fn is_overruled(reported: &PodStatus, shown: Option<&PodStatus>) -> bool {
    let shown = shown.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    reported.conditions.iter().flatten().any(|ours| {
        let theirs = shown.iter().find(|theirs| theirs.type_ == ours.type_);
        theirs.is_some_and(|theirs| {
            theirs.status != ours.status && theirs.last_transition_time > ours.last_transition_time
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_came_after_a_report_overrules_it() {
        let status = |word: &str, second: u32| -> PodStatus {
            let time = format!("2026-01-01T00:00:{second:02}Z");
            let ready = json!({"type": "Ready", "status": word, "lastTransitionTime": time});
            serde_json::from_value(json!({"conditions": [ready]})).unwrap()
        };
        // The same, an older copy, ours of the same moment, somebody else's.
        for (word, second, is) in
            [("True", 10, false), ("False", 9, false), ("False", 10, false), ("False", 11, true)]
        {
            assert_eq!(
                is_overruled(&status("True", 10), Some(&status(word, second))),
                is,
                "{word} at {second}"
            );
        }
        assert!(!is_overruled(&status("True", 10), None));
    }
}
