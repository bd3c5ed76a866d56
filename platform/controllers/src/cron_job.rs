//! Jobs by the clock.
//!
//! A job's name follows from the cron job and the minute it is due, so a run is never started twice, whatever is
//! forgotten in between. A pass looks at the time itself: runs that were missed while nobody looked are made up for by
//! one, the latest, unless it is too late for that.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client, Resource};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};
use tracing::info;

use crate::calls::{CallError, POST, tolerant};
use crate::events::{Kind, Recorder};
use crate::job::finished;
use crate::ownership::{controller_reference, correlation, is_controlled_by, is_deleting};
use crate::watches::Caches;

mod schedule;
#[cfg(test)]
mod tests;

use schedule::Schedule;

/// When the run was due.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// With more missed runs than this something is wrong with the clock or the deadline.
const MISSED: usize = 100;

/// Timers may be early by a hair, and the minute must have begun.
const MARGIN: Duration = Duration::from_millis(100);

pub(crate) struct CronJobs {
    client: Client,
    caches: Caches,
    clock: Clock,
    recorder: Recorder,
}

/// What is to be done for one cron job.
#[derive(Debug, Default, PartialEq)]
struct Plan {
    /// The run that is due.
    start: Option<Timestamp>,
    delete: Vec<Arc<Job>>,
    status: CronJobStatus,
    events: Vec<(Kind, &'static str, String)>,
    look_again: Option<Duration>,
}

// === planning ===

fn plan(cron: &CronJob, jobs: &[Arc<Job>], now: Timestamp) -> Plan {
    let spec = cron.spec.clone().unwrap_or_default();
    let mut plan = Plan { status: cron.status.clone().unwrap_or_default(), ..Plan::default() };
    take_stock(cron, jobs, &mut plan);
    plan.delete = history(&spec, jobs);
    if is_deleting(&cron.metadata) || spec.suspend.unwrap_or(false) {
        return plan;
    }
    let zone = match spec.time_zone.as_deref().map(TimeZone::get) {
        None => TimeZone::UTC,
        Some(Ok(zone)) => zone,
        Some(Err(error)) => {
            let name = spec.time_zone.clone().unwrap_or_default();
            let message = format!("invalid timeZone: \"{name}\": {error}");
            plan.events.push((Kind::Warning, "UnknownTimeZone", message));
            return plan;
        }
    };
    let schedule = match Schedule::parse(&spec.schedule) {
        Ok(schedule) => schedule,
        Err(error) => {
            let message = format!("unparseable schedule: {error}");
            plan.events.push((Kind::Warning, "UnparseableSchedule", message));
            return plan;
        }
    };
    plan.look_again = schedule
        .next(now, &zone)
        .map(|next| Duration::try_from(next.duration_since(now)).unwrap_or_default() + MARGIN);
    let (due, missed) = latest_due(cron, &spec, &schedule, &zone, now);
    let Some(due) = due else { return plan };
    if missed > MISSED {
        let message = format!(
            "too many missed start times: {missed}. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        );
        plan.events.push((Kind::Warning, "TooManyMissedTimes", message));
    }
    let deadline = spec.starting_deadline_seconds.map(SignedDuration::from_secs);
    if deadline.is_some_and(|deadline| due + deadline < now) {
        let message = format!("Missed scheduled time to start a job: {due}");
        plan.events.push((Kind::Warning, "MissSchedule", message));
        return plan;
    }
    let running = plan.status.active.as_ref().is_some_and(|active| !active.is_empty());
    match spec.concurrency_policy.as_deref() {
        Some("Forbid") if running => {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            plan.events.push((Kind::Normal, "JobAlreadyActive", message.to_owned()));
            return plan;
        }
        Some("Replace") => {
            let running = jobs.iter().filter(|job| finished(job).is_none() && !is_deleting(&job.metadata));
            plan.delete.extend(running.cloned());
            plan.status.active = None;
        }
        _ => {}
    }
    plan.start = Some(due);
    plan
}

/// Compares the runs that are said to be active with those that are.
fn take_stock(cron: &CronJob, jobs: &[Arc<Job>], plan: &mut Plan) {
    let before = plan.status.active.take().unwrap_or_default();
    let mut active: Vec<_> = Vec::new();
    for job in jobs {
        let known = before.iter().any(|reference| reference.uid == job.metadata.uid);
        match finished(job) {
            None if is_deleting(&job.metadata) && !known => {}
            None => active.push(reference(job)),
            Some((condition, _)) => {
                if known {
                    let name = job.metadata.name.as_deref().unwrap_or_default();
                    let message = format!("Saw completed job: {name}, condition: {}", condition.type_);
                    plan.events.push((Kind::Normal, "SawCompletedJob", message));
                }
                let ended = job.status.as_ref().and_then(|status| status.completion_time.clone());
                if let (true, Some(ended)) = (condition.type_ == "Complete", ended)
                    && plan.status.last_successful_time.as_ref().is_none_or(|last| last.0 < ended.0)
                {
                    plan.status.last_successful_time = Some(ended);
                }
            }
        }
    }
    for reference in &before {
        if !jobs.iter().any(|job| job.metadata.uid == reference.uid) && !is_deleting(&cron.metadata) {
            let name = reference.name.as_deref().unwrap_or_default();
            let message = format!("Active job went missing: {name}");
            plan.events.push((Kind::Normal, "MissingJob", message));
        }
    }
    active.sort_by(|left, right| left.name.cmp(&right.name));
    plan.status.active = (!active.is_empty()).then_some(active);
}

fn reference(job: &Job) -> ObjectReference {
    ObjectReference {
        api_version: Some(Job::api_version(&()).into_owned()),
        kind: Some(Job::kind(&()).into_owned()),
        namespace: job.metadata.namespace.clone(),
        name: job.metadata.name.clone(),
        uid: job.metadata.uid.clone(),
        // Of the moment it was made: it would only make the status change.
        resource_version: None,
        field_path: None,
    }
}

/// Runs beyond the history that was asked for, oldest first.
fn history(spec: &CronJobSpec, jobs: &[Arc<Job>]) -> Vec<Arc<Job>> {
    let limits =
        [("Complete", spec.successful_jobs_history_limit, 3), ("Failed", spec.failed_jobs_history_limit, 1)];
    let mut surplus = Vec::new();
    for (type_, limit, usual) in limits {
        let is_meant = |job: &&Arc<Job>| finished(job).is_some_and(|(condition, _)| condition.type_ == type_);
        let mut ended: Vec<_> = jobs.iter().filter(is_meant).cloned().collect();
        ended.sort_by_cached_key(|job| {
            let start = job.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0);
            (start, job.metadata.name.clone())
        });
        let limit = usize::try_from(limit.unwrap_or(usual)).unwrap_or(0);
        let count = ended.len().saturating_sub(limit);
        surplus.extend(ended.into_iter().take(count).filter(|job| !is_deleting(&job.metadata)));
    }
    surplus
}

/// The latest time that was due and not run, and how many there were.
fn latest_due(
    cron: &CronJob,
    spec: &CronJobSpec,
    schedule: &Schedule,
    zone: &TimeZone,
    now: Timestamp,
) -> (Option<Timestamp>, usize) {
    let last = cron.status.as_ref().and_then(|status| status.last_schedule_time.as_ref());
    let created = cron.metadata.creation_timestamp.as_ref();
    let mut earliest = last.or(created).map_or(now, |time| time.0);
    if let Some(seconds) = spec.starting_deadline_seconds {
        earliest = earliest.max(now - SignedDuration::from_secs(seconds));
    }
    let (mut due, mut missed, mut at) = (None, 0, earliest);
    while let Some(next) = schedule.next(at, zone).filter(|next| *next <= now) {
        let apart = next.duration_since(at);
        (due, at) = (Some(next), next);
        missed += 1;
        if missed == MISSED + 1 {
            // Far behind. Where runs are evenly spaced the latest is at most two spaces away.
            let near = now - apart - apart;
            if let Some(found) = schedule.next(near.max(at), zone).filter(|found| *found <= now) {
                (due, at) = (Some(found), found);
            }
        }
        if missed > 10 * MISSED {
            break;
        }
    }
    (due, missed)
}

fn job_of(cron: &CronJob, due: Timestamp) -> Job {
    let spec = cron.spec.clone().unwrap_or_default();
    let template = spec.job_template;
    let given = template.metadata.unwrap_or_default();
    let mut annotations = given.annotations.unwrap_or_default();
    annotations.extend(correlation(&cron.metadata));
    let zone = spec.time_zone.as_deref().and_then(|name| TimeZone::get(name).ok()).unwrap_or(TimeZone::UTC);
    let local = due.display_with_offset(zone.to_offset(due)).to_string();
    let utc = zone.to_offset(due).is_zero();
    annotations.insert(SCHEDULED.to_owned(), if utc { due.to_string() } else { local });
    Job {
        metadata: ObjectMeta {
            name: Some(job_name(cron, due)),
            namespace: cron.metadata.namespace.clone(),
            labels: given.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference(cron)]),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}

fn job_name(cron: &CronJob, due: Timestamp) -> String {
    format!("{}-{}", cron.metadata.name.as_deref().unwrap_or_default(), due.as_second().div_euclid(60))
}

// === impl CronJobs ===

impl CronJobs {
    pub(crate) fn new(client: Client, caches: Caches, clock: Clock, recorder: Recorder) -> Self {
        Self { client, caches, clock, recorder }
    }

    /// Answers whether the status may be written as planned.
    async fn start(
        &self,
        cron: &CronJob,
        due: Timestamp,
        status: &mut CronJobStatus,
    ) -> Result<(), CallError> {
        let namespace = cron.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<Job> = Api::namespaced(self.client.clone(), namespace);
        let job = job_of(cron, due);
        let name = job.metadata.name.clone().unwrap_or_default();
        match tolerant(format!("create job {name}"), api.create(&POST, &job)).await {
            Ok(Some(made)) => {
                info!(cron_job = cron.metadata.name, namespace, job = name, "started");
                let message = format!("Created job {name}");
                self.recorder.record(cron, Kind::Normal, "SuccessfulCreate", message);
                status.active.get_or_insert_default().push(reference(&made));
            }
            // Started before, by a pass whose word about it was lost.
            Ok(None) => {}
            Err(error) => {
                let message = format!("Error creating job: {error}");
                self.recorder.record(cron, Kind::Warning, "FailedCreate", message);
                return Err(error);
            }
        }
        status.last_schedule_time = Some(Time(due));
        Ok(())
    }

    async fn delete(&self, cron: &CronJob, job: &Job) -> Result<(), CallError> {
        let namespace = cron.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<Job> = Api::namespaced(self.client.clone(), namespace);
        let name = job.metadata.name.as_deref().unwrap_or_default();
        let preconditions = Some(Preconditions { uid: job.metadata.uid.clone(), resource_version: None });
        let params = DeleteParams { preconditions, ..DeleteParams::background() };
        if tolerant(format!("delete job {name}"), api.delete(name, &params)).await?.is_some() {
            self.recorder.record(cron, Kind::Normal, "SuccessfulDelete", format!("Deleted job {name}"));
        }
        Ok(())
    }
}

impl Reconcile for CronJobs {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        Ok(self.caches.cron_jobs.keys())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let Some(cron) = self.caches.cron_jobs.get(key) else { return Ok(Next::Done) };
        let uid = cron.metadata.uid.clone().unwrap_or_default();
        let mut jobs = self.caches.jobs.list_in(key.namespace_or_empty());
        jobs.retain(|job| is_controlled_by(&job.metadata, &uid));
        let mut plan = plan(&cron, &jobs, self.clock.now());
        for job in &plan.delete {
            self.delete(&cron, job).await?;
        }
        if let Some(due) = plan.start {
            self.start(&cron, due, &mut plan.status).await?;
        }
        if cron.status.clone().unwrap_or_default() != plan.status {
            let api: Api<CronJob> = Api::namespaced(self.client.clone(), key.namespace_or_empty());
            // Only over the version that was read: an older look must not move the last run back.
            let cron = CronJob { status: Some(plan.status.clone()), ..(*cron).clone() };
            let call = api.replace_status(&key.name, &POST, &cron);
            if tolerant("write the status of a cron job", call).await?.is_none() {
                return Ok(plan.look_again.map_or(Next::Done, Next::After));
            }
        }
        for (kind, reason, message) in &plan.events {
            self.recorder.record(&*cron, *kind, reason, message);
        }
        Ok(plan.look_again.map_or(Next::Done, Next::After))
    }
}
