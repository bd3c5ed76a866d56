//! How many pods of a group may be disturbed right now: the status that evictions are weighed against.
//!
//! Evictions write into the same status, so it is only replaced over the version that was read; a pod that was allowed to go
//! counts as gone at once, although it takes its time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::{Selector, SelectorExt};
use kube::{Api, Client};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};

use crate::calls::{POST, tolerant};
use crate::events::{Kind, Recorder};
use crate::ownership::{controller_of, is_deleting};
use crate::pod;
use crate::share;
use crate::watches::Caches;

/// How long an eviction that was allowed may take to be seen.
const UNCONFIRMED: SignedDuration = SignedDuration::from_secs(120);

pub(crate) struct Disruptions {
    client: Client,
    caches: Caches,
    clock: Clock,
    recorder: Recorder,
}

/// What is known about the pods of a budget.
struct Group<'a> {
    pods: &'a [Arc<Pod>],
    /// How many pods their owners want, together.
    expected: Result<i32, String>,
}

// === planning ===

/// Whether the budget is about the pod. The empty selector takes all, none takes none.
pub(crate) fn covers(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let read = |selector: &LabelSelector| Selector::try_from(selector.clone()).ok();
    let none = BTreeMap::new();
    let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
    budget.metadata.namespace == pod.metadata.namespace
        && selector.and_then(read).is_some_and(|selector| selector.matches(labels))
}

fn measure(
    budget: &PodDisruptionBudget,
    group: &Group<'_>,
    now: Timestamp,
) -> (PodDisruptionBudgetStatus, Option<Duration>) {
    let before = budget.status.clone().unwrap_or_default();
    let (disrupted, look_again) = unconfirmed(&before, group.pods, now);
    let names: BTreeSet<&String> = disrupted.keys().collect();
    let is_healthy = |pod: &&Arc<Pod>| {
        let going = pod.metadata.name.as_ref().is_some_and(|name| names.contains(name));
        pod::is_ready(pod) && !pod::is_finished(pod) && !is_deleting(&pod.metadata) && !going
    };
    let healthy = number(group.pods.iter().filter(is_healthy).count());
    let (expected, desired, problem) = wanted(budget, group);
    let allowed = if expected <= 0 || problem.is_some() { 0 } else { (healthy - desired).max(0) };
    let (holds, reason, message) = match problem {
        Some(problem) => (false, "SyncFailed", problem),
        None if allowed > 0 => (true, "SufficientPods", String::new()),
        None => (false, "InsufficientPods", String::new()),
    };
    let status = if holds { "True" } else { "False" };
    let earlier = before.conditions.unwrap_or_default();
    let same =
        earlier.iter().find(|condition| condition.type_ == "DisruptionAllowed" && condition.status == status);
    let condition = Condition {
        type_: "DisruptionAllowed".to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: budget.metadata.generation,
        last_transition_time: same.map_or(Time(now), |same| same.last_transition_time.clone()),
    };
    let mut conditions: Vec<_> =
        earlier.into_iter().filter(|condition| condition.type_ != "DisruptionAllowed").collect();
    conditions.push(condition);
    let status = PodDisruptionBudgetStatus {
        conditions: Some(conditions),
        current_healthy: healthy,
        desired_healthy: desired,
        disrupted_pods: (!disrupted.is_empty()).then_some(disrupted),
        disruptions_allowed: allowed,
        expected_pods: expected,
        observed_generation: budget.metadata.generation,
    };
    (status, look_again)
}

/// Evictions that were allowed and are not seen yet, and when the first of them is given up.
fn unconfirmed(
    before: &PodDisruptionBudgetStatus,
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> (BTreeMap<String, Time>, Option<Duration>) {
    let mut left = BTreeMap::new();
    let mut look_again: Option<Duration> = None;
    for (name, at) in before.disrupted_pods.iter().flatten() {
        let pod = pods.iter().find(|pod| pod.metadata.name.as_ref() == Some(name));
        let rest = Duration::try_from((at.0 + UNCONFIRMED).duration_since(now)).unwrap_or_default();
        if pod.is_none_or(|pod| is_deleting(&pod.metadata)) || rest.is_zero() {
            continue;
        }
        look_again = [look_again, Some(rest)].into_iter().flatten().min();
        left.insert(name.clone(), at.clone());
    }
    (left, look_again)
}

/// How many pods there should be, how many must be healthy, and why that cannot be told.
fn wanted(budget: &PodDisruptionBudget, group: &Group<'_>) -> (i32, i32, Option<String>) {
    let spec = budget.spec.clone().unwrap_or_default();
    let all = number(group.pods.len());
    let by_owners = |desired: &dyn Fn(i32) -> i32| match &group.expected {
        Ok(expected) => (*expected, desired(*expected).max(0), None),
        Err(problem) => (all, 0, Some(problem.clone())),
    };
    match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => by_owners(&|expected| expected - share::of(most, expected, true)),
        (None, Some(least @ IntOrString::String(_))) => {
            by_owners(&|expected| share::of(least, expected, true))
        }
        (None, Some(IntOrString::Int(least))) => (all, *least, None),
        (None, None) => (all, 0, None),
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

// === impl Disruptions ===

impl Disruptions {
    pub(crate) fn new(client: Client, caches: Caches, clock: Clock, recorder: Recorder) -> Self {
        Self { client, caches, clock, recorder }
    }

    /// How many pods the owners of these want.
    fn expected(&self, pods: &[Arc<Pod>]) -> Result<i32, String> {
        let mut scales: BTreeMap<String, i32> = BTreeMap::new();
        for pod in pods {
            let Some(owner) = controller_of(&pod.metadata) else { continue };
            let key = ObjectKey { namespace: pod.metadata.namespace.clone(), name: owner.name.clone() };
            let (uid, scale) = match owner.kind.as_str() {
                "ReplicaSet" => self.scale_of_set(&key),
                "StatefulSet" => self.caches.stateful_sets.get(&key).map(|set| {
                    let replicas = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
                    (set.metadata.uid.clone().unwrap_or_default(), replicas)
                }),
                kind => return Err(format!("{kind} {key} has no scale that is known")),
            }
            .ok_or_else(|| format!("{} {key} is not there", owner.kind))?;
            scales.insert(uid, scale);
        }
        Ok(scales.values().sum())
    }

    /// The scale of a replica set, or of the deployment that it belongs to.
    fn scale_of_set(&self, key: &ObjectKey) -> Option<(String, i32)> {
        let set = self.caches.replica_sets.get(key)?;
        let owner = controller_of(&set.metadata).filter(|owner| owner.kind == "Deployment");
        let Some(owner) = owner else {
            let replicas = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
            return Some((set.metadata.uid.clone().unwrap_or_default(), replicas));
        };
        let key = ObjectKey { namespace: key.namespace.clone(), name: owner.name.clone() };
        let deployment = self.caches.deployments.get(&key)?;
        let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        Some((deployment.metadata.uid.clone().unwrap_or_default(), replicas))
    }
}

impl Reconcile for Disruptions {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        Ok(self.caches.budgets.keys())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let Some(budget) = self.caches.budgets.get(key) else { return Ok(Next::Done) };
        let mut pods = self.caches.pods.list_in(key.namespace_or_empty());
        pods.retain(|pod| covers(&budget, pod));
        let expected = self.expected(&pods);
        let (status, look_again) = measure(&budget, &Group { pods: &pods, expected }, self.clock.now());
        if budget.status.as_ref() != Some(&status) {
            if let Some(failed) = status.conditions.iter().flatten().find(|c| c.reason == "SyncFailed") {
                let reason = "CalculateExpectedPodCountFailed";
                let message = format!("Failed to calculate the number of expected pods: {}", failed.message);
                self.recorder.record(&*budget, Kind::Warning, reason, message);
            }
            let api: Api<PodDisruptionBudget> =
                Api::namespaced(self.client.clone(), key.namespace_or_empty());
            let budget = PodDisruptionBudget { status: Some(status), ..(*budget).clone() };
            let call = api.replace_status(&key.name, &POST, &budget);
            tolerant("write the status of a disruption budget", call).await?;
        }
        Ok(look_again.map_or(Next::Done, Next::After))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:10:00Z".parse().unwrap()
    }

    fn budget(spec: Value, disrupted: Value) -> PodDisruptionBudget {
        serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "default", "generation": 2 },
            "spec": spec,
            "status": {
                "disruptedPods": disrupted, "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0,
                "expectedPods": 0,
            },
        }))
        .unwrap()
    }

    fn pods(count: usize) -> Vec<Arc<Pod>> {
        let pod = |index: usize| {
            json!({
                "metadata": { "name": format!("web-{index}"), "namespace": "default", "labels": { "app": "web" } },
                "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
            })
        };
        (0..count).map(|index| Arc::new(serde_json::from_value(pod(index)).unwrap())).collect()
    }

    fn numbers(spec: Value, disrupted: Value, count: usize, expected: i32) -> (i32, i32, i32, i32) {
        let pods = pods(count);
        let group = Group { pods: &pods, expected: Ok(expected) };
        let status = measure(&budget(spec, disrupted), &group, now()).0;
        assert_eq!(status.observed_generation, Some(2));
        (status.expected_pods, status.desired_healthy, status.current_healthy, status.disruptions_allowed)
    }

    #[test]
    fn budget_allows_what_is_healthy_beyond_what_has_to_be() {
        assert_eq!(numbers(json!({ "minAvailable": 2 }), Value::Null, 3, 9), (3, 2, 3, 1));
        assert_eq!(numbers(json!({ "minAvailable": "50%" }), Value::Null, 3, 5), (5, 3, 3, 0));
        assert_eq!(numbers(json!({ "maxUnavailable": 1 }), Value::Null, 4, 4), (4, 3, 4, 1));
        assert_eq!(numbers(json!({ "maxUnavailable": "30%" }), Value::Null, 4, 4), (4, 2, 4, 2));
        assert_eq!(numbers(json!({ "maxUnavailable": 1 }), Value::Null, 0, 0), (0, 0, 0, 0));
    }

    #[test]
    fn eviction_that_was_allowed_counts_until_it_is_seen_or_given_up() {
        let spec = json!({ "minAvailable": 1 });
        let fresh = json!({ "web-0": "2026-01-01T00:09:00Z", "gone": "2026-01-01T00:09:00Z" });
        assert_eq!(numbers(spec.clone(), fresh.clone(), 2, 2), (2, 1, 1, 0));
        let all = pods(2);
        let group = Group { pods: &all, expected: Ok(2) };
        let (status, look_again) = measure(&budget(spec.clone(), fresh), &group, now());
        assert_eq!(status.disrupted_pods.unwrap().len(), 1);
        assert_eq!(look_again, Some(Duration::from_secs(60)));
        let old = json!({ "web-0": "2026-01-01T00:07:00Z" });
        assert_eq!(numbers(spec, old, 2, 2), (2, 1, 2, 1));
    }

    #[test]
    fn budget_that_cannot_be_worked_out_allows_nothing() {
        let all = pods(3);
        let group =
            Group { pods: &all, expected: Err("Robot default/r has no scale that is known".to_owned()) };
        let status = measure(&budget(json!({ "maxUnavailable": 1 }), Value::Null), &group, now()).0;
        assert_eq!(status.disruptions_allowed, 0);
        assert_eq!(status.conditions.unwrap()[0].reason, "SyncFailed");
    }
}
