//! A client of an MQTT broker.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_maestro_api::CloudEvent;
use pilothouse_runtime::{Chain, Clock, OnExit, Policy, Tasks};
use rumqttc::mqttbytes::v5::{PubAckReason, SubscribeReasonCode};
use rumqttc::{
    AckMode, AsyncClient, Event, MqttOptions, NetworkOptions, Packet, PublishOptions, PublishProperties,
    PublishResult, QoS, TlsConfiguration, Transport,
};
use tokio::sync::{mpsc, watch};
use tracing::{debug, info, warn};

use super::{Arrival, BrokerConfig, Happening, LinkError, LinkSetupError, Receipt, packet};

/// How long the broker may take to acknowledge.
const ACKNOWLEDGEMENT: Duration = Duration::from_secs(10);
/// Messages that may arrive before the first of them was dealt with.
const RECEIVE_MAXIMUM: u16 = 256;
/// Messages that may be on their way to the broker. The client has a place ready for each of as many as there may be, which
/// for as many as MQTT allows comes to fifteen megabytes.
const SEND_MAXIMUM: u16 = 512;
/// What a status with a whole bundle may come to.
const PACKET_LIMIT: u32 = 16 << 20;

/// The connection there is, if there is one. A cheap handle.
#[derive(Clone, Debug)]
pub(super) struct Session {
    current: watch::Receiver<Option<AsyncClient>>,
    /// Bytes that a packet may have, as the broker said last.
    limit: watch::Receiver<Option<u32>>,
}

/// Connects, and connects again, until shutdown.
pub(super) fn spawn(
    config: &BrokerConfig,
    filter: String,
    clock: &Clock,
    tasks: &Tasks,
    happenings: mpsc::Sender<Happening>,
) -> Result<Session, LinkSetupError> {
    let options = options(config, clock)?;
    let (current_tx, current) = watch::channel(None);
    let (limit_tx, limit) = watch::channel(None);
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
                ended = session(&options, &filter, &current_tx, &limit_tx, &happenings) => ended,
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
    Ok(Session { current, limit })
}

// === impl Session ===

impl Session {
    /// Sends a message and waits for the broker to have it.
    pub(super) async fn publish(&self, topic: String, event: &CloudEvent) -> Result<(), LinkError> {
        let client = self.current.borrow().clone().ok_or(LinkError::Down)?;
        // What is too large would cost the connection, and then the next one.
        self.check(&topic, event)?;
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
            // It has no room now; that passes.
            PublishResult::Qos1(answer)
                if matches!(
                    answer.reason,
                    PubAckReason::QuotaExceeded | PubAckReason::PacketIdentifierInUse
                ) =>
            {
                Err(unacknowledged())
            }
            PublishResult::Qos1(answer) if answer.reason as u8 >= 0x80 => {
                Err(LinkError::Refused { topic, reason: format!("{:?}", answer.reason) })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check(&self, topic: &str, event: &CloudEvent) -> Result<(), LinkError> {
        packet::check(topic, event, *self.limit.borrow())
    }

    pub(super) fn is_up(&self) -> bool {
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
    filter: &str,
    current: &watch::Sender<Option<AsyncClient>>,
    limit: &watch::Sender<Option<u32>>,
    happenings: &mpsc::Sender<Happening>,
) -> Box<dyn std::error::Error + Send + Sync> {
    let (client, mut events) =
        AsyncClient::builder(options.clone()).capacity(usize::from(SEND_MAXIMUM)).build();
    if let Err(error) = client.try_subscribe(filter, QoS::AtLeastOnce) {
        return error.into();
    }
    loop {
        let packet = match events.poll().await {
            Ok(Event::Incoming(packet)) => packet,
            Ok(_) => continue,
            Err(error) => return error.into(),
        };
        let happening = match packet {
            Packet::ConnAck(welcome) => {
                limit.send_replace(welcome.properties.and_then(|properties| properties.max_packet_size));
                continue;
            }
            Packet::SubAck(answer) => {
                let refused =
                    answer.return_codes.iter().find(|code| !matches!(code, SubscribeReasonCode::Success(_)));
                if let Some(code) = refused {
                    return format!("the broker refused a subscription ({code:?})").into();
                }
                info!("connected to the broker");
                current.send_replace(Some(client.clone()));
                Happening::Connected
            }
            Packet::Publish(publish) => match packet::read(&publish) {
                Ok(event) => {
                    let receipt = Receipt::Mqtt(Box::new(publish), client.clone());
                    Happening::Arrived(Box::new(Arrival { event, receipt }))
                }
                Err(error) => {
                    warn!(topic = %String::from_utf8_lossy(&publish.topic), error = %Chain(&error), "refused a message");
                    let _ = client.try_ack(&publish);
                    Happening::Refused
                }
            },
            _ => continue,
        };
        if happenings.send(happening).await.is_err() {
            return "nobody listens any more".into();
        }
    }
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
    options.set_outgoing_inflight_upper_limit(SEND_MAXIMUM);
    options.set_ack_mode(AckMode::Manual);
    options.set_connect_timeout(Duration::from_secs(10));
    // An acknowledgement and the report that follows it are two small messages. Left to itself, the system keeps the second
    // back until the broker's system has acknowledged the first, and that one likes to wait for 40 ms.
    let mut network = NetworkOptions::new();
    network.set_tcp_nodelay(true);
    options.set_network_options(network);
    if let Some(files) = &config.tls {
        let tls = files.load(clock).map_err(LinkSetupError::Certificates)?;
        options.set_transport(Transport::tls_with_config(TlsConfiguration::Rustls(Arc::new(tls))));
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::os::fd::BorrowedFd;

    use pilothouse_runtime::{Reason, Shutdown};
    use tokio::net::TcpListener;

    use super::*;

    /// The connection of this process whose own end is there.
    #[expect(unsafe_code, reason = "what the library has opened is to be looked at, and it does not show it")]
    fn connection(own: SocketAddr) -> Option<std::net::TcpStream> {
        let numbers = std::fs::read_dir("/proc/self/fd").unwrap();
        let mut numbers = numbers.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        numbers.find_map(|number| {
            // SAFETY: it is copied at once, and one that was closed meanwhile is refused by the system.
            let copy = unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned().ok()?;
            let stream = std::net::TcpStream::from(copy);
            (stream.local_addr().ok()? == own).then_some(stream)
        })
    }

    #[test]
    fn client_keeps_places_for_few_messages() {
        let options = options(&BrokerConfig::default(), &Clock::system()).unwrap();
        let places = options.get_outgoing_inflight_upper_limit();
        assert!(places.is_some_and(|places| places <= 1_024), "each has some 240 bytes, in every process");
    }

    #[tokio::test]
    async fn small_messages_do_not_wait_for_each_other() {
        let broker = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = broker.local_addr().unwrap().to_string();
        let config = BrokerConfig { host, ..BrokerConfig::default() };
        let tasks = Tasks::new("test", Shutdown::new());
        let (happenings, _heard) = mpsc::channel(1);
        let filter = "sources/maestro/clusters/+/sourceevents".to_owned();
        let _session = spawn(&config, filter, &Clock::system(), &tasks, happenings).unwrap();
        let (_accepted, peer) = broker.accept().await.unwrap();
        let connection = connection(peer).expect("it was accepted, so it is there");
        assert!(connection.nodelay().unwrap(), "a second message would wait until the first is acknowledged");
        tasks.shutdown().request(Reason::Asked("the test is over".to_owned()));
        tasks.drain(Duration::from_secs(20)).await.unwrap();
    }
}
