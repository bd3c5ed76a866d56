//! What agents call, where the server is their broker.

use std::time::Duration;

use pilothouse_maestro_api::proto::{self, SubscriptionRequest};
use pilothouse_maestro_api::{Action, CloudEvent, DATA_TYPE, EventType, Subresource, extension};
use pilothouse_runtime::Shutdown;
use prometheus_client::metrics::gauge::Gauge;
use tracing::info;
use uuid::Uuid;

use crate::link::Declined;
use crate::link::served::{Agents, Seat};
use crate::server::access::{Access, Claim, Credentials, Verb};
use crate::server::error::Refusal;
use crate::server::grpc::{Calls, Events, heartbeat};
use crate::server::records::Records;

/// A cheap handle.
#[derive(Clone, Debug)]
pub(super) struct AgentCalls {
    pub(super) agents: Agents,
    pub(super) access: Access,
    pub(super) records: Records,
    pub(super) shutdown: Shutdown,
    pub(super) heartbeat: Duration,
    pub(super) connected: Gauge,
}

struct Serving {
    seat: Seat,
    heartbeat: tokio::time::Interval,
    shutdown: Shutdown,
    connected: Gauge,
}

impl Calls for AgentCalls {
    async fn publish(
        &self,
        credentials: Credentials,
        event: CloudEvent,
        kind: EventType,
    ) -> Result<(), tonic::Status> {
        let consumer = event.required(extension::CLUSTER_NAME);
        let consumer = consumer.map_err(|error| Self::refuse(&error.into(), "failed to decode event"))?;
        self.access.check(&credentials, Claim::Consumer(&consumer), Verb::Publish).await?;
        match (kind.subresource, kind.action) {
            (Subresource::Spec, Action::ResyncRequest)
            | (Subresource::Status, Action::Update | Action::ResyncResponse) => {}
            _ => {
                let refusal = Refusal::Invalid(format!("`{kind}` is not for servers"));
                return Err(Self::refuse(&refusal, "failed to publish"));
            }
        }
        self.agents.arrived(event).await.map_err(|declined| match declined {
            Declined::Invalid(reason) => tonic::Status::invalid_argument(reason),
            Declined::NotNow(reason) => tonic::Status::unavailable(reason),
        })
    }

    async fn subscribe(
        &self,
        credentials: Credentials,
        wanted: SubscriptionRequest,
    ) -> Result<(Uuid, Events), tonic::Status> {
        let SubscriptionRequest { cluster_name: consumer, data_type, .. } = wanted;
        if consumer.is_empty() {
            return Err(tonic::Status::invalid_argument("the name of a cluster is needed"));
        }
        if data_type != DATA_TYPE {
            return Err(tonic::Status::invalid_argument(format!("`{data_type}` is not served")));
        }
        self.access.check(&credentials, Claim::Consumer(&consumer), Verb::Subscribe).await?;
        let known = self.records.consumer(&consumer).await;
        let known = known.map_err(|error| Self::refuse(&error.into(), "failed to subscribe"))?;
        if known.is_none() {
            let refusal = format!("there is no consumer `{consumer}`; create it first");
            return Err(tonic::Status::failed_precondition(refusal));
        }
        let seat = self.agents.join(consumer).await;
        let id = seat.id;
        info!(consumer = seat.consumer, subscription = %id, "an agent has come");
        let serving = Serving {
            seat,
            heartbeat: tokio::time::interval(self.heartbeat),
            shutdown: self.shutdown.clone(),
            connected: self.connected.clone(),
        };
        self.connected.inc();
        let events = futures::stream::unfold(serving, |mut serving| async {
            let event = serving.next().await?;
            Some((Ok(proto::CloudEvent::from(event)), serving))
        });
        Ok((id, Box::pin(events)))
    }

    /// As agents are used to: what is wrong with the event, or with the moment.
    fn refuse(refusal: &Refusal, failed: &str) -> tonic::Status {
        match refusal {
            Refusal::Store(_) => tonic::Status::unavailable(format!("{failed}: {refusal}")),
            refusal => tonic::Status::invalid_argument(format!("{failed}: {refusal}")),
        }
    }
}

impl Serving {
    async fn next(&mut self) -> Option<CloudEvent> {
        tokio::select! {
            () = self.shutdown.requested() => None,
            event = self.seat.queue.recv() => event,
            _ = self.heartbeat.tick() => Some(heartbeat()),
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.connected.dec();
        info!(consumer = self.seat.consumer, subscription = %self.seat.id, "an agent has gone");
    }
}
