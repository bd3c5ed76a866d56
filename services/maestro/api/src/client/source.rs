//! The gRPC side: publish works, hear what became of them.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use pilothouse_runtime::Clock;
use tonic::client::Grpc;
use tonic::codec::Streaming;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::bundle::{StatusHash, StatusHashList};
use crate::event::{Action, CloudEvent, DATA_TYPE, EventType, Subresource};
use crate::proto::{self, PublishRequest, SubscriptionRequest};
use crate::work::{StatusEvent, Work};
use crate::{Error, extension};

/// How long one call may take.
const DEADLINE: Duration = Duration::from_secs(30);
/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);
/// How often a connection on which nothing happens is probed, and how long an answer may take.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(10));
/// A status brings the whole bundle with it.
const MESSAGE_LIMIT: usize = 16 << 20;

/// Publishes works as one source. A cheap handle over one connection, which comes about when it is first needed and
/// again after it broke.
#[derive(Clone, Debug)]
pub struct SourceClient {
    grpc: Grpc<Channel>,
    source: String,
    clock: Clock,
}

/// Statuses of a source's works, as they arrive. Ends with an error when the connection breaks.
#[derive(Debug)]
pub struct Subscription {
    events: Streaming<proto::CloudEvent>,
}

// === impl SourceClient ===

impl SourceClient {
    /// Of the server at `url`, such as `http://127.0.0.1:8090`. Nothing is connected yet.
    pub fn try_new(url: &str, source: impl Into<String>, clock: Clock) -> Result<Self, Error> {
        let endpoint = Endpoint::from_shared(url.to_owned())
            .map_err(|_| Error::Address(url.to_owned()))?
            .connect_timeout(CONNECT)
            .http2_keep_alive_interval(KEEP_ALIVE.0)
            .keep_alive_timeout(KEEP_ALIVE.1)
            .keep_alive_while_idle(true);
        Ok(Self::new(endpoint.connect_lazy(), source, clock))
    }

    /// Over a channel that was set up elsewhere, with TLS for instance.
    pub fn new(channel: Channel, source: impl Into<String>, clock: Clock) -> Self {
        let grpc = Grpc::new(channel)
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT);
        Self { grpc, source: source.into(), clock }
    }

    /// Whose works these are.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Asks for a new work. [`Error::Conflict`] if there is one by that name.
    pub async fn work_create(&self, work: &Work) -> Result<(), Error> {
        self.publish(work.event(&self.source, Action::Create, 0, self.clock.now())?).await
    }

    /// Asks for a work to be changed. `version` is the version it was read at; [`Error::Conflict`] if it has changed
    /// since. Zero overwrites whatever is there.
    pub async fn work_update(&self, work: &Work, version: i32) -> Result<(), Error> {
        self.publish(work.event(&self.source, Action::Update, version, self.clock.now())?).await
    }

    /// Asks for a work to be removed with everything it applied. The last event of it says when that is done.
    pub async fn work_delete(&self, work: &Work) -> Result<(), Error> {
        self.publish(work.event(&self.source, Action::Delete, 0, self.clock.now())?).await
    }

    /// Asks for the status of everything whose hash is not among these, by way of the subscription: what was missed while
    /// there was none. Without any hashes, of everything.
    pub async fn resync(&self, known: Vec<StatusHash>) -> Result<(), Error> {
        let kind = EventType::new(Subresource::Status, Action::ResyncRequest);
        let event = CloudEvent::new(&self.source, &kind, self.clock.now())
            .with(extension::CLUSTER_NAME, "")
            .with(extension::ORIGINAL_SOURCE, "")
            .with_data(serde_json::to_vec(&StatusHashList { status_hashes: known })?);
        self.publish(event).await
    }

    /// Sends one event.
    pub async fn publish(&self, event: CloudEvent) -> Result<(), Error> {
        let mut grpc = self.grpc.clone();
        let call = async move {
            ready(&mut grpc).await?;
            let mut request = tonic::Request::new(PublishRequest { event: Some(event.into()) });
            request.set_timeout(DEADLINE);
            let codec: ProstCodec<PublishRequest, ()> = ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(proto::PUBLISH);
            grpc.unary(request, path, codec).await.map(drop)
        };
        match tokio::time::timeout(DEADLINE, call).await {
            Ok(outcome) => outcome.map_err(Error::of_status),
            Err(_) => Err(Error::of_status(tonic::Status::deadline_exceeded("no answer in time"))),
        }
    }

    /// Subscribes to the statuses of this source's works. When this returns, the subscription stands: whatever changes
    /// from now on arrives.
    pub async fn subscribe(&self) -> Result<Subscription, Error> {
        let mut grpc = self.grpc.clone();
        let request = SubscriptionRequest {
            source: self.source.clone(),
            cluster_name: String::new(),
            data_type: DATA_TYPE.to_owned(),
        };
        let call = async move {
            ready(&mut grpc).await?;
            let codec: ProstCodec<SubscriptionRequest, proto::CloudEvent> = ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(proto::SUBSCRIBE);
            grpc.server_streaming(tonic::Request::new(request), path, codec).await
        };
        match tokio::time::timeout(DEADLINE, call).await {
            Ok(Ok(response)) => Ok(Subscription { events: response.into_inner() }),
            Ok(Err(status)) => Err(Error::of_status(status)),
            Err(_) => Err(Error::of_status(tonic::Status::deadline_exceeded("no answer in time"))),
        }
    }
}

async fn ready(grpc: &mut Grpc<Channel>) -> Result<(), tonic::Status> {
    grpc.ready().await.map_err(|error| tonic::Status::unavailable(error.to_string()))
}

// === impl Subscription ===

impl Stream for Subscription {
    type Item = Result<StatusEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let message = match std::task::ready!(Pin::new(&mut self.events).poll_next(cx)) {
                Some(Ok(message)) => message,
                Some(Err(status)) => return Poll::Ready(Some(Err(Error::of_status(status)))),
                None => return Poll::Ready(None),
            };
            let event = match CloudEvent::try_from(message) {
                Ok(event) if event.is_heartbeat() => continue,
                Ok(event) => StatusEvent::try_from(event),
                Err(error) => Err(error),
            };
            return Poll::Ready(Some(event.map_err(Error::from)));
        }
    }
}
