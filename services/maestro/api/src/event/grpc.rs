//! The form over gRPC.
//!
//! Attribute names carry the prefix `ce-`, all but the media type, which is `contenttype`. This is Maestro's own mapping;
//! the one of the CloudEvents project has no prefixes.

use bytes::Bytes;
use jiff::Timestamp;

use super::{Attribute, CloudEvent, InvalidEvent, SPECIFICATION, STRUCTURED};
use crate::proto;
use crate::proto::cloud_event_attribute_value::Attr;

const PREFIX: &str = "ce-";
const CONTENT_TYPE: &str = "contenttype";

impl From<CloudEvent> for proto::CloudEvent {
    fn from(event: CloudEvent) -> Self {
        let mut attributes = std::collections::HashMap::new();
        let mut add = |name: String, attr: Attr| {
            attributes.insert(name, proto::CloudEventAttributeValue { attr: Some(attr) });
        };
        if let Some(kind) = event.content_type {
            add(CONTENT_TYPE.to_owned(), Attr::CeString(kind));
        }
        if let Some(time) = event.time {
            add(format!("{PREFIX}time"), Attr::CeTimestamp(timestamp(time)));
        }
        for (name, value) in event.extensions {
            let attr = match value {
                Attribute::Text(text) => Attr::CeString(text),
                Attribute::Integer(number) => Attr::CeInteger(number),
                Attribute::Boolean(value) => Attr::CeBoolean(value),
                Attribute::Moment(moment) => Attr::CeTimestamp(timestamp(moment)),
            };
            add(format!("{PREFIX}{name}"), attr);
        }
        Self {
            id: event.id,
            source: event.source,
            spec_version: SPECIFICATION.to_owned(),
            r#type: event.kind,
            attributes,
            data: Some(proto::cloud_event::Data::BinaryData(event.data.into())),
        }
    }
}

impl TryFrom<proto::CloudEvent> for CloudEvent {
    type Error = InvalidEvent;

    fn try_from(message: proto::CloudEvent) -> Result<Self, InvalidEvent> {
        let data: Bytes = match message.data {
            Some(proto::cloud_event::Data::BinaryData(data)) => data.into(),
            Some(proto::cloud_event::Data::TextData(text)) => text.into(),
            Some(proto::cloud_event::Data::ProtoData(_)) | None => Bytes::new(),
        };
        let mut event = Self {
            id: message.id,
            source: message.source,
            kind: message.r#type,
            time: None,
            content_type: None,
            extensions: Default::default(),
            data,
        };
        for (name, value) in message.attributes {
            let Some(value) = value.attr.map(|attr| attribute(&name, attr)).transpose()? else { continue };
            if name == CONTENT_TYPE {
                event.content_type = Some(value.to_string());
                continue;
            }
            match (name.strip_prefix(PREFIX), value) {
                (None, _) => {}
                (Some("time"), Attribute::Moment(moment)) => event.time = Some(moment),
                (Some("time"), other) => event.time = Some(super::json::moment("time", &other.to_string())?),
                (Some(name), value) => drop(event.extensions.insert(name.to_owned(), value)),
            }
        }
        if event.content_type.as_deref().is_some_and(|kind| kind.starts_with(STRUCTURED)) {
            return Self::from_json(&event.data);
        }
        if event.is_heartbeat() {
            return Ok(event);
        }
        event.complete()
    }
}

fn attribute(name: &str, attr: Attr) -> Result<Attribute, InvalidEvent> {
    let refused = |value: String| InvalidEvent::Attribute { name: name.to_owned(), value };
    Ok(match attr {
        Attr::CeBoolean(value) => Attribute::Boolean(value),
        Attr::CeInteger(number) => Attribute::Integer(number),
        Attr::CeString(text) | Attr::CeUri(text) | Attr::CeUriRef(text) => Attribute::Text(text),
        Attr::CeBytes(bytes) => {
            let length = bytes.len();
            Attribute::Text(String::from_utf8(bytes).map_err(|_| refused(format!("{length} bytes")))?)
        }
        Attr::CeTimestamp(moment) => Attribute::Moment(
            Timestamp::new(moment.seconds, moment.nanos)
                .map_err(|_| refused(format!("{} s {} ns", moment.seconds, moment.nanos)))?,
        ),
    })
}

fn timestamp(moment: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: moment.as_second(), nanos: moment.subsec_nanosecond() }
}
