//! The controller of managed clusters.
//!
//! A managed cluster is about one of three things: a hosted cluster that carries its name in the label
//! `api.openshift.com/id`, and then somebody else makes and deletes it; a hosted cluster of the same name, and then it is
//! made here as soon as that is available, and goes with it; or, as `local-cluster`, the very cluster that this runs on.
//! In all three its status, its namespace and its lease come from here.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use pilothouse_crds::{
    HostedCluster, ManagedCluster, ManagedClusterStatus, MultiClusterEngine, find_condition,
    is_condition_true,
};
use pilothouse_informer::{Informer, ObjectKey};
use pilothouse_runtime::{Chain, Clock, Next, Reconcile, TaskError};
use serde_json::json;
use tracing::{debug, info, warn};

use crate::error::{Error, FIELD_MANAGER};
use crate::multi_cluster_engine::Wishes;

mod import;
mod index;
mod lease;
mod status;
#[cfg(test)]
mod tests;
mod version;

pub(crate) use index::Index;
use lease::Leases;
use status::{AVAILABLE, Subject};
use version::Versions;

/// On a hosted cluster: the name of its managed cluster.
pub(crate) const CLUSTER_ID: &str = "api.openshift.com/id";
/// The cluster that this runs on.
pub(crate) const LOCAL_CLUSTER: &str = "local-cluster";

/// How soon to look again when somebody else wrote in between.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

pub(crate) struct ManagedClusters {
    client: Client,
    clock: Clock,
    clusters: Informer<ManagedCluster>,
    hosted: Informer<HostedCluster>,
    engines: Informer<MultiClusterEngine>,
    index: Arc<Index>,
    leases: Leases,
    versions: Versions,
    recorder: Recorder,
    auto_import: bool,
    api_url: Option<String>,
    /// Hosted clusters that were told that their name is taken.
    told: Mutex<HashSet<ObjectKey>>,
}

/// What the controller is made of.
pub(crate) struct Parts {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) clusters: Informer<ManagedCluster>,
    pub(crate) hosted: Informer<HostedCluster>,
    pub(crate) engines: Informer<MultiClusterEngine>,
    pub(crate) index: Arc<Index>,
    pub(crate) auto_import: bool,
    pub(crate) api_url: Option<String>,
}

// === impl ManagedClusters ===

impl Reconcile for ManagedClusters {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        let mut keys: HashSet<_> = self.clusters.keys().into_iter().collect();
        keys.extend(self.index.keys());
        keys.insert(ObjectKey::cluster(LOCAL_CLUSTER));
        Ok(keys.into_iter().collect())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        match self.pass(key).await {
            Ok(next) => Ok(next),
            Err(error) if error.is_missing() => Ok(Next::Done),
            Err(error) if error.is_conflict() => Ok(Next::After(LOOK_AGAIN)),
            Err(error) => Err(error.into()),
        }
    }
}

impl ManagedClusters {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { client, clock, clusters, hosted, engines, index, auto_import, api_url } = parts;
        Self {
            leases: Leases::new(client.clone(), clock.clone()),
            versions: Versions::new(client.clone()),
            recorder: Recorder::new(client.clone(), "multicluster-engine".into()),
            client,
            clock,
            clusters,
            hosted,
            engines,
            index,
            auto_import,
            api_url,
            told: Mutex::default(),
        }
    }

    async fn pass(&self, key: &ObjectKey) -> Result<Next, Error> {
        let wishes = Wishes::of(&self.engines.list());
        let cluster = self.clusters.get(key);
        if key.name == LOCAL_CLUSTER {
            return self.local(cluster, wishes).await;
        }
        let hosted = self.hosted_of(&key.name, cluster.as_deref());
        self.tell_losers(&key.name, hosted.as_deref()).await;
        if cluster.is_none() || hosted.is_none() {
            self.versions.forget(&key.name);
        }
        match (cluster, hosted) {
            (Some(cluster), _) if cluster.metadata.deletion_timestamp.is_some() => Ok(Next::Done),
            (Some(cluster), None) if import::source(&cluster).is_some() => {
                info!(cluster = key.name, "detached: its hosted cluster is gone");
                self.delete(&cluster).await
            }
            (Some(cluster), hosted) => self.observe_hosted(&cluster, hosted.as_deref()).await,
            (None, Some(hosted)) => match self.may_import(&hosted, wishes.as_ref()) {
                true => self.import(&hosted).await,
                false => Ok(Next::Done),
            },
            (None, None) => Ok(Next::Done),
        }
    }

    /// The hosted cluster that a managed cluster of this name is about. One that was imported is let go as soon as its
    /// hosted cluster begins to go.
    fn hosted_of(&self, name: &str, cluster: Option<&ManagedCluster>) -> Option<Arc<HostedCluster>> {
        match cluster.and_then(import::source) {
            Some(source) => {
                self.hosted.get(&source).filter(|hosted| hosted.metadata.deletion_timestamp.is_none())
            }
            None => self.index.hosted(name, &self.hosted).into_iter().next(),
        }
    }

    fn may_import(&self, hosted: &HostedCluster, wishes: Option<&Wishes>) -> bool {
        let status = hosted.status.as_ref();
        self.auto_import
            && wishes.is_some_and(|wishes| wishes.import)
            && !hosted.labels().contains_key(CLUSTER_ID)
            && hosted.metadata.deletion_timestamp.is_none()
            && status.is_some_and(|status| is_condition_true(&status.conditions, "Available"))
    }

    async fn import(&self, hosted: &HostedCluster) -> Result<Next, Error> {
        self.create(import::managed_cluster(hosted)).await?;
        info!(cluster = hosted.name_any(), hosted = %ObjectKey::of(hosted), "imported");
        Ok(Next::Done)
    }

    /// A name is given once; who comes second is told so, in an event.
    async fn tell_losers(&self, name: &str, winner: Option<&HostedCluster>) {
        let winner = winner.map(ObjectKey::of);
        for loser in self.index.hosted(name, &self.hosted) {
            let key = ObjectKey::of(loser.as_ref());
            if winner.is_none()
                || winner.as_ref() == Some(&key)
                || loser.labels().contains_key(CLUSTER_ID)
                || !self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(key)
            {
                continue;
            }
            let event = Event {
                type_: EventType::Warning,
                reason: "ManagedClusterNameTaken".to_owned(),
                note: Some(format!(
                    "not imported: ManagedCluster {name} is about another cluster; names of imported clusters are \
                     unique on a management cluster"
                )),
                action: "Import".to_owned(),
                secondary: None,
            };
            if let Err(error) = self.recorder.publish(&event, &loser.object_ref(&())).await {
                warn!(cluster = name, error = %Chain(&error), "the event was not written");
            }
        }
    }

    async fn observe_hosted(
        &self,
        cluster: &ManagedCluster,
        hosted: Option<&HostedCluster>,
    ) -> Result<Next, Error> {
        let Some(hosted) = hosted else {
            self.write(cluster.clone(), &Subject::Missing).await?;
            return Ok(Next::Done);
        };
        let cluster = self.follow_address(cluster, hosted).await?;
        // Others wait for this first word; what takes longer to find out comes with the second.
        let name = cluster.name_any();
        let known = self.versions.known(&name, hosted);
        let asks = known.is_none();
        let cluster = self.write(cluster, &Subject::Hosted { hosted, kubernetes: known }).await?;
        let status = cluster.status.as_ref();
        if !status.is_some_and(|status| is_condition_true(&status.conditions, AVAILABLE)) {
            return Ok(Next::Done);
        }
        let next = self.leases.renew(&cluster).await?;
        if asks {
            match self.versions.ask(&name, hosted).await {
                Ok(kubernetes) => {
                    self.write(cluster, &Subject::Hosted { hosted, kubernetes: Some(kubernetes) }).await?;
                }
                Err(error) => {
                    debug!(cluster = name, error = %Chain(&error), "its version is not known yet");
                }
            }
        }
        Ok(Next::After(next))
    }

    /// The address of an imported cluster is where its hosted cluster is published.
    async fn follow_address(
        &self,
        cluster: &ManagedCluster,
        hosted: &HostedCluster,
    ) -> Result<ManagedCluster, Error> {
        let wanted = import::client_configs(hosted);
        let imported = import::source(cluster).is_some();
        let follows = cluster.spec.managed_cluster_client_configs == wanted;
        if !imported || follows || wanted.is_empty() {
            return Ok(cluster.clone());
        }
        let name = cluster.name_any();
        let patch = json!({ "spec": { "managedClusterClientConfigs": wanted } });
        self.api()
            .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map_err(|error| Error::cluster("change", describe(&name), error))
    }

    /// The cluster that this runs on, which is managed if the engine says so.
    async fn local(
        &self,
        cluster: Option<Arc<ManagedCluster>>,
        wishes: Option<Wishes>,
    ) -> Result<Next, Error> {
        match (cluster, wishes) {
            (None, Some(wishes)) if wishes.local_cluster => {
                self.create(import::local_cluster(&wishes.engine, self.api_url.as_deref())).await?;
                Ok(Next::Done)
            }
            (None, _) => Ok(Next::Done),
            (Some(cluster), _) if cluster.metadata.deletion_timestamp.is_some() => Ok(Next::Done),
            (Some(cluster), Some(wishes)) if !wishes.local_cluster => self.delete(&cluster).await,
            (Some(cluster), _) => {
                let subject = self.look_around().await?;
                let cluster = self.write(cluster.as_ref().clone(), &subject).await?;
                match cluster.spec.hub_accepts_client {
                    true => Ok(Next::After(self.leases.renew(&cluster).await?)),
                    false => Ok(Next::Done),
                }
            }
        }
    }

    /// Asks the cluster that this runs on who it is. Its answer is what makes it available.
    async fn look_around(&self) -> Result<Subject<'static>, Error> {
        let version = self.client.apiserver_version().await;
        let version =
            version.map_err(|error| Error::cluster("tell", "the version of the API server", error))?;
        let system = Api::<Namespace>::all(self.client.clone()).get("kube-system").await;
        let system = system.map_err(|error| Error::cluster("show", "Namespace kube-system", error))?;
        Ok(Subject::Here { kubernetes: version.git_version, id: system.uid().unwrap_or_default() })
    }

    async fn create(&self, cluster: ManagedCluster) -> Result<(), Error> {
        let name = cluster.name_any();
        let parameters =
            PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        match self.api().create(&parameters, &cluster).await {
            Ok(_) => Ok(()),
            Err(error) => match Error::cluster("create", describe(&name), error) {
                // The cache is behind, and what it is about to hear wakes the next pass.
                error if error.is_taken() => Ok(()),
                error => Err(error),
            },
        }
    }

    async fn delete(&self, cluster: &ManagedCluster) -> Result<Next, Error> {
        let name = cluster.name_any();
        // Not one of the same name that somebody has made since.
        let preconditions = Preconditions { uid: cluster.uid(), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let deleted = self.api().delete(&name, &parameters).await;
        deleted.map_err(|error| Error::cluster("delete", describe(&name), error))?;
        Ok(Next::Done)
    }

    /// Writes what was observed, if it is anything new.
    async fn write(&self, cluster: ManagedCluster, subject: &Subject<'_>) -> Result<ManagedCluster, Error> {
        let status = status::observe(&cluster, subject, self.clock.now());
        if cluster.status.as_ref() == Some(&status) {
            return Ok(cluster);
        }
        let name = cluster.name_any();
        report(&name, cluster.status.as_ref(), &status);
        let changed = ManagedCluster { status: Some(status), ..cluster };
        self.api()
            .replace_status(&name, &PostParams::default(), &changed)
            .await
            .map_err(|error| Error::cluster("change the status of", describe(&name), error))
    }

    fn api(&self) -> Api<ManagedCluster> {
        Api::all(self.client.clone())
    }
}

/// Says so when a cluster becomes available, or ceases to be.
fn report(name: &str, before: Option<&ManagedClusterStatus>, now: &ManagedClusterStatus) {
    let before = before.and_then(|before| find_condition(&before.conditions, AVAILABLE));
    let Some(now) = find_condition(&now.conditions, AVAILABLE) else { return };
    if before.map(|before| before.status) != Some(now.status) {
        info!(cluster = name, available = now.status.as_str(), reason = now.reason, "observed");
    }
}

fn describe(name: &str) -> String {
    format!("ManagedCluster {name}")
}
