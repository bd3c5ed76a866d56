//! Credentials of a cluster's administrators: issuing one, revoking all.
//!
//! What is issued stays at Clusters Service. The operation keeps its id alone, and whoever asks for the result is given
//! it from there.

use std::collections::BTreeMap;

use pilothouse_arm::{Failure, ProvisioningState};
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_clusters_service_api::{
    BreakGlassCredential, BreakGlassCredentialId, BreakGlassCredentialStatus, ClusterId, ListQuery,
    NewBreakGlassCredential, properties,
};
use pilothouse_records::{Cluster, Stored};

use super::cluster::id_of;
use super::work::Work;
use crate::error::PassError;
use crate::progress::{self, BACKEND, CLUSTERS_SERVICE, Observed};

/// How many credentials are looked at in one go.
const PAGE: u32 = 100;

impl Work<'_> {
    pub(super) async fn credential_request(
        &mut self,
        cluster: Option<Stored<Cluster>>,
    ) -> Result<(), PassError> {
        let Some(cluster) = cluster else { return self.give_up().await };
        let object = format!("a credential of cluster {}", cluster.resource.id.name());
        let Some(cluster) = id_of(&cluster) else {
            self.without_cluster(&object);
            return self.write().await;
        };
        let work = self.operation.credential.clone().unwrap_or_default();
        let known =
            work.clusters_service_id.as_ref().and_then(|id| id.parse::<BreakGlassCredentialId>().ok());
        let client = &self.pass.clusters_service;
        let answer = match &known {
            Some(id) => client.break_glass_get(&self.context, &cluster, id).await,
            None => match self.new_credential() {
                Ok(new) => self.ask(client.break_glass_create(&self.context, &cluster, &new)).await,
                Err(error) => {
                    self.unreadable(error);
                    return self.write().await;
                }
            },
        };
        match answer {
            Ok(credential) => self.credential_observe(&credential),
            Err(error) => self.unanswered(&object, &error, known.is_some()),
        }
        self.write().await
    }

    /// What Clusters Service is asked for. It knows the operation when it comes again.
    fn new_credential(&self) -> Result<NewBreakGlassCredential, serde_json::Error> {
        let mut new = match self.operation.clusters_service_request.clone() {
            Some(request) => serde_json::from_value::<NewBreakGlassCredential>(request)?,
            None => NewBreakGlassCredential::default(),
        };
        if let Some(work) = &self.operation.credential
            && new.certificate_signing_request.is_none()
        {
            new.certificate_signing_request.clone_from(&work.certificate_signing_request);
        }
        let known: [(&str, String); 2] = [
            (properties::OPERATION_ID, self.operation.id.to_string()),
            (properties::CORRELATION_ID, self.operation.correlation_id.clone()),
        ];
        let known: BTreeMap<_, _> = known.map(|(name, value)| (name.to_owned(), value)).into();
        new.properties.extend(known);
        Ok(new)
    }

    fn credential_observe(&mut self, credential: &BreakGlassCredential) {
        let (now, deadline) = (self.now(), self.deadline());
        let observed = Observed::from(credential);
        self.operation.credential.get_or_insert_default().clusters_service_id =
            Some(credential.id.to_string());
        if self.answered(&observed) {
            progress::crediting(&mut self.operation, &observed, now, deadline);
        }
    }

    pub(super) async fn credentials_revoke(
        &mut self,
        cluster: Option<Stored<Cluster>>,
    ) -> Result<(), PassError> {
        let cluster = cluster.filter(|cluster| cluster.revocation == Some(self.operation.id));
        let Some(cluster) = cluster else { return self.give_up().await };
        let object = format!("the credentials of cluster {}", cluster.resource.id.name());
        let now = self.now();
        let Some(id) = id_of(&cluster) else {
            progress::revoked(&mut self.operation, "it has none", now);
            return self.revocation_write(cluster).await;
        };
        if !progress::is_asked(&self.operation) {
            let client = &self.pass.clusters_service;
            match self.ask(client.break_glass_revoke_all(&self.context, &id)).await {
                Ok(()) => {
                    self.operation.waiting = None;
                    let message = "asked Clusters Service to revoke all of them";
                    self.operation.step_end(4, BACKEND, ProvisioningState::Succeeded, message, now);
                    self.operation.enter(ProvisioningState::Deleting, now);
                }
                Err(error) => {
                    self.unanswered(&object, &error, true);
                    return self.revocation_write(cluster).await;
                }
            }
        }
        match self.credentials_alive(&id).await {
            Ok(0) => progress::revoked(&mut self.operation, "none of them opens anything any more", now),
            Ok(alive) => {
                self.operation.waiting = None;
                let message = format!("waiting for {alive} of them to be revoked");
                self.operation.step_begin(12, CLUSTERS_SERVICE, message.clone(), now);
                if now >= self.deadline() {
                    let failure = Failure {
                        step: 12,
                        component: CLUSTERS_SERVICE.to_owned(),
                        object,
                        observed: format!("not done by {}; last seen: {message}", self.deadline()),
                        remedy: progress::start_over(self.operation.request).to_owned(),
                    };
                    progress::fail(&mut self.operation, "DeadlineExceeded", failure, now);
                }
            }
            Err(error) => self.unanswered(&object, &error, true),
        }
        self.revocation_write(cluster).await
    }

    /// How many credentials still open something, or might.
    async fn credentials_alive(&self, cluster: &ClusterId) -> Result<usize, clusters_service::Error> {
        let mut alive = 0;
        for page in 1.. {
            let query = ListQuery { page: Some(page), size: Some(PAGE), ..ListQuery::default() };
            let found =
                self.pass.clusters_service.break_glass_list(&self.context, cluster, &query).await?.items;
            let count = u32::try_from(found.len()).unwrap_or(PAGE);
            alive += found.iter().filter(|credential| !is_over(credential.status)).count();
            if count < PAGE {
                break;
            }
        }
        Ok(alive)
    }

    /// Writes the operation; once it has ended, credentials may be asked for again.
    async fn revocation_write(&mut self, mut cluster: Stored<Cluster>) -> Result<(), PassError> {
        if !self.operation.state.is_terminal() {
            return self.write().await;
        }
        cluster.revocation = None;
        self.change()?.cluster_replace(&cluster)?.commit().await?;
        Ok(())
    }
}

fn is_over(status: BreakGlassCredentialStatus) -> bool {
    matches!(
        status,
        BreakGlassCredentialStatus::Revoked
            | BreakGlassCredentialStatus::Expired
            | BreakGlassCredentialStatus::Failed
    )
}
