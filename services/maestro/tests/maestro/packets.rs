//! What really travels: every kind of event as a packet, held against files.
//!
//! The files are written by the original where it plays the part (`original/packets.rs` holds them against it, too), so
//! that ours and the original's packets are one and the same.

use std::time::Duration;

use pilothouse_maestro_api::{CloudEvent, work_uid};
use rumqttc::{AsyncClient, Event, MqttOptions, Packet, QoS};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::cluster::PATIENCE;
use crate::world::{CONSUMER, SOURCE, World, work};

/// Ours, beside those of all implementations.
const OWN: [&str; 2] = ["ce-correlationid", "ce-solicited"];

/// A message as the broker delivers it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    topic: String,
    content_type: Option<String>,
    properties: Vec<(String, String)>,
    payload: bytes::Bytes,
}

/// Hears everything that is said.
pub(crate) struct Recorder {
    heard: mpsc::UnboundedReceiver<Seen>,
    seen: Vec<Seen>,
    _tasks: pilothouse_runtime::Tasks,
}

/// Which packets are compared: a name of the file, the event's type, and what else has to hold.
pub(crate) type Wanted = (&'static str, &'static str, fn(&Seen) -> bool);

/// What the server sends.
pub(crate) const OF_SERVERS: [Wanted; 5] = [
    ("spec_create_request", "spec.create_request", |_| true),
    ("spec_update_request", "spec.update_request", |_| true),
    ("spec_delete_request", "spec.delete_request", |_| true),
    // Another question may be answered when the work is on its way out.
    ("spec_resync_response", "spec.resync_response", |seen| !seen.has("ce-deletiontimestamp")),
    // The one that knows of a work.
    ("status_resync_request", "status.resync_request", |seen| seen.text().contains("resourceID")),
];

/// What the agent sends.
pub(crate) const OF_AGENTS: [Wanted; 4] = [
    // The first one of an agent, which knows of nothing.
    ("spec_resync_request", "spec.resync_request", |seen| !seen.text().contains("resourceID")),
    ("status_update_request", "status.update_request", |seen| {
        seen.version() == "2" && seen.text().contains(r#"{\"k\":\"2\"}"#) && !seen.text().contains("Deleting")
    }),
    ("status_update_request_deleted", "status.update_request", |seen| {
        seen.text().contains("ManifestsDeleted")
    }),
    ("status_resync_response", "status.resync_response", |seen| seen.text().contains(r#"{\"k\":\"2\"}"#)),
];

impl Seen {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.payload).into_owned()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.properties.iter().any(|(found, _)| found == name)
    }

    /// Whether it is about this bundle.
    pub(crate) fn is_about(&self, id: &str) -> bool {
        self.property("ce-resourceid") == id
    }

    pub(crate) fn kind(&self) -> String {
        self.property("ce-type").to_owned()
    }

    fn property(&self, name: &str) -> &str {
        self.properties.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }

    fn version(&self) -> &str {
        self.property("ce-resourceversion")
    }

    /// The packet in words, with what differs from run to run taken out.
    fn written(&self) -> String {
        let mut lines = vec![
            format!("topic: {}", self.topic),
            format!("content type: {}", self.content_type.as_deref().unwrap_or("-")),
        ];
        let mut properties: Vec<_> =
            self.properties.iter().filter(|(name, _)| !OWN.contains(&name.as_str())).collect();
        properties.sort();
        for (name, value) in properties {
            let value = match name.as_str() {
                "ce-id" => "<id>".to_owned(),
                "ce-time" | "ce-deletiontimestamp" => moment(value),
                "ce-sequenceid" => {
                    value.bytes().map(|byte| if byte.is_ascii_digit() { '9' } else { '?' }).collect()
                }
                "ce-statushash" => format!("<{} of sha256>", value.len()),
                "ce-metadata" | "ce-logtracing" => masked(serde_json::from_str(value).unwrap()).to_string(),
                _ => known(value),
            };
            lines.push(format!("{name}: {value}"));
        }
        let payload = match serde_json::from_slice::<Value>(&self.payload) {
            Ok(value) => serde_json::to_string_pretty(&masked(value)).unwrap(),
            Err(_) => format!("{} bytes", self.payload.len()),
        };
        lines.push(payload);
        lines.join("\n")
    }
}

/// A moment by its form.
fn moment(text: &str) -> String {
    match text.parse::<jiff::Timestamp>() {
        Ok(_) if text.contains('.') => "<moment with fractions>".to_owned(),
        Ok(_) => "<moment>".to_owned(),
        Err(error) => format!("{text}: {error}"),
    }
}

fn known(text: &str) -> String {
    text.replace(&work_uid(SOURCE, CONSUMER, "one").to_string(), "<work>")
}

/// A document without what differs from run to run, sorted.
fn masked(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map
                .into_iter()
                // The original's count of changes in its memory.
                .filter(|(name, value)| name != "resourceVersion" || !value.is_string())
                .map(|(name, value)| {
                    let value = match name.as_str() {
                        "creationTimestamp" | "lastTransitionTime" | "deletionTimestamp" => {
                            Value::from(value.as_str().map_or_else(|| value.to_string(), moment))
                        }
                        "statusHash" => Value::from("<hash>"),
                        _ => masked(value),
                    };
                    (name, value)
                })
                .collect();
            entries.sort_by(|one, other| one.0.cmp(&other.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(masked).collect()),
        Value::String(text) => Value::String(known(&text)),
        other => other,
    }
}

impl Recorder {
    /// The bundle that the next event of this type is about.
    pub(crate) async fn next_id(&mut self, kind: &str) -> String {
        loop {
            let heard = tokio::time::timeout(PATIENCE, self.heard.recv());
            let seen = heard.await.unwrap_or_else(|_| panic!("no {kind}")).unwrap();
            if seen.property("ce-type").ends_with(kind) {
                return seen.property("ce-resourceid").to_owned();
            }
        }
    }

    /// The bundles of all further events of this type that have been heard by now.
    pub(crate) fn rest(&mut self, kind: &str) -> Vec<String> {
        let mut ids = Vec::new();
        while let Ok(seen) = self.heard.try_recv() {
            if seen.property("ce-type").ends_with(kind) {
                ids.push(seen.property("ce-resourceid").to_owned());
            }
        }
        ids
    }

    pub(crate) async fn start(port: u16) -> Self {
        let mut options = MqttOptions::new("recorder", ("127.0.0.1".to_owned(), port));
        // Longer than anything that keeps the test's thread busy.
        options.set_keep_alive(300);
        options.set_max_packet_size(Some(16 << 20));
        let (client, mut events) = AsyncClient::builder(options).capacity(16).build();
        client.subscribe("sources/#", QoS::AtLeastOnce).await.unwrap();
        let (heard_tx, heard) = mpsc::unbounded_channel();
        let (ready_tx, ready) = tokio::sync::oneshot::channel();
        let mut ready_tx = Some(ready_tx);
        let tasks = pilothouse_runtime::Tasks::new("recorder", pilothouse_runtime::Shutdown::new());
        tasks.spawn("recorder", pilothouse_runtime::OnExit::Expendable, async move {
            let _client = client;
            loop {
                match events.poll().await? {
                    Event::Incoming(Packet::SubAck(_)) => {
                        let _ = ready_tx.take().map(|ready| ready.send(()));
                    }
                    Event::Incoming(Packet::Publish(publish)) => {
                        let properties = publish.properties.unwrap_or_default();
                        let seen = Seen {
                            topic: String::from_utf8_lossy(&publish.topic).into_owned(),
                            content_type: properties.content_type,
                            properties: properties.user_properties,
                            payload: publish.payload,
                        };
                        if heard_tx.send(seen).is_err() {
                            return Ok(());
                        }
                    }
                    _ => {}
                }
            }
        });
        ready.await.unwrap();
        Self { heard, seen: Vec::new(), _tasks: tasks }
    }

    /// The packet that is wanted, as soon as it was heard.
    pub(crate) async fn find(&mut self, (name, kind, holds): &Wanted) -> Seen {
        let is_it = |seen: &Seen| seen.property("ce-type").ends_with(kind) && holds(seen);
        if let Some(seen) = self.seen.iter().rev().find(|seen| is_it(seen)) {
            return seen.clone();
        }
        let waiting = async {
            while let Some(seen) = self.heard.recv().await {
                self.seen.push(seen.clone());
                if is_it(&seen) {
                    return Some(seen);
                }
            }
            None
        };
        let found = tokio::time::timeout(PATIENCE, waiting).await.ok().flatten();
        found.unwrap_or_else(|| panic!("no {name} among {:#?}", self.kinds()))
    }

    /// Everything that was heard by now.
    pub(crate) fn so_far(&mut self) -> Vec<Seen> {
        while let Ok(seen) = self.heard.try_recv() {
            self.seen.push(seen);
        }
        self.seen.clone()
    }

    fn kinds(&self) -> Vec<&str> {
        self.seen.iter().map(|seen| seen.property("ce-type")).collect()
    }

    /// Holds what was heard against the files.
    pub(crate) async fn compare(&mut self, wanted: &[Wanted]) {
        for one in wanted {
            let seen = self.find(one).await;
            let pairs = seen.properties.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            CloudEvent::from_properties(seen.content_type.as_deref(), pairs, seen.payload.clone()).unwrap();
            insta::with_settings!({snapshot_path => "packets", prepend_module_to_snapshot => false, omit_expression => true}, {
                insta::assert_snapshot!(one.0, seen.written());
            });
        }
    }
}

/// Makes every kind of event happen. `restart_agent` and `restart_server` do what they say.
pub(crate) async fn make_all_happen(
    world: &mut World,
    recorder: &mut Recorder,
    restart_agent: impl AsyncFnOnce(&mut World),
    restart_server: impl AsyncFnOnce(&mut World),
) {
    recorder.find(&OF_AGENTS[0]).await;
    let source = world.server.source.clone();
    let mut first = work("one", "1");
    first.correlation_id = None;
    source.work_create(&first).await.unwrap();
    recorder.find(&OF_SERVERS[0]).await;
    world.until_map("one", Some("1")).await;
    let mut second = work("one", "2");
    second.correlation_id = None;
    source.work_update(&second, 1).await.unwrap();
    recorder.find(&OF_AGENTS[1]).await;

    world.agent.take().unwrap().stop().await;
    restart_agent(world).await;
    recorder.find(&OF_SERVERS[3]).await;

    // The agent says again what the server says it knows otherwise.
    world.server.kill().await;
    restart_server(world).await;
    recorder.find(&OF_SERVERS[4]).await;
    let asked = CloudEvent::new(
        "maestro",
        &pilothouse_maestro_api::EventType::new(
            pilothouse_maestro_api::Subresource::Status,
            pilothouse_maestro_api::Action::ResyncRequest,
        ),
        jiff::Timestamp::UNIX_EPOCH,
    )
    .with("clustername", CONSUMER)
    .with("originalsource", "")
    .with("solicited", "true")
    .with_data(r#"{"statusHashes":[]}"#);
    // Not before the agent has looked at its work again is there something to say.
    let topic = format!("sources/maestro/consumers/{CONSUMER}/sourceevents");
    let answered = async {
        loop {
            publish(world.broker.port, &topic, &asked).await;
            let answer = recorder.find(&OF_AGENTS[3]);
            if tokio::time::timeout(Duration::from_secs(2), answer).await.is_ok() {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, answered).await.unwrap();

    let source = world.server.source.clone();
    source.work_delete(&second).await.unwrap();
    recorder.find(&OF_AGENTS[2]).await;
}

/// Sends one event as somebody else.
pub(crate) async fn publish(port: u16, topic: &str, event: &CloudEvent) {
    let mut options = MqttOptions::new("somebody-else", ("127.0.0.1".to_owned(), port));
    options.set_keep_alive(5);
    let (client, mut events) = AsyncClient::builder(options).capacity(16).build();
    let properties = rumqttc::PublishProperties {
        content_type: event.content_type.clone(),
        user_properties: event.to_properties(),
        ..Default::default()
    };
    let options = rumqttc::PublishOptions::new(QoS::AtLeastOnce).properties(properties);
    client.publish(topic, event.data.clone(), options).await.unwrap();
    let acknowledged =
        async { while !matches!(events.poll().await.unwrap(), Event::Incoming(Packet::PubAck(_))) {} };
    tokio::time::timeout(Duration::from_secs(60), acknowledged).await.unwrap();
}

#[tokio::test]
async fn every_kind_of_event_is_written_as_the_files_say() {
    let folder = tempfile::tempdir().unwrap();
    let broker = crate::world::BrokerPart::ours(0).await;
    let mut recorder = Recorder::start(broker.port).await;
    let mut world = World::with(broker, folder.path()).await;
    let restart_server = async |world: &mut World| {
        world.server = crate::world::Server::start(folder.path(), world.broker.port).await;
    };
    let restart_agent = async |world: &mut World| world.restart_agent().await;
    make_all_happen(&mut world, &mut recorder, restart_agent, restart_server).await;
    recorder.compare(&OF_SERVERS).await;
    recorder.compare(&OF_AGENTS).await;
}
