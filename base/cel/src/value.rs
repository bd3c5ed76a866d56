//! Values. What comes out of an object stays where it is and is read when it is needed.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value as Json;

use crate::error::EvaluationError;
use crate::library::network::Range;
use crate::library::semver::Version;
use crate::library::time;
use crate::library::url::Url;
use crate::quantity::Quantity;
use crate::types::{Identity, ListType, ObjectType, Type};

static ANY: Type = Type::Dyn;

/// The value of an expression.
#[derive(Debug, Clone)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Rc<[u8]>),
    Duration(SignedDuration),
    Timestamp(Timestamp),
    List(List<'a>),
    Map(Map<'a>),
    Optional(Option<Rc<Value<'a>>>),
    Type(&'static str),
    Ip(IpAddr),
    Range(Range),
    Url(Rc<Url>),
    Quantity(Quantity),
    Version(Rc<Version>),
    Format(&'static str),
}

/// Text of the object or the expression, or made on the way.
#[derive(Debug, Clone)]
pub(crate) enum Text<'a> {
    Borrowed(&'a str),
    Made(Rc<str>),
}

#[derive(Debug, Clone)]
pub(crate) enum List<'a> {
    Json(&'a [Json], &'a ListType),
    Made(Rc<Vec<Value<'a>>>),
}

#[derive(Debug, Clone)]
pub(crate) enum Map<'a> {
    /// With the type of the values.
    Json(&'a serde_json::Map<String, Json>, &'a Type),
    Object(&'a serde_json::Map<String, Json>, &'a ObjectType),
    Made(Rc<BTreeMap<Key, Value<'a>>>),
}

/// What a map may be asked for. Numbers that are equal are the same key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Rc<str>),
}

static ANY_LIST: ListType = ListType { item: Type::Dyn, identity: Identity::Place };

impl<'a> Value<'a> {
    /// What a value of the object is to an expression.
    pub(crate) fn lift(json: &'a Json, kind: &'a Type) -> Result<Self, EvaluationError> {
        Ok(match (json, kind) {
            (Json::Null, _) => Self::Null,
            (Json::Bool(value), _) => Self::Bool(*value),
            (Json::Number(number), Type::Double) => Self::Double(number.as_f64().unwrap_or_default()),
            (Json::Number(number), _) => match (number.as_i64(), number.as_f64()) {
                (Some(value), _) => Self::Int(value),
                (None, Some(value)) if *kind == Type::Int && value.fract() == 0.0 && value.abs() < 9e18 =>
                {
                    #[expect(clippy::cast_possible_truncation, reason = "whole, and in range")]
                    Self::Int(value as i64)
                }
                (None, value) => Self::Double(value.unwrap_or_default()),
            },
            (Json::String(text), Type::Bytes) => {
                let bytes = STANDARD.decode(text);
                let bytes = bytes.map_err(|_| EvaluationError::failed("Invalid format \"byte\""))?;
                Self::Bytes(bytes.into())
            }
            (Json::String(text), Type::Duration) => {
                let refused = || EvaluationError::failed("Invalid format \"duration\"");
                Self::Duration(time::open_api_duration(text).ok_or_else(refused)?)
            }
            (Json::String(text), Type::Timestamp) => {
                let refused = || EvaluationError::failed("Invalid format \"date-time\"");
                Self::Timestamp(time::timestamp(text).or_else(|| time::date(text)).ok_or_else(refused)?)
            }
            (Json::String(text), _) => Self::String(Text::Borrowed(text)),
            (Json::Array(items), Type::List(list)) => Self::List(List::Json(items, list)),
            (Json::Array(items), _) => Self::List(List::Json(items, &ANY_LIST)),
            (Json::Object(fields), Type::Object(object)) => Self::Map(Map::Object(fields, object)),
            (Json::Object(fields), Type::Map(map)) => Self::Map(Map::Json(fields, &map.1)),
            (Json::Object(fields), _) => Self::Map(Map::Json(fields, &ANY)),
        })
    }

    pub(crate) fn text(text: impl Into<Rc<str>>) -> Self {
        Self::String(Text::Made(text.into()))
    }

    pub(crate) fn list(items: Vec<Self>) -> Self {
        Self::List(List::Made(Rc::new(items)))
    }

    pub(crate) fn some(value: Self) -> Self {
        Self::Optional(Some(Rc::new(value)))
    }

    /// What `type()` answers.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Ip(_) => "net.IP",
            Self::Range(_) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Version(_) => "kubernetes.Semver",
            Self::Format(_) => crate::library::formats::TYPE,
        }
    }

    /// How large it counts in what things cost.
    pub(crate) fn size(&self) -> u64 {
        let size = match self {
            Self::String(text) => text.as_str().chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.len(),
            Self::Map(map) => map.len(),
            Self::Optional(Some(inner)) => return inner.size(),
            Self::Ip(IpAddr::V4(_)) => 4,
            Self::Ip(IpAddr::V6(_)) => 16,
            Self::Range(range) if range.is_v4() => 4,
            Self::Range(_) => 16,
            _ => 1,
        };
        size as u64
    }

    pub(crate) fn key(&self) -> Option<Key> {
        Some(match self {
            Self::Bool(value) => Key::Bool(*value),
            Self::Int(value) => Key::Int(*value),
            Self::Uint(value) => i64::try_from(*value).map_or(Key::Uint(*value), Key::Int),
            #[expect(clippy::cast_possible_truncation, reason = "whole, and in range")]
            Self::Double(value) if value.fract() == 0.0 && value.abs() < 9e18 => Key::Int(*value as i64),
            Self::String(Text::Borrowed(text)) => Key::String(Rc::from(*text)),
            Self::String(Text::Made(text)) => Key::String(Rc::clone(text)),
            _ => return None,
        })
    }

    /// The order of two values, where they have one.
    pub(crate) fn compare(&self, other: &Self) -> Option<Ordering> {
        Some(match (self, other) {
            (Self::Bool(one), Self::Bool(other)) => one.cmp(other),
            (Self::String(one), Self::String(other)) => one.as_str().cmp(other.as_str()),
            (Self::Bytes(one), Self::Bytes(other)) => one.cmp(other),
            (Self::Duration(one), Self::Duration(other)) => one.cmp(other),
            (Self::Timestamp(one), Self::Timestamp(other)) => one.cmp(other),
            _ => return numbers(self, other),
        })
    }

    /// Whether the value is what its type starts with.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::String(text) => text.as_str().is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Duration(value) => value.is_zero(),
            Self::List(list) => list.len() == 0,
            Self::Map(map) => map.len() == 0,
            Self::Optional(inner) => inner.is_none(),
            _ => false,
        }
    }
}

/// Numbers compare by what they are worth, whatever their type.
fn numbers(one: &Value<'_>, other: &Value<'_>) -> Option<Ordering> {
    let integer = |value: &Value<'_>| match value {
        Value::Int(value) => Some(i128::from(*value)),
        Value::Uint(value) => Some(i128::from(*value)),
        _ => None,
    };
    if let (Some(one), Some(other)) = (integer(one), integer(other)) {
        return Some(one.cmp(&other));
    }
    match (one, other) {
        (Value::Double(one), Value::Double(other)) => one.partial_cmp(other),
        (Value::Double(one), other) => with_integer(*one, integer(other)?),
        (one, Value::Double(other)) => with_integer(*other, integer(one)?).map(Ordering::reverse),
        _ => None,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the whole part of a number in range is exact")]
fn with_integer(double: f64, integer: i128) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    if double.abs() >= 2e19 {
        return Some(if double > 0.0 { Ordering::Greater } else { Ordering::Less });
    }
    let whole = double.trunc() as i128;
    Some(whole.cmp(&integer).then_with(|| double.fract().partial_cmp(&0.0).unwrap_or(Ordering::Equal)))
}

impl Text<'_> {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Made(text) => text,
        }
    }
}

impl<'a> List<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json(items, _) => items.len(),
            Self::Made(items) => items.len(),
        }
    }

    pub(crate) fn get(&self, place: usize) -> Result<Option<Value<'a>>, EvaluationError> {
        match self {
            Self::Json(items, kind) => items.get(place).map(|item| Value::lift(item, &kind.item)).transpose(),
            Self::Made(items) => Ok(items.get(place).cloned()),
        }
    }

    pub(crate) fn items(&self) -> Result<Vec<Value<'a>>, EvaluationError> {
        match self {
            Self::Json(items, kind) => items.iter().map(|item| Value::lift(item, &kind.item)).collect(),
            Self::Made(items) => Ok(items.as_ref().clone()),
        }
    }
}

impl<'a> Map<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json(fields, _) => fields.len(),
            Self::Object(fields, _) => fields.len(),
            Self::Made(entries) => entries.len(),
        }
    }

    pub(crate) fn get(&self, key: &Value<'_>) -> Result<Option<Value<'a>>, EvaluationError> {
        match (self, key) {
            (Self::Made(entries), key) => Ok(key.key().and_then(|key| entries.get(&key).cloned())),
            (_, Value::String(name)) => self.field(name.as_str()),
            _ => Ok(None),
        }
    }

    pub(crate) fn field(&self, name: &str) -> Result<Option<Value<'a>>, EvaluationError> {
        match self {
            Self::Made(entries) => Ok(entries.get(&Key::String(Rc::from(name))).cloned()),
            Self::Json(fields, kind) => fields.get(name).map(|value| Value::lift(value, kind)).transpose(),
            Self::Object(fields, object) => {
                let Some(field) = object.fields.get(name) else { return Ok(None) };
                fields.get(&field.name).map(|value| Value::lift(value, &field.kind)).transpose()
            }
        }
    }

    pub(crate) fn entries(&self) -> Result<Vec<(Value<'a>, Value<'a>)>, EvaluationError> {
        let named = |name: &'a str| Value::String(Text::Borrowed(name));
        match self {
            Self::Json(fields, kind) => {
                fields.iter().map(|(name, value)| Ok((named(name), Value::lift(value, kind)?))).collect()
            }
            Self::Object(fields, object) => object
                .fields
                .iter()
                .filter_map(|(name, field)| Some((name, field, fields.get(&field.name)?)))
                .map(|(name, field, value)| Ok((named(name), Value::lift(value, &field.kind)?)))
                .collect(),
            Self::Made(entries) => {
                Ok(entries.iter().map(|(key, value)| (key.to_value(), value.clone())).collect())
            }
        }
    }
}

impl Key {
    fn to_value<'a>(&self) -> Value<'a> {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Uint(value) => Value::Uint(*value),
            Self::String(text) => Value::String(Text::Made(Rc::clone(text))),
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bool(value) => write!(formatter, "{value}"),
            Self::Int(value) => write!(formatter, "{value}"),
            Self::Uint(value) => write!(formatter, "{value}"),
            Self::String(text) => formatter.write_str(text),
        }
    }
}
