//! Operations on clusters.

use pilothouse_clusters_service_api as clusters_service;
use pilothouse_clusters_service_api::{
    ClusterId, ClusterState, ClusterUpdate, InflightCheckState, ListQuery, NewCluster,
};
use pilothouse_records::{Cluster, Operation, Request, Stored};

use super::work::Work;
use crate::error::PassError;
use crate::progress::{self, BACKEND, Observed};

/// The code with which Clusters Service says that checks of what the customer brought have failed.
const CHECKS_FAILED: &str = "OCM4001";

impl Work<'_> {
    pub(super) async fn cluster(&mut self, stored: Option<Stored<Cluster>>) -> Result<(), PassError> {
        let stored = stored.filter(|cluster| cluster.active_operation == Some(self.operation.id));
        let Some(stored) = stored else { return self.give_up().await };
        match self.operation.request {
            Request::Create => Box::pin(self.cluster_create(stored)).await,
            Request::Delete => self.cluster_delete(stored).await,
            Request::Update | Request::RequestCredential | Request::RevokeCredentials => {
                self.cluster_update(stored).await
            }
        }
    }

    async fn cluster_create(&mut self, stored: Stored<Cluster>) -> Result<(), PassError> {
        let object = format!("cluster {}", stored.resource.id.name());
        let client = &self.pass.clusters_service;
        let known = id_of(&stored);
        let answer = match &known {
            Some(id) => client.cluster_get(&self.context, id).await,
            None => {
                let request = self.operation.clusters_service_request.clone().unwrap_or_default();
                match serde_json::from_value::<NewCluster>(request) {
                    Ok(request) => self.ask(client.cluster_create(&self.context, &request)).await,
                    Err(error) => {
                        self.unreadable(error);
                        return self.cluster_write(stored, None).await;
                    }
                }
            }
        };
        self.cluster_observe(stored, &object, answer, known.is_some(), progress::creating).await
    }

    /// Asks for the change until that was written down, and from then on only looks. Should the answer get lost, Clusters
    /// Service knows the operation when it comes again.
    async fn cluster_update(&mut self, stored: Stored<Cluster>) -> Result<(), PassError> {
        let Some(request) = self.operation.clusters_service_request.clone() else {
            let now = self.now();
            progress::updated(&mut self.operation, now);
            return self.cluster_write(stored, None).await;
        };
        let object = format!("cluster {}", stored.resource.id.name());
        let Some(id) = id_of(&stored) else {
            self.without_cluster(&object);
            return self.cluster_write(stored, None).await;
        };
        let client = &self.pass.clusters_service;
        let answer = if progress::is_asked(&self.operation) {
            client.cluster_get(&self.context, &id).await
        } else {
            match serde_json::from_value::<ClusterUpdate>(request) {
                Ok(update) => self.ask(client.cluster_update(&self.context, &id, &update)).await,
                Err(error) => {
                    self.unreadable(error);
                    return self.cluster_write(stored, None).await;
                }
            }
        };
        self.cluster_observe(stored, &object, answer, true, progress::updating).await
    }

    /// Writes down what follows from an answer.
    async fn cluster_observe(
        &mut self,
        stored: Stored<Cluster>,
        object: &str,
        answer: Result<clusters_service::Cluster, clusters_service::Error>,
        known: bool,
        follow: fn(&mut Operation, &Observed, jiff::Timestamp, jiff::Timestamp),
    ) -> Result<(), PassError> {
        let cluster = match answer {
            Ok(cluster) => cluster,
            Err(error) => {
                self.unanswered(object, &error, known);
                return self.cluster_write(stored, None).await;
            }
        };
        let mut observed = Observed::from(&cluster);
        if observed.error.as_ref().is_some_and(|(code, _)| code == CHECKS_FAILED) {
            match self.failed_checks(&cluster.id).await {
                Ok(Some(messages)) => observed.error = Some((CHECKS_FAILED.to_owned(), messages)),
                // The cluster's own message is better than none.
                Ok(None) => {}
                Err(error) => {
                    self.unanswered(object, &error, false);
                    return self.cluster_write(stored, None).await;
                }
            }
        }
        if self.answered(&observed) {
            let (now, deadline) = (self.now(), self.deadline());
            follow(&mut self.operation, &observed, now, deadline);
        }
        self.cluster_write(stored, Some(&cluster)).await
    }

    /// What the checks that failed say, for the customer to read.
    async fn failed_checks(&self, id: &ClusterId) -> Result<Option<String>, clusters_service::Error> {
        let checks = self.pass.clusters_service.cluster_inflight_checks(&self.context, id).await?;
        let failed = checks.items.iter().filter(|check| check.state == InflightCheckState::Failed);
        let messages: Vec<_> =
            failed.map(|check| check.error().unwrap_or(check.name.as_str()).to_owned()).collect();
        Ok((!messages.is_empty()).then(|| messages.join("; ")))
    }

    async fn cluster_delete(&mut self, mut stored: Stored<Cluster>) -> Result<(), PassError> {
        let object = format!("cluster {}", stored.resource.id.name());
        let observed = match self.cluster_find(&stored).await {
            Ok(observed) => observed,
            Err(error) => {
                self.not_asked(&object, &error);
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
            let client = &self.pass.clusters_service;
            match self.ask(client.cluster_delete(&self.context, &observed.id)).await {
                Ok(()) => "asked to be deleted".clone_into(&mut observed.status.description),
                Err(error) if error.is_not_found() => return self.cluster_gone(stored).await,
                Err(error) => {
                    self.not_asked(&object, &error);
                    return self.cluster_write(stored, None).await;
                }
            }
        }
        self.operation.waiting = None;
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
        if let Some(id) = id_of(stored) {
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

    /// Nothing is left of it: its records go, and with them those of what belonged to it; what was under way there is over.
    async fn cluster_gone(&mut self, stored: Stored<Cluster>) -> Result<(), PassError> {
        let records = &self.pass.records;
        let id = &stored.resource.id;
        let node_pools = records.node_pool_all(id).await?;
        let external_auths = records.external_auth_all(id).await?;
        let mut others = records.operation_active_on(id).await?;
        others.retain(|other| other.id != self.operation.id);
        let now = self.now();
        progress::deleted(&mut self.operation, now);
        let mut change = self.change()?;
        for other in &mut others {
            match other.request {
                Request::Delete => progress::deleted(other, now),
                Request::Create
                | Request::Update
                | Request::RequestCredential
                | Request::RevokeCredentials => progress::superseded(other, now),
            }
            change.operation_replace(other)?;
        }
        for node_pool in &node_pools {
            change.node_pool_delete(node_pool)?;
        }
        for external_auth in &external_auths {
            change.external_auth_delete(external_auth)?;
        }
        change.cluster_delete(&stored)?.commit().await?;
        others.iter().for_each(|other| self.pass.metrics.ended(other));
        Ok(())
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
        self.change()?.cluster_replace(&stored)?.commit().await?;
        Ok(())
    }
}

pub(super) fn id_of(cluster: &Cluster) -> Option<ClusterId> {
    cluster.clusters_service_id.as_ref()?.parse().ok()
}

/// What Clusters Service chose or found out.
fn take_over(stored: &mut Cluster, observed: &clusters_service::Cluster) {
    let clusters_service::Cluster { id, domain_prefix, dns, version, api, azure, state, .. } = observed;
    stored.clusters_service_id = Some(id.to_string());
    let resource = &mut stored.resource;
    resource.spec.base_domain_prefix = Some(domain_prefix.clone());
    resource.status.base_domain = Some(dns.base_domain.clone());
    resource.status.api_url.clone_from(&api.url);
    if azure.oidc_issuer_url.is_some() {
        resource.status.issuer_url.clone_from(&azure.oidc_issuer_url);
    }
    let minor = |number: &str| number.rsplit_once('.').map(|(minor, _)| minor.to_owned());
    if resource.spec.version.id.is_none() {
        resource.spec.version.id = version.number().and_then(minor);
    }
    if *state == ClusterState::Ready {
        resource.status.active_versions = version.number().and_then(minor).into_iter().collect();
    }
}
