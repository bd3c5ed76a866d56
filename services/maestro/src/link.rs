//! The connection to the broker, of the server and of the agent alike.
//!
//! Every connection is a session of its own: nothing is kept by the broker for a client that is away. So nothing is queued
//! here either. While there is no connection, publishing fails at once, and whoever wanted to publish does so again when
//! it hears that there is one.
//!
//! A message is acknowledged when it was dealt with, not when it arrived; so the broker holds back what is more than
//! can be dealt with.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_maestro_api::CloudEvent;
use pilothouse_runtime::{Chain, Clock, OnExit, Policy, Tasks};
use rumqttc::mqttbytes::v5::{PubAckReason, SubscribeReasonCode};
use rumqttc::{
    AckMode, AsyncClient, Event, MqttOptions, Packet, Publish, PublishOptions, PublishProperties,
    PublishResult, QoS, TlsConfiguration, Transport,
};
use serde::Deserialize;
use tokio::sync::{mpsc, watch};
use tracing::{debug, info, warn};

mod tls;

pub use self::tls::ClientTls;

/// How long the broker may take to acknowledge.
const ACKNOWLEDGEMENT: Duration = Duration::from_secs(10);
/// Messages that may arrive before the first of them was dealt with.
const RECEIVE_MAXIMUM: u16 = 256;
/// What a status with a whole bundle may come to.
const PACKET_LIMIT: u32 = 16 << 20;

/// Where the broker is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BrokerConfig {
    /// Host and port.
    pub host: String,
    /// What this client is called; unique at the broker.
    pub client_id: String,
    /// Certificates; without them the connection is plain.
    pub tls: Option<ClientTls>,
    /// Seconds between signs of life.
    pub keep_alive_seconds: u16,
}

/// A cheap handle to the connection.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    current: watch::Receiver<Option<AsyncClient>>,
}

/// What a link tells its owner.
#[derive(Debug)]
pub(crate) enum Happening {
    /// There is a connection, and the subscriptions stand: what is sent from now on arrives.
    Connected,
    /// A message.
    Arrived(Box<Arrival>),
}

/// A message that is being dealt with.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) event: CloudEvent,
    publish: Publish,
    client: AsyncClient,
}

/// Why a message was not sent, as far as one can know.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("there is no connection to the broker")]
    Down,
    #[error("the broker did not acknowledge a message to `{topic}`")]
    Unacknowledged { topic: String },
    #[error("the broker refused a message to `{topic}` ({reason:?})")]
    Refused { topic: String, reason: PubAckReason },
}

/// Why a link cannot be set up at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkSetupError {
    /// The address is none.
    #[error("`{0}` is not an address of an MQTT broker; write host:port")]
    Address(String),
    /// The certificates cannot be used.
    #[error("the certificates for the MQTT broker cannot be used")]
    Certificates(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Default for BrokerConfig {
    fn default() -> Self {
        Self {
            host: "127.0.0.1:1883".to_owned(),
            client_id: "maestro".to_owned(),
            tls: None,
            keep_alive_seconds: 60,
        }
    }
}

// === impl Link ===

impl Link {
    /// Connects, and connects again, until shutdown. What happens is told over the channel, in order.
    pub(crate) fn spawn(
        config: &BrokerConfig,
        filters: Vec<String>,
        clock: &Clock,
        tasks: &Tasks,
    ) -> Result<(Self, mpsc::Receiver<Happening>), LinkSetupError> {
        let options = options(config, clock)?;
        let (current_tx, current) = watch::channel(None);
        let (happenings_tx, happenings) = mpsc::channel(usize::from(RECEIVE_MAXIMUM) * 4);
        let shutdown = tasks.shutdown().clone();
        let host = config.host.clone();
        tasks.spawn("mqtt", OnExit::StopProcess, async move {
            let mut delays = Policy::RECONNECT.delays();
            loop {
                let ended = tokio::select! {
                    () = shutdown.requested() => {
                        leave(&current_tx).await;
                        return Ok(());
                    }
                    ended = session(&options, &filters, &current_tx, &happenings_tx) => ended,
                };
                // Once per connection that was lost; attempts in vain are routine.
                if current_tx.send_replace(None).is_some() {
                    delays.reset();
                    warn!(broker = host, error = %Chain(ended.as_ref()), "lost the broker");
                } else {
                    debug!(broker = host, error = %Chain(ended.as_ref()), "the broker is not there");
                }
                let delay = delays.next().unwrap_or_default();
                tokio::select! {
                    () = shutdown.requested() => return Ok(()),
                    () = tokio::time::sleep(delay) => {}
                }
            }
        });
        Ok((Self { current }, happenings))
    }

    /// Sends a message and waits for the broker to have it.
    pub(crate) async fn publish(&self, topic: String, event: &CloudEvent) -> Result<(), LinkError> {
        let client = self.current.borrow().clone().ok_or(LinkError::Down)?;
        let properties = PublishProperties {
            content_type: event.content_type.clone(),
            user_properties: event.to_properties(),
            ..PublishProperties::default()
        };
        let options = PublishOptions::new(QoS::AtLeastOnce).properties(properties);
        let unacknowledged = || LinkError::Unacknowledged { topic: topic.clone() };
        let send = async {
            let notice = client
                .publish_tracked(topic.clone(), event.data.clone(), options)
                .await
                .map_err(|_| LinkError::Down)?;
            notice.wait_async().await.map_err(|_| unacknowledged())
        };
        match tokio::time::timeout(ACKNOWLEDGEMENT, send).await.map_err(|_| unacknowledged())?? {
            PublishResult::Qos1(answer) if answer.reason as u8 >= 0x80 => {
                Err(LinkError::Refused { topic, reason: answer.reason })
            }
            _ => Ok(()),
        }
    }

    /// Whether there is a connection.
    pub(crate) fn is_up(&self) -> bool {
        self.current.borrow().is_some()
    }
}

async fn leave(current: &watch::Sender<Option<AsyncClient>>) {
    if let Some(client) = current.send_replace(None) {
        // The event loop is gone with its future; closing the socket is all that is left to do.
        drop(client);
    }
}

/// One connection, to its end.
async fn session(
    options: &MqttOptions,
    filters: &[String],
    current: &watch::Sender<Option<AsyncClient>>,
    happenings: &mpsc::Sender<Happening>,
) -> Box<dyn std::error::Error + Send + Sync> {
    let (client, mut events) = AsyncClient::builder(options.clone()).capacity(256).build();
    for filter in filters {
        if let Err(error) = client.try_subscribe(filter.as_str(), QoS::AtLeastOnce) {
            return error.into();
        }
    }
    let mut standing = 0;
    loop {
        let packet = match events.poll().await {
            Ok(Event::Incoming(packet)) => packet,
            Ok(_) => continue,
            Err(error) => return error.into(),
        };
        let happening = match packet {
            Packet::SubAck(answer) => {
                let refused =
                    answer.return_codes.iter().find(|code| !matches!(code, SubscribeReasonCode::Success(_)));
                if let Some(code) = refused {
                    return format!("the broker refused a subscription ({code:?})").into();
                }
                standing += 1;
                if standing != filters.len() {
                    continue;
                }
                info!("connected to the broker");
                current.send_replace(Some(client.clone()));
                Happening::Connected
            }
            Packet::Publish(publish) => match read(&publish) {
                Ok(event) => Happening::Arrived(Box::new(Arrival { event, publish, client: client.clone() })),
                Err(error) => {
                    warn!(topic = %String::from_utf8_lossy(&publish.topic), error = %Chain(&error), "not an event");
                    let _ = client.try_ack(&publish);
                    continue;
                }
            },
            _ => continue,
        };
        if happenings.send(happening).await.is_err() {
            return "nobody listens any more".into();
        }
    }
}

fn read(publish: &Publish) -> Result<CloudEvent, pilothouse_maestro_api::InvalidEvent> {
    let properties = publish.properties.as_ref();
    let pairs = properties.into_iter().flat_map(|properties| &properties.user_properties);
    CloudEvent::from_properties(
        properties.and_then(|properties| properties.content_type.as_deref()),
        pairs.map(|(name, value)| (name.as_str(), value.as_str())),
        publish.payload.clone(),
    )
}

fn options(config: &BrokerConfig, clock: &Clock) -> Result<MqttOptions, LinkSetupError> {
    let refused = || LinkSetupError::Address(config.host.clone());
    let (host, port) = config.host.rsplit_once(':').ok_or_else(refused)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port: u16 = port.parse().map_err(|_| refused())?;
    if host.is_empty() {
        return Err(refused());
    }
    let mut options = MqttOptions::new(config.client_id.clone(), (host.to_owned(), port));
    options.set_keep_alive(config.keep_alive_seconds);
    options.set_max_packet_size(Some(PACKET_LIMIT));
    options.set_receive_maximum(Some(RECEIVE_MAXIMUM));
    options.set_ack_mode(AckMode::Manual);
    options.set_connect_timeout(Duration::from_secs(10));
    if let Some(files) = &config.tls {
        let tls = files.load(clock).map_err(LinkSetupError::Certificates)?;
        options.set_transport(Transport::tls_with_config(TlsConfiguration::Rustls(Arc::new(tls))));
    }
    Ok(options)
}

// === impl Arrival ===

impl Arrival {
    /// It has been dealt with, in whatever way.
    pub(crate) async fn acknowledge(self) {
        // If the connection is gone, so is the message: whoever sent it is asked for what was missed.
        let _ = self.client.ack(&self.publish).await;
    }
}
