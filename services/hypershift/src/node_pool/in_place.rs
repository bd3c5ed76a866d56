//! Changing a worker while its node stays.
//!
//! The node is emptied; then what it runs on is made anew from the current template, reads the current user data, and joins by the same
//! name; then the node is opened again. Where a worker is in this is read from what there is of it, so whoever comes next goes on.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use pilothouse_crds::{Machine, VirtualMachine, VirtualMachineInstance};
use serde_json::json;
use tracing::info;

use super::NodePools;
use super::drain::{self, Drain, Drained};
use super::fingerprint::Fingerprint;
use super::fleet::{self, Hosted, Member};
use super::machine::UPDATING;
use super::removal::{Farewell, Removal};
use super::template::Template;
use crate::apply;
use crate::error::{Error, is_missing};

/// What comes next for a worker that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Empty its node, then stop what it runs on.
    Stop,
    /// Wait for its process to go or come.
    Wait,
    /// Its node has to say again that it is well: what it says is of before.
    Doubt,
    /// Open its node.
    Finish,
}

// === impl NodePools ===

impl NodePools {
    /// Takes the next step with a worker that changes in place.
    pub(super) async fn update(
        &self,
        template: &Template<'_>,
        member: &Member,
        hosted: &Hosted,
        farewell: &Farewell<'_>,
    ) -> Result<Removal, Error> {
        match step(member, &template.made_of) {
            Step::Wait => Ok(Removal::Going),
            Step::Stop => {
                if let Some(left) = self.empty_for_update(member, hosted, farewell).await? {
                    return Ok(Removal::Draining(left));
                }
                self.stop(template, member).await?;
                Ok(Removal::Going)
            }
            Step::Doubt => {
                self.doubt(template, member, hosted).await?;
                Ok(Removal::Going)
            }
            Step::Finish => {
                self.finish(template, member, hosted).await?;
                Ok(Removal::Gone)
            }
        }
    }

    async fn empty_for_update(
        &self,
        member: &Member,
        hosted: &Hosted,
        farewell: &Farewell<'_>,
    ) -> Result<Option<String>, Error> {
        let Some(node) = &member.node else { return Ok(None) };
        let cluster = farewell.cluster.to_string();
        let alive = fleet::is_node_ready(node);
        let drain = Drain { cluster: &cluster, client: &hosted.client, node, alive };
        drain.cordon(true).await?;
        if drain::is_over(member.updating_since(), farewell.drain_limit, self.clock.now()) {
            return Ok(None);
        }
        Ok(match drain.evict().await? {
            Drained::NotYet(left) => Some(left),
            Drained::Yes => None,
        })
    }

    /// Ends what the worker runs on. A pod is made anew by whoever sees that it is missing.
    async fn stop(&self, template: &Template<'_>, member: &Member) -> Result<(), Error> {
        let name = member.name();
        if let Some(known) = &member.virtual_machine {
            let machines: Api<VirtualMachine> = Api::namespaced(self.client.clone(), template.namespace);
            let desired = template.virtual_machine(&member.machine)?;
            apply::ensure(&machines, Some(known.clone()), &desired).await?;
            let instances: Api<VirtualMachineInstance> =
                Api::namespaced(self.client.clone(), template.namespace);
            return apply::ensure_deleted(&instances, &name, &DeleteParams::default()).await;
        }
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), template.namespace);
        apply::ensure_deleted(&pods, &name, &DeleteParams::default()).await
    }

    /// Says of a node that nobody knows how it is. Its new process says it anew when it is well.
    async fn doubt(&self, template: &Template<'_>, member: &Member, hosted: &Hosted) -> Result<(), Error> {
        let name = member.name();
        let nodes: Api<Node> = Api::all(hosted.client.clone());
        let now = self.clock.now();
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
        let patch = json!({ "status": { "conditions": [{
            "type": "Ready", "status": "Unknown", "reason": "NodeRestarted",
            "message": "it was changed in place and has not reported since",
            "lastTransitionTime": now, "lastHeartbeatTime": now,
        }] } });
        match nodes.patch_status(&name, &PatchParams::default(), &Patch::Strategic(patch)).await {
            Ok(_) => Ok(()),
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => Err(Error::Hosted {
                cluster: template.cluster.to_string(),
                action: format!("change the status of node {name}"),
                source: error.into(),
            }),
        }
    }

    async fn finish(&self, template: &Template<'_>, member: &Member, hosted: &Hosted) -> Result<(), Error> {
        if let Some(node) = &member.node {
            let cluster = template.cluster.to_string();
            Drain { cluster: &cluster, client: &hosted.client, node, alive: true }.cordon(false).await?;
        }
        let name = member.name();
        let desired = template.machine(&name)?;
        let mut annotations = json!(template.made_of.annotations());
        annotations[UPDATING] = json!(null);
        let patch = json!({
            "metadata": { "annotations": annotations },
            "spec": { "bootstrap": desired.spec.bootstrap, "version": desired.spec.version },
        });
        let machines: Api<Machine> = Api::namespaced(self.client.clone(), template.namespace);
        machines
            .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map_err(|error| Error::management("change", format!("Machine {name}"), error))?;
        info!(pool = %template.key, worker = name, "changed a worker in place");
        Ok(())
    }
}

fn step(member: &Member, wanted: &Fingerprint) -> Step {
    // A machine says at once what it will be; its process says what it is.
    let machine_is_new =
        member.virtual_machine.as_ref().is_none_or(|machine| Fingerprint::read(&machine.metadata) == *wanted);
    let Some(pod) = &member.pod else {
        return if machine_is_new { Step::Wait } else { Step::Stop };
    };
    if pod.metadata.deletion_timestamp.is_some() {
        return Step::Wait;
    }
    if Fingerprint::read(&pod.metadata) != *wanted {
        return Step::Stop;
    }
    let started = pod.status.as_ref().and_then(|status| Some(status.start_time.as_ref()?.0));
    let (Some(started), Some(node)) = (started, &member.node) else { return Step::Wait };
    let reported = fleet::ready_condition(node)
        .and_then(|condition| Some((condition.status == "True", condition.last_transition_time.as_ref()?.0)));
    match reported {
        Some((true, since)) if since >= started => Step::Finish,
        Some((true, _)) => Step::Doubt,
        _ => Step::Wait,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use rstest::rstest;
    use serde_json::Value;

    use super::*;

    fn made<K: serde::de::DeserializeOwned>(value: Value) -> K {
        serde_json::from_value(value).unwrap()
    }

    fn fingerprint(version: &str) -> Fingerprint {
        Fingerprint { version: version.to_owned(), ..Fingerprint::default() }
    }

    fn pod(version: &str, going: bool) -> Pod {
        let mut pod: Pod = made(json!({ "status": { "startTime": "2026-01-01T00:01:00Z" } }));
        pod.metadata.annotations = Some(fingerprint(version).annotations());
        if going {
            pod.metadata.deletion_timestamp = made(json!("2026-01-01T00:00:00Z"));
        }
        pod
    }

    fn node(ready: &str, since: &str) -> Node {
        let condition = json!({ "type": "Ready", "status": ready, "lastTransitionTime": format!("2026-01-01T00:{since}:00Z") });
        made(json!({ "status": { "conditions": [condition] } }))
    }

    #[rstest]
    #[case(Some(pod("old", false)), Some(node("True", "00")), Step::Stop)]
    #[case(Some(pod("old", true)), Some(node("True", "00")), Step::Wait)]
    #[case(None, Some(node("True", "00")), Step::Wait)]
    #[case(Some(pod("new", false)), None, Step::Wait)]
    #[case(Some(pod("new", false)), Some(node("True", "00")), Step::Doubt)] // said by its predecessor
    #[case(Some(pod("new", false)), Some(node("Unknown", "02")), Step::Wait)]
    #[case(Some(pod("new", false)), Some(node("True", "03")), Step::Finish)]
    fn a_worker_is_changed_when_its_new_process_says_that_it_is_well(
        #[case] pod: Option<Pod>,
        #[case] node: Option<Node>,
        #[case] expected: Step,
    ) {
        let member = Member {
            machine: Machine::default().into(),
            virtual_machine: None,
            pod: pod.map(Into::into),
            node: node.map(Into::into),
        };
        assert_eq!(step(&member, &fingerprint("new")), expected);
    }
}
