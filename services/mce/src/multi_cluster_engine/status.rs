//! What the status of an engine says.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pilothouse_crds::{
    ComponentCondition, Condition, ConditionStatus, MultiClusterEngine, MultiClusterEngineStatus,
    set_condition,
};

/// The version of the engine is that of the program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A component that was asked for: its name, the kind of the object that tells of it, and what that tells.
#[derive(Clone, Debug)]
pub(super) struct Component {
    name: &'static str,
    kind: &'static str,
    outcome: Result<Words, Words>,
}

/// A reason and a message.
type Words = (&'static str, String);

/// What was seen of an engine.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub(super) components: Vec<Component>,
    /// What was asked for, and why it is not done.
    pub(super) refused: Vec<String>,
}

// === impl Component ===

impl Component {
    pub(super) fn new(name: &'static str, kind: &'static str, outcome: Result<Words, Words>) -> Self {
        Self { name, kind, outcome }
    }

    /// One that is in this very process, which could not say so if it did not run.
    pub(super) fn here(name: &'static str) -> Self {
        Self::new(name, "Process", Ok(("Running", "it runs in the process that writes this".to_owned())))
    }

    fn runs(&self) -> bool {
        self.outcome.is_ok()
    }
}

/// What is said of the engine that counts.
pub(super) fn observe(
    engine: &MultiClusterEngine,
    observed: &Observed,
    now: Timestamp,
) -> MultiClusterEngineStatus {
    let mut status = engine.status.clone().unwrap_or_default();
    let missing: Vec<_> =
        observed.components.iter().filter(|component| !component.runs()).map(|one| one.name).collect();
    let failure = (!observed.refused.is_empty()).then(|| observed.refused.join("; "));
    let all = failure.is_none() && missing.is_empty();
    status.phase = match (&failure, all) {
        (Some(_), _) => "Error",
        (None, false) => "Progressing",
        (None, true) => "Available",
    }
    .to_owned();
    status.desired_version = VERSION.to_owned();
    if all {
        status.current_version = VERSION.to_owned();
    }
    let before = std::mem::take(&mut status.components);
    status.components =
        observed.components.iter().map(|component| describe(component, &before, now)).collect();

    let waiting = || format!("waiting for {}", missing.join(", "));
    let set = |status: &mut MultiClusterEngineStatus, type_: &str, holds, reason: &str, message: String| {
        let condition = Condition::new(type_, holds, reason, message, now);
        set_condition(&mut status.conditions, condition.of_generation(engine.metadata.generation));
    };
    let (truth, falsehood) = (ConditionStatus::True, ConditionStatus::False);
    match all {
        true => {
            set(&mut status, "Available", truth, "ComponentsAvailable", "All components run".to_owned());
            set(&mut status, "Progressing", truth, "ComponentsAvailable", "All components run".to_owned());
        }
        false => {
            let why = failure.clone().unwrap_or_else(waiting);
            set(&mut status, "Available", falsehood, "ComponentsUnavailable", why.clone());
            set(&mut status, "Progressing", truth, "ComponentsUnavailable", why);
        }
    }
    status.conditions.retain(|condition| condition.type_ != "Failure");
    match failure {
        Some(why) => set(&mut status, "ComponentFailure", truth, "NotSupported", why),
        None => status.conditions.retain(|condition| condition.type_ != "ComponentFailure"),
    }
    status
}

/// What is said of an engine beside the one that counts.
pub(super) fn of_another(
    engine: &MultiClusterEngine,
    first: &str,
    now: Timestamp,
) -> MultiClusterEngineStatus {
    let mut status = engine.status.clone().unwrap_or_default();
    status.phase = "Error".to_owned();
    status.components.clear();
    status.conditions.retain(|condition| condition.type_ == "Failure");
    let message = format!("a cluster has one engine, and {first} is older; delete one of them");
    let condition = Condition::new("Failure", ConditionStatus::True, "AnotherEngine", message, now);
    set_condition(&mut status.conditions, condition.of_generation(engine.metadata.generation));
    status
}

fn describe(component: &Component, before: &[ComponentCondition], now: Timestamp) -> ComponentCondition {
    let (holds, (reason, message)) = match &component.outcome {
        Ok(words) => (ConditionStatus::True, words),
        Err(words) => (ConditionStatus::False, words),
    };
    let seen = ComponentCondition {
        name: component.name.to_owned(),
        kind: component.kind.to_owned(),
        type_: "Available".to_owned(),
        status: holds,
        reason: (*reason).to_owned(),
        message: message.clone(),
        // To the second, as it is read again.
        last_transition_time: Timestamp::from_second(now.as_second()).ok().map(Time),
        other: BTreeMap::new(),
    };
    let known = before.iter().find(|known| known.name == seen.name && known.status == seen.status);
    match known {
        Some(known) => {
            ComponentCondition { last_transition_time: known.last_transition_time.clone(), ..seen }
        }
        None => seen,
    }
}
