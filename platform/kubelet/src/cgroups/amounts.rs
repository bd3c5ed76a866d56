//! What a pod and its containers may use, from their specification, by the rules of the kubelet.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};

use crate::pods::specification::{all_containers, containers, init_containers, is_sidecar};
use crate::quantity::{parse, thousandths};

/// What one group may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts {
    /// Bytes.
    pub(crate) memory: Option<u64>,
    /// Thousandths of a processor.
    pub(crate) limit: Option<u64>,
    /// How much of the processors in comparison with others, when there is not enough for all.
    pub(crate) shares: u64,
    pub(crate) processes: Option<u32>,
    /// Whether all processes are ended when there is no memory for one.
    pub(crate) whole: bool,
}

/// What a pod may use, and each of its containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodAmounts {
    pub(crate) pod: Amounts,
    pub(crate) containers: BTreeMap<String, Amounts>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quality {
    Guaranteed,
    Burstable,
    BestEffort,
}

const FEWEST_SHARES: u64 = 2;
const MOST_SHARES: u64 = 262_144;
/// The least quota the kernel takes.
const LEAST_QUOTA: u64 = 1000;
/// What the first process of a pod needs beside its containers.
const FIRST_PROCESS: u64 = 8 << 20;

// === impl Amounts ===

impl Amounts {
    /// The time on processors within a period, in the period's unit.
    pub(super) fn quota(&self, period: u64) -> Option<u64> {
        self.limit.map(|limit| (limit * period / 1000).max(LEAST_QUOTA))
    }

    /// The shares on the scale of the second version.
    pub(super) fn weight(&self) -> u64 {
        let shares = self.shares.clamp(FEWEST_SHARES, MOST_SHARES);
        1 + (shares - FEWEST_SHARES) * 9999 / (MOST_SHARES - FEWEST_SHARES)
    }
}

// === impl PodAmounts ===

impl PodAmounts {
    pub(crate) fn of(pod: &Pod, most_processes: Option<u32>) -> Self {
        let each = all_containers(pod).map(|container| (container.name.clone(), of_container(container)));
        let limit = |resource: &'static str| {
            // A pod is limited where all of its containers are.
            together(pod, |container| limit_of(container, resource))
        };
        let request = together(pod, |container| Some(request_of(container, "cpu").unwrap_or(0)));
        let memory = limit("memory").map(|thousandths| bytes(thousandths).saturating_add(FIRST_PROCESS));
        let pod = Amounts {
            memory,
            limit: limit("cpu").and_then(|thousandths| u64::try_from(thousandths).ok()),
            shares: shares(request.unwrap_or(0)),
            processes: most_processes,
            whole: false,
        };
        Self { pod, containers: each.collect() }
    }
}

fn of_container(container: &Container) -> Amounts {
    Amounts {
        memory: limit_of(container, "memory").map(bytes),
        limit: limit_of(container, "cpu").and_then(|thousandths| u64::try_from(thousandths).ok()),
        shares: shares(request_of(container, "cpu").unwrap_or(0)),
        processes: None,
        whole: true,
    }
}

/// What containers need at the same time, at the most: all that stay, or one that comes first with those before it that
/// stay.
fn together(pod: &Pod, of: impl Fn(&Container) -> Option<u128>) -> Option<u128> {
    let (mut beside, mut most) = (0, 0);
    for container in init_containers(pod) {
        let one = of(container)?;
        if is_sidecar(container) {
            beside += one;
        } else {
            most = most.max(beside + one);
        }
    }
    let mut all = beside;
    for container in containers(pod) {
        all += of(container)?;
    }
    Some(most.max(all))
}

fn shares(thousandths: u128) -> u64 {
    u64::try_from(thousandths * 1024 / 1000).unwrap_or(MOST_SHARES).clamp(FEWEST_SHARES, MOST_SHARES)
}

fn bytes(thousandths: u128) -> u64 {
    u64::try_from(thousandths.div_ceil(1000)).unwrap_or(u64::MAX)
}

/// The limit of a container, in thousandths. Nothing is as good as none.
pub(crate) fn limit_of(container: &Container, resource: &str) -> Option<u128> {
    let limits = container.resources.as_ref()?.limits.as_ref();
    thousandths(limits, resource).filter(|amount| *amount > 0)
}

/// What a container asks for, in thousandths; where it does not say, its limit.
pub(crate) fn request_of(container: &Container, resource: &str) -> Option<u128> {
    let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    thousandths(requests, resource).or_else(|| limit_of(container, resource))
}

pub(crate) fn quality(pod: &Pod) -> Quality {
    let resources = ["cpu", "memory"];
    let asks = |container: &Container| {
        resources.iter().any(|resource| request_of(container, resource).is_some_and(|amount| amount > 0))
    };
    let is_guaranteed = |container: &Container| {
        resources.iter().all(|resource| {
            let limit = limit_of(container, resource);
            limit.is_some() && limit == request_of(container, resource)
        })
    };
    if !all_containers(pod).any(asks) {
        Quality::BestEffort
    } else if all_containers(pod).all(is_guaranteed) {
        Quality::Guaranteed
    } else {
        Quality::Burstable
    }
}

/// How soon the kernel ends a container's processes when the machine has no memory left: sooner if they were promised less.
pub(crate) fn expendability(pod: &Pod, container: &Container, capacity: &str) -> i32 {
    match quality(pod) {
        Quality::Guaranteed => -997,
        Quality::BestEffort => 1000,
        Quality::Burstable => {
            let request = request_of(container, "memory").unwrap_or(0);
            let capacity = parse(capacity).unwrap_or(0).max(1);
            let promised = i32::try_from((request * 1000 / capacity).min(1000)).unwrap_or(1000);
            (1000 - promised).clamp(3, 999)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(containers: Value, init: Value) -> Pod {
        serde_json::from_value(
            json!({"metadata": {"name": "p"}, "spec": {"containers": containers, "initContainers": init}}),
        )
        .unwrap()
    }

    fn container(name: &str, requests: Value, limits: Value) -> Value {
        json!({"name": name, "resources": {"requests": requests, "limits": limits}})
    }

    #[test]
    fn a_pod_may_use_what_its_containers_may_use_together() {
        let none = json!({});
        let mut beside = container("beside", json!({"cpu": "100m"}), json!({"memory": "8Mi", "cpu": 1}));
        beside["restartPolicy"] = json!("Always");
        let init = json!([beside, container("first", none.clone(), json!({"memory": "100Mi", "cpu": "2"}))]);
        let main = json!([
            container("one", json!({"cpu": "500m"}), json!({"memory": "32Mi", "cpu": "1"})),
            container("two", none.clone(), json!({"memory": "16Mi", "cpu": "500m"})),
        ]);
        let amounts = PodAmounts::of(&pod(main, init), Some(64));
        assert_eq!(amounts.pod.memory, Some((108 << 20) + FIRST_PROCESS));
        assert_eq!(amounts.pod.limit, Some(3000));
        // The first one asks for what it is limited to, beside what stays.
        assert_eq!(amounts.pod.shares, 2100 * 1024 / 1000);
        assert_eq!(amounts.pod.processes, Some(64));
        let two = &amounts.containers["two"];
        assert_eq!(
            (two.memory, two.limit, two.shares, two.quota(100_000)),
            (Some(16 << 20), Some(500), 512, Some(50_000))
        );

        // One without a limit leaves the pod without.
        let open = json!([container("one", none.clone(), json!({"memory": "1Mi"})), {"name": "two"}]);
        let amounts = PodAmounts::of(&pod(open, json!([])), None);
        assert_eq!((amounts.pod.memory, amounts.pod.limit, amounts.pod.shares), (None, None, 2));
    }

    #[test]
    fn who_was_promised_more_is_ended_later() {
        let both = |cpu: &str, memory: &str| json!({"cpu": cpu, "memory": memory});
        for (requests, limits, quality_expected, expected) in [
            (json!({}), json!({}), Quality::BestEffort, 1000),
            (both("1", "1Gi"), both("1", "1Gi"), Quality::Guaranteed, -997),
            (json!({}), both("1", "1Gi"), Quality::Guaranteed, -997),
            (both("1", "1Gi"), both("2", "1Gi"), Quality::Burstable, 750),
            (json!({"cpu": "1"}), json!({}), Quality::Burstable, 999),
            (json!({"memory": "4Gi"}), json!({}), Quality::Burstable, 3),
        ] {
            let pod = pod(json!([container("main", requests.clone(), limits.clone())]), json!([]));
            assert_eq!(quality(&pod), quality_expected, "{requests} {limits}");
            assert_eq!(expendability(&pod, &containers(&pod)[0], "4Gi"), expected, "{requests} {limits}");
        }
    }
}
