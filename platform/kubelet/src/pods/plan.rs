//! What to do next with the containers of a pod: a pure function of its specification and of what became of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::specification::{containers, init_containers, is_sidecar, restart_policy};
use crate::images::Images;
use crate::shim::protocol::{ContainerState, State};

#[cfg(test)]
mod tests;

/// The first restart is at once; then it takes longer every time.
const FIRST_DELAY: Duration = Duration::from_secs(10);
const LONGEST_DELAY: Duration = Duration::from_secs(300);
/// A container that ran for so long is not one that fails at once.
const GOOD_RUN: Duration = Duration::from_secs(600);

/// What is known about the health of a container that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) started: bool,
    pub(crate) ready: bool,
    /// Set when it has to be ended, with what was observed.
    pub(crate) failed: Option<String>,
}

/// What there is to see of a pod.
pub(crate) struct Observed<'a, 'o> {
    pub(crate) pod: &'a Pod,
    pub(crate) state: &'o State,
    pub(crate) health: &'o BTreeMap<String, Health>,
    /// How often in a row each container ended soon.
    pub(crate) failures: &'o BTreeMap<String, u32>,
    /// Those that were started and do not count as running yet.
    pub(crate) held: &'o BTreeSet<String>,
    pub(crate) images: &'o Images,
    pub(crate) now: Timestamp,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Action<'a> {
    Start { container: &'a Container, attempt: u32 },
    End { container: &'a Container, cause: String },
}

/// Why a container does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) reason: &'static str,
    pub(crate) message: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Plan<'a> {
    pub(crate) actions: Vec<Action<'a>>,
    pub(crate) waiting: BTreeMap<String, Waiting>,
    pub(crate) initialized: bool,
    pub(crate) phase: Phase,
    /// When to look again, if nothing happens before.
    pub(crate) again: Option<Duration>,
}

/// What one container comes to.
enum Verdict {
    Runs {
        started: bool,
    },
    /// It will be started, now or later.
    Comes,
    Succeeded,
    Failed,
}

pub(crate) fn plan<'a>(observed: &Observed<'a, '_>) -> Plan<'a> {
    let mut plan = Plan {
        actions: Vec::new(),
        waiting: BTreeMap::new(),
        initialized: true,
        phase: Phase::Pending,
        again: None,
    };
    let policy = restart_policy(observed.pod);
    let mut failed = false;
    for container in init_containers(observed.pod) {
        if !plan.initialized || failed {
            plan.waits(container, "PodInitializing", None);
            continue;
        }
        let policy = match policy {
            _ if is_sidecar(container) => "Always",
            "Never" => "Never",
            // A success is what is waited for; it is not repeated.
            _ => "OnFailure",
        };
        match plan.consider(observed, container, policy) {
            Verdict::Succeeded => {}
            Verdict::Runs { started } => plan.initialized = is_sidecar(container) && started,
            Verdict::Comes => plan.initialized = false,
            Verdict::Failed => failed = true,
        }
    }
    let (mut running, mut coming, mut unsuccessful, mut count) = (0, 0, 0, 0);
    for container in containers(observed.pod) {
        count += 1;
        if failed || !plan.initialized {
            plan.waits(container, "PodInitializing", None);
            continue;
        }
        match plan.consider(observed, container, policy) {
            Verdict::Runs { .. } => running += 1,
            Verdict::Comes => coming += 1,
            Verdict::Succeeded => {}
            Verdict::Failed => unsuccessful += 1,
        }
    }
    plan.initialized &= !failed;
    let counts = |name: &str| observed.state.containers.contains_key(name) && !observed.held.contains(name);
    let any_started = containers(observed.pod).iter().any(|one| counts(&one.name));
    plan.phase = if failed {
        Phase::Failed
    } else if !plan.initialized {
        Phase::Pending
    } else if running + coming > 0 || count == 0 {
        if any_started { Phase::Running } else { Phase::Pending }
    } else if unsuccessful > 0 {
        Phase::Failed
    } else {
        Phase::Succeeded
    };
    plan
}

impl<'a> Plan<'a> {
    fn waits(&mut self, container: &Container, reason: &'static str, message: Option<String>) {
        self.waiting.insert(container.name.clone(), Waiting { reason, message });
    }

    fn consider(&mut self, observed: &Observed<'a, '_>, container: &'a Container, policy: &str) -> Verdict {
        let Some(state) = observed.state.containers.get(&container.name) else {
            return self.start(observed, container, 0);
        };
        let Some(exit) = &state.run.exit else {
            if observed.held.contains(&container.name) {
                self.waits(container, "ContainerCreating", None);
            }
            let health = observed.health.get(&container.name);
            if let Some(cause) = health.and_then(|health| health.failed.clone()) {
                self.actions.push(Action::End { container, cause });
            }
            return Verdict::Runs { started: health.is_some_and(|health| health.started) };
        };
        let again = policy == "Always" || (policy == "OnFailure" && exit.code != 0);
        if !again {
            return if exit.code == 0 { Verdict::Succeeded } else { Verdict::Failed };
        }
        let failures = observed.failures.get(&container.name).copied().unwrap_or(state.attempt + 1);
        let due = exit.finished_at.saturating_add(delay(failures)).unwrap_or(Timestamp::MAX);
        let remaining = Duration::try_from(due.duration_since(observed.now)).unwrap_or_default();
        if remaining.is_zero() {
            return self.start(observed, container, state.attempt + 1);
        }
        self.again = Some(self.again.map_or(remaining, |again| again.min(remaining)));
        let message = format!(
            "back-off {}s restarting failed container={}{}",
            delay(failures).as_secs(),
            container.name,
            exit.start_error.as_ref().map(|error| format!(": {error}")).unwrap_or_default(),
        );
        self.waits(container, "CrashLoopBackOff", Some(message));
        Verdict::Comes
    }

    fn start(&mut self, observed: &Observed<'a, '_>, container: &'a Container, attempt: u32) -> Verdict {
        match observed.images.resolve(container.image.as_deref().unwrap_or_default()) {
            Ok(_) => {
                self.actions.push(Action::Start { container, attempt });
                self.waits(container, "ContainerCreating", None);
            }
            Err(unknown) => self.waits(container, "ErrImagePull", Some(unknown.to_string())),
        }
        Verdict::Comes
    }
}

/// How long to wait before the restart after so many failures in a row.
fn delay(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        more => {
            FIRST_DELAY.saturating_mul(1_u32.checked_shl(more - 2).unwrap_or(u32::MAX)).min(LONGEST_DELAY)
        }
    }
}

/// How often in a row a container that has ended now has ended soon.
pub(crate) fn count_failures(state: &ContainerState, before: Option<u32>) -> u32 {
    let Some(exit) = &state.run.exit else { return before.unwrap_or(0) };
    let ran = Duration::try_from(exit.finished_at.duration_since(state.run.started_at)).unwrap_or_default();
    if ran >= GOOD_RUN { 1 } else { before.unwrap_or(state.attempt) + 1 }
}
