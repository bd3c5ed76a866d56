//! Taking a hosted cluster apart, one step per pass.

use std::fmt::Debug;

use futures::try_join;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use pilothouse_crds::{
    Condition, ConditionStatus, HostedCluster, HostedControlPlane, NodePool, Route, find_condition,
    set_condition,
};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::Next;
use serde::de::DeserializeOwned;
use serde_json::json;
use tracing::{info, warn};

use super::deletion::{self, Remaining, Step};
use super::extras::Extras;
use super::references::{Reference, Sources};
use super::{HostedClusters, blueprint, describe};
use crate::apply;
use crate::error::{Error, is_missing};
use crate::names::{self, FINALIZER};

/// Says that nothing is left but the object itself.
const DESTROYED: &str = "HostedClusterDestroyed";

impl HostedClusters {
    pub(super) async fn delete(&self, key: &ObjectKey, cluster: HostedCluster) -> Result<Next, Error> {
        if !cluster.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
            self.forget(key).await;
            return Ok(Next::Done);
        }
        let namespace = names::control_plane_namespace(key);
        let pools: Api<NodePool> = Api::namespaced(self.client(), key.namespace_or_empty());
        let namespaces: Api<Namespace> = Api::all(self.client());
        // Asked rather than remembered: letting go too early would orphan what a late cache does not show.
        let everything = ListParams::default();
        let (found_pools, found_namespace) =
            try_join!(pools.list(&everything), namespaces.get_opt(&namespace))
                .map_err(|error| Error::management("show what is left of", describe(key), error))?;
        let remaining: Vec<_> = found_pools
            .iter()
            .filter(|pool| pool.spec.cluster_name == key.name)
            .map(|pool| Remaining {
                name: pool.name_any(),
                going: pool.metadata.deletion_timestamp.is_some(),
            })
            .collect();
        // One of somebody else is why this cluster was refused, and none of its business.
        let ours = found_namespace.filter(|found| names::cluster_of(&found.metadata).as_ref() == Some(key));
        let control_plane = ours.map(|found| Remaining {
            name: namespace.clone(),
            going: found.metadata.deletion_timestamp.is_some(),
        });
        let stays =
            names::annotation(&cluster.metadata, names::KEEP_NAMESPACE).is_some_and(|value| value != "false");
        let kept = match &control_plane {
            Some(_) if stays && remaining.is_empty() => {
                Some(Box::pin(self.empty_namespace(&namespace)).await?)
            }
            _ => None,
        };
        let step = deletion::next(&remaining, control_plane.as_ref(), kept.as_deref());
        let waiting = match step {
            Step::DeletePools(names) => {
                for name in &names {
                    apply::ensure_deleted(&pools, name, &DeleteParams::default()).await?;
                }
                ("WaitingForNodePools", format!("node pools are being deleted: {}", names.join(", ")))
            }
            Step::AwaitPools(names) => {
                ("WaitingForNodePools", format!("node pools are being deleted: {}", names.join(", ")))
            }
            Step::DeleteNamespace => {
                self.forget(key).await;
                info!(cluster = %key, namespace, "deleting control plane");
                apply::ensure_deleted(&namespaces, &namespace, &DeleteParams::background()).await?;
                ("WaitingForNamespace", format!("namespace {namespace} is being deleted"))
            }
            Step::AwaitNamespace => {
                ("WaitingForNamespace", format!("namespace {namespace} is being deleted"))
            }
            Step::Empty(left) => {
                self.forget(key).await;
                let left = left.join(", ");
                ("WaitingForControlPlane", format!("namespace {namespace} stays; still in it: {left}"))
            }
            Step::Release => {
                self.forget(key).await;
                return Box::pin(self.release(key, cluster)).await;
            }
        };
        self.write_destroyed(key, cluster, ConditionStatus::False, waiting.0, waiting.1).await?;
        Ok(Next::Done)
    }

    /// Takes what is ours out of a namespace that is to stay. Says what is still in it.
    async fn empty_namespace(&self, namespace: &str) -> Result<Vec<String>, Error> {
        let left = try_join!(
            self.remove_all::<StatefulSet>(namespace),
            self.remove_all::<Pod>(namespace),
            self.remove_all::<Service>(namespace),
            self.remove_all::<Route>(namespace),
            self.remove_all::<HostedControlPlane>(namespace),
            self.remove_all::<ConfigMap>(namespace),
            self.remove_all::<Secret>(namespace),
        )?;
        let (stateful_sets, pods, services, routes, control_planes, config_maps, secrets) = left;
        Ok([stateful_sets, pods, services, routes, control_planes, config_maps, secrets].concat())
    }

    /// Asks all of ours of a kind to go. Says which are still there.
    async fn remove_all<K>(&self, namespace: &str) -> Result<Vec<String>, Error>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client(), namespace);
        let ours = ListParams::default().labels(&format!("{}={}", names::MANAGED_BY, names::OPERATOR));
        let found = api.list(&ours).await;
        let found =
            found.map_err(|error| Error::management("show what is left in", namespace.to_owned(), error))?;
        let mut left = Vec::new();
        for object in found {
            if object.meta().deletion_timestamp.is_none() {
                apply::ensure_deleted(&api, &object.name_any(), &DeleteParams::background()).await?;
            }
            left.push(format!("{} {}", K::kind(&()), object.name_any()));
        }
        Ok(left)
    }

    /// Nothing is left: the cluster may go, as soon as nobody wants to look at it any more.
    async fn release(&self, key: &ObjectKey, cluster: HostedCluster) -> Result<Next, Error> {
        let secrets: Api<Secret> = Api::namespaced(self.client(), key.namespace_or_empty());
        // Ours beside the cluster; what the user made stays.
        for secret in self.caches.secrets.list_in(key.namespace_or_empty()) {
            if names::cluster_of(&secret.metadata).as_ref() == Some(key) {
                apply::ensure_deleted(&secrets, &secret.name_any(), &DeleteParams::default()).await?;
            }
        }
        apply::ensure_deleted(&secrets, &names::admin_kubeconfig(&key.name), &DeleteParams::default())
            .await?;
        self.unmark(key, &cluster).await;
        if let Some(until) = self.grace(&cluster)
            && until > self.clock.now()
        {
            let message = format!("everything is gone; the object stays until {until}");
            self.write_destroyed(key, cluster, ConditionStatus::True, "WaitingForGracePeriod", message)
                .await?;
            return Ok(Next::After(self.clock.until(until)));
        }
        let finalizers: Vec<_> =
            cluster.finalizers().iter().filter(|finalizer| *finalizer != FINALIZER).cloned().collect();
        let patch = json!({
            "metadata": { "finalizers": finalizers, "resourceVersion": cluster.metadata.resource_version },
        });
        match self.clusters(key).patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => {}
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(Error::management("release", describe(key), error)),
        }
        info!(cluster = %key, "deleted");
        Ok(Next::Done)
    }

    /// Until when the object is to stay, counted from when everything else was gone. A period that nobody can read was
    /// refused while there was somebody to correct it; here it is none.
    fn grace(&self, cluster: &HostedCluster) -> Option<Timestamp> {
        let period = blueprint::destroy_grace_period(cluster).ok().flatten()?;
        let conditions = &cluster.status.as_ref()?.conditions;
        let gone = find_condition(conditions, DESTROYED).filter(|gone| gone.status == ConditionStatus::True);
        let gone = gone.map_or_else(|| self.clock.now(), |gone| gone.last_transition_time.0);
        gone.checked_add(SignedDuration::try_from(period).ok()?).ok()
    }

    /// Whatever goes wrong here is no reason to keep the cluster.
    async fn unmark(&self, key: &ObjectKey, cluster: &HostedCluster) {
        let extras = Extras::read(&cluster.spec).unwrap_or_default();
        let references = Reference::all(&cluster.spec, &extras);
        if let Err(error) = Sources::unmark(&self.client, key, &references).await {
            let error = pilothouse_runtime::Chain(&error).to_string();
            warn!(cluster = %key, error, "objects that the cluster named still say so");
        }
    }

    async fn write_destroyed(
        &self,
        key: &ObjectKey,
        cluster: HostedCluster,
        holds: ConditionStatus,
        reason: &str,
        message: String,
    ) -> Result<(), Error> {
        let mut status = cluster.status.clone().unwrap_or_default();
        let condition = Condition::new(DESTROYED, holds, reason, message, self.clock.now());
        set_condition(&mut status.conditions, condition.of_generation(cluster.metadata.generation));
        Box::pin(self.write_status(key, cluster, status)).await
    }
}
