//! What nobody would send, sent: to the parsers, and to those who listen.

use std::fmt::Write as _;

use pilothouse_maestro_api::{Attribute, CloudEvent, work_uid};
use pilothouse_test_support::environment;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::packets::publish;
use crate::world::{CONSUMER, SOURCE, World, work};

fn cases() -> ProptestConfig {
    ProptestConfig {
        cases: u32::try_from(environment::rounds(256, 20_000)).unwrap(),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("specversion".to_owned()),
        Just("id".to_owned()),
        Just("source".to_owned()),
        Just("type".to_owned()),
        Just("time".to_owned()),
        Just("data".to_owned()),
        Just("datacontenttype".to_owned()),
        Just("metadata".to_owned()),
        Just("resourceversion".to_owned()),
        Just("resourceid".to_owned()),
        "[a-z]{1,8}",
        ".{0,8}",
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("1.0".to_owned()),
        Just("2026-01-02T03:04:05.1Z".to_owned()),
        Just("io.open-cluster-management.works.v1alpha1.manifestbundles.spec.create_request".to_owned()),
        Just(r#"{"labels":{"a":"b"},"name":"n"}"#.to_owned()),
        Just(r#"{"labels":5}"#.to_owned()),
        Just("[]".to_owned()),
        Just("-1".to_owned()),
        Just("99999999999999999999".to_owned()),
        ".{0,40}",
    ]
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// Everything that can be asked of an event is answered, and what was read can be written and read again.
fn is_sound(event: &CloudEvent) -> Result<(), TestCaseError> {
    let _ = (event.event_type(), event.resource_version(), event.payload::<Value>());
    if let Ok(Some(metadata)) = event.metadata() {
        prop_assert!(metadata.is_object());
        for field in ["labels", "annotations"] {
            let field = metadata.get(field).unwrap_or(&Value::Null);
            prop_assert!(field.is_null() || field.is_object());
        }
    }
    if let Ok(json) = event.to_json() {
        let again = CloudEvent::from_value(json);
        prop_assert!(again.is_ok(), "{again:?}");
    }
    let properties = event.to_properties();
    let pairs = properties.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let again = CloudEvent::from_properties(
        event.content_type.as_deref().filter(|kind| !kind.starts_with("application/cloudevents")),
        pairs,
        event.data.clone(),
    );
    let again = again.map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!((&again.id, &again.source, &again.kind), (&event.id, &event.source, &event.kind));
    Ok(())
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_properties_are_an_event_or_refused(
        pairs in prop::collection::vec((name(), text()), 0..12),
        content in prop::option::of(prop_oneof![Just("application/json".to_owned()), Just("application/cloudevents+json".to_owned()), text()]),
        data in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let pairs: Vec<_> = pairs.into_iter().map(|(name, value)| (format!("ce-{name}"), value)).collect();
        let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        if let Ok(event) = CloudEvent::from_properties(content.as_deref(), pairs, data.into()) {
            is_sound(&event)?;
        }
    }

    #[test]
    fn any_document_is_an_event_or_refused(document in document()) {
        if let Ok(event) = CloudEvent::from_json(document.to_string().as_bytes()) {
            is_sound(&event)?;
        }
    }

    #[test]
    fn any_bytes_are_an_event_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        let _ = CloudEvent::from_json(&bytes);
    }

    #[test]
    fn any_extensions_survive_being_stored(entries in prop::collection::vec(("[a-z]{3,12}", text()), 0..8)) {
        let mut event = CloudEvent::from_value(json!({"specversion": "1.0", "id": "1", "source": "s", "type": "t"})).unwrap();
        for (name, value) in entries.into_iter().filter(|(name, _)| !["data", "time", "type", "source", "specversion", "datacontenttype"].contains(&name.as_str())) {
            event.extensions.insert(name, Attribute::Text(value));
        }
        is_sound(&event)?;
    }
}

/// Dice that fall the same way every time.
struct Dice(u64);

impl Dice {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % below
    }
}

const WORDS: [&str; 44] = [
    "id",
    "name",
    "source",
    "consumer_name",
    "version",
    "created_at",
    "payload",
    "status",
    "nothing",
    "resources.id",
    "consumers.name",
    "other.id",
    "->",
    "->>",
    "@>",
    "=",
    "<>",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "like",
    "ilike",
    "in",
    "not",
    "between",
    "is",
    "null",
    "and",
    "or",
    "(",
    ")",
    ",",
    "'a'",
    "'metadata'",
    "'labels'",
    "'it''s'",
    "'\\'",
    "'",
    "1",
    "-1e309",
    "~=",
    "\u{1F600}",
];

/// What a path is answered with.
async fn get(server: &str, path: &str) -> (u16, String) {
    let address = server.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split_whitespace().nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("{path} was not answered: {answer}")), answer)
}

/// Words that belong together, and some that do not, are answered or refused: by a parser and everything behind it.
#[tokio::test]
async fn any_search_is_answered_or_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::start(folder.path()).await;
    world.server.source.work_create(&work("one", "1")).await.unwrap();
    let mut dice = Dice(7);
    let (mut answered, mut refused) = (0, 0);
    for _ in 0..environment::rounds(600, 20_000) {
        let mut search = String::new();
        // Half of them begin well.
        if dice.next(2) == 0 {
            search.push_str(
                [
                    "source='cs' and ",
                    "payload->'metadata'->'labels'->>'k'",
                    "name like '%' or ",
                    "version > ",
                ][dice.next(4)],
            );
        }
        for _ in 0..dice.next(9) {
            let _ = write!(search, "{}{}", WORDS[dice.next(WORDS.len())], ["", " ", "  "][dice.next(3)]);
        }
        if dice.next(20) == 0 {
            search.push_str(&"(".repeat(dice.next(5_000)));
        }
        for (kind, order) in [("resource-bundles", "id"), ("consumers", "name%20desc")] {
            let encoded: String = search.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let path = format!("/api/maestro/v1/{kind}?search={encoded}&orderBy={order}");
            let (status, body) = get(&world.server.rest_url, &path).await;
            match status {
                200 => answered += 1,
                400 => {
                    assert!(body.contains(r#""code":"maestro-"#), "`{search}`: {body}");
                    refused += 1;
                }
                // Longer than a line may be.
                414 | 431 => refused += 1,
                _ => panic!("`{search}` was answered {status}: {body}"),
            }
        }
    }
    assert!(answered > 0 && refused > 0, "{answered} answered, {refused} refused");
    world.until_map("one", Some("1")).await;
}

/// Events that are none, or none that can be carried out, are left aside by whoever hears them, and life goes on.
#[tokio::test]
async fn nobody_who_listens_minds_what_is_no_event() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::start(folder.path()).await;
    let source = world.server.source.clone();
    source.work_create(&work("one", "1")).await.unwrap();
    world.until_map("one", Some("1")).await;
    let good =
        CloudEvent::from_value(json!({"specversion": "1.0", "id": "1", "source": "somebody", "type": "t"}));
    let good = good
        .unwrap()
        .with("clustername", CONSUMER)
        .with("originalsource", "maestro")
        .with("resourceversion", 9);
    let of = |half: &str, action: &str| {
        let mut event = good.clone();
        event.kind = format!("{}.{half}.{action}", pilothouse_maestro_api::DATA_TYPE);
        event
    };
    let id = work_uid(SOURCE, CONSUMER, "one").to_string();
    let map = r#"{"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"}}]}"#;
    let mut odd = vec![good.clone()];
    for (half, action) in [
        ("spec", "create_request"),
        ("spec", "resync_request"),
        ("status", "update_request"),
        ("status", "resync_request"),
        ("spec", "dance"),
    ] {
        let event = of(half, action);
        odd.push(event.clone());
        for data in [
            "",
            "{",
            "[]",
            "5",
            r#"{"manifests":5}"#,
            r#"{"statusHashes":5}"#,
            r#"{"resourceVersions":[{}]}"#,
            r#"{"conditions":"x"}"#,
        ] {
            odd.push(event.clone().with("resourceid", id.as_str()).with_data(data));
        }
        for metadata in ["5", "[]", "{", r#"{"labels":7}"#, r#"{"name":"../../x"}"#] {
            odd.push(event.clone().with("resourceid", "other").with("metadata", metadata).with_data(map));
        }
        for bad_id in ["", "../one", "A", "\u{1F600}"] {
            odd.push(event.clone().with("resourceid", bad_id).with_data(map));
        }
        odd.push(event.with("resourceid", id.as_str()).with("resourceversion", "x").with_data(map));
    }
    for half in ["sourceevents", "agentevents"] {
        let topic = format!("sources/maestro/consumers/{CONSUMER}/{half}");
        for event in &odd {
            publish(world.broker.port, &topic, event).await;
        }
    }
    source.work_update(&work("one", "2"), 1).await.unwrap();
    world.until_map("one", Some("2")).await;
    source.work_create(&work("two", "1")).await.unwrap();
    world.until_map("two", Some("1")).await;
    source.work_delete(&work("one", "")).await.unwrap();
    world.until_map("one", None).await;
}
