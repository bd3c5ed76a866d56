//! What happened to hosted clusters and node pools, where `kubectl describe` shows it.
//!
//! Events follow from changes of a status: one for each change that somebody waits for or should look at, never one for a
//! pass. A pass only leaves a note and waits for nothing; one task writes. Events are hints: when they cannot be written,
//! or come too fast, they are dropped.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Client, Resource as _};
use pilothouse_crds::ConditionStatus::{self, False, True};
use pilothouse_crds::{
    Condition, HistoryState, HostedCluster, HostedClusterStatus, NodePool, NodePoolCondition, NodePoolStatus,
};
use pilothouse_runtime::{Chain, OnExit, Tasks};
use tokio::sync::mpsc;
use tracing::debug;

#[cfg(test)]
mod tests;

/// How many notes wait at most.
const WAITING: usize = 1024;
/// The longest message that the API takes.
const LONGEST: usize = 1024;
/// In whose name they are.
const REPORTER: &str = "hypershift-operator";

/// Takes notes. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Events(mpsc::Sender<Note>);

/// Writes them down.
pub(crate) struct Writer(mpsc::Receiver<Note>);

#[derive(Debug)]
struct Note {
    about: ObjectReference,
    said: Said,
}

/// What is worth saying.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    warning: bool,
    reason: String,
    message: String,
}

/// A condition, of whichever kind.
#[derive(Clone, Copy)]
struct Fact<'a> {
    type_: &'a str,
    status: ConditionStatus,
    reason: &'a str,
    message: &'a str,
}

/// When a condition is worth an event.
struct Rule {
    type_: &'static str,
    /// It has come to this.
    status: ConditionStatus,
    /// And was the opposite before; otherwise it may also be new.
    from_opposite: bool,
    /// Other words are worth another event.
    by_message: bool,
    warning: bool,
    /// The condition's own, if there is none.
    reason: Option<&'static str>,
}

impl Rule {
    /// Somebody is asked to do something.
    const fn refusal(type_: &'static str) -> Self {
        Self { type_, status: False, from_opposite: false, by_message: true, warning: true, reason: None }
    }

    /// Something has gone from good to bad, or from bad to good.
    const fn turn(type_: &'static str, status: ConditionStatus, warning: bool, reason: &'static str) -> Self {
        Self { type_, status, from_opposite: true, by_message: false, warning, reason: Some(reason) }
    }

    /// Something has come about.
    const fn news(type_: &'static str, status: ConditionStatus, warning: bool, reason: &'static str) -> Self {
        Self { type_, status, from_opposite: false, by_message: false, warning, reason: Some(reason) }
    }
}

const OF_CLUSTERS: [Rule; 11] = [
    Rule::refusal("ValidConfiguration"),
    Rule::turn("ValidConfiguration", True, false, "ValidConfiguration"),
    Rule::refusal("ValidReleaseImage"),
    Rule::refusal("SupportedHostedCluster"),
    Rule::news("Available", True, false, "Available"),
    Rule::turn("Available", False, true, "NotAvailable"),
    Rule::news("Degraded", True, true, "Degraded"),
    Rule::turn("Degraded", False, false, "Recovered"),
    Rule::news("ReconciliationSucceeded", False, true, "ReconciliationError"),
    Rule::news("ReconciliationActive", False, false, "ReconciliationPaused"),
    Rule::turn("ReconciliationActive", True, false, "ReconciliationResumed"),
];

const OF_POOLS: [Rule; 15] = [
    Rule::refusal("ValidReleaseImage"),
    Rule::refusal("SupportedVersionSkew"),
    Rule::refusal("ValidArchPlatform"),
    Rule::refusal("ValidPlatformConfig"),
    Rule::refusal("ValidMachineTemplate"),
    Rule::refusal("ValidMachineConfig"),
    Rule::refusal("ValidTuningConfig"),
    Rule::news("Ready", True, false, "Ready"),
    Rule::turn("Ready", False, true, "NotReady"),
    Rule::news("UpdatingVersion", True, false, "UpdatingVersion"),
    Rule::turn("UpdatingVersion", False, false, "UpdatedVersion"),
    Rule::news("UpdatingConfig", True, false, "UpdatingConfig"),
    Rule::turn("UpdatingConfig", False, false, "UpdatedConfig"),
    Rule::news("ReconciliationActive", False, false, "ReconciliationPaused"),
    Rule::turn("ReconciliationActive", True, false, "ReconciliationResumed"),
];

/// Notes, and who writes them down.
pub(crate) fn channel() -> (Events, Writer) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (Events(sender), Writer(receiver))
}

// === impl Events ===

impl Events {
    /// The status of a cluster has been written; `before` is what it said.
    pub(crate) fn cluster_changed(&self, cluster: &HostedCluster, before: Option<&HostedClusterStatus>) {
        let said = of_cluster(before, cluster.status.as_ref());
        self.note(&cluster.object_ref(&()), said);
    }

    /// The status of a pool has been written; `before` is what it said.
    pub(crate) fn pool_changed(&self, pool: &NodePool, before: Option<&NodePoolStatus>) {
        let said = of_pool(before, pool.status.as_ref());
        self.note(&pool.object_ref(&()), said);
    }

    fn note(&self, about: &ObjectReference, said: Vec<Said>) {
        for said in said {
            if let Err(error) = self.0.try_send(Note { about: about.clone(), said }) {
                debug!(%error, "event dropped");
            }
        }
    }
}

// === impl Writer ===

impl Writer {
    /// Writes, as a task that may be stopped anywhere.
    pub(crate) fn spawn(mut self, tasks: &Tasks, client: Client) {
        let recorder = Recorder::new(client, REPORTER.into());
        tasks.spawn("events", OnExit::Expendable, async move {
            while let Some(Note { about, said }) = self.0.recv().await {
                let Said { warning, reason, message } = said;
                let event = Event {
                    type_: if warning { EventType::Warning } else { EventType::Normal },
                    action: reason.clone(),
                    reason,
                    note: Some(shortened(message)),
                    secondary: None,
                };
                if let Err(error) = recorder.publish(&event, &about).await {
                    debug!(error = %Chain(&error), reason = event.reason, "event not written");
                }
            }
            Ok(())
        });
    }
}

/// As long as the API takes it.
fn shortened(mut message: String) -> String {
    if message.len() > LONGEST {
        let end = (0..=LONGEST - '…'.len_utf8()).rev().find(|end| message.is_char_boundary(*end));
        message.truncate(end.unwrap_or_default());
        message.push('…');
    }
    message
}

fn of_cluster(before: Option<&HostedClusterStatus>, after: Option<&HostedClusterStatus>) -> Vec<Said> {
    let old = facts(before.map(|status| &status.conditions));
    let new = facts(after.map(|status| &status.conditions));
    let mut said = changes(&OF_CLUSTERS, &old, &new);
    said.extend(rollout(before, after));
    said.extend(destruction(&old, &new));
    said
}

fn of_pool(before: Option<&NodePoolStatus>, after: Option<&NodePoolStatus>) -> Vec<Said> {
    let old = facts(before.map(|status| &status.conditions));
    let new = facts(after.map(|status| &status.conditions));
    changes(&OF_POOLS, &old, &new)
}

fn facts<'a, C>(conditions: Option<&'a Vec<C>>) -> Vec<Fact<'a>>
where
    Fact<'a>: From<&'a C>,
{
    conditions.into_iter().flatten().map(Fact::from).collect()
}

// === impl Fact ===

impl<'a> From<&'a Condition> for Fact<'a> {
    fn from(condition: &'a Condition) -> Self {
        let Condition { type_, status, reason, message, .. } = condition;
        Self { type_, status: *status, reason, message }
    }
}

impl<'a> From<&'a NodePoolCondition> for Fact<'a> {
    fn from(condition: &'a NodePoolCondition) -> Self {
        let NodePoolCondition { type_, status, reason, message, .. } = condition;
        Self { type_, status: *status, reason, message }
    }
}

/// What the rules say to the difference between two sets of conditions.
fn changes(rules: &[Rule], before: &[Fact<'_>], after: &[Fact<'_>]) -> Vec<Said> {
    let find = |facts: &[Fact<'_>], type_: &str| facts.iter().position(|fact| fact.type_ == type_);
    let mut said = Vec::new();
    for rule in rules {
        let Some(new) = find(after, rule.type_).map(|index| after[index]) else { continue };
        let old = find(before, rule.type_).map(|index| before[index]);
        let turned = match old {
            None => !rule.from_opposite,
            Some(old) if old.status == new.status => rule.by_message && old.message != new.message,
            Some(old) => !rule.from_opposite || old.status != ConditionStatus::Unknown,
        };
        if new.status == rule.status && turned {
            said.push(Said {
                warning: rule.warning,
                reason: rule.reason.unwrap_or(new.reason).to_owned(),
                message: new.message.to_owned(),
            });
        }
    }
    said
}

/// A version that began to be rolled out, and one that is.
fn rollout(before: Option<&HostedClusterStatus>, after: Option<&HostedClusterStatus>) -> Option<Said> {
    let latest = |status: Option<&HostedClusterStatus>| {
        let entry = status?.version.as_ref()?.history.first()?;
        Some((entry.version.clone(), entry.state == HistoryState::Completed))
    };
    let (version, complete) = latest(after)?;
    let known = latest(before);
    let (reason, message) = match known {
        Some((known, was_complete)) if known == version => {
            if !complete || was_complete {
                return None;
            }
            ("RolloutCompleted", format!("The cluster runs {version}"))
        }
        _ if complete => ("RolloutCompleted", format!("The cluster runs {version}")),
        _ => ("RolloutStarted", format!("The cluster is to run {version}")),
    };
    Some(Said { warning: false, reason: reason.to_owned(), message })
}

/// Each step of taking a cluster apart.
fn destruction(before: &[Fact<'_>], after: &[Fact<'_>]) -> Option<Said> {
    let step = |facts: &[Fact<'_>]| {
        let fact = facts.iter().find(|fact| fact.type_ == "HostedClusterDestroyed")?;
        Some((fact.reason.to_owned(), fact.message.to_owned()))
    };
    let (reason, message) = step(after)?;
    let same = step(before).is_some_and(|(known, _)| known == reason);
    (!same).then_some(Said { warning: false, reason, message })
}
