//! Taking a worker away: its node is emptied, then what it runs on goes, then the node and the record.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use pilothouse_crds::{Machine, NodePool, VirtualMachine};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{Chain, Next};
use serde_json::json;
use tokio::time::timeout;
use tracing::{info, warn};

use super::NodePools;
use super::drain::{self, Drain, Drained};
use super::fleet::{self, Hosted, Member};
use super::machine::NO_DRAIN;
use crate::apply;
use crate::error::{Error, is_missing};
use crate::names::{self, FINALIZER};

/// How soon to ask again whether the pods of a node may go.
pub(super) const DRAIN_AGAIN: Duration = Duration::from_secs(1);
/// How long a hosted cluster may take to answer before a worker goes without it.
const PATIENCE: Duration = Duration::from_secs(5);

/// How workers go.
#[derive(Clone, Copy)]
pub(super) struct Farewell<'a> {
    pub(super) cluster: &'a ObjectKey,
    /// The hosted cluster, if it is there and stays.
    pub(super) hosted: Option<&'a Hosted>,
    /// How long nodes may take to become empty.
    pub(super) drain_limit: Option<Duration>,
    /// A cluster that does not answer is not waited for.
    pub(super) insistent: bool,
}

/// How far a worker's removal is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Removal {
    /// Nothing is left of it.
    Gone,
    /// Something was told to go, and says when it has.
    Going,
    /// Its node is not empty yet.
    Draining(String),
}

/// How long a pool's nodes may take to become empty.
pub(super) fn drain_limit(pool: &NodePool) -> Option<Duration> {
    let limit = pool.spec.node_drain_timeout.as_deref()?.parse::<SignedDuration>().ok()?;
    limit.try_into().ok()
}

// === impl NodePools ===

impl NodePools {
    /// Takes the next step with a worker that was asked to go.
    pub(super) async fn remove(&self, member: &Member, farewell: &Farewell<'_>) -> Result<Removal, Error> {
        let namespace = member.machine.namespace().unwrap_or_default();
        let name = member.name();
        if let (Some(hosted), Some(node)) = (farewell.hosted, &member.node)
            && let Some(left) = self.empty(member, node, hosted, farewell).await?
        {
            return Ok(Removal::Draining(left));
        }
        let mut going = false;
        if let Some(machine) = &member.virtual_machine {
            going = true;
            if machine.metadata.deletion_timestamp.is_none() {
                let machines: Api<VirtualMachine> = Api::namespaced(self.client.clone(), &namespace);
                apply::ensure_deleted(&machines, &name, &DeleteParams::default()).await?;
            }
        }
        // A pod that belongs to a virtual machine goes with it.
        if let Some(pod) = &member.pod {
            going = true;
            if member.virtual_machine.is_none() && pod.metadata.deletion_timestamp.is_none() {
                let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
                apply::ensure_deleted(&pods, &pod.name_any(), &DeleteParams::default()).await?;
            }
        }
        if going {
            return Ok(Removal::Going);
        }
        if let (Some(hosted), Some(node)) = (farewell.hosted, &member.node) {
            let removed = self.forget_node(farewell.cluster, hosted, node);
            tolerate(farewell, &name, timeout(PATIENCE, removed).await)?;
        }
        self.release_machine(&member.machine).await?;
        info!(machine = %ObjectKey::of(member.machine.as_ref()), "worker removed");
        Ok(Removal::Gone)
    }

    /// Empties a node; what is left on it, while it has to be waited for.
    async fn empty(
        &self,
        member: &Member,
        node: &Node,
        hosted: &Hosted,
        farewell: &Farewell<'_>,
    ) -> Result<Option<String>, Error> {
        let machine = &member.machine;
        let since = machine.metadata.deletion_timestamp.as_ref().map(|since| since.0);
        let started = member.virtual_machine.is_some() || member.pod.is_some();
        // Once its process was told to go there is nobody left to ask.
        let told = member.pod.as_ref().is_some_and(|pod| pod.metadata.deletion_timestamp.is_some());
        if !started
            || told
            || names::annotation(&machine.metadata, NO_DRAIN).is_some()
            || drain::is_over(since, farewell.drain_limit, self.clock.now())
        {
            return Ok(None);
        }
        let cluster = farewell.cluster.to_string();
        let alive = fleet::is_node_ready(node);
        let drain = Drain { cluster: &cluster, client: &hosted.client, node, alive };
        let emptied = async {
            drain.cordon(true).await?;
            drain.evict().await
        };
        Ok(match tolerate(farewell, &member.name(), timeout(PATIENCE, emptied).await)? {
            Some(Drained::NotYet(left)) => Some(left),
            Some(Drained::Yes) | None => None,
        })
    }

    /// Removes a node whose worker is gone; the scheduler would go on counting on it.
    pub(super) async fn forget_node(
        &self,
        cluster: &ObjectKey,
        hosted: &Hosted,
        node: &Node,
    ) -> Result<(), Error> {
        let name = node.name_any();
        let api: Api<Node> = Api::all(hosted.client.clone());
        match api.delete(&name, &DeleteParams::default()).await {
            Ok(_) => info!(%cluster, node = name, "node removed"),
            Err(error) if is_missing(&error) => {}
            Err(error) => {
                return Err(Error::Hosted {
                    cluster: cluster.to_string(),
                    action: format!("delete node {name}"),
                    source: error.into(),
                });
            }
        }
        Ok(())
    }

    async fn release_machine(&self, machine: &Machine) -> Result<(), Error> {
        let key = ObjectKey::of(machine);
        let machines: Api<Machine> = Api::namespaced(self.client.clone(), key.namespace_or_empty());
        let finalizers: Vec<_> =
            machine.finalizers().iter().filter(|finalizer| *finalizer != FINALIZER).collect();
        let patch = json!({ "metadata": { "finalizers": finalizers, "uid": machine.metadata.uid } });
        match machines.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => Ok(()),
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => Err(Error::management("release", format!("Machine {key}"), error)),
        }
    }

    /// Takes all workers of a pool away that goes. Nothing when none is left.
    pub(super) async fn remove_all(
        &self,
        key: &ObjectKey,
        namespace: &str,
        farewell: &Farewell<'_>,
    ) -> Result<Option<Next>, Error> {
        let machines: Api<Machine> = Api::namespaced(self.client.clone(), namespace);
        // Asked rather than remembered: letting go too early would leave a worker behind.
        let found = machines.list(&super::ours()).await;
        let found = found
            .map_err(|error| Error::management("list the workers of", format!("NodePool {key}"), error))?;
        let own: Vec<_> = found
            .into_iter()
            .filter(|machine| names::node_pool_of(&machine.metadata).as_ref() == Some(key))
            .collect();
        let mut next = (!own.is_empty()).then_some(Next::Done);
        let removed = own.into_iter().map(async |machine| {
            if machine.metadata.deletion_timestamp.is_none() {
                apply::ensure_deleted(&machines, &machine.name_any(), &DeleteParams::default()).await?;
            }
            let member = fleet::member(&self.caches, namespace, farewell.hosted, machine.into());
            self.remove(&member, farewell).await
        });
        for removal in futures::future::join_all(removed).await {
            if let Removal::Draining(left) = removal? {
                info!(pool = %key, left, "waiting for pods to go");
                next = Some(Next::After(DRAIN_AGAIN));
            }
        }
        Ok(next)
    }
}

/// What a hosted cluster said; nothing if it said nothing useful and nobody insists.
fn tolerate<T>(
    farewell: &Farewell<'_>,
    worker: &str,
    said: Result<Result<T, Error>, tokio::time::error::Elapsed>,
) -> Result<Option<T>, Error> {
    match said {
        Ok(Ok(said)) => Ok(Some(said)),
        Ok(Err(error)) if farewell.insistent => {
            warn!(worker, error = %Chain(&error), "a worker goes without its hosted cluster");
            Ok(None)
        }
        Ok(Err(error)) => Err(error),
        Err(_) if farewell.insistent => {
            warn!(worker, "a worker goes without its hosted cluster, which does not answer");
            Ok(None)
        }
        Err(_) => Err(Error::NoAnswer { cluster: farewell.cluster.to_string(), seconds: PATIENCE.as_secs() }),
    }
}
