//! Objects in the binary form in which clients written in Go send them.
//!
//! They do not fall back when it is refused: since 1.32 `kubectl create configmap` knows no other, nor do controllers for
//! any built-in kind. So it is read, and turned into the JSON that the same client would have sent otherwise; the table of
//! types knows every number. Answers are JSON, which all those clients accept.
//!
//! A body is `k8s\0`, then an envelope that names the kind and holds the object. What is not known is skipped, as
//! upstream skips it; what is cut short, of the wrong type or nested too deeply is refused.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Number, Value, json};

use crate::status::Failure;
use crate::types::{self, Field, Holds, Message, Type};
use wire::{Reader, Wire};

#[cfg(test)]
mod tests;
mod wire;

pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// What every object in this form begins with.
const MAGIC: &[u8] = b"k8s\0";
/// As deep as JSON may be.
const DEEPEST: usize = 100;
/// An empty message takes two bytes and becomes a value of dozens; this many are more than any object has.
const MOST_VALUES: usize = 500_000;

/// Why a body cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum Error {
    #[error("it does not begin with `k8s`")]
    NoMagic,
    #[error("it ends in the middle of a value")]
    CutShort,
    #[error("a number is longer than ten bytes")]
    LongNumber,
    #[error("field {number} of {message} cannot be of wire type {wire}")]
    WrongType { message: &'static str, number: u32, wire: u8 },
    #[error("wire type {0} does not exist")]
    UnknownWire(u8),
    #[error("a field has the number 0")]
    FieldZero,
    #[error("field {number} of {message} is not valid UTF-8")]
    NotText { message: &'static str, number: u32 },
    #[error("field {number} of {message} holds JSON that cannot be read")]
    NotJson { message: &'static str, number: u32 },
    #[error("it is nested more than {DEEPEST} levels deep")]
    TooDeep,
    #[error("it has more than {MOST_VALUES} values")]
    TooMany,
    #[error("the content encoding `{0}` is not known")]
    Encoded(String),
    #[error("no kind `{kind}` is registered for version `{api_version}`")]
    UnknownKind { api_version: String, kind: String },
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::bad_request(format!("couldn't read the body as protobuf: {error}"))
    }
}

/// An object as the value it would be in JSON. A body that does not say its kind is of the `expected` one (version and
/// kind).
pub(crate) fn read(body: &[u8], expected: (&str, &str)) -> Result<Value, Error> {
    Decoder { values: 0 }.envelope(body, expected, 0)
}

struct Decoder {
    values: usize,
}

impl Decoder {
    fn envelope(&mut self, body: &[u8], expected: (&str, &str), depth: usize) -> Result<Value, Error> {
        let envelope = body.strip_prefix(MAGIC).ok_or(Error::NoMagic)?;
        let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
        let mut reader = Reader::new(envelope);
        while let Some((number, value)) = reader.field()? {
            match (number, value) {
                (1, Wire::Bytes(bytes)) => {
                    let mut reader = Reader::new(bytes);
                    while let Some((number, value)) = reader.field()? {
                        match (number, value) {
                            (1, Wire::Bytes(bytes)) => api_version = text("TypeMeta", 1, bytes)?,
                            (2, Wire::Bytes(bytes)) => kind = text("TypeMeta", 2, bytes)?,
                            _ => {}
                        }
                    }
                }
                (2, Wire::Bytes(bytes)) => raw = bytes,
                (3, Wire::Bytes(bytes)) if !bytes.is_empty() => {
                    return Err(Error::Encoded(text("Unknown", 3, bytes)?));
                }
                _ => {}
            }
        }
        if api_version.is_empty() {
            expected.0.clone_into(&mut api_version);
        }
        if kind.is_empty() {
            expected.1.clone_into(&mut kind);
        }
        let Some(message) = type_of(&api_version, &kind) else {
            return Err(Error::UnknownKind { api_version, kind });
        };
        let mut object = Map::new();
        object.insert("apiVersion".to_owned(), Value::String(api_version));
        object.insert("kind".to_owned(), Value::String(kind));
        self.message(message, raw, &mut object, depth + 1)?;
        Ok(Value::Object(object))
    }

    fn message(
        &mut self,
        message: &'static Message,
        bytes: &[u8],
        object: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), Error> {
        if depth > DEEPEST {
            return Err(Error::TooDeep);
        }
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.field()? {
            let Ok(place) = message.fields.binary_search_by_key(&number, |field| field.number) else {
                continue;
            };
            let field = &message.fields[place];
            self.values += 1;
            if self.values > MOST_VALUES {
                return Err(Error::TooMany);
            }
            let owner = Owner { message: message.name, number };
            match (field.holds, field.of.message()) {
                // The fields of an inlined type are its parent's.
                (Holds::One, Some(inner)) if field.name.is_empty() => {
                    self.message(inner, owner.bytes(wire)?, object, depth + 1)?;
                }
                // What comes twice is merged, as protobuf wants it.
                (Holds::One, Some(inner)) => {
                    let bytes = owner.bytes(wire)?;
                    let place = object.entry(field.name).or_insert_with(|| json!({}));
                    if let Value::Object(place) = place {
                        self.message(inner, bytes, place, depth + 1)?;
                    }
                }
                (Holds::One, None) => {
                    if let Some(value) = self.value(&field.of, owner, wire, depth)?
                        && (field.pointer || field.kept || !is_zero(&value))
                    {
                        object.insert(field.name.to_owned(), value);
                    }
                }
                (Holds::List, _) => self.item(field, owner, wire, object, depth)?,
                (Holds::Map, _) => self.entry(field, owner, wire, object, depth)?,
            }
        }
        Ok(())
    }

    fn item(
        &mut self,
        field: &Field,
        owner: Owner,
        wire: Wire<'_>,
        object: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), Error> {
        let place = object.entry(field.name).or_insert_with(|| json!([]));
        let Value::Array(list) = place else { return Ok(()) };
        // Numbers may come one by one or all together.
        if let (Type::Integer32 | Type::Integer64 | Type::Flag, Wire::Bytes(packed)) = (&field.of, wire) {
            let mut reader = Reader::new(packed);
            while !reader.is_empty() {
                self.values += 1;
                if self.values > MOST_VALUES {
                    return Err(Error::TooMany);
                }
                let number = Wire::Number(reader.number()?);
                list.extend(self.value(&field.of, owner, number, depth)?);
            }
            return Ok(());
        }
        let item = self.value(&field.of, owner, wire, depth)?;
        list.push(item.unwrap_or_default());
        Ok(())
    }

    fn entry(
        &mut self,
        field: &Field,
        owner: Owner,
        wire: Wire<'_>,
        object: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), Error> {
        let (mut key, mut value) = (String::new(), None);
        let mut reader = Reader::new(owner.bytes(wire)?);
        while let Some((number, wire)) = reader.field()? {
            match number {
                1 => key = text(owner.message, owner.number, owner.bytes(wire)?)?,
                2 => value = self.value(&field.of, owner, wire, depth)?,
                _ => {}
            }
        }
        // An entry without a value has the zero of its type.
        let value = value.unwrap_or_else(|| match &field.of {
            Type::Message(_) => json!({}),
            Type::Texts | Type::SchemaOrTexts => json!([]),
            Type::Time | Type::MicroTime => Value::Null,
            _ => json!(""),
        });
        if let Value::Object(map) = object.entry(field.name).or_insert_with(|| json!({})) {
            map.insert(key, value);
        }
        Ok(())
    }

    /// Nothing where the sender had nothing: a time that was never set.
    fn value(
        &mut self,
        of: &Type,
        owner: Owner,
        wire: Wire<'_>,
        depth: usize,
    ) -> Result<Option<Value>, Error> {
        Ok(Some(match of {
            Type::Text => Value::String(text(owner.message, owner.number, owner.bytes(wire)?)?),
            // Negative numbers are sent as 64 bits; the rest is cut off, as in Go.
            Type::Integer32 => json!(owner.number(wire)? as i32),
            Type::Integer64 => json!(owner.number(wire)? as i64),
            Type::Flag => json!(owner.number(wire)? != 0),
            Type::Double => {
                let Wire::Eight(bits) = wire else { return Err(owner.wrong(wire)) };
                Number::from_f64(f64::from_bits(bits)).map_or(Value::Null, Value::Number)
            }
            Type::Bytes => Value::String(BASE64_STANDARD.encode(owner.bytes(wire)?)),
            Type::Time => return Ok(moment(owner.bytes(wire)?)?.map(|time| json!(whole_seconds(time)))),
            Type::MicroTime => return Ok(moment(owner.bytes(wire)?)?.map(|time| json!(microseconds(time)))),
            Type::Quantity => {
                let amount = inner_text(owner, owner.bytes(wire)?, 1)?;
                json!(if amount.is_empty() { "0".to_owned() } else { amount })
            }
            Type::IntegerOrText => {
                let bytes = owner.bytes(wire)?;
                match inner_number(bytes, 1)? {
                    1 => json!(inner_text(owner, bytes, 3)?),
                    _ => json!(inner_number(bytes, 2)? as i32),
                }
            }
            Type::Raw | Type::Json | Type::Fields => {
                let raw = inner_bytes(owner, owner.bytes(wire)?, 1)?;
                if raw.is_empty() {
                    return Ok(None);
                }
                if raw.starts_with(MAGIC) {
                    return self.envelope(raw, ("", ""), depth + 1).map(Some);
                }
                let Owner { message, number } = owner;
                serde_json::from_slice(raw).map_err(|_| Error::NotJson { message, number })?
            }
            Type::Texts => self.texts(owner, owner.bytes(wire)?, 1)?,
            Type::SchemaOrList => self.schema_or(owner, owner.bytes(wire)?, (1, None), depth)?,
            Type::SchemaOrFlag => self.schema_or(owner, owner.bytes(wire)?, (2, Some(1)), depth)?,
            Type::SchemaOrTexts => {
                let bytes = owner.bytes(wire)?;
                match self.texts(owner, bytes, 2)? {
                    Value::Array(texts) if texts.is_empty() => {
                        self.schema_or(owner, bytes, (1, None), depth)?
                    }
                    texts => texts,
                }
            }
            Type::Message(_) => {
                let mut object = Map::new();
                if let Some(message) = of.message() {
                    self.message(message, owner.bytes(wire)?, &mut object, depth + 1)?;
                }
                Value::Object(object)
            }
        }))
    }

    fn texts(&mut self, owner: Owner, bytes: &[u8], wanted: u32) -> Result<Value, Error> {
        let mut texts = Vec::new();
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.field()? {
            if number == wanted {
                self.values += 1;
                texts.push(Value::String(text(owner.message, owner.number, owner.bytes(wire)?)?));
            }
        }
        if self.values > MOST_VALUES {
            return Err(Error::TooMany);
        }
        Ok(Value::Array(texts))
    }

    /// A schema, or a list of schemas, or whether anything is allowed.
    fn schema_or(
        &mut self,
        owner: Owner,
        bytes: &[u8],
        (schema, flag): (u32, Option<u32>),
        depth: usize,
    ) -> Result<Value, Error> {
        let (mut one, mut several) = (None, Vec::new());
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.field()? {
            if Some(number) == flag {
                continue;
            }
            let mut object = Map::new();
            if let Some(message) = types::schema_type() {
                self.message(message, owner.bytes(wire)?, &mut object, depth + 1)?;
            }
            if number == schema {
                one = Some(Value::Object(object));
            } else {
                several.push(Value::Object(object));
            }
        }
        Ok(match (one, flag) {
            (Some(one), _) => one,
            (None, Some(flag)) => json!(inner_number(bytes, flag)? != 0),
            (None, None) => Value::Array(several),
        })
    }
}

/// Where a value stands, for errors.
#[derive(Clone, Copy)]
struct Owner {
    message: &'static str,
    number: u32,
}

impl Owner {
    fn bytes(self, wire: Wire<'_>) -> Result<&[u8], Error> {
        match wire {
            Wire::Bytes(bytes) => Ok(bytes),
            other => Err(self.wrong(other)),
        }
    }

    fn number(self, wire: Wire<'_>) -> Result<u64, Error> {
        match wire {
            Wire::Number(number) => Ok(number),
            other => Err(self.wrong(other)),
        }
    }

    fn wrong(self, wire: Wire<'_>) -> Error {
        Error::WrongType { message: self.message, number: self.number, wire: wire.code() }
    }
}

/// The type that an envelope names. Options of a deletion belong to no group: every one has them.
fn type_of(api_version: &str, kind: &str) -> Option<&'static Message> {
    if kind == "DeleteOptions" {
        return types::find("meta", kind);
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    types::of_kind(group, version, kind)
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        // Go writes structs without content.
        Value::Object(_) => false,
    }
}

fn text(message: &'static str, number: u32, bytes: &[u8]) -> Result<String, Error> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| Error::NotText { message, number })
}

/// The number in a field of a small message; zero if it is not there.
fn inner_number(bytes: &[u8], wanted: u32) -> Result<u64, Error> {
    let mut found = 0;
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.field()? {
        if let Wire::Number(value) = wire
            && number == wanted
        {
            found = value;
        }
    }
    Ok(found)
}

fn inner_bytes(owner: Owner, bytes: &[u8], wanted: u32) -> Result<&[u8], Error> {
    let mut found: &[u8] = &[];
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.field()? {
        if number == wanted {
            found = owner.bytes(wire)?;
        }
    }
    Ok(found)
}

fn inner_text(owner: Owner, bytes: &[u8], wanted: u32) -> Result<String, Error> {
    text(owner.message, owner.number, inner_bytes(owner, bytes, wanted)?)
}

/// A time that was never set is an empty message.
fn moment(bytes: &[u8]) -> Result<Option<Timestamp>, Error> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let seconds = inner_number(bytes, 1)? as i64;
    let nanoseconds = inner_number(bytes, 2)? as i32;
    Ok(Timestamp::new(seconds, nanoseconds).ok())
}

fn whole_seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

fn microseconds(time: Timestamp) -> String {
    format!("{time:.6}")
}
