//! What is stored: one document per cluster and per node pool.
//!
//! A document is what the API shows, and beside it what only the service itself needs to go on after a crash. Nothing
//! here is secret; pull secrets come from files and pass through.

use jiff::Timestamp;
use pilothouse_clusters_service_api::{Cluster, ClusterState, NodePool, NodePoolStateValue, NodePoolUpdate};
use serde::{Deserialize, Serialize};

/// The form of these documents.
const SCHEMA: u32 = 1;

/// A cluster as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ClusterRecord {
    schema: u32,
    /// What the API shows.
    pub(crate) cluster: Cluster,
    /// The management cluster it was given to, for good.
    pub(crate) shard: String,
    /// What asked for it.
    pub(crate) origin: Origin,
    /// Set once its deletion was asked for, and never taken back.
    pub(crate) deletion: Option<Deletion>,
    /// Whether the cloud's resources are there.
    pub(crate) cloud_prepared: bool,
    /// Since when it is in its state; deadlines count from here.
    pub(crate) since: Timestamp,
}

/// A node pool as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodePoolRecord {
    schema: u32,
    /// What the API shows.
    pub(crate) node_pool: NodePool,
    /// What asked for it.
    pub(crate) origin: Origin,
    /// What asked for the latest change of it.
    #[serde(default)]
    pub(crate) update: Option<Origin>,
    /// Set once its deletion was asked for, and never taken back.
    pub(crate) deletion: Option<Deletion>,
}

/// What asked for a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// The resource provider's operation: the same one again finds the same resource.
    pub(crate) operation_id: Option<String>,
    /// The id that follows the work.
    pub(crate) correlation_id: Option<String>,
}

/// That something is to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Deletion {
    pub(crate) requested_at: Timestamp,
}

impl ClusterRecord {
    pub(crate) fn new(cluster: Cluster, shard: &str, origin: Origin) -> Self {
        let since = cluster.creation_timestamp;
        Self {
            schema: SCHEMA,
            cluster,
            shard: shard.to_owned(),
            origin,
            deletion: None,
            cloud_prepared: false,
            since,
        }
    }

    /// Enters a state, or stays in it, for a reason in words. An error's code and message go when its state does.
    pub(crate) fn enter(&mut self, state: ClusterState, description: impl Into<String>, now: Timestamp) {
        if self.cluster.state != state {
            self.since = now;
            if state != ClusterState::Error {
                self.cluster.status.provision_error_code = None;
                self.cluster.status.provision_error_message = None;
            }
        }
        self.cluster.state = state;
        self.cluster.status.state = state;
        self.cluster.status.description = description.into();
    }

    /// Fails for a reason. The deadline of the step it failed in stays what it was.
    pub(crate) fn fail(&mut self, code: &str, message: String) {
        self.cluster.state = ClusterState::Error;
        let status = &mut self.cluster.status;
        status.state = ClusterState::Error;
        status.description.clone_from(&message);
        status.provision_error_code = Some(code.to_owned());
        status.provision_error_message = Some(message);
    }

    /// Says something else about the state it is in.
    pub(crate) fn describe(&mut self, description: impl Into<String>) {
        self.cluster.status.description = description.into();
    }

    /// Whether a change from `before` is one that the controller has to act on, rather than its own.
    pub(crate) fn asks_for_work(&self, before: &Self) -> bool {
        self.deletion != before.deletion
    }
}

impl NodePoolRecord {
    pub(crate) fn new(node_pool: NodePool, origin: Origin) -> Self {
        Self { schema: SCHEMA, node_pool, origin, update: None, deletion: None }
    }

    /// Takes over a change that an operation asks for; false if there is nothing to change, or the operation asked before.
    ///
    /// A pool that was never ready goes on being made, with other numbers.
    pub(crate) fn change(&mut self, update: &NodePoolUpdate, origin: &Origin, now: Timestamp) -> bool {
        let known = self.update.as_ref().and_then(|former| former.operation_id.as_ref());
        if known.is_some() && known == origin.operation_id.as_ref() {
            return false;
        }
        let NodePoolUpdate { replicas, labels, taints, properties } = update.clone();
        let before = self.node_pool.clone();
        let after = &mut self.node_pool;
        after.replicas = replicas.unwrap_or(after.replicas);
        after.labels = labels.unwrap_or_else(|| before.labels.clone());
        after.taints = taints.unwrap_or_else(|| before.taints.clone());
        let state = before.status.state.value;
        if state == NodePoolStateValue::Ready && before == *after {
            return false;
        }
        after.properties.extend(properties);
        self.update = Some(origin.clone());
        match state {
            NodePoolStateValue::Validating | NodePoolStateValue::Pending | NodePoolStateValue::Installing => {
            }
            _ => self.enter(NodePoolStateValue::ValidatingUpdate, "the change was accepted", now),
        }
        true
    }

    /// What asked for it to be as it is now: the id to follow in its manifests.
    pub(crate) fn latest_origin(&self) -> &Origin {
        self.update.as_ref().unwrap_or(&self.origin)
    }

    /// Enters a state, or stays in it, for a reason in words.
    pub(crate) fn enter(&mut self, value: NodePoolStateValue, message: impl Into<String>, now: Timestamp) {
        let status = &mut self.node_pool.status;
        if status.state.value != value {
            status.state.last_updated_timestamp = now;
        }
        status.state.value = value;
        status.message = message.into();
    }

    /// Whether a change from `before` is one that the controller has to act on, rather than its own.
    pub(crate) fn asks_for_work(&self, before: &Self) -> bool {
        let asked = |record: &Self| {
            let NodePool { replicas, labels, taints, .. } = record.node_pool.clone();
            (record.deletion.clone(), record.update.clone(), replicas, labels, taints)
        };
        // Only a request brings a pool to this state; one that failed may be asked for again as it is.
        let entered =
            |record: &Self| record.node_pool.status.state.value == NodePoolStateValue::ValidatingUpdate;
        asked(self) != asked(before) || (entered(self) && !entered(before))
    }
}
