//! What is reported about a pod: a pure function, so that an unchanged pod is never reported twice.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState as ReportedState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

use super::plan::{Health, Phase, Waiting};
use super::specification::{Refusal, containers, init_containers, is_sidecar};
use crate::shim::protocol::{Run, State};

/// Everything a status says.
pub(crate) struct Report<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) state: &'a State,
    pub(crate) health: &'a BTreeMap<String, Health>,
    pub(crate) waiting: &'a BTreeMap<String, Waiting>,
    pub(crate) initialized: bool,
    pub(crate) phase: Phase,
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) node_address: Ipv4Addr,
    pub(crate) started_at: Timestamp,
    /// The last words of containers that have ended: of the present attempt, and of the one before.
    pub(crate) messages: &'a BTreeMap<String, [Option<String>; 2]>,
    /// What was last reported by this process; newer than what the cache says, if there is one.
    pub(crate) reported: Option<&'a PodStatus>,
    pub(crate) now: Timestamp,
}

/// Whether a condition holds, and if not, the reason and the message.
type Verdict = (bool, Option<(String, String)>);

const OURS: [&str; 4] = ["PodScheduled", "Initialized", "ContainersReady", "Ready"];

impl Report<'_> {
    pub(crate) fn status(&self) -> PodStatus {
        let finished = matches!(self.phase, Phase::Succeeded | Phase::Failed);
        let container_statuses: Vec<_> =
            containers(self.pod).iter().map(|container| self.container(container, false)).collect();
        let init_statuses: Vec<_> =
            init_containers(self.pod).iter().map(|container| self.container(container, true)).collect();
        let unready: Vec<_> = container_statuses
            .iter()
            .filter(|status| !status.ready)
            .map(|status| status.name.as_str())
            .collect();
        let containers_ready = self.initialized && unready.is_empty() && !finished;
        let unready_cause = match self.phase {
            Phase::Succeeded => ("PodCompleted", String::new()),
            Phase::Failed => ("PodFailed", String::new()),
            _ => ("ContainersNotReady", format!("containers with unready status: [{}]", unready.join(" "))),
        };
        let because =
            |holds: bool, cause: (&str, String)| (holds, (!holds).then(|| (cause.0.to_owned(), cause.1)));
        let gates_hold = self.gates_hold();
        let conditions = [
            ("PodScheduled", because(true, unready_cause.clone())),
            (
                "Initialized",
                because(
                    self.initialized,
                    ("ContainersNotInitialized", "init containers have not finished".into()),
                ),
            ),
            ("ContainersReady", because(containers_ready, unready_cause.clone())),
            (
                "Ready",
                if containers_ready && !gates_hold {
                    because(false, ("ReadinessGatesNotReady", "a readiness gate does not hold".into()))
                } else {
                    because(containers_ready, unready_cause)
                },
            ),
        ];
        PodStatus {
            phase: Some(format!("{:?}", self.phase)),
            conditions: Some(self.conditions(conditions)),
            container_statuses: Some(container_statuses),
            init_container_statuses: (!init_statuses.is_empty()).then_some(init_statuses),
            host_ip: Some(self.node_address.to_string()),
            host_ips: Some(vec![HostIP { ip: self.node_address.to_string() }]),
            pod_ip: self.address.map(|address| address.to_string()),
            pod_ips: self.address.map(|address| vec![PodIP { ip: address.to_string() }]),
            start_time: Some(time(self.started_at)),
            qos_class: self.pod.status.as_ref().and_then(|status| status.qos_class.clone()),
            ..PodStatus::default()
        }
    }

    fn gates_hold(&self) -> bool {
        let gates =
            self.pod.spec.as_ref().and_then(|spec| spec.readiness_gates.as_deref()).unwrap_or_default();
        let present = self.present_conditions();
        gates.iter().all(|gate| {
            present
                .iter()
                .any(|condition| condition.type_ == gate.condition_type && condition.status == "True")
        })
    }

    fn present_conditions(&self) -> &[PodCondition] {
        self.pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
    }

    /// Ours, with the moment of their last change, and behind them what others have set.
    fn conditions(&self, ours: [(&str, Verdict); 4]) -> Vec<PodCondition> {
        let present = self.present_conditions();
        let reported = self.reported.and_then(|status| status.conditions.as_deref()).unwrap_or(present);
        let mut conditions = Vec::new();
        for (kind, (holds, cause)) in ours {
            let status = if holds { "True" } else { "False" };
            let known =
                reported.iter().find(|condition| condition.type_ == kind && condition.status == status);
            let since = known.and_then(|condition| condition.last_transition_time.clone());
            let (reason, message) = cause.unzip();
            conditions.push(PodCondition {
                type_: kind.to_owned(),
                status: status.to_owned(),
                last_transition_time: since.or_else(|| Some(time(self.now))),
                reason,
                message: message.filter(|message| !message.is_empty()),
                ..PodCondition::default()
            });
        }
        conditions
            .extend(present.iter().filter(|condition| !OURS.contains(&condition.type_.as_str())).cloned());
        conditions
    }

    fn container(&self, container: &Container, init: bool) -> ContainerStatus {
        let known = self.state.containers.get(&container.name);
        let waiting = self.waiting.get(&container.name);
        let health = self.health.get(&container.name).cloned().unwrap_or_default();
        let attempt = known.map_or(0, |known| known.attempt);
        let identity = known.map(|_| {
            format!("pilothouse://{}/{}/{attempt}", self.pod.uid().unwrap_or_default(), container.name)
        });
        let running = known.is_some_and(|known| known.run.exit.is_none());
        let [message, message_before] = self.messages.get(&container.name).cloned().unwrap_or_default();
        let before = |run: &Run| terminated(run, None, message_before.clone());
        let now = |run: &Run| terminated(run, identity.clone(), message.clone());
        let (state, last) = match (known, waiting) {
            (Some(known), None) if running => {
                (running_since(&known.run), known.previous.as_ref().and_then(before))
            }
            (Some(known), Some(waiting)) if running => {
                (waits(waiting), known.previous.as_ref().and_then(before))
            }
            (Some(known), Some(waiting)) => (waits(waiting), now(&known.run)),
            (Some(known), None) => {
                (now(&known.run).unwrap_or_default(), known.previous.as_ref().and_then(before))
            }
            (None, Some(waiting)) => (waits(waiting), None),
            (None, None) => (waits(&Waiting { reason: "ContainerCreating", message: None }), None),
        };
        let succeeded = known.is_some_and(|known| known.run.exit.as_ref().is_some_and(|exit| exit.code == 0));
        let ready = if init && !is_sidecar(container) { succeeded } else { running && health.ready };
        ContainerStatus {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            image_id: container.image.clone().unwrap_or_default(),
            container_id: identity,
            ready,
            restart_count: i32::try_from(attempt).unwrap_or(i32::MAX),
            started: Some(running && health.started),
            state: Some(state),
            last_state: last,
            ..ContainerStatus::default()
        }
    }
}

/// The status of a pod that this node does not run.
pub(crate) fn refused(refusal: &Refusal) -> PodStatus {
    PodStatus {
        phase: Some("Failed".to_owned()),
        reason: Some(refusal.reason.to_owned()),
        message: Some(refusal.message.clone()),
        ..PodStatus::default()
    }
}

fn running_since(run: &Run) -> ReportedState {
    let running = ContainerStateRunning { started_at: Some(time(run.started_at)) };
    ReportedState { running: Some(running), ..ReportedState::default() }
}

fn waits(waiting: &Waiting) -> ReportedState {
    let waiting =
        ContainerStateWaiting { reason: Some(waiting.reason.to_owned()), message: waiting.message.clone() };
    ReportedState { waiting: Some(waiting), ..ReportedState::default() }
}

fn terminated(run: &Run, identity: Option<String>, message: Option<String>) -> Option<ReportedState> {
    let exit = run.exit.as_ref()?;
    let reason = match exit {
        exit if exit.start_error.is_some() => "StartError",
        exit if exit.out_of_memory => "OOMKilled",
        exit if exit.code == 0 => "Completed",
        _ => "Error",
    };
    let terminated = ContainerStateTerminated {
        exit_code: exit.code,
        signal: exit.signal,
        reason: Some(reason.to_owned()),
        message: exit.start_error.clone().or(message),
        started_at: Some(time(run.started_at)),
        finished_at: Some(time(exit.finished_at)),
        container_id: identity,
    };
    Some(ReportedState { terminated: Some(terminated), ..ReportedState::default() })
}

/// As the API keeps it: whole seconds, so that what was written equals what is read.
fn time(moment: Timestamp) -> Time {
    Time(Timestamp::from_second(moment.as_second()).unwrap_or(moment))
}
