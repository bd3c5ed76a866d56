use std::net::SocketAddr;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use pilothouse_broker::{Authorizer, Config, Deps, Limits, Service};
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, Tasks};
use prometheus_client::registry::Registry;
use rumqttc::mqttbytes::QoS;
use rumqttc::mqttbytes::v5::{
    Codec, Connect, ConnectAuth, ConnectProperties, Packet, Publish, Subscribe, SubscribeFilter,
};
use tokio::net::TcpStream;
use tokio_util::codec::Framed;

pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A running broker; stops when dropped.
pub(crate) struct Broker {
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: Shutdown,
    pub(crate) tasks: Tasks,
    pub(crate) registry: Registry,
}

impl Broker {
    pub(crate) async fn start() -> Self {
        Self::with(Limits::default(), Authorizer::open()).await
    }

    pub(crate) async fn with(limits: Limits, authorizer: Authorizer) -> Self {
        Self::configured(Config { limits, ..Config::default() }, authorizer).await
    }

    pub(crate) async fn configured(config: Config, authorizer: Authorizer) -> Self {
        let config = Config { listen: ([127, 0, 0, 1], 0).into(), ..config };
        let mut registry = Registry::default();
        let deps = Deps { clock: Clock::system(), authorizer, registry: &mut registry };
        let service = Service::build(config, deps).await.unwrap();
        let address = service.local_address();
        let shutdown = Shutdown::new();
        let tasks = Tasks::new("test", shutdown.clone());
        let run = service.run(shutdown.clone());
        tasks.spawn("broker", OnExit::LogError, async move { Ok(run.await?) });
        Self { address, shutdown, tasks, registry }
    }

    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    pub(crate) async fn stop(&self) {
        self.shutdown.request(Reason::Asked("the test is over".into()));
        self.tasks.drain(LIMIT).await.unwrap();
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.shutdown.request(Reason::Asked("the test is over".into()));
    }
}

/// A client that sends and sees single packets.
pub(crate) struct Raw(Framed<TcpStream, Codec>);

impl Raw {
    pub(crate) async fn dial(broker: &Broker) -> Self {
        let stream = TcpStream::connect(broker.address).await.unwrap();
        Self(Framed::new(stream, Codec { max_incoming_size: Some(8 << 20), max_outgoing_size: None }))
    }

    /// Connects and is welcome.
    pub(crate) async fn connect(broker: &Broker, id: &str) -> Self {
        Self::connect_with(broker, id, ConnectProperties::new()).await
    }

    pub(crate) async fn connect_with(broker: &Broker, id: &str, properties: ConnectProperties) -> Self {
        let mut raw = Self::dial(broker).await;
        let connect = Connect {
            keep_alive: 60,
            client_id: id.to_owned(),
            clean_start: true,
            properties: Some(properties),
        };
        raw.send(Packet::Connect(connect, None, ConnectAuth::None)).await;
        let answer = raw.next().await;
        assert!(matches!(answer, Some(Packet::ConnAck(_))), "{answer:?}");
        raw
    }

    pub(crate) async fn send(&mut self, packet: Packet) {
        self.0.send(packet).await.unwrap();
    }

    /// The next packet; `None` when the connection is over.
    pub(crate) async fn next(&mut self) -> Option<Packet> {
        tokio::time::timeout(LIMIT, self.0.next()).await.unwrap().and_then(Result::ok)
    }

    pub(crate) async fn subscribe(&mut self, filter: &str) -> Packet {
        let mut subscribe = Subscribe::new(SubscribeFilter::new(filter, QoS::AtLeastOnce), None);
        subscribe.pkid = 1;
        self.send(Packet::Subscribe(subscribe)).await;
        self.next().await.unwrap()
    }

    /// Publishes, acknowledged, and gives the acknowledgement back.
    pub(crate) async fn publish(&mut self, topic: &str, payload: &'static [u8]) -> Packet {
        let mut publish = Publish::new(topic, QoS::AtLeastOnce, payload, None);
        publish.pkid = 7;
        self.send(Packet::Publish(publish)).await;
        self.next().await.unwrap()
    }
}
