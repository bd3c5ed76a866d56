//! The pods of a job: how they are made, and what is read off those that have ended.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, PodFailurePolicyRule};
use k8s_openapi::api::core::v1::{
    Container, ContainerStatus, EnvVar, EnvVarSource, ObjectFieldSelector, Pod,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{FAILURES, INDEX, TRACKING};
use crate::ownership::{controller_reference, correlation, is_deleting};
use crate::pod;

/// What a job's rules say of a pod that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It counts, as it would without rules.
    Count,
    /// It does not count.
    Ignore,
    /// Its index has failed.
    FailIndex,
    /// The whole job has failed, for this reason.
    FailJob(String),
}

/// One pod to be made: its index, and how often that index has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) index: Option<i32>,
    pub(super) failures: Option<i32>,
}

/// The pod that a job makes.
pub(super) fn pod_of(job: &Job, order: Order) -> Pod {
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let template = job.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let given = template.metadata.unwrap_or_default();
    let mut labels = given.labels.unwrap_or_default();
    let mut annotations = given.annotations.unwrap_or_default();
    annotations.extend(correlation(&job.metadata));
    let mut finalizers = given.finalizers.unwrap_or_default();
    finalizers.push(TRACKING.to_owned());
    let mut spec = template.spec.unwrap_or_default();
    let mut generate_name = format!("{name}-");
    if let Some(index) = order.index {
        labels.insert(INDEX.to_owned(), index.to_string());
        annotations.insert(INDEX.to_owned(), index.to_string());
        generate_name = format!("{name}-{index}-");
        spec.hostname.get_or_insert_with(|| format!("{name}-{index}"));
        let all = spec.init_containers.iter_mut().flatten().chain(&mut spec.containers);
        all.for_each(add_index_variable);
    }
    if let Some(failures) = order.failures {
        annotations.insert(FAILURES.to_owned(), failures.to_string());
    }
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(generate_name),
            namespace: job.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations),
            finalizers: Some(finalizers),
            owner_references: Some(vec![controller_reference(job)]),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    }
}

fn add_index_variable(container: &mut Container) {
    const NAME: &str = "JOB_COMPLETION_INDEX";
    let variables = container.env.get_or_insert_default();
    if variables.iter().all(|variable| variable.name != NAME) {
        let field =
            ObjectFieldSelector { api_version: None, field_path: format!("metadata.labels['{INDEX}']") };
        let source = EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() };
        variables.push(EnvVar { name: NAME.to_owned(), value: None, value_from: Some(source) });
    }
}

pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == TRACKING)
}

/// Which completion the pod works on.
pub(super) fn index_of(pod: &Pod) -> Option<i32> {
    annotation(pod, INDEX)
}

/// How often the pod's index had failed when the pod was made.
pub(super) fn failures_of(pod: &Pod) -> i32 {
    annotation(pod, FAILURES).unwrap_or(0)
}

fn annotation(pod: &Pod, name: &str) -> Option<i32> {
    let value: i32 = pod.metadata.annotations.as_ref()?.get(name)?.parse().ok()?;
    (value >= 0).then_some(value)
}

/// Whether pods are replaced only when they have really ended, rather than when they begin to.
pub(super) fn replaces_only_failed(job: &Job) -> bool {
    let spec = job.spec.as_ref();
    let policy = spec.and_then(|spec| spec.pod_replacement_policy.as_deref());
    policy == Some("Failed") || spec.is_some_and(|spec| spec.pod_failure_policy.is_some())
}

pub(super) fn is_succeeded(pod: &Pod) -> bool {
    pod::phase(pod) == "Succeeded"
}

/// Whether the pod counts as failed. One that somebody deletes may never get to say so itself.
pub(super) fn is_failed(job: &Job, pod: &Pod) -> bool {
    pod::phase(pod) == "Failed"
        || (!replaces_only_failed(job) && is_deleting(&pod.metadata) && !is_succeeded(pod))
}

/// When the pod ended, as well as can be told.
pub(super) fn finished_at(pod: &Pod, now: Timestamp) -> Timestamp {
    let ended = statuses(pod).filter_map(|status| {
        status.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref().map(|time| time.0)
    });
    let not_ready = || {
        let ready = pod::condition(pod, "Ready").filter(|ready| ready.status == "False");
        ready.and_then(|ready| ready.last_transition_time.as_ref()).map(|time| time.0)
    };
    let deleted = || pod.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    let created = || pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    ended.max().or_else(not_ready).or_else(deleted).or_else(created).unwrap_or(now).min(now)
}

/// How often the pod's containers were started again.
pub(super) fn restarts(pod: &Pod) -> i32 {
    statuses(pod).map(|status| status.restart_count).sum()
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    let main = status.and_then(|status| status.container_statuses.as_ref());
    let init = status.and_then(|status| status.init_container_statuses.as_ref());
    main.into_iter().flatten().chain(init.into_iter().flatten())
}

/// What the job's rules say of this failed pod.
pub(super) fn judge(job: &Job, pod: &Pod) -> Verdict {
    let policy = job.spec.as_ref().and_then(|spec| spec.pod_failure_policy.as_ref());
    let rules = policy.map(|policy| policy.rules.as_slice()).unwrap_or_default();
    for (number, rule) in rules.iter().enumerate() {
        let Some(why) = matches(rule, pod) else { continue };
        return match rule.action.as_str() {
            "FailJob" => Verdict::FailJob(format!("{why} matching FailJob rule at index {number}")),
            "FailIndex" => Verdict::FailIndex,
            "Ignore" => Verdict::Ignore,
            _ => Verdict::Count,
        };
    }
    Verdict::Count
}

fn matches(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    if let Some(codes) = &rule.on_exit_codes {
        return statuses(pod).find_map(|status| {
            let code = status.state.as_ref()?.terminated.as_ref()?.exit_code;
            let meant = codes.container_name.as_ref().is_none_or(|container| *container == status.name);
            let listed = codes.values.contains(&code);
            let fits = if codes.operator == "NotIn" { !listed } else { listed };
            (code != 0 && meant && fits).then(|| {
                format!("Container {} for pod {namespace}/{name} failed with exit code {code}", status.name)
            })
        });
    }
    rule.on_pod_conditions.iter().flatten().find_map(|pattern| {
        let condition = pod::condition(pod, &pattern.type_)?;
        (condition.status == pattern.status)
            .then(|| format!("Pod {namespace}/{name} has condition {}", pattern.type_))
    })
}

/// Active pods in the order in which they are missed least.
pub(super) fn least_missed_first(pods: &mut [Arc<Pod>]) {
    pods.sort_by_cached_key(|pod| {
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let phase = usize::from(pod::phase(pod) == "Running");
        (
            pod::node_name(pod).is_some(),
            phase,
            pod::is_ready(pod),
            std::cmp::Reverse(created),
            pod.metadata.name.clone(),
        )
    });
}
