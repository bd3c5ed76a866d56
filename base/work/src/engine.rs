//! The engine as its agents see it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use pilothouse_crds::{
    AppliedManifestWork, AppliedManifestWorkSpec, AppliedResource, ConditionStatus, ManifestWorkSpec,
    ManifestWorkStatus, find_condition,
};
use pilothouse_runtime::{Clock, Tasks};
use serde_json::json;

use crate::mapper::Mapper;
use crate::watches::Watches;
use crate::written::Written;
use crate::{Error, Hub, rule};

/// Keeps a record until everything it lists is gone.
pub(crate) const FINALIZER: &str = "cluster.open-cluster-management.io/applied-manifest-work-cleanup";

/// What an engine is made of.
pub struct Options {
    /// The cluster.
    pub client: Client,
    /// Where the works come from.
    pub hub: Hub,
    /// Dates conditions.
    pub clock: Clock,
    /// Whose the watches are.
    pub tasks: Tasks,
    /// How long a value of feedback may be that is written as JSON.
    pub json_raw_limit: usize,
    /// Called with the name of a work when one of its objects changed.
    pub wake: Arc<dyn Fn(&str) + Send + Sync>,
}

/// A list of objects that are wanted in this cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// Its name, unique for its hub.
    pub name: String,
    /// Its version.
    pub generation: i64,
    /// Copied to the record of what was applied.
    pub labels: BTreeMap<String, String>,
    /// What is wanted. A cheap handle: whoever has it need not copy it.
    pub spec: Arc<ManifestWorkSpec>,
    /// What was wanted when it was last applied, by an agent that has not done so since it started: what that said and
    /// `spec` does not goes.
    pub previous: Option<Arc<ManifestWorkSpec>>,
}

/// How far the removal of a work has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Everything is gone, the record too.
    Done,
    /// These objects are still there. The work is woken when they change.
    Waiting(Vec<AppliedResource>),
}

/// Applies and removes works. A cheap handle.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) client: Client,
    pub(crate) hub: Hub,
    pub(crate) clock: Clock,
    pub(crate) mapper: Mapper,
    pub(crate) watches: Watches,
    pub(crate) json_raw_limit: usize,
    pub(crate) written: Written,
}

// === impl Engine ===

impl Engine {
    /// An engine that does nothing yet.
    pub fn new(options: Options) -> Self {
        let Options { client, hub, clock, tasks, json_raw_limit, wake } = options;
        let watches = Watches::new(client.clone(), tasks, wake);
        let inner = Inner {
            client,
            hub,
            clock,
            mapper: Mapper::default(),
            watches,
            json_raw_limit,
            written: Written::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Brings about what a work wants. `before` is its status so far, the answer the one from now on. What is wrong with
    /// single manifests is in the status; they are tried again in the next pass.
    ///
    /// # Errors
    ///
    /// When the record cannot be kept, or the work comes back before its former self is gone. Make another pass.
    pub async fn apply(&self, work: &Work, before: &ManifestWorkStatus) -> Result<ManifestWorkStatus, Error> {
        if is_complete(work, before) {
            return Ok(before.clone());
        }
        crate::apply::apply(&self.inner, work, before).await
    }

    /// Deletes what a work applied, as far as its record says so.
    ///
    /// # Errors
    ///
    /// When the API server does not answer, or refuses. Make another pass.
    pub async fn remove(&self, work: &str) -> Result<Removal, Error> {
        crate::remove::remove(&self.inner, work).await
    }

    /// The names of the works that have a record in this cluster, whoever applied them.
    pub async fn recorded(&self) -> Result<Vec<String>, Error> {
        let records = self.inner.records().list(&ListParams::default()).await;
        let records = records.map_err(|source| Inner::failed("any", "listed", source))?;
        let ours = records.items.into_iter().filter(|record| record.spec.hub_hash == self.inner.hub.hash());
        Ok(ours.map(|record| record.spec.manifest_work_name).collect())
    }
}

/// Whether the rules of a work have said of this very version that nothing is left to do. What they say of objects that could
/// not be made what the version wants is said of a former one.
fn is_complete(work: &Work, before: &ManifestWorkStatus) -> bool {
    let is_true = |type_: &str, reason: &str| {
        find_condition(&before.conditions, type_).is_some_and(|condition| {
            condition.reason == reason
                && condition.status == ConditionStatus::True
                && condition.observed_generation == Some(work.generation)
        })
    };
    is_true(rule::COMPLETE, rule::AGGREGATED) && is_true("Applied", "AppliedManifestWorkComplete")
}

impl fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Engine").field("hub", &self.inner.hub).finish_non_exhaustive()
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Options").field("hub", &self.hub).finish_non_exhaustive()
    }
}

// === impl Inner ===

impl Inner {
    pub(crate) fn records(&self) -> Api<AppliedManifestWork> {
        Api::all(self.client.clone())
    }

    pub(crate) fn failed(work: &str, verb: &'static str, source: kube::Error) -> Error {
        Error::Record { work: work.to_owned(), verb, source: Box::new(source) }
    }

    /// The record of a work, made if there is none.
    pub(crate) async fn ensure_record(&self, work: &Work) -> Result<AppliedManifestWork, Error> {
        let name = self.hub.record_name(&work.name);
        let present =
            self.records().get_opt(&name).await.map_err(|source| Self::failed(&work.name, "read", source))?;
        let Some(record) = present else {
            let record = AppliedManifestWork {
                metadata: ObjectMeta {
                    name: Some(name),
                    labels: Some(work.labels.clone()).filter(|labels| !labels.is_empty()),
                    finalizers: Some(vec![FINALIZER.to_owned()]),
                    ..ObjectMeta::default()
                },
                spec: AppliedManifestWorkSpec {
                    hub_hash: self.hub.hash().to_owned(),
                    agent_id: self.hub.agent().to_owned(),
                    manifest_work_name: work.name.clone(),
                },
                status: None,
            };
            let made = self.records().create(&PostParams::default(), &record).await;
            return made.map_err(|source| Self::failed(&work.name, "made", source));
        };
        if record.metadata.deletion_timestamp.is_some() {
            return Err(Error::BeingRemoved(work.name.clone()));
        }
        let has_labels = work.labels.iter().all(|(key, value)| record.labels().get(key) == Some(value));
        let has_finalizer = record.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
        if has_labels && has_finalizer {
            return Ok(record);
        }
        let patch = json!({"metadata": {"labels": work.labels, "finalizers": [FINALIZER]}});
        let patched = self.records().patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        patched.map_err(|source| Self::failed(&work.name, "changed", source))
    }

    /// Writes down what was applied, if that has changed.
    pub(crate) async fn record_applied(
        &self,
        work: &str,
        record: &AppliedManifestWork,
        mut applied: Vec<AppliedResource>,
    ) -> Result<(), Error> {
        applied.sort();
        applied.dedup();
        let known = record.status.as_ref().map(|status| status.applied_resources.as_slice());
        if known.unwrap_or_default() == applied {
            return Ok(());
        }
        let patch = json!({"status": {"appliedResources": applied}});
        let name = record.name_any();
        let patched =
            self.records().patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        patched.map(drop).map_err(|source| Self::failed(work, "written", source))
    }
}
