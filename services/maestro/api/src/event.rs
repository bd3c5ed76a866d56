//! The envelope of everything that travels.

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::Timestamp;

mod attribute;
mod grpc;
mod json;
mod kind;
mod properties;
#[cfg(test)]
mod tests;

pub use self::attribute::Attribute;
pub use self::kind::{Action, DATA_TYPE, EventType, HEARTBEAT, Subresource};

/// Names of what an event carries beside its payload.
pub mod extension {
    /// The consumer an event is for, or comes from.
    pub const CLUSTER_NAME: &str = "clustername";
    /// On a status: whose work it is about.
    pub const ORIGINAL_SOURCE: &str = "originalsource";
    /// The id of the bundle.
    pub const RESOURCE_ID: &str = "resourceid";
    /// The version of the bundle.
    pub const RESOURCE_VERSION: &str = "resourceversion";
    /// The metadata of the work, as JSON.
    pub const METADATA: &str = "metadata";
    /// When deletion was asked for.
    pub const DELETION_TIMESTAMP: &str = "deletiontimestamp";
    /// Orders the statuses of one agent.
    pub const SEQUENCE_ID: &str = "sequenceid";
    /// The hash of a status.
    pub const STATUS_HASH: &str = "statushash";
    /// Ids for following an operation through logs, as JSON.
    pub const LOG_TRACING: &str = "logtracing";
    /// On a question: it follows from one that the receiver asked, who need not ask again; ours.
    pub const SOLICITED: &str = "solicited";
    /// The one id that follows the work; ours.
    pub const CORRELATION_ID: &str = "correlationid";
}

/// The version of CloudEvents spoken here.
pub(crate) const SPECIFICATION: &str = "1.0";
/// The media type of payloads.
pub(crate) const JSON: &str = "application/json";
/// The media type of an event that is JSON as a whole.
pub(crate) const STRUCTURED: &str = "application/cloudevents+json";

/// One event, in no particular written form.
#[derive(Clone, Debug, PartialEq)]
pub struct CloudEvent {
    /// Names the event. Republished events keep theirs, so it says nothing about having been seen.
    pub id: String,
    /// Who sent it.
    pub source: String,
    /// What it is, as sent; see [`CloudEvent::event_type`].
    pub kind: String,
    /// When it was made.
    pub time: Option<Timestamp>,
    /// The media type of the payload.
    pub content_type: Option<String>,
    /// What it carries beside the payload.
    pub extensions: BTreeMap<String, Attribute>,
    /// The payload.
    pub data: Bytes,
}

/// Why something is not an event, or not one that can be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEvent {
    /// An attribute without which an event is none.
    #[error("the event has no `{0}`")]
    Missing(&'static str),
    /// An attribute that cannot be read.
    #[error("the event's `{name}` cannot be `{value}`")]
    Attribute {
        /// Which one.
        name: String,
        /// What was sent.
        value: String,
    },
    /// A type that is none of Maestro's.
    #[error("`{0}` is not a type of event that is known here")]
    Kind(String),
    /// JSON that cannot be read.
    #[error("the event's JSON cannot be read")]
    Json(#[source] serde_json::Error),
}

// === impl CloudEvent ===

impl CloudEvent {
    /// An event without extensions or payload. The id is new.
    pub fn new(source: impl Into<String>, kind: &EventType, time: Timestamp) -> Self {
        Self {
            id: uuid::Uuid::new_v4().to_string(),
            source: source.into(),
            kind: kind.to_string(),
            time: Some(time),
            content_type: Some(JSON.to_owned()),
            extensions: BTreeMap::new(),
            data: Bytes::new(),
        }
    }

    /// With an extension.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Attribute>) -> Self {
        self.extensions.insert(name.to_owned(), value.into());
        self
    }

    /// With a payload.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Bytes>) -> Self {
        self.data = data.into();
        self
    }

    /// What it asks for.
    pub fn event_type(&self) -> Result<EventType, InvalidEvent> {
        self.kind.parse()
    }

    /// Whether it only says that the server is there.
    pub fn is_heartbeat(&self) -> bool {
        self.kind == HEARTBEAT
    }

    /// An extension as text, if it is there and not empty.
    pub fn text(&self, name: &str) -> Option<String> {
        self.extensions.get(name).map(Attribute::to_string).filter(|text| !text.is_empty())
    }

    /// An extension that has to be there.
    pub fn required(&self, name: &'static str) -> Result<String, InvalidEvent> {
        self.text(name).ok_or(InvalidEvent::Missing(name))
    }

    /// The version of the bundle, written as a number or as text.
    pub fn resource_version(&self) -> Result<Option<i32>, InvalidEvent> {
        let Some(text) = self.text(extension::RESOURCE_VERSION) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| InvalidEvent::Attribute {
            name: extension::RESOURCE_VERSION.to_owned(),
            value: text,
        })
    }

    /// The payload, read as JSON.
    pub fn payload<T: serde::de::DeserializeOwned>(&self) -> Result<T, InvalidEvent> {
        serde_json::from_slice(&self.data).map_err(InvalidEvent::Json)
    }

    /// The metadata of the work, if there is any: an object, whose labels and annotations are such, too.
    pub fn metadata(&self) -> Result<Option<serde_json::Value>, InvalidEvent> {
        let Some(text) = self.text(extension::METADATA) else { return Ok(None) };
        let metadata: serde_json::Value = serde_json::from_str(&text).map_err(InvalidEvent::Json)?;
        let is_map = |name| metadata.get(name).is_none_or(|field| field.is_object() || field.is_null());
        if metadata.is_object() && is_map("labels") && is_map("annotations") {
            Ok(Some(metadata))
        } else {
            // Not what it is instead: there may be anything in it.
            let value = "anything but the metadata of an object".to_owned();
            Err(InvalidEvent::Attribute { name: extension::METADATA.to_owned(), value })
        }
    }
}
