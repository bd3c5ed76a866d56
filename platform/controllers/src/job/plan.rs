//! What is to be done for a job, and what it reports.
//!
//! A pod that ended is counted once, whatever happens in between: first its uid is written into the job's status, then its
//! finalizer goes, and when no finalizer holds it any more the uid becomes a number. Of an indexed job's successes the
//! index itself is enough.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pilothouse_runtime::Next;

use super::indexes::Indexes;
use super::pods::{self, Order, Verdict};
use crate::events::Kind;
use crate::ownership::is_deleting;
use crate::pod;

mod account;
mod arrange;

/// How many ended pods wait to be counted at most, so that the status stays small.
const UNCOUNTED: usize = 500;

/// How many pods are made in one pass.
const CREATED: usize = 500;

/// How long to wait after the first failure, and at most.
const FIRST_DELAY: Duration = Duration::from_secs(10);
const LONGEST_DELAY: Duration = Duration::from_secs(600);

/// What is to be done for one job.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) status: JobStatus,
    pub(super) create: Vec<Order>,
    pub(super) delete: Vec<Arc<Pod>>,
    /// Pods that are held no longer once the status is written.
    pub(super) release: Vec<Arc<Pod>>,
    /// What people are told once the status is written.
    pub(super) events: Vec<(Kind, String, String)>,
    pub(super) look_again: Option<Duration>,
}

/// How a job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
struct End {
    success: bool,
    reason: String,
    message: String,
}

/// What is known of a job's pods.
struct Tally {
    active: Vec<Arc<Pod>>,
    terminating: Vec<Arc<Pod>>,
    counted_succeeded: i32,
    counted_failed: i32,
    waiting_succeeded: Vec<String>,
    waiting_failed: Vec<String>,
    new_succeeded: Vec<Arc<Pod>>,
    new_failed: Vec<Arc<Pod>>,
    /// All that have failed or succeeded and are still there, counted or not.
    failed_pods: Vec<Arc<Pod>>,
    succeeded_pods: Vec<Arc<Pod>>,
    succeeded_indexes: Indexes,
    failed_indexes: Indexes,
    /// Why the job's rules say that it has failed.
    doomed: Option<String>,
}

pub(super) fn plan(job: &Job, all: &[Arc<Pod>], now: Timestamp) -> Plan {
    let spec = job.spec.clone().unwrap_or_default();
    let mut status = job.status.clone().unwrap_or_default();
    if is_deleting(&job.metadata) {
        // Nobody will read the numbers any more; the pods only have to be let go.
        let release = all.iter().filter(|pod| pods::is_tracked(pod)).cloned().collect();
        return Plan { status, release, ..Plan::default() };
    }
    let mut plan = Plan::default();
    let mut tally = Tally::of(job, &spec, all);
    let suspended = spec.suspend.unwrap_or(false);
    let was_suspended = condition(&status, "Suspended").is_some_and(|condition| condition.status == "True");
    if !suspended && (status.start_time.is_none() || was_suspended) {
        status.start_time = Some(Time(now));
    }
    let mut end = tally.end(&spec, &status, suspended, now);
    plan.wait(deadline(&spec, &status, suspended, now));
    match &end {
        Some(_) => plan.delete.clone_from(&tally.active),
        None => {
            tally.arrange(job, &spec, suspended, now, &mut plan);
            let remaining = tally.active.len() - plan.delete.len() + plan.create.len();
            if !suspended && remaining == 0 {
                end = tally.complete(&spec);
            }
            plan.suspension(&mut status, suspended, now);
        }
    }
    tally.account(job, &spec, all, end.as_ref(), &mut plan, &mut status);
    if let Some(end) = &end {
        let interim = if end.success { "SuccessCriteriaMet" } else { "FailureTarget" };
        add_condition(&mut status, interim, end, now);
        let left = tally.active.len() + tally.terminating.len();
        let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
        if left == 0 && uncounted == UncountedTerminatedPods::default() {
            plan.finish(&mut status, end, now);
        }
    }
    plan.status = status;
    plan
}

/// Whether a job is over, and since when.
pub(crate) fn finished(job: &Job) -> Option<(&JobCondition, Option<Timestamp>)> {
    let conditions = job.status.as_ref()?.conditions.as_deref()?;
    let is_end = |condition: &&JobCondition| {
        matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True"
    };
    let condition = conditions.iter().find(is_end)?;
    Some((condition, condition.last_transition_time.as_ref().map(|time| time.0)))
}

/// How long the job may still run.
fn deadline(spec: &JobSpec, status: &JobStatus, suspended: bool, now: Timestamp) -> Option<Duration> {
    let seconds = spec.active_deadline_seconds.filter(|_| !suspended)?;
    let end = status.start_time.as_ref()?.0 + SignedDuration::from_secs(seconds);
    Duration::try_from(end.duration_since(now)).ok()
}

fn condition<'a>(status: &'a JobStatus, type_: &str) -> Option<&'a JobCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == type_)
}

fn add_condition(status: &mut JobStatus, type_: &str, end: &End, now: Timestamp) -> bool {
    if condition(status, type_).is_some() {
        return false;
    }
    status.conditions.get_or_insert_default().push(JobCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: Some(end.reason.clone()),
        message: Some(end.message.clone()),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    });
    true
}

fn delay(failures: u32) -> Duration {
    let factor = 2_u32.saturating_pow(failures.saturating_sub(1));
    FIRST_DELAY.saturating_mul(factor).min(LONGEST_DELAY)
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Servers leave out zeros of these fields, so that writing them would be a difference for ever.
fn some(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}

// === impl Plan ===

impl Plan {
    pub(super) fn next(&self) -> Next {
        self.look_again.map_or(Next::Done, Next::After)
    }

    fn wait(&mut self, time: Option<Duration>) {
        self.look_again = [self.look_again, time].into_iter().flatten().min();
    }

    fn suspension(&mut self, status: &mut JobStatus, suspended: bool, now: Timestamp) {
        let wanted = if suspended { "True" } else { "False" };
        let conditions = status.conditions.get_or_insert_default();
        let found = conditions.iter_mut().find(|condition| condition.type_ == "Suspended");
        let (reason, message) =
            if suspended { ("JobSuspended", "Job suspended") } else { ("JobResumed", "Job resumed") };
        match found {
            Some(found) if found.status == wanted => return,
            None if !suspended => {
                if conditions.is_empty() {
                    status.conditions = None;
                }
                return;
            }
            Some(found) => {
                found.status = wanted.to_owned();
                found.reason = Some(reason.to_owned());
                found.message = Some(message.to_owned());
                found.last_probe_time = Some(Time(now));
                found.last_transition_time = Some(Time(now));
            }
            None => conditions.push(JobCondition {
                type_: "Suspended".to_owned(),
                status: wanted.to_owned(),
                reason: Some(reason.to_owned()),
                message: Some(message.to_owned()),
                last_probe_time: Some(Time(now)),
                last_transition_time: Some(Time(now)),
            }),
        }
        let reason = if suspended { "Suspended" } else { "Resumed" };
        self.events.push((Kind::Normal, reason.to_owned(), message.to_owned()));
    }

    fn finish(&mut self, status: &mut JobStatus, end: &End, now: Timestamp) {
        if end.success {
            add_condition(status, "Complete", end, now);
            status.completion_time = Some(Time(now));
            self.events.push((Kind::Normal, "Completed".to_owned(), "Job completed".to_owned()));
        } else {
            add_condition(status, "Failed", end, now);
            self.events.push((Kind::Warning, end.reason.clone(), end.message.clone()));
        }
    }
}

// === impl Tally ===

impl Tally {
    fn of(job: &Job, spec: &JobSpec, all: &[Arc<Pod>]) -> Self {
        let status = job.status.clone().unwrap_or_default();
        let end = if is_indexed(spec) { spec.completions.unwrap_or(0) } else { 0 };
        let tracked: HashSet<&str> =
            all.iter().filter(|pod| pods::is_tracked(pod)).map(|pod| uid(pod)).collect();
        let before = status.uncounted_terminated_pods.unwrap_or_default();
        let split = |uids: Option<Vec<String>>| -> (Vec<String>, i32) {
            let (waiting, done): (Vec<_>, Vec<_>) =
                uids.unwrap_or_default().into_iter().partition(|uid| tracked.contains(uid.as_str()));
            (waiting, number(done.len()))
        };
        let (waiting_succeeded, released_succeeded) = split(before.succeeded);
        let (waiting_failed, released_failed) = split(before.failed);
        let mut tally = Self {
            active: all.iter().filter(|pod| pod::is_active(pod)).cloned().collect(),
            terminating: all
                .iter()
                .filter(|pod| is_deleting(&pod.metadata) && !pod::is_finished(pod))
                .cloned()
                .collect(),
            counted_succeeded: status.succeeded.unwrap_or(0) + released_succeeded,
            counted_failed: status.failed.unwrap_or(0) + released_failed,
            waiting_succeeded,
            waiting_failed,
            new_succeeded: Vec::new(),
            new_failed: Vec::new(),
            failed_pods: all.iter().filter(|pod| pods::is_failed(job, pod)).cloned().collect(),
            succeeded_pods: all.iter().filter(|pod| pods::is_succeeded(pod)).cloned().collect(),
            succeeded_indexes: Indexes::parse(status.completed_indexes.as_deref(), end),
            failed_indexes: Indexes::parse(status.failed_indexes.as_deref(), end),
            doomed: None,
        };
        for pod in all {
            tally.look_at(job, spec, pod, end);
        }
        tally
    }

    fn look_at(&mut self, job: &Job, spec: &JobSpec, pod: &Arc<Pod>, end: i32) {
        let known = |list: &[String]| list.iter().any(|other| other == uid(pod));
        if !pods::is_tracked(pod) || known(&self.waiting_succeeded) || known(&self.waiting_failed) {
            return;
        }
        let index = pods::index_of(pod).filter(|index| *index < end);
        if is_indexed(spec) && index.is_none() {
            return;
        }
        if pods::is_succeeded(pod) {
            match index.filter(|_| is_indexed(spec)) {
                Some(index) => self.succeeded_indexes.insert(index),
                None => self.new_succeeded.push(pod.clone()),
            }
        } else if pods::is_failed(job, pod) {
            let verdict = pods::judge(job, pod);
            if let (Some(limit), Some(index)) = (spec.backoff_limit_per_index, index) {
                let exhausted = verdict == Verdict::Count && pods::failures_of(pod) >= limit;
                if exhausted || verdict == Verdict::FailIndex {
                    self.failed_indexes.insert(index);
                }
            }
            match verdict {
                Verdict::Ignore => {}
                Verdict::FailJob(why) => {
                    self.doomed.get_or_insert(why);
                    self.new_failed.push(pod.clone());
                }
                Verdict::Count | Verdict::FailIndex => self.new_failed.push(pod.clone()),
            }
        }
    }

    fn succeeded(&self, spec: &JobSpec) -> i32 {
        if is_indexed(spec) {
            self.succeeded_indexes.len()
        } else {
            self.counted_succeeded + number(self.waiting_succeeded.len() + self.new_succeeded.len())
        }
    }

    fn failed(&self) -> i32 {
        self.counted_failed + number(self.waiting_failed.len() + self.new_failed.len())
    }

    /// Why the job ends before all its work is done, if it does.
    fn end(&self, spec: &JobSpec, status: &JobStatus, suspended: bool, now: Timestamp) -> Option<End> {
        for (type_, success) in [("FailureTarget", false), ("SuccessCriteriaMet", true)] {
            if let Some(found) = condition(status, type_).filter(|found| found.status == "True") {
                let (reason, message) = (found.reason.clone(), found.message.clone());
                let (reason, message) = (reason.unwrap_or_default(), message.unwrap_or_default());
                return Some(End { success, reason, message });
            }
        }
        let failure = |reason: &str, message: &str| {
            Some(End { success: false, reason: reason.to_owned(), message: message.to_owned() })
        };
        if let Some(why) = &self.doomed {
            return failure("PodFailurePolicy", why);
        }
        let limit = spec.backoff_limit.unwrap_or(6);
        if self.failed() > limit || self.restarted_too_often(spec, limit) {
            return failure("BackoffLimitExceeded", "Job has reached the specified backoff limit");
        }
        let has_deadline = spec.active_deadline_seconds.is_some() && status.start_time.is_some();
        if has_deadline && !suspended && deadline(spec, status, suspended, now).is_none_or(|d| d.is_zero()) {
            return failure("DeadlineExceeded", "Job was active longer than specified deadline");
        }
        if let Some(most) = spec.max_failed_indexes
            && self.failed_indexes.len() > most
        {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return failure("MaxFailedIndexesExceeded", message);
        }
        self.policy_met(spec)
    }

    /// Whether the job is a success although not all of its indexes are done.
    fn policy_met(&self, spec: &JobSpec) -> Option<End> {
        let rules = spec.success_policy.iter().flat_map(|policy| &policy.rules);
        for (position, rule) in rules.enumerate() {
            let end = spec.completions.unwrap_or(0);
            let (done, wanted) = match &rule.succeeded_indexes {
                Some(text) => {
                    let meant = Indexes::parse(Some(text), end);
                    (self.succeeded_indexes.common(&meant), meant.len())
                }
                None => (self.succeeded_indexes.len(), i32::MAX),
            };
            if done >= rule.succeeded_count.unwrap_or(wanted) {
                let message = format!("Matched rules at index {position}");
                return Some(End { success: true, reason: "SuccessPolicy".to_owned(), message });
            }
        }
        None
    }

    fn restarted_too_often(&self, spec: &JobSpec, limit: i32) -> bool {
        let policy = spec.template.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
        if policy != Some("OnFailure") {
            return false;
        }
        let restarts: i32 = self.active.iter().map(|pod| pods::restarts(pod)).sum();
        if limit == 0 { restarts > 0 } else { restarts >= limit }
    }

    /// How the job ended when nothing runs and nothing is to be started.
    fn complete(&self, spec: &JobSpec) -> Option<End> {
        let succeeded = self.succeeded(spec);
        let done = match spec.completions {
            // Any success means that there is no work left.
            None => succeeded > 0,
            Some(wanted) => succeeded + self.failed_indexes.len() >= wanted,
        };
        if !done {
            return None;
        }
        let (success, reason, message) = if self.failed_indexes.is_empty() {
            (true, "CompletionsReached", "Reached expected number of succeeded pods")
        } else {
            (false, "FailedIndexes", "Job has failed indexes")
        };
        Some(End { success, reason: reason.to_owned(), message: message.to_owned() })
    }
}

fn remaining(delay: Duration, since: Timestamp, now: Timestamp) -> Duration {
    let elapsed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    delay.saturating_sub(elapsed)
}

fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}
