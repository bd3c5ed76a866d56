//! What a worker's machine says of itself.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use pilothouse_crds::{ConditionStatus, Machine, MachineAddress, MachineStatus, NodePoolCondition};
use serde_json::Value;

use super::NodePools;
use super::fleet::Member;
use super::status::set_condition;
use crate::error::{Error, has_reason, is_missing};

impl NodePools {
    /// Writes down how workers are, where that has changed. `left` says what keeps nodes from being empty.
    pub(super) async fn report_machines(
        &self,
        namespace: &str,
        members: &[Member],
        left: &[(String, String)],
    ) -> Result<(), Error> {
        let machines: Api<Machine> = Api::namespaced(self.client.clone(), namespace);
        let now = self.clock.now();
        let written = members.iter().map(async |member| {
            let name = member.name();
            let left = left.iter().find(|(worker, _)| *worker == name).map(|(_, left)| left.as_str());
            let status = observe(member, left, now);
            if member.machine.status.as_ref() == Some(&status) {
                return Ok(());
            }
            let changed = Machine { status: Some(status), ..member.machine.as_ref().clone() };
            match machines.replace_status(&name, &PostParams::default(), &changed).await {
                Ok(_) => Ok(()),
                // Another pass is on its way.
                Err(error) if is_missing(&error) || has_reason(&error, "Conflict") => Ok(()),
                Err(error) => Err(Error::management(
                    "change the status of",
                    format!("Machine {namespace}/{name}"),
                    error,
                )),
            }
        });
        futures::future::try_join_all(written).await?;
        Ok(())
    }
}

/// The status that follows.
fn observe(member: &Member, left: Option<&str>, now: Timestamp) -> MachineStatus {
    let mut status = member.machine.status.clone().unwrap_or_default();
    let phase = if member.is_going() {
        "Deleting"
    } else if member.node.is_some() {
        "Running"
    } else if member.is_running() {
        "Provisioned"
    } else {
        "Provisioning"
    };
    if status.phase != phase {
        phase.clone_into(&mut status.phase);
        status.last_updated = Some(Time(Timestamp::from_second(now.as_second()).unwrap_or(now)));
    }
    status.bootstrap_ready = true;
    status.infrastructure_ready = member.is_running();
    status.observed_generation = member.machine.metadata.generation;
    if let Some(node) = &member.node {
        status.node_ref = Some(ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.name_any()),
            uid: node.uid(),
            ..ObjectReference::default()
        });
        let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
        status.node_info = info.and_then(|info| serde_json::to_value(info).ok()).filter(Value::is_object);
    }
    let address = member.pod.as_ref().and_then(|pod| pod.status.as_ref()?.pod_ip.clone());
    let addresses = [("Hostname", Some(member.name())), ("InternalIP", address)];
    status.addresses = addresses
        .into_iter()
        .filter_map(|(type_, address)| Some(MachineAddress { type_: type_.to_owned(), address: address? }))
        .collect();
    for (type_, holds, reason, message) in conditions(member, left) {
        let verdict = ConditionStatus::from(holds);
        let reason = if holds { "" } else { reason };
        set_condition(&mut status.conditions, NodePoolCondition::new(type_, verdict, reason, message, now));
    }
    status
}

fn conditions(member: &Member, left: Option<&str>) -> Vec<(&'static str, bool, &'static str, String)> {
    let state = || member.worker(&Default::default()).state;
    let running = member.is_running();
    let ready = member.is_node_ready();
    let why = |holds: bool| if holds { String::new() } else { state() };
    let mut conditions = vec![
        ("Ready", running && ready && !member.is_going(), "WaitingForNode", why(running && ready)),
        ("BootstrapReady", true, "", String::new()),
        ("InfrastructureReady", running, "WaitingForInfrastructure", why(running)),
        ("NodeHealthy", ready, "NodeNotReady", why(ready)),
    ];
    if member.is_going() || left.is_some() {
        let message = left.map(|left| format!("waiting for {left}")).unwrap_or_default();
        conditions.push(("DrainingSucceeded", left.is_none(), "Draining", message));
    }
    conditions
}
