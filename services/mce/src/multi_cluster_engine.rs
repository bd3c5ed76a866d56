//! The controller of `MultiClusterEngine`: what somebody wants of the engine, and what of it runs.
//!
//! The engine's parts are in this process and run in any case; the object says which of them do something: manage the
//! cluster itself, import hosted clusters, offer `hcp` for download. Its status lists the components that were seen to run,
//! and whatever else was asked for is said to be missing. What was made for an engine is owned by it, and goes with it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use pilothouse_crds::{
    ConditionStatus, ConsoleCLIDownload, ManagedCluster, MultiClusterEngine, MultiClusterEngineStatus,
    find_condition,
};
use pilothouse_informer::{Informer, ObjectKey};
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};
use serde_json::json;
use tracing::info;

use crate::downloads::Links;
use crate::error::{Error, FIELD_MANAGER};
use crate::managed_cluster::LOCAL_CLUSTER;
use crate::presence::{self, Seen};

mod status;
#[cfg(test)]
mod tests;

use status::{Component, Observed};

/// The download of `hcp`, by the name that documents give it.
pub(crate) const DOWNLOAD: &str = "hcp-cli-download";
/// Components that there are, by the names under which they are switched on and off.
const IMPORT: &str = "cluster-lifecycle";
const REGISTRATION: &str = "cluster-manager";
const HOSTING: &str = "hypershift";
const SELF: &str = "local-cluster";
const COMPONENTS: [&str; 4] = [IMPORT, REGISTRATION, HOSTING, SELF];

/// How soon to look again when somebody else wrote in between.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

pub(crate) struct Engines {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) engines: Informer<MultiClusterEngine>,
    pub(crate) clusters: Informer<ManagedCluster>,
    pub(crate) downloads: Informer<ConsoleCLIDownload>,
    pub(crate) leases: Informer<Lease>,
    /// What there is to download, if this process offers anything.
    pub(crate) links: Option<Links>,
    pub(crate) auto_import: bool,
}

/// What an engine is there for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wishes {
    /// The engine, as the owner of what is made for it.
    pub(crate) engine: OwnerReference,
    /// Whether the cluster manages itself.
    pub(crate) local_cluster: bool,
    /// Whether hosted clusters are imported.
    pub(crate) import: bool,
    /// Whether clusters are hosted, and `hcp` is offered for that.
    pub(crate) hosting: bool,
    /// What else was asked for, and why it is not done.
    pub(crate) refused: Vec<String>,
}

// === impl Wishes ===

impl Wishes {
    /// Those of the one engine that counts, if there is any.
    pub(crate) fn of(engines: &[Arc<MultiClusterEngine>]) -> Option<Self> {
        let engine = first(engines)?;
        let overrides = engine.spec.overrides.as_ref().map(|overrides| overrides.components.as_slice());
        let overrides = overrides.unwrap_or_default();
        let wants = |name: &str| {
            // The last word counts.
            let said = overrides.iter().rev().find(|component| component.name == name);
            said.is_none_or(|component| component.enabled)
        };
        let unknown =
            overrides.iter().filter(|said| said.enabled && !COMPONENTS.contains(&said.name.as_str()));
        let mut refused: Vec<_> = unknown
            .map(|said| format!("spec.overrides.components: there is no component `{}`", said.name))
            .collect();
        if engine.spec.local_cluster_name != LOCAL_CLUSTER {
            refused.push(format!("spec.localClusterName: it is always `{LOCAL_CLUSTER}`"));
        }
        Some(Self {
            engine: engine.owner_ref(&())?,
            local_cluster: wants(SELF),
            import: wants(IMPORT),
            hosting: wants(HOSTING),
            refused,
        })
    }
}

// === impl Engines ===

impl Reconcile for Engines {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        Ok(self.engines.keys())
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

impl Engines {
    async fn pass(&self, key: &ObjectKey) -> Result<Next, Error> {
        let Some(engine) = self.engines.get(key) else { return Ok(Next::Done) };
        let engines = self.engines.list();
        let now = self.clock.now();
        let Some(wishes) =
            Wishes::of(&engines).filter(|wishes| Some(&wishes.engine.uid) == engine.uid().as_ref())
        else {
            // Only one engine counts; the others are told so unless they are on their way out.
            if engine.metadata.deletion_timestamp.is_none() {
                let other = first(&engines).map(|first| first.name_any()).unwrap_or_default();
                self.write(key, &engine, status::of_another(&engine, &other, now)).await?;
            }
            return Ok(Next::Done);
        };
        let mut components = vec![Component::here(REGISTRATION)];
        if wishes.import && self.auto_import {
            components.push(Component::here(IMPORT));
        }
        let mut next = Next::Done;
        if wishes.hosting {
            let (component, until) = self.hosting(now);
            components.push(component);
            if let Some(until) = until {
                next = Next::After(self.clock.until(until));
            }
        }
        match (&self.links, wishes.hosting) {
            (Some(links), true) => components.push(self.ensure_download(links, &wishes).await?),
            (_, false) => self.ensure_no_download().await?,
            // Another process may offer it.
            (None, true) => {}
        }
        if wishes.local_cluster {
            components.push(self.local_cluster());
        }
        let observed = Observed { components, refused: wishes.refused };
        self.write(key, &engine, status::observe(&engine, &observed, now)).await?;
        Ok(next)
    }

    /// Whether the operator for hosted clusters runs, and how long its word is good for.
    fn hosting(&self, now: Timestamp) -> (Component, Option<Timestamp>) {
        let (namespace, name) = presence::HYPERSHIFT;
        let lease = self.leases.get(&ObjectKey::namespaced(namespace, name));
        match lease.map_or(Seen::Gone, |lease| presence::look(&lease, now)) {
            Seen::Until(until) => {
                let message = "the operator renews its Lease".to_owned();
                (Component::new(HOSTING, "Lease", Ok(("LeaseRenewed", message))), Some(until))
            }
            Seen::Gone => {
                let message =
                    format!("Lease {namespace}/{name} is not renewed; run `pilothouse hypershift-operator`");
                (Component::new(HOSTING, "Lease", Err(("LeaseNotRenewed", message))), None)
            }
        }
    }

    fn local_cluster(&self) -> Component {
        let cluster = self.clusters.get(&ObjectKey::cluster(LOCAL_CLUSTER));
        let status = cluster.as_ref().and_then(|cluster| cluster.status.as_ref());
        let available =
            status.and_then(|status| find_condition(&status.conditions, "ManagedClusterConditionAvailable"));
        let outcome = match available {
            Some(seen) if seen.status == ConditionStatus::True => {
                Ok(("ManagedClusterAvailable", seen.message.clone()))
            }
            Some(seen) => Err(("ManagedClusterNotAvailable", seen.message.clone())),
            None => Err(("ManagedClusterNotObserved", "it has not been looked at yet".to_owned())),
        };
        Component::new(SELF, "ManagedCluster", outcome)
    }

    async fn ensure_download(&self, links: &Links, wishes: &Wishes) -> Result<Component, Error> {
        let component = |outcome| Component::new(DOWNLOAD, "ConsoleCLIDownload", outcome);
        let links = match links.list() {
            Ok(links) => links,
            Err(why) => {
                self.ensure_no_download().await?;
                return Ok(component(Err(("ProgramMissing", why))));
            }
        };
        let links: Vec<_> =
            links.into_iter().map(|(href, text)| json!({ "href": href, "text": text })).collect();
        let wanted = json!({
            "displayName": "hcp - Hosted Control Plane Command Line Interface (CLI)",
            "description": "With the Hosted Control Plane command line interface, you can create and manage hosted \
                            clusters.",
            "links": links,
        });
        let known = self.downloads.get(&ObjectKey::cluster(DOWNLOAD));
        let is = known.and_then(|known| serde_json::to_value(&known.spec).ok());
        if is.as_ref() != Some(&wanted) {
            let object = json!({
                "apiVersion": ConsoleCLIDownload::api_version(&()),
                "kind": ConsoleCLIDownload::kind(&()),
                "metadata": { "name": DOWNLOAD, "ownerReferences": [wishes.engine] },
                "spec": wanted,
            });
            self.download_api()
                .patch(DOWNLOAD, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(object))
                .await
                .map_err(|error| Error::cluster("change", describe_download(), error))?;
        }
        Ok(component(Ok(("Served", "its links are served by this process".to_owned()))))
    }

    async fn ensure_no_download(&self) -> Result<(), Error> {
        if self.downloads.get(&ObjectKey::cluster(DOWNLOAD)).is_none() {
            return Ok(());
        }
        match self.download_api().delete(DOWNLOAD, &DeleteParams::default()).await {
            Ok(_) => Ok(()),
            Err(error) => match Error::cluster("delete", describe_download(), error) {
                error if error.is_missing() => Ok(()),
                error => Err(error),
            },
        }
    }

    async fn write(
        &self,
        key: &ObjectKey,
        engine: &MultiClusterEngine,
        status: MultiClusterEngineStatus,
    ) -> Result<(), Error> {
        if engine.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let before = engine.status.as_ref().map(|status| status.phase.clone());
        if before.as_ref() != Some(&status.phase) {
            info!(engine = key.name, phase = ?status.phase, "observed");
        }
        let changed = MultiClusterEngine { status: Some(status), ..engine.clone() };
        Api::<MultiClusterEngine>::all(self.client.clone())
            .replace_status(&key.name, &PostParams::default(), &changed)
            .await
            .map_err(|error| {
                Error::cluster("change the status of", format!("MultiClusterEngine {key}"), error)
            })?;
        Ok(())
    }

    fn download_api(&self) -> Api<ConsoleCLIDownload> {
        Api::all(self.client.clone())
    }
}

/// The engine that counts: the oldest that stays.
fn first(engines: &[Arc<MultiClusterEngine>]) -> Option<&MultiClusterEngine> {
    let staying = engines.iter().filter(|engine| engine.metadata.deletion_timestamp.is_none());
    staying
        .min_by_key(|engine| {
            let made = engine.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (made, engine.name_any())
        })
        .map(Arc::as_ref)
}

fn describe_download() -> String {
    format!("ConsoleCLIDownload {DOWNLOAD}")
}
