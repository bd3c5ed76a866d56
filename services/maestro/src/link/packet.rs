//! What a broker takes, and what can be believed: pure.

use pilothouse_maestro_api::{CloudEvent, InvalidEvent, extension};
use rumqttc::Publish;

use super::LinkError;
use crate::topic;

/// Bytes of one property; its length is written with two bytes.
const PROPERTY: usize = 65_535;

/// Whether a message can be sent to a broker that takes packets up to `limit`.
pub(super) fn check(topic: &str, event: &CloudEvent, limit: Option<u32>) -> Result<(), LinkError> {
    let properties = event.to_properties();
    if let Some((name, value)) = properties.iter().find(|(_, value)| value.len() > PROPERTY) {
        let what = name.trim_start_matches("ce-").to_owned();
        return Err(LinkError::TooLarge { what, bytes: value.len(), limit: PROPERTY });
    }
    // Their lengths, and identifiers; a few bytes more than there are at most.
    let content_type = event.content_type.as_deref().unwrap_or_default().len();
    let properties: usize = properties.iter().map(|(name, value)| name.len() + value.len() + 5).sum();
    let bytes = topic.len() + content_type + properties + event.data.len() + 20;
    match limit.and_then(|limit| usize::try_from(limit).ok()) {
        Some(limit) if bytes > limit => Err(LinkError::TooLarge { what: "message".to_owned(), bytes, limit }),
        _ => Ok(()),
    }
}

/// Reads what arrived. Whoever may write to the topic of a consumer speaks for that consumer, and for no other.
pub(super) fn read(publish: &Publish) -> Result<CloudEvent, InvalidEvent> {
    let properties = publish.properties.as_ref();
    let pairs = properties.into_iter().flat_map(|properties| &properties.user_properties);
    let event = CloudEvent::from_properties(
        properties.and_then(|properties| properties.content_type.as_deref()),
        pairs.map(|(name, value)| (name.as_str(), value.as_str())),
        publish.payload.clone(),
    )?;
    let named = event.text(extension::CLUSTER_NAME);
    match (str::from_utf8(&publish.topic).ok().and_then(topic::consumer), named) {
        (Some(consumer), Some(named)) if consumer != named => {
            Err(InvalidEvent::Attribute { name: extension::CLUSTER_NAME.to_owned(), value: named })
        }
        _ => Ok(event),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use pilothouse_maestro_api::{Action, EventType, Subresource};
    use rumqttc::QoS;
    use rumqttc::mqttbytes::v5::PublishProperties;

    use super::*;

    fn event(data: usize) -> CloudEvent {
        let kind = EventType::new(Subresource::Status, Action::Update);
        CloudEvent::new("agent", &kind, Timestamp::UNIX_EPOCH)
            .with(extension::CLUSTER_NAME, "one")
            .with_data(vec![b'x'; data])
    }

    fn packet(topic: &str, event: &CloudEvent) -> Publish {
        let properties = PublishProperties {
            content_type: event.content_type.clone(),
            user_properties: event.to_properties(),
            ..PublishProperties::default()
        };
        Publish::new(topic, QoS::AtLeastOnce, event.data.clone(), Some(properties))
    }

    #[test]
    fn message_is_never_larger_than_it_is_taken_for() {
        let topic = topic::agent_events("maestro", "one");
        for data in [0, 100, 200, 20_000, 100_000, 3_000_000] {
            let event = event(data);
            let bytes = u32::try_from(packet(&topic, &event).size()).unwrap();
            assert!(check(&topic, &event, Some(bytes - 1)).is_err(), "{data}");
            assert!(check(&topic, &event, Some(bytes + 40)).is_ok(), "{data}");
            assert!(check(&topic, &event, None).is_ok());
        }
        let long = event(0).with(extension::METADATA, "x".repeat(70_000));
        let error = check(&topic, &long, None).unwrap_err();
        assert!(error.to_string().contains("metadata"), "{error}");
    }

    #[test]
    fn nobody_speaks_for_another_consumer() {
        assert!(read(&packet(&topic::agent_events("maestro", "one"), &event(0))).is_ok());
        let error = read(&packet(&topic::agent_events("maestro", "two"), &event(0))).unwrap_err();
        assert!(error.to_string().contains("clustername"), "{error}");
    }
}
