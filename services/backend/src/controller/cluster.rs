//! Operations on clusters.

use pilothouse_clusters_service_api as clusters_service;
use pilothouse_clusters_service_api::{ClusterId, ClusterState, ListQuery, NewCluster};
use pilothouse_records::{Cluster, Request, Stored};

use super::Work;
use crate::error::PassError;
use crate::progress::{self, BACKEND, Observed};

impl Work<'_> {
    pub(super) async fn cluster(&mut self) -> Result<(), PassError> {
        let stored = self.pass.records.cluster_get(&self.operation.resource).await?;
        let stored = stored.filter(|cluster| cluster.active_operation == Some(self.operation.id));
        match (stored, self.operation.request) {
            (Some(cluster), Request::Create) => self.cluster_create(cluster).await,
            (Some(cluster), Request::Update) => {
                let now = self.now();
                progress::updated(&mut self.operation, now);
                self.cluster_write(cluster, None).await
            }
            (Some(cluster), Request::Delete) => self.cluster_delete(cluster).await,
            (None, _) => self.give_up().await,
        }
    }

    async fn cluster_create(&mut self, stored: Stored<Cluster>) -> Result<(), PassError> {
        let object = format!("cluster {}", stored.resource.id.name());
        let client = &self.pass.clusters_service;
        let known = stored.clusters_service_id.as_ref().and_then(|id| id.parse::<ClusterId>().ok());
        let answer = match &known {
            Some(id) => client.cluster_get(&self.context, id).await,
            None => {
                let request = self.operation.clusters_service_request.clone().unwrap_or_default();
                match serde_json::from_value::<NewCluster>(request) {
                    Ok(request) => client.cluster_create(&self.context, &request).await,
                    Err(error) => {
                        self.unreadable(&error.to_string());
                        return self.cluster_write(stored, None).await;
                    }
                }
            }
        };
        let observed = match answer {
            Ok(cluster) => cluster,
            Err(error) if error.is_retryable() => {
                self.not_asked(object, error).await?;
                return self.cluster_write(stored, None).await;
            }
            Err(error) => {
                if known.is_some() && error.is_not_found() {
                    self.lost(&object);
                } else {
                    self.refused(&object, &error);
                }
                return self.cluster_write(stored, None).await;
            }
        };
        let (now, deadline) = (self.now(), self.deadline());
        progress::creating(&mut self.operation, &Observed::from(&observed), now, deadline);
        self.cluster_write(stored, Some(&observed)).await
    }

    async fn cluster_delete(&mut self, mut stored: Stored<Cluster>) -> Result<(), PassError> {
        let object = format!("cluster {}", stored.resource.id.name());
        let observed = match self.cluster_find(&stored).await {
            Ok(observed) => observed,
            Err(error) => {
                self.not_asked(object, error).await?;
                return self.cluster_write(stored, None).await;
            }
        };
        let Some(mut observed) = observed else { return self.cluster_gone(stored).await };
        if stored.clusters_service_id.is_none() {
            // Written down before it is asked to go: that it is gone will be announced by this id. The write wakes the
            // next pass.
            stored.clusters_service_id = Some(observed.id.to_string());
            let message = format!("found at Clusters Service as cluster {}", observed.id);
            let now = self.now();
            self.operation.step_begin(4, BACKEND, message, now);
            return self.cluster_write(stored, None).await;
        }
        if observed.state != ClusterState::Uninstalling {
            match self.pass.clusters_service.cluster_delete(&self.context, &observed.id).await {
                Ok(()) => "asked to be deleted".clone_into(&mut observed.status.description),
                Err(error) if error.is_not_found() => return self.cluster_gone(stored).await,
                Err(error) => {
                    self.not_asked(object, error).await?;
                    return self.cluster_write(stored, None).await;
                }
            }
        }
        let (now, deadline) = (self.now(), self.deadline());
        progress::deleting(&mut self.operation, &Observed::from(&observed), now, deadline);
        self.cluster_write(stored, None).await
    }

    /// The cluster at Clusters Service: by its id, or, if its creation was interrupted before that was written down,
    /// by the resource it stands for.
    async fn cluster_find(
        &self,
        stored: &Cluster,
    ) -> Result<Option<clusters_service::Cluster>, clusters_service::Error> {
        let client = &self.pass.clusters_service;
        if let Some(id) = stored.clusters_service_id.as_ref().and_then(|id| id.parse::<ClusterId>().ok()) {
            return match client.cluster_get(&self.context, &id).await {
                Ok(cluster) => Ok(Some(cluster)),
                Err(error) if error.is_not_found() => Ok(None),
                Err(error) => Err(error),
            };
        }
        let id = &stored.resource.id;
        let quoted = |text: &str| text.to_lowercase().replace('\'', "''");
        let search = format!(
            "azure.subscription_id = '{}' and azure.resource_group_name = '{}' and azure.resource_name = '{}'",
            quoted(id.subscription_name()),
            quoted(id.resource_group_name().unwrap_or_default()),
            quoted(id.name()),
        );
        let found = client.cluster_list(&self.context, &ListQuery::search(search)).await?;
        Ok(found.items.into_iter().find(|cluster| cluster.azure.resource_id() == id.key()))
    }

    /// Nothing is left of it: its records go, and with them those of its node pools.
    async fn cluster_gone(&mut self, stored: Stored<Cluster>) -> Result<(), PassError> {
        let node_pools = self.pass.records.node_pool_all(&stored.resource.id).await?;
        let now = self.now();
        progress::deleted(&mut self.operation, now);
        let mut change = self.change()?;
        for node_pool in &node_pools {
            change.node_pool_delete(node_pool)?;
        }
        change.cluster_delete(&stored)?;
        Ok(change.commit().await?)
    }

    /// Writes the operation, and the cluster as it follows from it and from what was seen; nothing if nothing is new.
    async fn cluster_write(
        &mut self,
        mut stored: Stored<Cluster>,
        observed: Option<&clusters_service::Cluster>,
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
        change.cluster_replace(&stored)?;
        Ok(change.commit().await?)
    }
}

/// What Clusters Service chose or found out.
fn take_over(stored: &mut Cluster, observed: &clusters_service::Cluster) {
    let clusters_service::Cluster { id, domain_prefix, dns, version, api, state, .. } = observed;
    stored.clusters_service_id = Some(id.to_string());
    let resource = &mut stored.resource;
    resource.spec.base_domain_prefix = Some(domain_prefix.clone());
    resource.status.base_domain = Some(dns.base_domain.clone());
    resource.status.api_url.clone_from(&api.url);
    let minor = |number: &str| number.rsplit_once('.').map(|(minor, _)| minor.to_owned());
    if resource.spec.version.id.is_none() {
        resource.spec.version.id = version.number().and_then(minor);
    }
    if *state == ClusterState::Ready {
        resource.status.active_versions = version.number().and_then(minor).into_iter().collect();
    }
}
