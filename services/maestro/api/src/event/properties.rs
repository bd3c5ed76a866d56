//! The form over MQTT: every attribute a user property of text, the payload as it is.

use bytes::Bytes;

use super::{Attribute, CloudEvent, InvalidEvent, SPECIFICATION, STRUCTURED};

const PREFIX: &str = "ce-";

impl CloudEvent {
    /// The user properties, in a fixed order. The content type is a property of MQTT's own.
    pub fn to_properties(&self) -> Vec<(String, String)> {
        let mut properties = vec![
            ("ce-specversion".to_owned(), SPECIFICATION.to_owned()),
            ("ce-id".to_owned(), self.id.clone()),
            ("ce-source".to_owned(), self.source.clone()),
            ("ce-type".to_owned(), self.kind.clone()),
        ];
        if let Some(time) = self.time {
            properties.push(("ce-time".to_owned(), time.to_string()));
        }
        let extensions =
            self.extensions.iter().map(|(name, value)| (format!("{PREFIX}{name}"), value.to_string()));
        properties.extend(extensions);
        properties
    }

    /// Reads an event back. Properties without the prefix are somebody else's. An event that is JSON as a whole is
    /// taken too.
    pub fn from_properties<'a>(
        content_type: Option<&str>,
        properties: impl IntoIterator<Item = (&'a str, &'a str)>,
        data: Bytes,
    ) -> Result<Self, InvalidEvent> {
        if content_type.is_some_and(|kind| kind.starts_with(STRUCTURED)) {
            return Self::from_json(&data);
        }
        let mut event = Self {
            id: String::new(),
            source: String::new(),
            kind: String::new(),
            time: None,
            content_type: content_type.map(str::to_owned),
            extensions: Default::default(),
            data,
        };
        let mut specification = None;
        for (name, value) in properties {
            let Some(name) = name.strip_prefix(PREFIX) else { continue };
            match name {
                "specversion" => specification = Some(value),
                "id" => event.id = value.to_owned(),
                "source" => event.source = value.to_owned(),
                "type" => event.kind = value.to_owned(),
                "time" => event.time = Some(super::json::moment("time", value)?),
                name => drop(event.extensions.insert(name.to_owned(), Attribute::Text(value.to_owned()))),
            }
        }
        match specification {
            None => Err(InvalidEvent::Missing("specversion")),
            Some(SPECIFICATION) => event.complete(),
            Some(other) => {
                Err(InvalidEvent::Attribute { name: "specversion".to_owned(), value: other.to_owned() })
            }
        }
    }

    /// Itself, if it has what every event has.
    pub(super) fn complete(self) -> Result<Self, InvalidEvent> {
        match () {
            () if self.id.is_empty() => Err(InvalidEvent::Missing("id")),
            () if self.source.is_empty() => Err(InvalidEvent::Missing("source")),
            () if self.kind.is_empty() => Err(InvalidEvent::Missing("type")),
            () => Ok(self),
        }
    }
}
