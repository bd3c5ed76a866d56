//! Operations on what belongs to a cluster: the same for every kind of it.

use std::fmt::Display;
use std::str::FromStr;

use jiff::Timestamp;
use pilothouse_arm::{OperationId, ProvisioningState, ResourceId};
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_clusters_service_api::ClusterId;
use pilothouse_records::{Change, Cluster, Error, Operation, Records, Request, Stored};
use serde::de::DeserializeOwned;

use super::cluster::id_of;
use super::work::Work;
use crate::error::PassError;
use crate::progress::{self, Observed, Phase};

/// A kind of thing that belongs to a cluster, in the records and at Clusters Service.
pub(super) trait Child: Clone + PartialEq {
    /// What it is called in sentences.
    const NOUN: &'static str;
    /// Its id at Clusters Service, which is its name in lower case.
    type Id: FromStr;
    /// What Clusters Service is asked for.
    type New: DeserializeOwned;
    /// What Clusters Service is asked to change.
    type Update: DeserializeOwned;
    /// What Clusters Service answers.
    type Seen;

    /// Its name among all resources.
    fn resource(&self) -> &ResourceId;
    /// The operation that may write it.
    fn active_operation(&self) -> Option<OperationId>;
    /// Its id at Clusters Service, once it has one.
    fn clusters_service_id(&self) -> Option<&str>;
    /// Moves it to a state; one that is terminal sets it free.
    fn enter(&mut self, state: ProvisioningState);
    /// What Clusters Service chose or found out.
    fn take_over(&mut self, seen: &Self::Seen);
    /// What was seen, in the few words that matter.
    fn observed(seen: &Self::Seen) -> Observed;

    async fn get(records: &Records, id: &ResourceId) -> Result<Option<Stored<Self>>, Error>;
    fn replace(stored: &Stored<Self>, change: &mut Change<'_>) -> Result<(), Error>;
    fn remove(stored: &Stored<Self>, change: &mut Change<'_>) -> Result<(), Error>;

    async fn ask_new(at: At<'_>, new: &Self::New) -> Result<Self::Seen, clusters_service::Error>;
    async fn look(at: At<'_>, id: &Self::Id) -> Result<Self::Seen, clusters_service::Error>;
    async fn ask_update(
        at: At<'_>,
        id: &Self::Id,
        update: &Self::Update,
    ) -> Result<Self::Seen, clusters_service::Error>;
    async fn ask_delete(at: At<'_>, id: &Self::Id) -> Result<(), clusters_service::Error>;
}

/// Where at Clusters Service.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) client: &'a clusters_service::Client,
    pub(super) context: &'a pilothouse_http::Context,
    pub(super) cluster: &'a ClusterId,
}

impl Work<'_> {
    pub(super) async fn child<C: Child>(
        &mut self,
        cluster: Option<Stored<Cluster>>,
    ) -> Result<(), PassError> {
        let stored = C::get(&self.pass.records, &self.operation.resource).await?;
        let stored = stored.filter(|stored| stored.active_operation() == Some(self.operation.id));
        let Some(stored) = stored else { return self.give_up().await };
        let request = self.operation.request;
        let cluster_id = cluster.as_ref().and_then(|cluster| id_of(cluster));
        let is_being_made = cluster.is_some_and(|cluster| cluster.active_operation.is_some());
        let is_for_us = request == Request::Update && self.operation.clusters_service_request.is_none();
        if cluster_id.is_none() && is_being_made && request != Request::Delete && !is_for_us {
            // Not before that is over does its time count again: whoever waits already changes nothing.
            let object = format!("{} {}", C::NOUN, stored.resource().name());
            self.wait_for(format!("the cluster of {object} is still being made"));
            return self.child_write(stored, None).await;
        }
        self.resume();
        if is_for_us {
            let now = self.now();
            progress::updated(&mut self.operation, now);
            return self.child_write(stored, None).await;
        }
        match (cluster_id, request) {
            (Some(cluster), Request::Create) => self.child_create(&cluster, stored).await,
            (Some(cluster), Request::Delete) => self.child_delete(&cluster, stored).await,
            (Some(cluster), _) => self.child_update(&cluster, stored).await,
            // A cluster that was never made has nothing that belongs to it.
            (None, Request::Delete) => self.child_gone(stored).await,
            (None, _) => {
                self.without_cluster(&format!("{} {}", C::NOUN, stored.resource().name()));
                self.child_write(stored, None).await
            }
        }
    }

    async fn child_create<C: Child>(
        &mut self,
        cluster: &ClusterId,
        stored: Stored<C>,
    ) -> Result<(), PassError> {
        let known = stored.clusters_service_id().and_then(|id| id.parse::<C::Id>().ok());
        let at = self.at(cluster);
        let answer = match &known {
            Some(id) => C::look(at, id).await,
            None => {
                let request = self.operation.clusters_service_request.clone().unwrap_or_default();
                match serde_json::from_value::<C::New>(request) {
                    Ok(new) => self.ask(C::ask_new(at, &new)).await,
                    Err(error) => return self.child_unreadable(stored, error).await,
                }
            }
        };
        self.child_observe(stored, answer, known.is_some(), progress::creating).await
    }

    /// Asks for the change until that was written down, and from then on only looks. Should the answer get lost, Clusters
    /// Service knows the operation when it comes again.
    async fn child_update<C: Child>(
        &mut self,
        cluster: &ClusterId,
        stored: Stored<C>,
    ) -> Result<(), PassError> {
        let Some(id) = child_id(&stored.record) else {
            self.lost(&format!("{} {}", C::NOUN, stored.resource().name()));
            return self.child_write(stored, None).await;
        };
        let at = self.at(cluster);
        let answer = if progress::is_asked(&self.operation) {
            C::look(at, &id).await
        } else {
            let request = self.operation.clusters_service_request.clone().unwrap_or_default();
            match serde_json::from_value::<C::Update>(request) {
                Ok(update) => self.ask(C::ask_update(at, &id, &update)).await,
                Err(error) => return self.child_unreadable(stored, error).await,
            }
        };
        self.child_observe(stored, answer, true, progress::updating).await
    }

    async fn child_delete<C: Child>(
        &mut self,
        cluster: &ClusterId,
        stored: Stored<C>,
    ) -> Result<(), PassError> {
        // Its id there is its name, also if its creation was interrupted before that was written down.
        let Some(id) = child_id(&stored.record) else { return self.child_gone(stored).await };
        let at = self.at(cluster);
        let asked = match C::look(at, &id).await.map(|seen| C::observed(&seen)) {
            Ok(observed) if observed.phase == Phase::Removing => Ok(observed),
            Ok(observed) => {
                let asked = self.ask(C::ask_delete(at, &id)).await;
                asked.map(|()| Observed { description: "asked to be deleted".to_owned(), ..observed })
            }
            Err(error) => Err(error),
        };
        match asked {
            Ok(observed) => {
                self.operation.waiting = None;
                let (now, deadline) = (self.now(), self.deadline());
                progress::deleting(&mut self.operation, &observed, now, deadline);
            }
            Err(error) if error.is_not_found() => return self.child_gone(stored).await,
            Err(error) => self.not_asked(&format!("{} {}", C::NOUN, stored.resource().name()), &error),
        }
        self.child_write(stored, None).await
    }

    /// Writes down what follows from an answer.
    async fn child_observe<C: Child>(
        &mut self,
        stored: Stored<C>,
        answer: Result<C::Seen, clusters_service::Error>,
        known: bool,
        follow: fn(&mut Operation, &Observed, Timestamp, Timestamp),
    ) -> Result<(), PassError> {
        let seen = match answer {
            Ok(seen) => seen,
            Err(error) => {
                self.unanswered(&format!("{} {}", C::NOUN, stored.resource().name()), &error, known);
                return self.child_write(stored, None).await;
            }
        };
        let observed = C::observed(&seen);
        if self.answered(&observed) {
            let (now, deadline) = (self.now(), self.deadline());
            follow(&mut self.operation, &observed, now, deadline);
        }
        self.child_write(stored, Some(&seen)).await
    }

    async fn child_unreadable<C: Child>(
        &mut self,
        stored: Stored<C>,
        problem: impl Display,
    ) -> Result<(), PassError> {
        self.unreadable(problem);
        self.child_write(stored, None).await
    }

    async fn child_gone<C: Child>(&mut self, stored: Stored<C>) -> Result<(), PassError> {
        let now = self.now();
        progress::deleted(&mut self.operation, now);
        let mut change = self.change()?;
        C::remove(&stored, &mut change)?;
        change.commit().await?;
        Ok(())
    }

    /// Writes the operation, and the child as it follows from it and from what was seen; nothing if nothing is new.
    async fn child_write<C: Child>(
        &mut self,
        mut stored: Stored<C>,
        seen: Option<&C::Seen>,
    ) -> Result<(), PassError> {
        let written = stored.record.clone();
        if let Some(seen) = seen {
            stored.take_over(seen);
        }
        stored.enter(self.operation.state);
        if !self.is_changed() && stored.record == written {
            return Ok(());
        }
        let mut change = self.change()?;
        C::replace(&stored, &mut change)?;
        change.commit().await?;
        Ok(())
    }

    fn at<'b>(&'b self, cluster: &'b ClusterId) -> At<'b> {
        At { client: &self.pass.clusters_service, context: &self.context, cluster }
    }
}

fn child_id<C: Child>(stored: &C) -> Option<C::Id> {
    stored.resource().name().to_ascii_lowercase().parse().ok()
}
