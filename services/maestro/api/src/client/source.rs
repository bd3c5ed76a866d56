//! The gRPC side: publish works, hear what became of them.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use pilothouse_runtime::Clock;
use tonic::transport::Channel;

use crate::bundle::{StatusHash, StatusHashList};
use crate::client::channel::{Dial, EventChannel, Events};
use crate::event::{Action, CloudEvent, DATA_TYPE, EventType, Subresource};
use crate::proto::SubscriptionRequest;
use crate::work::{StatusEvent, Work};
use crate::{Error, extension};

/// Publishes works as one source. A cheap handle over one connection, which comes about when it is first needed and
/// again after it broke.
#[derive(Clone, Debug)]
pub struct SourceClient {
    channel: EventChannel,
    source: String,
    clock: Clock,
}

/// Statuses of a source's works, as they arrive. Ends with an error when the connection breaks.
#[derive(Debug)]
pub struct Subscription {
    events: Events,
}

// === impl SourceClient ===

impl SourceClient {
    /// Of the server at `url`, such as `http://127.0.0.1:8090`, which asks nobody who calls. Nothing is connected yet.
    pub fn try_new(url: &str, source: impl Into<String>, clock: Clock) -> Result<Self, Error> {
        Self::dial(Dial::plain(url), source, clock)
    }

    /// Of a server that wants to know who calls. Nothing is connected yet.
    pub fn dial(dial: Dial, source: impl Into<String>, clock: Clock) -> Result<Self, Error> {
        Ok(Self { channel: EventChannel::try_new(dial)?, source: source.into(), clock })
    }

    /// Over a channel that was set up elsewhere.
    pub fn new(channel: Channel, source: impl Into<String>, clock: Clock) -> Self {
        Self { channel: EventChannel::new(channel), source: source.into(), clock }
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
        self.channel.publish(event).await
    }

    /// Subscribes to the statuses of this source's works. When this returns, the subscription stands: whatever changes
    /// from now on arrives.
    pub async fn subscribe(&self) -> Result<Subscription, Error> {
        let wanted = SubscriptionRequest {
            source: self.source.clone(),
            cluster_name: String::new(),
            data_type: DATA_TYPE.to_owned(),
        };
        Ok(Subscription { events: self.channel.subscribe(wanted).await? })
    }
}

// === impl Subscription ===

impl Stream for Subscription {
    type Item = Result<StatusEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let event = std::task::ready!(Pin::new(&mut self.events).poll_next(cx));
        Poll::Ready(
            event.map(|event| event.and_then(|event| StatusEvent::try_from(event).map_err(Error::from))),
        )
    }
}
