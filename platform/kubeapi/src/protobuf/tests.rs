use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Bodies as a client written in Go encodes them, and the JSON which it writes of the same objects.
macro_rules! samples {
    ($($name:literal),* $(,)?) => {
        &[$((
            $name,
            include_bytes!(concat!("samples/", $name, ".pb")),
            include_str!(concat!("samples/", $name, ".json")),
        )),*]
    };
}

const SAMPLES: &[(&str, &[u8], &str)] = samples![
    "access",
    "binding",
    "config_map",
    "definition",
    "delete_options",
    "deployment",
    "event",
    "eviction",
    "ingress",
    "job",
    "lease",
    "namespace",
    "revision",
    "role",
    "scale",
    "secret",
    "service",
    "token_request",
];

/// What Go writes for a time or a list that was never set says nothing.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

#[test]
fn an_object_is_read_as_the_json_which_its_sender_would_have_written() {
    for (name, body, expected) in SAMPLES {
        let mut expected: Value = serde_json::from_str(expected).unwrap();
        without_nulls(&mut expected);
        let read = read(body, ("", "")).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(read, expected, "{name}");
    }
}

fn sample(name: &str) -> &'static [u8] {
    SAMPLES.iter().find(|(one, ..)| *one == name).unwrap().1
}

/// An envelope around a message of a kind.
fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let type_meta = [chunk(1, api_version.as_bytes()), chunk(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), chunk(1, &type_meta), chunk(2, raw)].concat()
}

fn chunk(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut chunk = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length > 0x7f {
        chunk.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    chunk.push(length as u8);
    chunk.extend(bytes);
    chunk
}

#[test]
fn a_body_that_does_not_say_its_kind_is_of_the_expected_one() {
    let nameless = body("", "", &[]);
    assert_eq!(read(&nameless, ("v1", "Secret")).unwrap(), json!({ "apiVersion": "v1", "kind": "Secret" }));
    assert_eq!(
        read(&body("example.com/v1", "Ship", &[]), ("v1", "Secret")),
        Err(Error::UnknownKind { api_version: "example.com/v1".to_owned(), kind: "Ship".to_owned() })
    );
}

#[test]
fn what_is_not_known_is_skipped() {
    // Field 15 of every sort, a group within a group among them.
    let unknown = [
        0x78, 0x05, 0x7a, 0x01, 0xff, 0x7d, 1, 2, 3, 4, 0x79, 1, 2, 3, 4, 5, 6, 7, 8, 0x7b, 0x7b, 0x7c, 0x7c,
    ];
    let raw = [&unknown[..], &chunk(3, b"Opaque"), &unknown].concat();
    assert_eq!(read(&body("v1", "Secret", &raw), ("", "")).unwrap()["type"], "Opaque");
}

#[test]
fn what_cannot_be_read_is_refused_for_what_it_is() {
    let secret = |raw: &[u8]| read(&body("v1", "Secret", raw), ("", ""));
    assert_eq!(read(b"{}", ("v1", "Secret")), Err(Error::NoMagic));
    assert_eq!(secret(&[0x1a, 0x7f]), Err(Error::CutShort));
    assert_eq!(secret(&[0x18, 0x01]), Err(Error::WrongType { message: "Secret", number: 3, wire: 0 }));
    assert_eq!(secret(&chunk(3, &[0xff])), Err(Error::NotText { message: "Secret", number: 3 }));
    assert_eq!(secret(&[0xff; 11]), Err(Error::LongNumber));
    assert_eq!(secret(&[0x02, 0x00]), Err(Error::FieldZero));
    assert_eq!(secret(&[0x0f]), Err(Error::UnknownWire(7)));
    let raw = chunk(2, &chunk(1, b"{"));
    let revision = read(&body("apps/v1", "ControllerRevision", &raw), ("", ""));
    assert_eq!(revision, Err(Error::NotJson { message: "ControllerRevision", number: 2 }));
}

#[test]
fn depth_and_number_have_limits() {
    // A schema in `not` of a schema in `not` …
    let mut schema = Vec::new();
    for _ in 0..2 * DEEPEST {
        schema = [vec![0xe2, 0x01], chunk(1, &schema)[1..].to_vec()].concat();
    }
    let versions = chunk(7, &chunk(4, &chunk(1, &schema)));
    let definition = body("apiextensions.k8s.io/v1", "CustomResourceDefinition", &chunk(2, &versions));
    assert_eq!(read(&definition, ("", "")), Err(Error::TooDeep));
    // Containers of nothing, two bytes each.
    let spec = [0x12, 0x00].repeat(MOST_VALUES + 1);
    assert_eq!(read(&body("v1", "Pod", &chunk(2, &spec)), ("", "")), Err(Error::TooMany));
}

proptest! {
    #[test]
    fn no_bytes_bring_the_reader_down(raw in prop::collection::vec(any::<u8>(), 0..512), kind in 0..SAMPLES.len()) {
        let written = read(SAMPLES[kind].1, ("", "")).unwrap();
        let (version, kind) = (written["apiVersion"].as_str().unwrap(), written["kind"].as_str().unwrap());
        let _ = read(&raw, (version, kind));
        let _ = read(&body(version, kind, &raw), ("", ""));
    }

    #[test]
    fn no_damage_to_a_body_brings_the_reader_down(
        kind in 0..SAMPLES.len(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        end in any::<prop::sample::Index>(),
    ) {
        let mut bytes = SAMPLES[kind].1.to_vec();
        let place = at.index(bytes.len());
        bytes[place] = byte;
        let _ = read(&bytes, ("", ""));
        bytes.truncate(end.index(bytes.len()));
        let _ = read(&bytes, ("", ""));
    }
}

#[test]
fn a_time_that_was_never_set_is_absent() {
    let read = read(sample("namespace"), ("", "")).unwrap();
    assert_eq!(read["metadata"], json!({ "name": "web" }));
}
