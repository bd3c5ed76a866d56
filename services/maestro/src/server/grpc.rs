//! The service of both gRPC interfaces.
//!
//! It is written out by hand: it has two calls, and building needs no `protoc` this way. What the calls do is up to the
//! [`sources`](super::sources) and [`agents`](super::agents) that make them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use futures::future::BoxFuture;
use pilothouse_maestro_api::proto::{self, PublishRequest, SubscriptionRequest};
use pilothouse_maestro_api::{CloudEvent, EventType, HEARTBEAT};
use tokio::time::Instant;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, ServerStreamingService, UnaryService};
use tonic_prost::ProstCodec;
use uuid::Uuid;

use crate::server::access::Credentials;
use crate::server::error::Refusal;
use crate::server::metrics::{Call, Metrics};

/// What one event may come to, with every manifest of a bundle in it.
pub(super) const MESSAGE_LIMIT: usize = 4 << 20;

/// Events on their way to a subscriber.
pub(super) type Events = Pin<Box<dyn Stream<Item = Result<proto::CloudEvent, tonic::Status>> + Send>>;

/// What the two calls do.
pub(super) trait Calls: Clone + Send + Sync + 'static {
    /// Takes an event.
    fn publish(
        &self,
        credentials: Credentials,
        event: CloudEvent,
        kind: EventType,
    ) -> impl Future<Output = Result<(), tonic::Status>> + Send;

    /// Begins a subscription.
    fn subscribe(
        &self,
        credentials: Credentials,
        wanted: SubscriptionRequest,
    ) -> impl Future<Output = Result<(Uuid, Events), tonic::Status>> + Send;

    /// How an event that is none is refused.
    fn refuse(refusal: &Refusal, failed: &str) -> tonic::Status;
}

/// The service. A cheap handle.
#[derive(Clone, Debug)]
pub(super) struct CloudEventService<C> {
    pub(super) calls: C,
    pub(super) metrics: Metrics,
}

struct Publish<C>(CloudEventService<C>);
struct Subscribe<C>(CloudEventService<C>);

// === impl CloudEventService ===

impl<C: Calls> CloudEventService<C> {
    async fn publish(&self, credentials: Credentials, request: PublishRequest) -> Result<(), tonic::Status> {
        let event = request.event.ok_or_else(|| tonic::Status::invalid_argument("there is no event"))?;
        let event = CloudEvent::try_from(event)
            .map_err(|error| C::refuse(&Refusal::from(error), "failed to decode event"))?;
        let kind = event
            .event_type()
            .map_err(|error| C::refuse(&Refusal::from(error), "failed to parse event type"))?;
        if !kind.is_ours() {
            let refusal = Refusal::Invalid(format!("`{}` is not served", kind.data_type));
            return Err(C::refuse(&refusal, "failed to publish"));
        }
        self.calls.publish(credentials, event, kind).await
    }

    async fn subscribe(
        &self,
        credentials: Credentials,
        wanted: SubscriptionRequest,
    ) -> Result<tonic::Response<Events>, tonic::Status> {
        let (id, events) = self.calls.subscribe(credentials, wanted).await?;
        let mut response = tonic::Response::new(events);
        if let Ok(id) = id.to_string().parse() {
            response.metadata_mut().insert(proto::SUBSCRIPTION_ID, id);
        }
        Ok(response)
    }
}

impl<C> NamedService for CloudEventService<C> {
    const NAME: &'static str = proto::SERVICE;
}

impl<C: Calls> tower::Service<http::Request<Body>> for CloudEventService<C> {
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

impl<C: Calls> UnaryService<PublishRequest> for Publish<C> {
    type Response = ();
    type Future = BoxFuture<'static, Result<tonic::Response<()>, tonic::Status>>;

    fn call(&mut self, request: tonic::Request<PublishRequest>) -> Self::Future {
        let service = self.0.clone();
        Box::pin(async move {
            let begun = Instant::now();
            let credentials = Credentials::of(&request);
            let outcome = service.publish(credentials, request.into_inner()).await;
            service.metrics.called(Call::Publish, begun.elapsed(), outcome.as_ref().err());
            outcome.map(tonic::Response::new)
        })
    }
}

impl<C: Calls> ServerStreamingService<SubscriptionRequest> for Subscribe<C> {
    type Response = proto::CloudEvent;
    type ResponseStream = Events;
    type Future = BoxFuture<'static, Result<tonic::Response<Events>, tonic::Status>>;

    fn call(&mut self, request: tonic::Request<SubscriptionRequest>) -> Self::Future {
        let service = self.0.clone();
        Box::pin(async move {
            let begun = Instant::now();
            let credentials = Credentials::of(&request);
            let outcome = service.subscribe(credentials, request.into_inner()).await;
            service.metrics.called(Call::Subscribe, begun.elapsed(), outcome.as_ref().err());
            outcome
        })
    }
}

/// A sign of life on a subscription.
pub(super) fn heartbeat() -> CloudEvent {
    CloudEvent {
        id: Uuid::new_v4().to_string(),
        source: String::new(),
        kind: HEARTBEAT.to_owned(),
        time: None,
        content_type: None,
        extensions: Default::default(),
        data: Default::default(),
    }
}
