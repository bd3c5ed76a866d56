//! The pods of residents: told to the API as they are.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use pilothouse_informer::{Informer, ObjectKey};
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};
use serde_json::json;
use tracing::{info, warn};

use super::Lodged;
use crate::pods::plan::{Health, Phase};
use crate::pods::specification::Refusal;
use crate::pods::status::{self, Report};
use crate::shim::protocol::{ContainerState, Run, State};

/// The reconciler: one pod a key. A cheap handle.
#[derive(Clone)]
pub(super) struct Pods {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    clock: Clock,
    pods: Informer<Pod>,
    residents: Arc<[Lodged]>,
    /// When this process began to show them.
    since: Timestamp,
    /// What was last told of each, which says the same as the cache will, in our own words.
    reported: Mutex<HashMap<ObjectKey, (Option<String>, PodStatus)>>,
}

// === impl Pods ===

impl Pods {
    pub(super) fn new(client: Client, clock: Clock, pods: Informer<Pod>, residents: Arc<[Lodged]>) -> Self {
        let since = clock.now();
        Self { inner: Arc::new(Inner { client, clock, pods, residents, since, reported: Mutex::default() }) }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// A pod of this node.
    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<Pod>> {
        self.inner.pods.get(key)
    }

    /// Whom a pod shows.
    pub(super) fn resident(&self, pod: &Pod) -> Option<&Lodged> {
        self.inner.residents.iter().find(|lodged| lodged.is_shown_by(pod))
    }

    fn status(&self, pod: &Pod) -> PodStatus {
        let Some(Lodged { resident, printed }) = self.resident(pod) else {
            return status::refused(&Refusal {
                reason: "NotResident",
                message: "this node shows parts of the process that it is in, and runs nothing else"
                    .to_owned(),
            });
        };
        let verdict = (resident.health)();
        if !verdict.is_ready() {
            warn!(app = resident.app, why = verdict.detail(), "not ready");
        }
        let reported = self.reported(pod);
        let run = Run { pid: 0, started_at: self.inner.since, exit: None };
        let running = ContainerState { attempt: printed.attempt(), run, previous: None };
        let health = Health { started: true, ready: verdict.is_ready(), failed: None };
        Report {
            pod,
            state: &State { containers: BTreeMap::from([(resident.container.clone(), running)]) },
            health: &BTreeMap::from([(resident.container.clone(), health)]),
            waiting: &BTreeMap::new(),
            initialized: true,
            phase: Phase::Running,
            // Nothing on the cluster's network leads to this process.
            address: None,
            node_address: Ipv4Addr::LOCALHOST,
            started_at: self.inner.since,
            messages: &BTreeMap::new(),
            reported: reported.as_ref(),
            now: self.now(),
        }
        .status()
    }

    fn reported(&self, pod: &Pod) -> Option<PodStatus> {
        let reported = self.lock().get(&ObjectKey::of(pod)).cloned();
        reported.filter(|(uid, _)| *uid == pod.uid()).map(|(_, status)| status)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, (Option<String>, PodStatus)>> {
        self.inner.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn api(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.inner.client.clone(), &pod.namespace().unwrap_or_default())
    }

    /// Nothing has to be ended first: what the pod shows goes on.
    async fn let_go(&self, pod: &Pod) -> Result<(), TaskError> {
        let preconditions = Preconditions { uid: pod.uid(), resource_version: None };
        let parameters =
            DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default().grace_period(0) };
        outcome(self.api(pod).delete(&pod.name_any(), &parameters).await.map(drop))
    }
}

impl Reconcile for Pods {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        self.inner.pods.synced().await;
        Ok(self.inner.pods.keys())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let Some(pod) = self.get(key) else {
            self.lock().remove(key);
            return Ok(Next::Done);
        };
        if pod.metadata.deletion_timestamp.is_some() {
            self.let_go(&pod).await?;
            return Ok(Next::Done);
        }
        let status = self.status(&pod);
        // Somebody may have found the node dead in the meantime, and its pods not ready.
        let stands = pod.status.as_ref().is_some_and(|known| readiness(known) == readiness(&status));
        if stands && self.reported(&pod).as_ref() == Some(&status) {
            return Ok(Next::Done);
        }
        // With the uid, so that a pod of the same name that came after it does not get its status.
        let patch = json!({ "metadata": { "uid": pod.uid() }, "status": status });
        let (api, parameters) = (self.api(&pod), PatchParams::default());
        outcome(api.patch_status(&key.name, &parameters, &Patch::Merge(&patch)).await.map(drop))?;
        info!(pod = %key, phase = status.phase, "told how a resident is");
        self.lock().insert(key.clone(), (pod.uid(), status));
        Ok(Next::Done)
    }
}

fn readiness(status: &PodStatus) -> Option<&str> {
    let conditions = status.conditions.iter().flatten();
    conditions
        .filter(|condition| condition.type_ == "Ready")
        .map(|condition| condition.status.as_str())
        .next()
}

/// A pod that is gone or another by now needs nothing.
fn outcome(result: Result<(), kube::Error>) -> Result<(), TaskError> {
    match result {
        Err(kube::Error::Api(refused)) if matches!(refused.code, 404 | 409) => Ok(()),
        result => Ok(result?),
    }
}
