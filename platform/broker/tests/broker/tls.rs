use std::sync::Arc;

use pilothouse_broker::{Access, Authorizer, Config, Deps, Error, Service};
use pilothouse_http::TlsFiles;
use pilothouse_pki::{Authority, AuthorityRequest, LeafRequest, Subject};
use pilothouse_runtime::Clock;
use prometheus_client::registry::Registry;
use rumqttc::mqttbytes::v5::{PubAckReason, SubscribeReasonCode};
use rumqttc::{AsyncClient, Event, MqttOptions, Packet, PublishOptions, QoS, TlsConfiguration, Transport};

use crate::support::{Broker, LIMIT};

#[tokio::test]
async fn certificate_decides_which_topics_a_client_may_use() {
    let clock = Clock::system();
    let subject = |name: &str| Subject::try_new(name).unwrap();
    let authority = Authority::self_signed(&AuthorityRequest::new(subject("broker test")), &clock).unwrap();
    let names = ["127.0.0.1".parse().unwrap()];
    let server = authority.issue(&LeafRequest::server(subject("broker"), names), &clock).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    server.write(&path("tls.crt"), &path("tls.key")).unwrap();
    std::fs::write(path("ca.crt"), authority.certificate().to_pem()).unwrap();
    let tls = TlsFiles {
        certificate: path("tls.crt"),
        key: path("tls.key"),
        client_authorities: Some(path("ca.crt")),
    };
    let authorizer = Authorizer::new(|client, access| {
        let Some(identity) = &client.identity else { return false };
        match access {
            Access::Connect => true,
            Access::Publish(topic) | Access::Subscribe(topic) => {
                topic.starts_with(&format!("consumers/{}/", identity.common_name()))
            }
        }
    });
    let broker = Broker::configured(Config { tls: Some(tls), ..Config::default() }, authorizer).await;

    let identity = authority.issue(&LeafRequest::client(subject("cluster1")), &clock).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority.certificate().der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(identity.chain_der(), identity.key().to_der())
        .unwrap();
    let mut options = MqttOptions::new("cluster1", ("127.0.0.1", broker.address.port()));
    options.set_transport(Transport::tls_with_config(TlsConfiguration::Rustls(Arc::new(config))));
    let (client, mut events) = AsyncClient::builder(options).capacity(10).build();
    client.subscribe("consumers/cluster1/a", QoS::AtLeastOnce).await.unwrap();
    client.subscribe("consumers/+/a", QoS::AtLeastOnce).await.unwrap();
    client.publish("consumers/cluster2/a", "x", PublishOptions::new(QoS::AtLeastOnce)).await.unwrap();
    let (mut subscribed, mut published) = (Vec::new(), Vec::new());
    while subscribed.len() < 2 || published.is_empty() {
        match tokio::time::timeout(LIMIT, events.poll()).await.unwrap().unwrap() {
            Event::Incoming(Packet::SubAck(answer)) => subscribed.extend(answer.return_codes),
            Event::Incoming(Packet::PubAck(answer)) => published.push(answer.reason),
            _ => {}
        }
    }
    assert_eq!(
        subscribed,
        [SubscribeReasonCode::Success(QoS::AtLeastOnce), SubscribeReasonCode::NotAuthorized]
    );
    assert_eq!(published, [PubAckReason::NotAuthorized]);
}

#[tokio::test]
async fn nothing_is_exposed_without_client_certificates() {
    let config = Config { listen: ([0, 0, 0, 0], 0).into(), ..Config::default() };
    let mut registry = Registry::default();
    let deps = Deps { clock: Clock::system(), authorizer: Authorizer::open(), registry: &mut registry };
    let error = Service::build(config, deps).await.unwrap_err();
    assert!(matches!(error, Error::Exposed(_)), "{error}");
}
