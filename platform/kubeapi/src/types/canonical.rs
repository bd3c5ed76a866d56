//! Built-in objects have types, and what is stored fits them.
//!
//! Clients read lists into those types, and one object that does not fit would spoil the list for all of them. So an
//! object is brought into the form in which a typed server would have written it: what cannot be read is refused, in the
//! words that everybody knows how to search for; what is not part of the type is dropped and named; zeros that mean
//! nothing are left out, and those that are always written are there.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use pilothouse_cel::{Quantity, QuantityError};
use serde_json::{Map, Value, json};

use super::{Field, Holds, Message, Type};

/// Where in an object something is.
#[derive(Clone, Copy)]
enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

/// Where in an object something is, and in which type.
#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a Path<'a>,
    owner: &'static Message,
}

/// Brings an object into the form of its type. Answers with the fields the type does not have, or with what is wrong.
pub(crate) fn fit(message: &'static Message, object: &mut Value, path: &str) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    let root = match path {
        "" => Path::Root,
        path => Path::Field(&Path::Root, path),
    };
    fit_message(message, object, &root, message, &mut unknown)?;
    Ok(unknown)
}

/// Gives an object all zeros that are always written.
pub(crate) fn complete(message: &'static Message, object: &mut Map<String, Value>) {
    for field in &message.fields {
        let inner = field.of.message();
        match (field.holds, inner) {
            (Holds::One, Some(inner)) if field.name.is_empty() => complete(inner, object),
            (Holds::One, Some(inner)) if !field.pointer => {
                let place = object.entry(field.name).or_insert_with(|| json!({}));
                if let Value::Object(place) = place {
                    complete(inner, place);
                }
            }
            (Holds::One, None) if !field.pointer && !object.contains_key(field.name) => {
                let zero = match &field.of {
                    Type::Text if field.kept => json!(""),
                    Type::Integer32 | Type::Integer64 if field.kept => json!(0),
                    Type::Flag if field.kept => json!(false),
                    Type::Quantity => json!("0"),
                    // A time that never was is written, but for that of a creation.
                    Type::Time | Type::MicroTime if field.name != "creationTimestamp" => Value::Null,
                    _ => continue,
                };
                object.insert(field.name.to_owned(), zero);
            }
            _ => {}
        }
    }
}

/// What a typed server makes of nothing: the inner objects and zeros that are always there, and null for lists and maps
/// that are always written.
pub(crate) fn empty(message: &'static Message) -> Value {
    let mut object = Map::new();
    nothing_in(message, &mut object);
    complete(message, &mut object);
    Value::Object(object)
}

fn nothing_in(message: &'static Message, object: &mut Map<String, Value>) {
    for field in &message.fields {
        match (field.holds, field.of.message()) {
            (Holds::One, Some(inner)) if field.name.is_empty() => nothing_in(inner, object),
            (Holds::One, Some(inner)) if !field.pointer => {
                let mut fields = Map::new();
                nothing_in(inner, &mut fields);
                object.insert(field.name.to_owned(), Value::Object(fields));
            }
            (Holds::List | Holds::Map, _) if field.kept => {
                object.insert(field.name.to_owned(), Value::Null);
            }
            (Holds::One, _) if field.pointer && field.kept => {
                object.insert(field.name.to_owned(), Value::Null);
            }
            _ => {}
        }
    }
}

fn fit_message(
    message: &'static Message,
    value: &mut Value,
    path: &Path<'_>,
    owner: &'static Message,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let Value::Object(fields) = value else {
        return Err(Place { path, owner }.mismatch(value, &format!("v1.{}", message.name)));
    };
    let mut wrong = None;
    fields.retain(|name, value| {
        if wrong.is_some() {
            return true;
        }
        let here = Path::Field(path, name);
        let Some(field) = message.field(name) else {
            // Of the kind itself, which is not among the fields.
            if matches!(path, Path::Root) && matches!(name.as_str(), "apiVersion" | "kind") {
                return true;
            }
            if !value.is_null() {
                unknown.push(here.shown());
            }
            return false;
        };
        if value.is_null() {
            return false;
        }
        match fit_field(field, value, Place { path: &here, owner: message }, unknown) {
            Ok(()) => field.pointer || field.kept || !is_nothing(field, value),
            Err(error) => {
                wrong = Some(error);
                true
            }
        }
    });
    match wrong {
        Some(error) => Err(error),
        None => {
            complete(message, fields);
            Ok(())
        }
    }
}

/// A zero that is left out. An inner object is written even if nothing is in it.
fn is_nothing(field: &Field, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => {
            matches!(field.of, Type::Integer32 | Type::Integer64) && number.as_i64() == Some(0)
        }
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => field.holds == Holds::Map && fields.is_empty(),
    }
}

fn fit_field(
    field: &Field,
    value: &mut Value,
    place: Place<'_>,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    match field.holds {
        Holds::One => fit_value(&field.of, value, place, unknown),
        Holds::List => {
            let Value::Array(items) = value else {
                return Err(place.mismatch(value, &format!("[]{}", field.of.go_name())));
            };
            for (index, item) in items.iter_mut().enumerate() {
                let path = Path::Item(place.path, index);
                match (item.is_null(), &field.of) {
                    // Nothing in a list is the zero of its type.
                    (true, Type::Text) => *item = json!(""),
                    (true, Type::Message(_)) => *item = json!({}),
                    (true, _) => continue,
                    (false, _) => {}
                }
                fit_value(&field.of, item, Place { path: &path, ..place }, unknown)?;
            }
            Ok(())
        }
        Holds::Map => {
            let Value::Object(entries) = value else {
                return Err(place.mismatch(value, &format!("map[string]{}", field.of.go_name())));
            };
            for (key, item) in entries {
                match (item.is_null(), &field.of) {
                    (true, Type::Text | Type::Bytes) => *item = json!(""),
                    (true, Type::Message(_)) => *item = json!({}),
                    (true, _) => continue,
                    (false, _) => {}
                }
                let path = Path::Field(place.path, key);
                let here = match field.of {
                    Type::Message(_) => Place { path: &path, ..place },
                    // Entries of plain maps are not named in complaints.
                    _ => place,
                };
                fit_value(&field.of, item, here, unknown)?;
            }
            Ok(())
        }
    }
}

fn fit_value(
    of: &Type,
    value: &mut Value,
    place: Place<'_>,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    match of {
        Type::Message(_) => match of.message() {
            Some(message) => fit_message(message, value, place.path, place.owner, unknown),
            None => Ok(()),
        },
        Type::Text if value.is_string() => Ok(()),
        Type::Flag if value.is_boolean() => Ok(()),
        Type::Double if value.is_number() => Ok(()),
        Type::Integer32 if value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) => Ok(()),
        Type::Integer64 if value.is_i64() => Ok(()),
        Type::Bytes => match value {
            Value::String(text) => check_bytes(text),
            // How Go reads a list of small numbers, which nobody sends.
            _ => Err(place.mismatch(value, &of.go_name())),
        },
        Type::Time => fit_time(value, place, of, false),
        Type::MicroTime => fit_time(value, place, of, true),
        Type::Quantity => fit_quantity(value),
        Type::IntegerOrText => match value {
            Value::String(_) => Ok(()),
            Value::Number(number) if number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) => {
                Ok(())
            }
            _ => Err(place.mismatch(value, "int32")),
        },
        Type::Raw | Type::Json | Type::Fields => Ok(()),
        Type::Texts => {
            let strings = value.as_array().is_some_and(|items| items.iter().all(Value::is_string));
            if strings { Ok(()) } else { Err(place.mismatch(value, "[]string")) }
        }
        Type::SchemaOrList | Type::SchemaOrFlag | Type::SchemaOrTexts => {
            fit_schema_or(of, value, place, unknown)
        }
        Type::Text | Type::Flag | Type::Double | Type::Integer32 | Type::Integer64 => {
            Err(place.mismatch(value, &of.go_name()))
        }
    }
}

fn fit_schema_or(
    of: &Type,
    value: &mut Value,
    place: Place<'_>,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let Some(schema) = super::schema_type() else { return Ok(()) };
    match (of, value) {
        (_, value @ Value::Object(_)) => fit_message(schema, value, place.path, place.owner, unknown),
        (Type::SchemaOrFlag, Value::Bool(_)) => Ok(()),
        (Type::SchemaOrList, Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                let path = Path::Item(place.path, index);
                fit_message(schema, item, &path, place.owner, unknown)?;
            }
            Ok(())
        }
        (Type::SchemaOrTexts, Value::Array(items)) if items.iter().all(Value::is_string) => Ok(()),
        (_, value) => Err(place.mismatch(value, "v1.JSONSchemaProps")),
    }
}

fn check_bytes(text: &str) -> Result<(), String> {
    // Line breaks are allowed, as people paste them.
    let joined: String;
    let plain = match text.contains(['\n', '\r']) {
        true => {
            joined = text.replace(['\n', '\r'], "");
            joined.as_str()
        }
        false => text,
    };
    match BASE64_STANDARD.decode(plain) {
        Ok(_) => Ok(()),
        Err(error) => {
            let at = match error {
                base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => at,
                _ => plain.len() / 4 * 4,
            };
            Err(format!("illegal base64 data at input byte {at}"))
        }
    }
}

fn fit_time(value: &mut Value, place: Place<'_>, of: &Type, micro: bool) -> Result<(), String> {
    let Value::String(text) = value else { return Err(place.mismatch(value, &of.go_name())) };
    let Ok(time) = text.parse::<Timestamp>() else {
        let layout = if micro { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
        return Err(format!("parsing time {0:?} as \"{layout}\": cannot parse {0:?} as \"2006\"", text));
    };
    *value = match micro {
        true => json!(format!("{time:.6}")),
        false => json!(Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()),
    };
    Ok(())
}

/// `cpu: 1` means `cpu: "1"`, and so does `cpu: 1000m`.
fn fit_quantity(value: &mut Value) -> Result<(), String> {
    let text = match &*value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return Err(QuantityError::Format.to_string()),
    };
    let amount = Quantity::parse(&text).map_err(|error| error.to_string())?;
    *value = json!(amount.to_string());
    Ok(())
}

// === impl Path ===

impl Path<'_> {
    /// `spec.containers[0].image`
    fn shown(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Field(Self::Root, name) => (*name).to_owned(),
            Self::Field(parent, name) => format!("{}.{name}", parent.shown()),
            Self::Item(parent, index) => format!("{}[{index}]", parent.shown()),
        }
    }

    /// The same without the places of items: `spec.containers.image`.
    fn fields(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Field(Self::Root, name) => (*name).to_owned(),
            Self::Field(parent, name) => format!("{}.{name}", parent.fields()),
            Self::Item(parent, _) => parent.fields(),
        }
    }
}

// === impl Place ===

impl Place<'_> {
    fn mismatch(self, value: &Value, wanted: &str) -> String {
        let given = match value {
            Value::Null => "null".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            // A number of the wrong sort is shown; one in place of something else is not.
            Value::Number(number) if wanted.starts_with("int") => format!("number {number}"),
            Value::Number(_) => "number".to_owned(),
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::Object(_) => "object".to_owned(),
        };
        format!(
            "json: cannot unmarshal {given} into Go struct field {}.{} of type {wanted}",
            self.owner.name,
            self.path.fields()
        )
    }
}

// === impl Type ===

impl Type {
    /// What Go calls it, since messages do.
    fn go_name(&self) -> String {
        let name = match self {
            Self::Text => "string",
            Self::Integer32 => "int32",
            Self::Integer64 => "int64",
            Self::Flag => "bool",
            Self::Double => "float64",
            Self::Bytes => "[]uint8",
            Self::Time | Self::MicroTime => "string",
            Self::Quantity => "resource.Quantity",
            Self::IntegerOrText => "intstr.IntOrString",
            Self::Raw => "runtime.RawExtension",
            Self::Json => "v1.JSON",
            Self::Fields => "v1.FieldsV1",
            Self::Texts => "[]string",
            Self::SchemaOrList | Self::SchemaOrFlag | Self::SchemaOrTexts => "v1.JSONSchemaProps",
            Self::Message(reference) => return format!("v1.{}", reference.name),
        };
        name.to_owned()
    }
}
