//! What sources call.

use pilothouse_maestro_api::proto::SubscriptionRequest;
use pilothouse_maestro_api::{Action, CloudEvent, EventType, Subresource, extension};
use tracing::{info, warn};
use uuid::Uuid;

use crate::server::access::{Access, Claim, Credentials, Verb};
use crate::server::bundle::Bundles;
use crate::server::error::Refusal;
use crate::server::grpc::{Calls, Events};
use crate::server::subscription::Subscriptions;

/// A cheap handle.
#[derive(Clone, Debug)]
pub(super) struct Sources {
    pub(super) bundles: Bundles,
    pub(super) subscriptions: Subscriptions,
    pub(super) access: Access,
}

impl Calls for Sources {
    async fn publish(
        &self,
        credentials: Credentials,
        event: CloudEvent,
        kind: EventType,
    ) -> Result<(), tonic::Status> {
        self.access.check(&credentials, Claim::Source(&event.source), Verb::Publish).await?;
        // Where callers are told apart, a bundle is changed by the source that made it.
        let source = event.source.clone();
        let owner = self.access.is_on().then_some(source.as_str());
        let (failed, outcome) = match (kind.subresource, kind.action) {
            (Subresource::Spec, Action::Create) => {
                ("failed to create resource", self.bundles.create(event).await)
            }
            (Subresource::Spec, Action::Update) => {
                ("failed to update resource", self.bundles.update(event, owner).await)
            }
            (Subresource::Spec, Action::Delete) => {
                ("failed to delete resource", self.delete(&event, owner).await)
            }
            (Subresource::Status, Action::ResyncRequest) => {
                ("failed to respond resync request", self.subscriptions.resync(&event).await)
            }
            _ => ("failed to publish", Err(Refusal::Invalid(format!("`{kind}` is not for servers")))),
        };
        outcome.map_err(|refusal| {
            match &refusal {
                Refusal::Store(error) => warn!(error = %pilothouse_runtime::Chain(error), "{failed}"),
                refusal => info!(reason = %refusal, "{failed}"),
            }
            Self::refuse(&refusal, failed)
        })
    }

    async fn subscribe(
        &self,
        credentials: Credentials,
        wanted: SubscriptionRequest,
    ) -> Result<(Uuid, Events), tonic::Status> {
        if wanted.source.is_empty() {
            return Err(tonic::Status::invalid_argument("a source is needed"));
        }
        self.access.check(&credentials, Claim::Source(&wanted.source), Verb::Subscribe).await?;
        let opened = self.subscriptions.open(wanted.source).await;
        let (id, events) = opened.map_err(|refusal| Self::refuse(&refusal, "failed to subscribe"))?;
        Ok((id, Box::pin(events)))
    }

    /// Words, with the number among them, as sources are used to.
    fn refuse(refusal: &Refusal, failed: &str) -> tonic::Status {
        tonic::Status::unknown(format!("{failed}: maestro-{}: {refusal}", refusal.code()))
    }
}

impl Sources {
    async fn delete(&self, event: &CloudEvent, owner: Option<&str>) -> Result<(), Refusal> {
        self.bundles.delete(&event.required(extension::RESOURCE_ID)?, owner).await
    }
}
