//! The connection between server and agents, of both alike, over whichever transport there is.
//!
//! Over MQTT both are clients of a broker ([`mqtt`]). Over gRPC the server is its agents' broker itself: an agent dials
//! it ([`dialled`]), and the server has those that did ([`served`]). What is above sees no difference.
//!
//! Every connection is a session of its own: nothing is kept for a client that is away. So nothing is queued here either.
//! While there is no connection, publishing fails at once, and whoever wanted to publish does so again when it hears
//! that there is one.
//!
//! A message is acknowledged when it was dealt with, not when it arrived; so whoever sends is held back when more comes
//! than can be dealt with.

use std::path::PathBuf;

use pilothouse_maestro_api::CloudEvent;
use pilothouse_runtime::{Clock, Tasks};
use rumqttc::Publish;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use crate::topic;

mod dialled;
mod mqtt;
mod packet;
pub(crate) mod served;
mod tls;

pub use self::tls::ClientTls;

/// Happenings that may wait for the one before them.
const WAITING: usize = 1_024;

/// Where the broker is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BrokerConfig {
    /// What it speaks.
    pub kind: BrokerKind,
    /// Host and port.
    pub host: String,
    /// What this client is called; unique at the broker.
    pub client_id: String,
    /// Certificates; without them the connection is plain.
    pub tls: Option<ClientTls>,
    /// The authorities that may have certified the server, PEM, where it is shown a token instead of a certificate.
    pub authorities: Option<PathBuf>,
    /// A file with a token that is shown to the server, over gRPC.
    pub token_file: Option<PathBuf>,
    /// Seconds between signs of life, over MQTT.
    pub keep_alive_seconds: u16,
}

/// How server and agents speak with each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BrokerKind {
    /// Through an MQTT broker.
    #[default]
    Mqtt,
    /// The agent dials the server.
    Grpc,
}

/// A cheap handle to the connection.
#[derive(Clone, Debug)]
pub(crate) struct Link(Way);

#[derive(Clone, Debug)]
enum Way {
    Mqtt(mqtt::Session),
    Dialled(dialled::Session),
    Served(served::Agents),
}

/// What a link tells its owner.
#[derive(Debug)]
pub(crate) enum Happening {
    /// There is a connection, and the subscriptions stand: what is sent from now on arrives.
    Connected,
    /// The agent of this consumer has come: what is sent to it from now on arrives.
    Joined(String),
    /// A message.
    Arrived(Box<Arrival>),
    /// A message that is no event, or not one of whoever sent it.
    Refused,
}

/// A message that is being dealt with.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) event: CloudEvent,
    receipt: Receipt,
}

/// How whoever sent a message hears that it was dealt with.
#[derive(Debug)]
enum Receipt {
    /// The stream is read on, that is all.
    None,
    Mqtt(Box<Publish>, rumqttc::AsyncClient),
    Call(oneshot::Sender<Result<(), Declined>>),
}

/// Why a message had no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Declined {
    /// It will never have one.
    Invalid(String),
    /// It may have one later.
    NotNow(String),
}

/// Why a message was not sent, as far as one can know.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("there is no connection to the broker")]
    Down,
    #[error("the broker did not acknowledge a message to `{topic}`")]
    Unacknowledged { topic: String },
    #[error("the {what} comes to {bytes} bytes, and the broker takes at most {limit}")]
    TooLarge { what: String, bytes: usize, limit: usize },
    #[error("the broker refused a message to `{topic}` ({reason})")]
    Refused { topic: String, reason: String },
}

/// Why a link cannot be set up at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkSetupError {
    /// The address is none.
    #[error("`{0}` is not an address of a broker; write host:port")]
    Address(String),
    /// The certificates cannot be used.
    #[error("the certificates for the broker cannot be used")]
    Certificates(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// What is shown to the server does not go with how it is reached.
    #[error("the server cannot be dialled with these settings")]
    Dial(#[source] pilothouse_maestro_api::Error),
}

impl Default for BrokerConfig {
    fn default() -> Self {
        Self {
            kind: BrokerKind::Mqtt,
            host: "127.0.0.1:1883".to_owned(),
            client_id: "maestro".to_owned(),
            tls: None,
            authorities: None,
            token_file: None,
            keep_alive_seconds: 60,
        }
    }
}

// === impl Link ===

impl Link {
    /// An agent's, to whatever broker there is. Connects, and connects again, until shutdown. What happens is told over
    /// the channel, in order.
    pub(crate) fn of_agent(
        config: &BrokerConfig,
        source_id: &str,
        consumer: &str,
        clock: &Clock,
        tasks: &Tasks,
    ) -> Result<(Self, mpsc::Receiver<Happening>), LinkSetupError> {
        match config.kind {
            BrokerKind::Mqtt => {
                Self::over_mqtt(config, topic::source_events(source_id, consumer), clock, tasks)
            }
            BrokerKind::Grpc => {
                let (happenings_tx, happenings) = mpsc::channel(WAITING);
                let session = dialled::spawn(config, consumer, clock, tasks, happenings_tx)?;
                Ok((Self(Way::Dialled(session)), happenings))
            }
        }
    }

    /// Over an MQTT broker, to whatever `filter` selects.
    pub(crate) fn over_mqtt(
        config: &BrokerConfig,
        filter: String,
        clock: &Clock,
        tasks: &Tasks,
    ) -> Result<(Self, mpsc::Receiver<Happening>), LinkSetupError> {
        let (happenings_tx, happenings) = mpsc::channel(WAITING);
        let session = mqtt::spawn(config, filter, clock, tasks, happenings_tx)?;
        Ok((Self(Way::Mqtt(session)), happenings))
    }

    /// A server's, to the agents that dial it.
    pub(crate) fn to_agents() -> (Self, served::Agents, mpsc::Receiver<Happening>) {
        let (happenings_tx, happenings) = mpsc::channel(WAITING);
        let agents = served::Agents::new(happenings_tx);
        (Self(Way::Served(agents.clone())), agents, happenings)
    }

    /// Sends a message and waits for whoever is next on the way to have it. The topic is for MQTT; otherwise the event
    /// says by itself whom it is for.
    pub(crate) async fn publish(&self, topic: String, event: &CloudEvent) -> Result<(), LinkError> {
        match &self.0 {
            Way::Mqtt(session) => session.publish(topic, event).await,
            Way::Dialled(session) => session.publish(topic, event).await,
            Way::Served(agents) => agents.publish(topic, event).await,
        }
    }

    /// Whether a message is taken on the way, as far as it is known how large it may be.
    pub(crate) fn check(&self, topic: &str, event: &CloudEvent) -> Result<(), LinkError> {
        match &self.0 {
            Way::Mqtt(session) => session.check(topic, event),
            Way::Dialled(_) | Way::Served(_) => Ok(()),
        }
    }

    /// Whether there is a connection.
    pub(crate) fn is_up(&self) -> bool {
        match &self.0 {
            Way::Mqtt(session) => session.is_up(),
            Way::Dialled(session) => session.is_up(),
            Way::Served(_) => true,
        }
    }

    /// Whether what is sent to this consumer goes by way of this process.
    pub(crate) fn reaches(&self, consumer: &str) -> bool {
        match &self.0 {
            Way::Mqtt(_) | Way::Dialled(_) => true,
            Way::Served(agents) => agents.has(consumer),
        }
    }
}

// === impl Arrival ===

impl Arrival {
    /// It has been dealt with.
    pub(crate) async fn acknowledge(self) {
        match self.receipt {
            Receipt::None => {}
            // If the connection is gone, so is the message: whoever sent it is asked for what was missed.
            Receipt::Mqtt(publish, client) => drop(client.ack(&publish).await),
            Receipt::Call(answer) => drop(answer.send(Ok(()))),
        }
    }

    /// Whether its sender hears what became of it.
    pub(crate) fn is_answered(&self) -> bool {
        matches!(self.receipt, Receipt::Call(_))
    }

    /// It was looked at and had no effect. Over MQTT nobody can be told.
    pub(crate) async fn decline(self, declined: Declined) {
        match self.receipt {
            Receipt::Call(answer) => drop(answer.send(Err(declined))),
            receipt => Self { event: self.event, receipt }.acknowledge().await,
        }
    }
}
