//! The interface for sources.
//!
//! The service is written out by hand: it has two calls, and building needs no `protoc` this way.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use futures::future::BoxFuture;
use pilothouse_maestro_api::proto::{self, PublishRequest, SubscriptionRequest};
use pilothouse_maestro_api::{Action, CloudEvent, Subresource, extension};
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, ServerStreamingService, UnaryService};
use tonic_prost::ProstCodec;
use tracing::{info, warn};

use crate::server::bundle::Bundles;
use crate::server::error::Refusal;
use crate::server::subscription::Subscriptions;

/// What one event may come to, with every manifest of a bundle in it.
pub(super) const MESSAGE_LIMIT: usize = 4 << 20;

/// The service. A cheap handle.
#[derive(Clone, Debug)]
pub(super) struct CloudEventService {
    pub(super) bundles: Bundles,
    pub(super) subscriptions: Subscriptions,
}

type Events = Pin<Box<dyn Stream<Item = Result<proto::CloudEvent, tonic::Status>> + Send>>;

struct Publish(CloudEventService);
struct Subscribe(CloudEventService);

// === impl CloudEventService ===

impl CloudEventService {
    async fn publish(&self, request: PublishRequest) -> Result<(), tonic::Status> {
        let event = request.event.ok_or_else(|| tonic::Status::invalid_argument("there is no event"))?;
        let event = CloudEvent::try_from(event)
            .map_err(|error| Refusal::from(error).grpc("failed to decode event"))?;
        let kind =
            event.event_type().map_err(|error| Refusal::from(error).grpc("failed to parse event type"))?;
        if !kind.is_ours() {
            return Err(
                Refusal::Invalid(format!("`{}` is not served", kind.data_type)).grpc("failed to publish")
            );
        }
        let (failed, outcome) = match (kind.subresource, kind.action) {
            (Subresource::Spec, Action::Create) => {
                ("failed to create resource", self.bundles.create(event).await)
            }
            (Subresource::Spec, Action::Update) => {
                ("failed to update resource", self.bundles.update(event).await)
            }
            (Subresource::Spec, Action::Delete) => ("failed to delete resource", self.delete(&event).await),
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
            refusal.grpc(failed)
        })
    }

    async fn delete(&self, event: &CloudEvent) -> Result<(), Refusal> {
        self.bundles.delete(&event.required(extension::RESOURCE_ID)?).await
    }

    async fn subscribe(
        &self,
        request: SubscriptionRequest,
    ) -> Result<tonic::Response<Events>, tonic::Status> {
        if request.source.is_empty() {
            return Err(tonic::Status::invalid_argument("a source is needed"));
        }
        let opened = self.subscriptions.open(request.source).await;
        let (id, events) = opened.map_err(|refusal| refusal.grpc("failed to subscribe"))?;
        let mut response = tonic::Response::new(Box::pin(events) as Events);
        if let Ok(id) = id.to_string().parse() {
            response.metadata_mut().insert(proto::SUBSCRIPTION_ID, id);
        }
        Ok(response)
    }
}

impl NamedService for CloudEventService {
    const NAME: &'static str = proto::SERVICE;
}

impl tower::Service<http::Request<Body>> for CloudEventService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            Ok(match request.uri().path() {
                proto::PUBLISH => {
                    let codec: ProstCodec<(), PublishRequest> = ProstCodec::default();
                    Grpc::new(codec)
                        .max_decoding_message_size(MESSAGE_LIMIT)
                        .unary(Publish(service), request)
                        .await
                }
                proto::SUBSCRIBE => {
                    let codec: ProstCodec<proto::CloudEvent, SubscriptionRequest> = ProstCodec::default();
                    Grpc::new(codec).server_streaming(Subscribe(service), request).await
                }
                _ => tonic::Status::unimplemented("there is no such call").into_http(),
            })
        })
    }
}

impl UnaryService<PublishRequest> for Publish {
    type Response = ();
    type Future = BoxFuture<'static, Result<tonic::Response<()>, tonic::Status>>;

    fn call(&mut self, request: tonic::Request<PublishRequest>) -> Self::Future {
        let service = self.0.clone();
        Box::pin(async move { service.publish(request.into_inner()).await.map(tonic::Response::new) })
    }
}

impl ServerStreamingService<SubscriptionRequest> for Subscribe {
    type Response = proto::CloudEvent;
    type ResponseStream = Events;
    type Future = BoxFuture<'static, Result<tonic::Response<Events>, tonic::Status>>;

    fn call(&mut self, request: tonic::Request<SubscriptionRequest>) -> Self::Future {
        let service = self.0.clone();
        Box::pin(async move { service.subscribe(request.into_inner()).await })
    }
}
