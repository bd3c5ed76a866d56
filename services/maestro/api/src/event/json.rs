//! The form as JSON: what is stored, and what a peer may send as a whole.
//!
//! Stored events have the extension `metadata` as an object, so that its labels can be searched; on the wire it is text.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{Attribute, CloudEvent, InvalidEvent, JSON, SPECIFICATION, extension};

impl CloudEvent {
    /// As JSON.
    pub fn to_json(&self) -> Result<Value, InvalidEvent> {
        let mut object = self.to_attributes()?;
        if !self.data.is_empty() {
            let data = serde_json::from_slice(&self.data).map_err(InvalidEvent::Json)?;
            object.insert("data".to_owned(), data);
        }
        Ok(Value::Object(object))
    }

    /// As JSON, without the data.
    pub fn to_attributes(&self) -> Result<Map<String, Value>, InvalidEvent> {
        let mut object = Map::new();
        object.insert("specversion".to_owned(), json!(SPECIFICATION));
        object.insert("id".to_owned(), json!(self.id));
        object.insert("source".to_owned(), json!(self.source));
        object.insert("type".to_owned(), json!(self.kind));
        if let Some(time) = self.time {
            object.insert("time".to_owned(), json!(time.to_string()));
        }
        if let Some(kind) = &self.content_type {
            object.insert("datacontenttype".to_owned(), json!(kind));
        }
        for (name, value) in &self.extensions {
            let value = match value {
                Attribute::Text(text) if name == extension::METADATA && !text.is_empty() => {
                    serde_json::from_str(text).map_err(InvalidEvent::Json)?
                }
                Attribute::Integer(number) => json!(number),
                Attribute::Boolean(value) => json!(value),
                text => json!(text.to_string()),
            };
            object.insert(name.clone(), value);
        }
        Ok(object)
    }

    /// Reads bytes of JSON.
    pub fn from_json(bytes: &[u8]) -> Result<Self, InvalidEvent> {
        Self::from_value(serde_json::from_slice(bytes).map_err(InvalidEvent::Json)?)
    }

    /// Reads a value of JSON.
    pub fn from_value(value: Value) -> Result<Self, InvalidEvent> {
        let Value::Object(mut object) = value else { return Err(InvalidEvent::Missing("specversion")) };
        let data = match object.remove("data") {
            Some(data) => serde_json::to_vec(&data).map_err(InvalidEvent::Json)?.into(),
            None => Bytes::new(),
        };
        Self::from_attributes(object, data)
    }

    /// Puts attributes and data together again.
    pub fn from_attributes(object: Map<String, Value>, data: Bytes) -> Result<Self, InvalidEvent> {
        let mut event = Self {
            id: String::new(),
            source: String::new(),
            kind: String::new(),
            time: None,
            content_type: Some(JSON.to_owned()),
            extensions: Default::default(),
            data,
        };
        let mut specified = false;
        for (name, value) in object {
            match (name.as_str(), value) {
                ("specversion", Value::String(text)) if text == SPECIFICATION => specified = true,
                ("specversion", value) => {
                    return Err(InvalidEvent::Attribute { name, value: value.to_string() });
                }
                ("id", Value::String(text)) => event.id = text,
                ("source", Value::String(text)) => event.source = text,
                ("type", Value::String(text)) => event.kind = text,
                ("datacontenttype", Value::String(text)) => event.content_type = Some(text),
                ("time", Value::String(text)) => event.time = Some(moment("time", &text)?),
                ("id" | "source" | "type" | "datacontenttype" | "time", value) => {
                    return Err(InvalidEvent::Attribute { name, value: value.to_string() });
                }
                (_, value) => drop(event.extensions.insert(name, attribute(value)?)),
            }
        }
        if !specified {
            return Err(InvalidEvent::Missing("specversion"));
        }
        event.complete()
    }
}

fn attribute(value: Value) -> Result<Attribute, InvalidEvent> {
    Ok(match value {
        Value::String(text) => Attribute::Text(text),
        Value::Bool(value) => Attribute::Boolean(value),
        Value::Number(number) => match number.as_i64().and_then(|number| i32::try_from(number).ok()) {
            Some(number) => Attribute::Integer(number),
            None => Attribute::Text(number.to_string()),
        },
        other => Attribute::Text(serde_json::to_string(&other).map_err(InvalidEvent::Json)?),
    })
}

pub(super) fn moment(name: &str, text: &str) -> Result<Timestamp, InvalidEvent> {
    text.parse().map_err(|_| InvalidEvent::Attribute { name: name.to_owned(), value: text.to_owned() })
}
