//! Which nodes have been unwell for too long.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::names;

/// On a hosted cluster: how long a node may be not ready.
const TIMEOUT: &str = "hypershift.openshift.io/machine-health-check-timeout";
/// On a hosted cluster: how long a machine may take to become a node.
const STARTUP_TIMEOUT: &str = "hypershift.openshift.io/machine-health-check-node-startup-timeout";
/// On a hosted cluster: with more sick nodes than this it is no node's fault, and none is replaced.
const MAX_UNHEALTHY: &str = "hypershift.openshift.io/machine-health-check-max-unhealthy";

/// When a node counts as sick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HealthCheck {
    pub(super) timeout: Duration,
    pub(super) startup_timeout: Duration,
    pub(super) max_unhealthy: usize,
}

/// What is known of one worker's health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Patient {
    pub(super) name: String,
    /// Since when its node has not been ready, or since when there should be one. Nothing if all is well.
    pub(super) unwell_since: Option<Timestamp>,
    pub(super) has_node: bool,
}

/// What follows from that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Diagnosis {
    /// Who is to be replaced.
    pub(super) sick: BTreeSet<String>,
    /// So many are sick that none is replaced.
    pub(super) too_many: usize,
    /// When somebody who is unwell counts as sick.
    pub(super) next: Option<Duration>,
}

// === impl HealthCheck ===

impl Default for HealthCheck {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(8 * 60),
            startup_timeout: Duration::from_secs(20 * 60),
            max_unhealthy: 2,
        }
    }
}

impl HealthCheck {
    /// What a hosted cluster asks for. What cannot be read is as if it were not there.
    pub(super) fn of(cluster: &ObjectMeta) -> Self {
        let usual = Self::default();
        let duration = |key| {
            let text = names::annotation(cluster, key)?;
            text.parse::<SignedDuration>().ok()?.try_into().ok()
        };
        Self {
            timeout: duration(TIMEOUT).unwrap_or(usual.timeout),
            startup_timeout: duration(STARTUP_TIMEOUT).unwrap_or(usual.startup_timeout),
            max_unhealthy: names::annotation(cluster, MAX_UNHEALTHY)
                .and_then(|text| text.parse().ok())
                .unwrap_or(usual.max_unhealthy),
        }
    }

    /// Who has been unwell for too long.
    pub(super) fn examine(&self, patients: &[Patient], now: Timestamp) -> Diagnosis {
        let mut diagnosis = Diagnosis::default();
        for patient in patients {
            let Some(since) = patient.unwell_since else { continue };
            let limit = if patient.has_node { self.timeout } else { self.startup_timeout };
            let unwell = Duration::try_from(now.duration_since(since)).unwrap_or_default();
            match limit.checked_sub(unwell).filter(|left| !left.is_zero()) {
                Some(left) => diagnosis.next = Some(diagnosis.next.map_or(left, |next| next.min(left))),
                None => {
                    diagnosis.sick.insert(patient.name.clone());
                }
            }
        }
        if diagnosis.sick.len() > self.max_unhealthy {
            diagnosis.too_many = diagnosis.sick.len();
            diagnosis.sick.clear();
        }
        diagnosis
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patient(name: &str, unwell: Option<i64>, has_node: bool) -> Patient {
        let unwell_since = unwell.map(|seconds| Timestamp::from_second(10_000 - seconds).unwrap());
        Patient { name: name.to_owned(), unwell_since, has_node }
    }

    fn examined(patients: &[Patient]) -> Diagnosis {
        HealthCheck::default().examine(patients, Timestamp::from_second(10_000).unwrap())
    }

    #[test]
    fn who_has_been_unwell_for_long_enough_is_sick_and_the_next_is_waited_for() {
        let found = examined(&[
            patient("well", None, true),
            patient("sick", Some(480), true),
            patient("unwell", Some(400), true),
            patient("starting", Some(480), false),
            patient("never-started", Some(1200), false),
        ]);
        assert_eq!(found.sick, BTreeSet::from(["sick".to_owned(), "never-started".to_owned()]));
        assert_eq!(found.next, Some(Duration::from_secs(80)));
        assert_eq!(found.too_many, 0);
    }

    #[test]
    fn when_many_are_sick_it_is_not_their_fault() {
        let all: Vec<_> = ["a", "b", "c"].map(|name| patient(name, Some(9_000), true)).into();
        let found = examined(&all);
        assert_eq!((found.sick.len(), found.too_many), (0, 3));
    }

    #[test]
    fn a_cluster_may_have_less_patience() {
        let mut metadata = ObjectMeta::default();
        assert_eq!(HealthCheck::of(&metadata), HealthCheck::default());
        let annotations = [(TIMEOUT, "1m30s"), (MAX_UNHEALTHY, "5"), (STARTUP_TIMEOUT, "soon")];
        metadata.annotations =
            Some(annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        let check = HealthCheck::of(&metadata);
        assert_eq!((check.timeout.as_secs(), check.max_unhealthy), (90, 5));
        assert_eq!(check.startup_timeout, HealthCheck::default().startup_timeout);
    }
}
