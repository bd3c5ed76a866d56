//! An event as it is stored.
//!
//! Its attributes are looked at by whoever searches and lists. Its data, the manifests of a bundle or a whole status, is by far
//! most of it, and is kept as the text that came: most of those who pass an event on never look inside.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use bytes::Bytes;
use pilothouse_maestro_api::{CloudEvent, InvalidEvent};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// An event that has its data, or refers to it in the text that it was read from.
#[derive(Clone, Debug)]
pub(super) struct StoredEvent<D = Box<RawValue>> {
    attributes: Map<String, Value>,
    data: Option<D>,
}

const DATA: &str = "data";

impl StoredEvent {
    /// Of an event whose data, if there is any, is JSON.
    pub(super) fn try_new(event: &CloudEvent) -> Result<Self, InvalidEvent> {
        let attributes = event.to_attributes()?;
        if event.data.is_empty() {
            return Ok(Self { attributes, data: None });
        }
        let data = serde_json::from_slice(&event.data).map_err(InvalidEvent::Json)?;
        Ok(Self { attributes, data: Some(data) })
    }

    /// As it came.
    pub(super) fn to_event(&self) -> Result<CloudEvent, InvalidEvent> {
        let data = self.data().map_or_else(Bytes::new, |data| data.get().to_owned().into());
        CloudEvent::from_attributes(self.attributes.clone(), data)
    }

    pub(super) fn set(&mut self, attribute: &str, value: Value) {
        self.attributes.insert(attribute.to_owned(), value);
    }
}

impl<D: Deref<Target = RawValue>> StoredEvent<D> {
    pub(super) fn attributes(&self) -> &Map<String, Value> {
        &self.attributes
    }

    pub(super) fn get(&self, attribute: &str) -> Option<&Value> {
        self.attributes.get(attribute)
    }

    pub(super) fn data(&self) -> Option<&RawValue> {
        self.data.as_deref()
    }

    /// The data, read. What has none has what is empty.
    pub(super) fn payload<T: DeserializeOwned + Default>(&self) -> Result<T, InvalidEvent> {
        self.data().map_or_else(
            || Ok(T::default()),
            |data| serde_json::from_str(data.get()).map_err(InvalidEvent::Json),
        )
    }
}

/// Of the same attributes and the same text.
impl<D: Deref<Target = RawValue>> PartialEq for StoredEvent<D> {
    fn eq(&self, other: &Self) -> bool {
        self.attributes == other.attributes
            && self.data().map(RawValue::get) == other.data().map(RawValue::get)
    }
}

impl<D: Serialize> Serialize for StoredEvent<D> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in &self.attributes {
            map.serialize_entry(name, value)?;
        }
        if let Some(data) = &self.data {
            map.serialize_entry(DATA, data)?;
        }
        map.end()
    }
}

impl<'de, D: Deserialize<'de>> Deserialize<'de> for StoredEvent<D> {
    fn deserialize<R: Deserializer<'de>>(deserializer: R) -> Result<Self, R::Error> {
        struct Read<D>(PhantomData<D>);

        impl<'de, D: Deserialize<'de>> Visitor<'de> for Read<D> {
            type Value = StoredEvent<D>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an event")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StoredEvent<D>, A::Error> {
                let mut event = StoredEvent { attributes: Map::new(), data: None };
                while let Some(name) = map.next_key::<String>()? {
                    if name == DATA {
                        event.data = Some(map.next_value()?);
                    } else {
                        event.attributes.insert(name, map.next_value()?);
                    }
                }
                Ok(event)
            }
        }

        deserializer.deserialize_map(Read(PhantomData))
    }
}

#[cfg(test)]
impl From<Value> for StoredEvent {
    fn from(value: Value) -> Self {
        serde_json::from_str(&value.to_string()).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_stays_the_text_that_came() {
        let text = r#"{"specversion":"1.0","id":"1","source":"cs","type":"t","metadata":{"name":"n"},"data":{"b": 1.50,"a":[ ]}}"#;
        let stored: StoredEvent = serde_json::from_str(text).unwrap();
        assert_eq!(stored.data().unwrap().get(), r#"{"b": 1.50,"a":[ ]}"#);
        let event = stored.to_event().unwrap();
        assert_eq!(event.data, r#"{"b": 1.50,"a":[ ]}"#.as_bytes());
        assert_eq!(event.metadata().unwrap().unwrap()["name"], "n");
        let mut again = StoredEvent::try_new(&event).unwrap();
        // What nobody said is JSON, as the form says.
        again.attributes.remove("datacontenttype");
        assert_eq!(again, stored);
        let written: StoredEvent = serde_json::from_str(&serde_json::to_string(&again).unwrap()).unwrap();
        assert_eq!(written, stored);
        let without: StoredEvent = serde_json::from_str(r#"{"id":"1"}"#).unwrap();
        assert!(without != stored && without.data().is_none());
        assert_eq!(without.payload::<Value>().unwrap(), Value::Null);
    }
}
