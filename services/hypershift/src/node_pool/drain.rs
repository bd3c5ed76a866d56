//! Emptying a node before it goes or changes.
//!
//! Nothing new is put on it, and its pods are asked to go elsewhere, as far as their disruption budgets let them.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{EvictParams, ListParams, Patch, PatchParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::time::timeout;
use tracing::info;

use crate::error::{Error, is_missing};

#[cfg(test)]
mod tests;

/// How long a pass watches pods go before it lets others work.
const WATCH: Duration = Duration::from_secs(2);
/// Too many requests: a disruption budget has nothing left.
const TOO_MANY: u16 = 429;
const MIRROR: &str = "kubernetes.io/config.mirror";

/// What is left of a node's pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Drained {
    /// Nothing that has to be waited for.
    Yes,
    /// These are still there.
    NotYet(String),
}

/// Whose node is drained.
pub(super) struct Drain<'a> {
    /// For messages.
    pub(super) cluster: &'a str,
    pub(super) client: &'a Client,
    pub(super) node: &'a Node,
    /// Somebody is there to end its pods.
    pub(super) alive: bool,
}

/// Whether pods have had all the time that they are given; without a limit, or with one of zero, they never have.
pub(super) fn is_over(since: Option<Timestamp>, limit: Option<Duration>, now: Timestamp) -> bool {
    match (since, limit) {
        (Some(since), Some(limit)) if !limit.is_zero() => {
            now.duration_since(since)
                >= jiff::SignedDuration::try_from(limit).unwrap_or(jiff::SignedDuration::MAX)
        }
        _ => false,
    }
}

// === impl Drain ===

impl Drain<'_> {
    /// Lets nothing new onto the node, or lets it again.
    pub(super) async fn cordon(&self, closed: bool) -> Result<(), Error> {
        let is_closed = self.node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
        if is_closed == closed {
            return Ok(());
        }
        let name = self.node.name_any();
        info!(cluster = self.cluster, node = name, closed, "cordoning");
        let nodes: Api<Node> = Api::all(self.client.clone());
        // Null removes it, as `kubectl uncordon` does.
        let patch = json!({ "spec": { "unschedulable": closed.then_some(true) } });
        match nodes.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => Ok(()),
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => Err(self.refused(format!("cordon node {name}"), error)),
        }
    }

    /// Asks the node's pods to go, and watches them for a moment.
    pub(super) async fn evict(&self) -> Result<Drained, Error> {
        let name = self.node.name_any();
        let everywhere: Api<Pod> = Api::all(self.client.clone());
        let of_node = ListParams::default().fields(&format!("spec.nodeName={name}"));
        let pods = everywhere.list(&of_node).await;
        let pods = pods.map_err(|error| self.refused(format!("list the pods of node {name}"), error))?;
        let (mut held, mut leaving) = (Vec::new(), Vec::new());
        for pod in pods.into_iter().filter(|pod| has_to_go(pod, self.alive)) {
            let api: Api<Pod> =
                Api::namespaced(self.client.clone(), pod.metadata.namespace.as_deref().unwrap_or_default());
            if pod.metadata.deletion_timestamp.is_none() {
                match api.evict(&pod.name_any(), &EvictParams::default()).await {
                    Ok(_) => {}
                    Err(error) if is_missing(&error) => continue,
                    Err(kube::Error::Api(status)) if status.code == TOO_MANY => {
                        held.push(format!("{} ({})", describe(&pod), status.message));
                        continue;
                    }
                    Err(error) => return Err(self.refused(format!("evict pod {}", describe(&pod)), error)),
                }
            }
            leaving.push((api, pod));
        }
        if self.alive {
            let gone = leaving.iter().map(|(api, pod)| {
                let gone = conditions::is_deleted(pod.metadata.uid.as_deref().unwrap_or_default());
                await_condition(api.clone(), pod.metadata.name.as_deref().unwrap_or_default(), gone)
            });
            if timeout(WATCH, futures::future::join_all(gone)).await.is_err() {
                held.extend(leaving.iter().map(|(_, pod)| format!("{} (is ending)", describe(pod))));
            }
        }
        Ok(match held.is_empty() {
            true => Drained::Yes,
            false => Drained::NotYet(held.join(", ")),
        })
    }

    fn refused(&self, action: String, source: kube::Error) -> Error {
        Error::Hosted { cluster: self.cluster.to_owned(), action, source: source.into() }
    }
}

/// Whether a pod keeps its node from being empty: it does work, belongs elsewhere as well as here, and can still be asked.
fn has_to_go(pod: &Pod, alive: bool) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let of_daemon_set = pod.owner_references().iter().any(|owner| owner.kind == "DaemonSet");
    // On a node that is lost nobody ends what was told to end.
    let told = !alive && pod.metadata.deletion_timestamp.is_some();
    !matches!(phase, Some("Succeeded" | "Failed"))
        && !of_daemon_set
        && !pod.annotations().contains_key(MIRROR)
        && !told
}

fn describe(pod: &Pod) -> String {
    format!("{}/{}", pod.metadata.namespace.as_deref().unwrap_or_default(), pod.name_any())
}
