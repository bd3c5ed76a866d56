//! Pods leave nodes whose taints they do not tolerate, at once or when their patience ends.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, Taint, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, Patch, Preconditions};
use kube::{Api, Client};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};
use serde_json::json;
use tracing::info;

use super::{NOT_READY, UNREACHABLE};
use crate::calls::{PATCH, tolerant};
use crate::events::{Kind, Recorder};
use crate::ownership::is_deleting;
use crate::placement;
use crate::pod;
use crate::watches::Caches;

/// How long pods stay on a node that is not well when they do not say. Admission usually says it for them.
const USUAL_PATIENCE: i64 = 300;

pub(crate) struct Evictions {
    client: Client,
    caches: Caches,
    clock: Clock,
    recorder: Recorder,
    /// When taints that carry no time were first seen, by node and taint.
    seen: Mutex<HashMap<(String, String), Timestamp>>,
}

/// When a pod has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Stay,
    Go,
    In(Duration),
}

// === planning ===

fn judge(taints: &[(Taint, Timestamp)], tolerations: &[Toleration], now: Timestamp) -> Verdict {
    let mut verdict = Verdict::Stay;
    for (taint, since) in taints {
        let matching: Vec<_> =
            tolerations.iter().filter(|toleration| placement::tolerates(toleration, taint)).collect();
        // Of several the least patient counts, as with taints.
        let seconds = match matching.iter().filter_map(|toleration| toleration.toleration_seconds).min() {
            Some(seconds) => seconds.max(0),
            None if !matching.is_empty() => continue,
            None if taint.key == NOT_READY || taint.key == UNREACHABLE => USUAL_PATIENCE,
            None => 0,
        };
        let end = *since + SignedDuration::from_secs(seconds);
        let rest = Duration::try_from(end.duration_since(now)).unwrap_or_default();
        verdict = match (verdict, rest.is_zero()) {
            (_, true) => return Verdict::Go,
            (Verdict::In(earlier), false) => Verdict::In(earlier.min(rest)),
            (_, false) => Verdict::In(rest),
        };
    }
    verdict
}

pub(crate) fn is_executing(taint: &Taint) -> bool {
    taint.effect == "NoExecute"
}

// === impl Evictions ===

impl Evictions {
    pub(crate) fn new(client: Client, caches: Caches, clock: Clock, recorder: Recorder) -> Self {
        Self { client, caches, clock, recorder, seen: Mutex::default() }
    }

    /// The taints of a node that drive pods away, and since when they are there.
    fn taints(&self, node: &str, now: Timestamp) -> Vec<(Taint, Timestamp)> {
        let Some(found) = self.caches.nodes.get(&ObjectKey::cluster(node)) else { return Vec::new() };
        let taints: Vec<_> =
            placement::taints(&found).iter().filter(|taint| is_executing(taint)).cloned().collect();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let word = |taint: &Taint| format!("{}={}", taint.key, taint.value.as_deref().unwrap_or_default());
        seen.retain(|(other, taint), _| other != node || taints.iter().any(|t| word(t) == *taint));
        taints
            .into_iter()
            .map(|taint| {
                let since = match &taint.time_added {
                    Some(time) => time.0,
                    None => *seen.entry((node.to_owned(), word(&taint))).or_insert(now),
                };
                (taint, since)
            })
            .collect()
    }
}

impl Reconcile for Evictions {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        let nodes = self.caches.nodes.list();
        let tainted: Vec<_> = nodes
            .iter()
            .filter(|node| placement::taints(node).iter().any(is_executing))
            .filter_map(|node| node.metadata.name.as_deref())
            .collect();
        let pods = self.caches.pods.list();
        let concerned =
            pods.iter().filter(|pod| pod::node_name(pod).is_some_and(|node| tainted.contains(&node)));
        Ok(concerned.map(|pod| ObjectKey::of(&**pod)).collect())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let Some(found) = self.caches.pods.get(key) else { return Ok(Next::Done) };
        let Some(node) = pod::node_name(&found) else { return Ok(Next::Done) };
        if is_deleting(&found.metadata) || pod::is_finished(&found) {
            return Ok(Next::Done);
        }
        let now = self.clock.now();
        let tolerations =
            found.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
        match judge(&self.taints(node, now), tolerations, now) {
            Verdict::Stay => return Ok(Next::Done),
            Verdict::In(rest) => return Ok(Next::After(rest)),
            Verdict::Go => {}
        }
        info!(pod = %key, node, "evicting a pod that does not tolerate its node");
        self.recorder.record(
            &*found,
            Kind::Normal,
            "TaintManagerEviction",
            format!("Marking for deletion Pod {key}"),
        );
        let api: Api<Pod> = Api::namespaced(self.client.clone(), key.namespace_or_empty());
        let patch =
            Patch::Strategic(json!({ "metadata": { "uid": found.metadata.uid }, "status": { "conditions": [{
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": Time(now),
        }] } }));
        tolerant(format!("mark pod {key}"), api.patch_status(&key.name, &PATCH, &patch)).await?;
        let preconditions = Preconditions { uid: found.metadata.uid.clone(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
        tolerant(format!("evict pod {key}"), api.delete(&key.name, &params)).await?;
        Ok(Next::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_goes_when_the_least_patient_toleration_ends() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let taint =
            |key: &str| Taint { key: key.to_owned(), effect: "NoExecute".to_owned(), ..Taint::default() };
        let toleration = |key: &str, seconds: Option<i64>| Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            toleration_seconds: seconds,
            ..Toleration::default()
        };
        let special = [(taint("special"), start)];
        let lost = [(taint(UNREACHABLE), start)];
        let after = |seconds: i64| start + SignedDuration::from_secs(seconds);
        for (taints, tolerations, now, expected) in [
            (&special[..], vec![], start, Verdict::Go),
            (&special[..], vec![toleration("special", None)], after(9999), Verdict::Stay),
            (
                &special[..],
                vec![toleration("special", Some(60))],
                after(20),
                Verdict::In(Duration::from_secs(40)),
            ),
            (&special[..], vec![toleration("special", Some(60))], after(60), Verdict::Go),
            (
                &special[..],
                vec![toleration("special", None), toleration("special", Some(30))],
                after(30),
                Verdict::Go,
            ),
            (&lost[..], vec![], after(10), Verdict::In(Duration::from_secs(290))),
            (&lost[..], vec![], after(300), Verdict::Go),
            (&[][..], vec![], start, Verdict::Stay),
        ] {
            assert_eq!(judge(taints, &tolerations, now), expected, "{taints:?} {tolerations:?} {now}");
        }
    }
}
