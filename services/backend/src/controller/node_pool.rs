//! Operations on node pools.

use pilothouse_clusters_service_api as clusters_service;
use pilothouse_clusters_service_api::{
    ClusterId, NewNodePool, NodePoolId, NodePoolStateValue, NodePoolUpdate,
};
use pilothouse_records::{NodePool, Request, Stored};

use super::Work;
use crate::error::PassError;
use crate::progress::{self, Observed};

impl Work<'_> {
    pub(super) async fn node_pool(&mut self) -> Result<(), PassError> {
        let stored = self.pass.records.node_pool_get(&self.operation.resource).await?;
        let stored = stored.filter(|node_pool| node_pool.active_operation == Some(self.operation.id));
        let Some(stored) = stored else { return self.give_up().await };
        if self.operation.request == Request::Update && self.operation.clusters_service_request.is_none() {
            let now = self.now();
            progress::updated(&mut self.operation, now);
            return self.node_pool_write(stored, None).await;
        }
        let cluster = self.pass.records.cluster_get(&self.operation.cluster()).await?;
        let cluster = cluster.and_then(|cluster| cluster.clusters_service_id.clone()?.parse().ok());
        match (cluster, self.operation.request) {
            (Some(cluster), Request::Delete) => self.node_pool_delete(&cluster, stored).await,
            // A cluster that was never made has no node pools.
            (None, Request::Delete) => self.node_pool_gone(stored).await,
            (Some(cluster), Request::Create) => self.node_pool_create(&cluster, stored).await,
            (Some(cluster), Request::Update) => self.node_pool_update(&cluster, stored).await,
            (None, Request::Create | Request::Update) => {
                let object = format!("the cluster of node pool {}", stored.resource.id.name());
                self.lost(&object);
                self.node_pool_write(stored, None).await
            }
        }
    }

    async fn node_pool_create(
        &mut self,
        cluster: &ClusterId,
        stored: Stored<NodePool>,
    ) -> Result<(), PassError> {
        let object = format!("node pool {}", stored.resource.id.name());
        let client = &self.pass.clusters_service;
        let known = stored.clusters_service_id.as_ref().and_then(|id| id.parse::<NodePoolId>().ok());
        let answer = match &known {
            Some(id) => client.node_pool_get(&self.context, cluster, id).await,
            None => {
                let request = self.operation.clusters_service_request.clone().unwrap_or_default();
                match serde_json::from_value::<NewNodePool>(request) {
                    Ok(request) => client.node_pool_create(&self.context, cluster, &request).await,
                    Err(error) => {
                        self.unreadable(&error.to_string());
                        return self.node_pool_write(stored, None).await;
                    }
                }
            }
        };
        let observed = match answer {
            Ok(node_pool) => node_pool,
            Err(error) => return self.node_pool_unanswered(stored, object, error, known.is_some()).await,
        };
        let (now, deadline) = (self.now(), self.deadline());
        progress::creating(&mut self.operation, &Observed::from(&observed), now, deadline);
        self.node_pool_write(stored, Some(&observed)).await
    }

    /// Asks for the change until that was written down, and from then on only looks. Should the answer get lost, Clusters
    /// Service knows the operation when it comes again.
    async fn node_pool_update(
        &mut self,
        cluster: &ClusterId,
        stored: Stored<NodePool>,
    ) -> Result<(), PassError> {
        let object = format!("node pool {}", stored.resource.id.name());
        let client = &self.pass.clusters_service;
        // Its id there is its name.
        let Ok(id) = stored.resource.id.name().to_ascii_lowercase().parse::<NodePoolId>() else {
            self.lost(&object);
            return self.node_pool_write(stored, None).await;
        };
        let answer = if progress::is_asked(&self.operation) {
            client.node_pool_get(&self.context, cluster, &id).await
        } else {
            let request = self.operation.clusters_service_request.clone().unwrap_or_default();
            match serde_json::from_value::<NodePoolUpdate>(request) {
                Ok(update) => client.node_pool_update(&self.context, cluster, &id, &update).await,
                Err(error) => {
                    self.unreadable(&error.to_string());
                    return self.node_pool_write(stored, None).await;
                }
            }
        };
        let observed = match answer {
            Ok(node_pool) => node_pool,
            Err(error) => return self.node_pool_unanswered(stored, object, error, true).await,
        };
        let (now, deadline) = (self.now(), self.deadline());
        progress::updating(&mut self.operation, &Observed::from(&observed), now, deadline);
        self.node_pool_write(stored, Some(&observed)).await
    }

    /// Clusters Service did not answer, or with a no. `known`: it has had the node pool before.
    async fn node_pool_unanswered(
        &mut self,
        stored: Stored<NodePool>,
        object: String,
        error: clusters_service::Error,
        known: bool,
    ) -> Result<(), PassError> {
        if error.is_retryable() {
            self.not_asked(object, error).await?;
        } else if known && error.is_not_found() {
            self.lost(&object);
        } else {
            self.refused(&object, &error);
        }
        self.node_pool_write(stored, None).await
    }

    async fn node_pool_delete(
        &mut self,
        cluster: &ClusterId,
        stored: Stored<NodePool>,
    ) -> Result<(), PassError> {
        let object = format!("node pool {}", stored.resource.id.name());
        let client = &self.pass.clusters_service;
        // Its id there is its name, also if its creation was interrupted before that was written down.
        let Ok(id) = stored.resource.id.name().to_ascii_lowercase().parse::<NodePoolId>() else {
            return self.node_pool_gone(stored).await;
        };
        let asked = match client.node_pool_get(&self.context, cluster, &id).await {
            Ok(observed) if observed.status.state.value == NodePoolStateValue::Uninstalling => Ok(observed),
            Ok(mut observed) => client.node_pool_delete(&self.context, cluster, &id).await.map(|()| {
                "asked to be deleted".clone_into(&mut observed.status.message);
                observed
            }),
            Err(error) => Err(error),
        };
        let observed = match asked {
            Ok(observed) => observed,
            Err(error) if error.is_not_found() => return self.node_pool_gone(stored).await,
            Err(error) => {
                self.not_asked(object, error).await?;
                return self.node_pool_write(stored, None).await;
            }
        };
        let (now, deadline) = (self.now(), self.deadline());
        progress::deleting(&mut self.operation, &Observed::from(&observed), now, deadline);
        self.node_pool_write(stored, None).await
    }

    async fn node_pool_gone(&mut self, stored: Stored<NodePool>) -> Result<(), PassError> {
        let now = self.now();
        progress::deleted(&mut self.operation, now);
        let mut change = self.change()?;
        change.node_pool_delete(&stored)?;
        Ok(change.commit().await?)
    }

    /// Writes the operation, and the node pool as it follows from it and from what was seen; nothing if nothing is
    /// new.
    async fn node_pool_write(
        &mut self,
        mut stored: Stored<NodePool>,
        observed: Option<&clusters_service::NodePool>,
    ) -> Result<(), PassError> {
        let written = stored.record.clone();
        if let Some(observed) = observed {
            take_over(&mut stored, observed);
        }
        let state = self.operation.state;
        stored.resource.status.provisioning_state = state;
        if state.is_terminal() {
            stored.active_operation = None;
        }
        if !self.is_changed() && stored.record == written {
            return Ok(());
        }
        let mut change = self.change()?;
        change.node_pool_replace(&stored)?;
        Ok(change.commit().await?)
    }
}

/// What Clusters Service chose or found out.
fn take_over(stored: &mut NodePool, observed: &clusters_service::NodePool) {
    let clusters_service::NodePool { id, version, status, .. } = observed;
    stored.clusters_service_id = Some(id.to_string());
    let number = version.number().map(str::to_owned);
    let resource = &mut stored.resource;
    if resource.spec.version.id.is_none() {
        resource.spec.version.id.clone_from(&number);
    }
    if status.state.value == NodePoolStateValue::Ready {
        resource.status.active_versions = number.into_iter().collect();
    }
}
