//! Protobuf bodies: what is written of an object is read as that object.

use serde_json::{Map, Value};

use super::{class, run};
use crate::protobuf::read;
use crate::types::{self, Field, Holds, Message, Type};

const MAGIC: &[u8] = b"k8s\0";

const KINDS: &[(&str, &str, &str)] = &[
    ("", "v1", "Pod"),
    ("apps", "v1", "Deployment"),
    ("", "v1", "Service"),
    ("", "v1", "Node"),
    ("batch", "v1", "CronJob"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
    ("networking.k8s.io", "v1", "Ingress"),
    ("coordination.k8s.io", "v1", "Lease"),
];

fn number(mut value: u64, bytes: &mut Vec<u8>) {
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn chunk(field: u32, content: &[u8], bytes: &mut Vec<u8>) {
    number((u64::from(field) << 3) | 2, bytes);
    number(content.len() as u64, bytes);
    bytes.extend(content);
}

fn message(of: &'static Message, object: &Map<String, Value>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in &of.fields {
        if field.name.is_empty() {
            if let Some(inner) = field.of.message() {
                chunk(field.number, &message(inner, object), &mut bytes);
            }
            continue;
        }
        let Some(held) = object.get(field.name) else { continue };
        match (field.holds, held) {
            (Holds::One, value) => one(field, field.number, value, &mut bytes),
            (Holds::List, Value::Array(items)) => {
                items.iter().for_each(|item| one(field, field.number, item, &mut bytes));
            }
            (Holds::Map, Value::Object(entries)) => {
                for (key, value) in entries {
                    let mut entry = Vec::new();
                    chunk(1, key.as_bytes(), &mut entry);
                    one(field, 2, value, &mut entry);
                    chunk(field.number, &entry, &mut bytes);
                }
            }
            (holds, other) => panic!("{} is no {holds:?}: {other}", field.name),
        }
    }
    bytes
}

/// One value under a number.
fn one(field: &'static Field, under: u32, value: &Value, bytes: &mut Vec<u8>) {
    let text = || value.as_str().unwrap().as_bytes();
    let plain = |value: u64, bytes: &mut Vec<u8>| {
        number(u64::from(under) << 3, bytes);
        number(value, bytes);
    };
    match &field.of {
        Type::Text => chunk(under, text(), bytes),
        Type::Integer32 | Type::Integer64 => plain(value.as_i64().unwrap() as u64, bytes),
        Type::Flag => plain(u64::from(value.as_bool().unwrap()), bytes),
        Type::Quantity => {
            let mut inner = Vec::new();
            chunk(1, text(), &mut inner);
            chunk(under, &inner, bytes);
        }
        Type::Time => {
            let time: jiff::Timestamp = value.as_str().unwrap().parse().unwrap();
            let mut inner = vec![1 << 3];
            number(time.as_second() as u64, &mut inner);
            chunk(under, &inner, bytes);
        }
        Type::IntegerOrText => {
            let mut inner = Vec::new();
            match value.as_i64() {
                Some(integer) => {
                    inner.push(2 << 3);
                    number(integer as u64, &mut inner);
                }
                None => {
                    inner.extend([1 << 3, 1]);
                    chunk(3, text(), &mut inner);
                }
            }
            chunk(under, &inner, bytes);
        }
        Type::Message(_) => {
            chunk(under, &message(field.of.message().unwrap(), value.as_object().unwrap()), bytes);
        }
        other => panic!("no object has {other:?}"),
    }
}

#[test]
fn what_is_written_is_read_and_nothing_brings_the_reader_down() {
    run("protobuf", |mut source| {
        let (group, version, kind) = *source.one_of(KINDS);
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let of = types::of_kind(group, version, kind).unwrap();
        let (damaged, mut object) = (source.choice(3) == 0, source.object(of, 0));
        // Both are the envelope's.
        object.remove("apiVersion");
        object.remove("kind");
        let mut raw = message(of, &object);
        if damaged {
            for _ in 0..source.choice(8) {
                let place = usize::from(source.byte()) * 7 % raw.len().max(1);
                match raw.get_mut(place) {
                    Some(byte) => *byte ^= source.byte(),
                    None => raw.push(source.byte()),
                }
            }
            raw.extend(source.rest());
        }
        let mut envelope = Vec::new();
        chunk(1, api_version.as_bytes(), &mut envelope);
        chunk(2, kind.as_bytes(), &mut envelope);
        let mut body = MAGIC.to_vec();
        chunk(1, &envelope, &mut body);
        chunk(2, &raw, &mut body);
        let result = read(&body, ("", ""));
        if damaged {
            // Whatever was read has a JSON form, and does not explode.
            return match &result {
                Ok(value) => {
                    let size = value.to_string().len();
                    assert!(size <= 64 * (body.len() + 64), "{} bytes became {size}", body.len());
                    format!("{kind} {}", size.ilog2())
                }
                Err(error) => format!("{kind} {}", class(&format!("{error:?}"))),
            };
        }
        object.insert("apiVersion".to_owned(), Value::String(api_version));
        object.insert("kind".to_owned(), Value::String(kind.to_owned()));
        assert_eq!(result.unwrap(), Value::Object(object));
        format!("{kind} {}", body.len().ilog2())
    });
}
