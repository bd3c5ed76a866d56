//! Two clusters of different owners at one broker: neither hears, says or spoils anything of the other's.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_broker::{Authorizer, Rule};
use pilothouse_http::{Health, ListenerConfig, TlsFiles};
use pilothouse_maestro::{BrokerConfig, ClientTls, agent, server};
use pilothouse_maestro_api::{Action, CloudEvent, EventType, Subresource, work_uid};
use pilothouse_pki::{Authority, AuthorityRequest, LeafRequest, Subject};
use pilothouse_runtime::{Clock, Shutdown};
use pilothouse_store::{Keyring, Location, Options, Store};
use pilothouse_test_support::eventually;
use prometheus_client::registry::Registry;
use rumqttc::mqttbytes::v5::{PubAckReason, SubscribeReasonCode};
use rumqttc::{
    AsyncClient, Event, EventLoop, MqttOptions, Packet, PublishOptions, PublishProperties, QoS,
    TlsConfiguration, Transport,
};
use serde_json::json;

use crate::cluster::{Cluster, PATIENCE};
use crate::world::{BrokerPart, Part, SOURCE, Server, World, forgetful_store, work};

/// Who vouches for everybody, and where the files are.
struct Keys {
    folder: PathBuf,
    authority: Authority,
}

impl Keys {
    fn new(folder: &Path) -> Self {
        let subject = Subject::try_new("maestro test").unwrap();
        let authority = Authority::self_signed(&AuthorityRequest::new(subject), &Clock::system()).unwrap();
        std::fs::write(folder.join("ca.crt"), authority.certificate().to_pem()).unwrap();
        let keys = Self { folder: folder.to_owned(), authority };
        let names = ["127.0.0.1".parse().unwrap()];
        keys.write("broker", &LeafRequest::server(Subject::try_new("broker").unwrap(), names));
        for name in ["maestro", "one", "two"] {
            keys.write(name, &LeafRequest::client(Subject::try_new(name).unwrap()));
        }
        keys
    }

    fn write(&self, name: &str, request: &LeafRequest) {
        let leaf = self.authority.issue(request, &Clock::system()).unwrap();
        leaf.write(&self.path(name, "crt"), &self.path(name, "key")).unwrap();
    }

    fn path(&self, name: &str, kind: &str) -> PathBuf {
        self.folder.join(format!("{name}.{kind}"))
    }

    fn of_client(&self, name: &str) -> ClientTls {
        ClientTls {
            authorities: self.path("ca", "crt"),
            certificate: self.path(name, "crt"),
            key: self.path(name, "key"),
        }
    }

    async fn ours(&self) -> BrokerPart {
        let tls = TlsFiles {
            certificate: self.path("broker", "crt"),
            key: self.path("broker", "key"),
            client_authorities: Some(self.path("ca", "crt")),
        };
        let config = pilothouse_broker::Config { tls: Some(tls), ..Default::default() };
        BrokerPart::ours_with(0, config, Authorizer::by_rules(rules())).await
    }

    /// As `docs/how-to/run-maestro-agents.md` says.
    async fn mosquitto(&self) -> BrokerPart {
        std::fs::write(self.folder.join("acl"), include_str!("tenants/mosquitto.acl")).unwrap();
        let path = |name: &str, kind: &str| self.path(name, kind).display().to_string();
        let lines = format!(
            "cafile {}\ncertfile {}\nkeyfile {}\nrequire_certificate true\nuse_identity_as_username true\nacl_file {}\n",
            path("ca", "crt"),
            path("broker", "crt"),
            path("broker", "key"),
            self.folder.join("acl").display(),
        );
        BrokerPart::mosquitto_with(&lines).await
    }
}

/// What servers and agents need, and no more.
fn rules() -> Vec<Rule> {
    let topic = |consumer: &str, half: &str| vec![format!("sources/maestro/consumers/{consumer}/{half}")];
    vec![
        Rule {
            identity: "maestro".to_owned(),
            publish: topic("+", "sourceevents"),
            subscribe: topic("+", "agentevents"),
            ..Rule::default()
        },
        Rule {
            identity: "*".to_owned(),
            publish: topic("{identity}", "agentevents"),
            subscribe: topic("{identity}", "sourceevents"),
            ..Rule::default()
        },
    ]
}

fn broker_config(keys: &Keys, port: u16, name: &str, client_id: &str) -> BrokerConfig {
    BrokerConfig {
        host: format!("127.0.0.1:{port}"),
        client_id: client_id.to_owned(),
        tls: Some(keys.of_client(name)),
        ..BrokerConfig::default()
    }
}

async fn start_server(keys: &Keys, port: u16) -> (Server, Part, Registry) {
    let folder = keys.folder.to_str().unwrap();
    let mut options =
        Options::new(Location::sqlite(format!("{folder}/maestro.db")), server::catalog(), Shutdown::new());
    options.keyring = Some(Keyring::open_or_create(format!("{folder}/keyring")).unwrap());
    let config = server::Config {
        rest: ListenerConfig::loopback(0),
        grpc: ListenerConfig::loopback(0),
        broker: broker_config(keys, port, "maestro", "maestro"),
        consumers: ["one", "two"].map(str::to_owned).to_vec(),
        ..server::Config::default()
    };
    let mut registry = Registry::default();
    let deps = server::Deps {
        store: Store::open(options).await.unwrap(),
        clock: Clock::system(),
        health: Health::new(Shutdown::new()),
        registry: &mut registry,
    };
    let service = server::Service::build(config, deps).await.unwrap();
    let server = Server::at(service.rest_address(), service.grpc_address());
    (server, Part::spawn("server", |shutdown| service.run(shutdown)), registry)
}

async fn start_agent(keys: &Keys, cluster: &Cluster, port: u16, name: &str) -> Part {
    let config = agent::Config {
        broker: broker_config(keys, port, name, &format!("{name}-work-agent-client")),
        consumer: name.to_owned(),
        hub: format!("maestro-{name}"),
        ..agent::Config::default()
    };
    let mut registry = Registry::default();
    let deps = agent::Deps {
        client: cluster.client.clone(),
        store: forgetful_store().await,
        clock: Clock::system(),
        health: Health::new(Shutdown::new()),
        registry: &mut registry,
    };
    let service = agent::Service::build(config, deps).await.unwrap();
    Part::spawn("agent", |shutdown| service.run(shutdown))
}

/// Somebody with the certificate of a cluster and bad intentions.
struct Intruder {
    client: AsyncClient,
    events: EventLoop,
    heard: Vec<String>,
}

impl Intruder {
    fn new(keys: &Keys, port: u16, name: &str, client_id: &str) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(keys.authority.certificate().der().clone()).unwrap();
        let leaf = LeafRequest::client(Subject::try_new(name).unwrap());
        let identity = keys.authority.issue(&leaf, &Clock::system()).unwrap();
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(identity.chain_der(), identity.key().to_der())
            .unwrap();
        let mut options = MqttOptions::new(client_id, ("127.0.0.1".to_owned(), port));
        options.set_max_packet_size(Some(1 << 20));
        options.set_transport(Transport::tls_with_config(TlsConfiguration::Rustls(Arc::new(config))));
        let (client, events) = AsyncClient::builder(options).capacity(32).build();
        Self { client, events, heard: Vec::new() }
    }

    /// What happens until something is found. What is heard meanwhile is noted.
    async fn until<T>(&mut self, mut wanted: impl FnMut(&Packet) -> Option<T>) -> T {
        let search = async {
            loop {
                let Event::Incoming(packet) = self.events.poll().await.unwrap() else { continue };
                if let Packet::Publish(publish) = &packet {
                    self.heard.push(String::from_utf8_lossy(&publish.topic).into_owned());
                }
                if let Some(found) = wanted(&packet) {
                    return found;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), search).await.unwrap()
    }

    async fn subscribe(&mut self, filter: &str) -> bool {
        self.client.subscribe(filter, QoS::AtLeastOnce).await.unwrap();
        let code = self
            .until(
                |packet| {
                    if let Packet::SubAck(answer) = packet { Some(answer.return_codes[0]) } else { None }
                },
            )
            .await;
        matches!(code, SubscribeReasonCode::Success(_))
    }

    async fn publish(&mut self, topic: &str, event: &CloudEvent) -> PubAckReason {
        let properties = PublishProperties {
            content_type: event.content_type.clone(),
            user_properties: event.to_properties(),
            ..Default::default()
        };
        let options = PublishOptions::new(QoS::AtLeastOnce).properties(properties);
        self.client.publish(topic, event.data.clone(), options).await.unwrap();
        self.until(|packet| if let Packet::PubAck(answer) = packet { Some(answer.reason) } else { None })
            .await
    }
}

/// A status that says of a bundle that it is gone, as an agent would send it.
fn farewell(consumer: &str, id: &str) -> CloudEvent {
    let kind = EventType::new(Subresource::Status, Action::Update);
    let conditions = json!([{"type": "Deleted", "status": "True", "reason": "ManifestsDeleted", "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z"}]);
    CloudEvent::new("somebody", &kind, jiff::Timestamp::UNIX_EPOCH)
        .with("clustername", consumer)
        .with("originalsource", "maestro")
        .with("resourceid", id)
        .with("resourceversion", 1)
        .with("sequenceid", "2006924428440506368")
        .with_data(json!({"conditions": conditions, "resourceStatus": []}).to_string())
}

async fn two_tenants(keys: Keys, broker: BrokerPart) {
    let is_ours = broker.is_ours();
    let port = broker.port;
    let cluster = Cluster::start().await;
    let (server, _serving, registry) = start_server(&keys, port).await;
    let _one = start_agent(&keys, &cluster, port, "one").await;
    let two = start_agent(&keys, &cluster, port, "two").await;
    let world = World { cluster, broker, agent: None, server };
    let of = |consumer: &str, name: &str, content: &str| {
        let mut wanted = work(name, content);
        wanted.consumer = consumer.to_owned();
        wanted
    };
    let source = world.server.source.clone();
    source.work_create(&of("one", "mine", "1")).await.unwrap();
    source.work_create(&of("two", "yours", "1")).await.unwrap();
    world.until_map("mine", Some("1")).await;
    world.until_map("yours", Some("1")).await;
    two.stop().await;

    // The second tenant's agent is somebody else's now.
    let mut intruder = Intruder::new(&keys, port, "two", "two-intruder");
    let topic = |consumer: &str, half: &str| format!("sources/maestro/consumers/{consumer}/{half}");
    assert!(intruder.subscribe(&topic("two", "sourceevents")).await);
    for filter in
        [topic("one", "sourceevents"), topic("one", "agentevents"), topic("+", "sourceevents"), "#".into()]
    {
        let granted = intruder.subscribe(&filter).await;
        // Mosquitto grants it, and delivers nothing.
        assert!(!granted || !is_ours, "{filter}");
    }
    let id = work_uid(SOURCE, "one", "mine").to_string();
    for foreign in [topic("one", "agentevents"), topic("one", "sourceevents"), topic("two", "sourceevents")] {
        let reason = intruder.publish(&foreign, &farewell("one", &id)).await;
        assert_eq!(reason, PubAckReason::NotAuthorized, "{foreign}");
    }
    // On its own topic it may say what it likes; nobody believes it.
    let own = topic("two", "agentevents");
    for forged in [farewell("one", &id), farewell("two", &id), farewell("", &id)] {
        assert_eq!(intruder.publish(&own, &forged).await, PubAckReason::Success);
    }
    let question = EventType::new(Subresource::Spec, Action::ResyncRequest);
    let question = CloudEvent::new("somebody", &question, jiff::Timestamp::UNIX_EPOCH)
        .with("clustername", "one")
        .with_data(r#"{"resourceVersions":[]}"#);
    intruder.publish(&own, &question).await;
    eventually("what was forged is counted", PATIENCE, || async {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        if text.contains(r#"reports_total{outcome="Unreadable"} 4"#) { Ok(()) } else { Err(text) }
    })
    .await;

    source.work_update(&of("one", "mine", "2"), 1).await.unwrap();
    world.until_map("mine", Some("2")).await;
    source.work_update(&of("two", "yours", "2"), 1).await.unwrap();
    let heard = topic("two", "sourceevents");
    intruder
        .until(|packet| match packet {
            Packet::Publish(publish) if publish.topic == heard.as_bytes() => Some(()),
            _ => None,
        })
        .await;
    assert!(intruder.heard.iter().all(|topic| *topic == heard), "{:?}", intruder.heard);
    assert!(world.server.rest.resource_bundle_get(&id).await.unwrap().is_some());

    if is_ours {
        let mut thief = Intruder::new(&keys, port, "two", "one-work-agent-client");
        let refused = thief.events.poll().await;
        assert!(refused.is_err(), "{refused:?}");
    }
}

#[tokio::test]
async fn tenants_of_our_broker_have_nothing_to_do_with_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let keys = Keys::new(folder.path());
    let broker = keys.ours().await;
    two_tenants(keys, broker).await;
}

#[tokio::test]
async fn tenants_of_mosquitto_have_nothing_to_do_with_each_other() {
    if !BrokerPart::has_mosquitto() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let keys = Keys::new(folder.path());
    let broker = keys.mosquitto().await;
    two_tenants(keys, broker).await;
}
