use rumqttc::{
    AsyncClient, Event, EventLoop, MqttOptions, Packet, Publish, PublishOptions, PublishProperties, QoS,
};

use crate::support::{Broker, LIMIT};

fn client(broker: &Broker, id: &str) -> (AsyncClient, EventLoop) {
    let mut options = MqttOptions::new(id, (broker.address.ip().to_string(), broker.address.port()));
    options.set_max_packet_size(Some(4 << 20));
    AsyncClient::builder(options).capacity(10).build()
}

async fn until<T>(events: &mut EventLoop, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
    let search = async {
        loop {
            if let Some(found) = wanted(events.poll().await.unwrap()) {
                return found;
            }
        }
    };
    tokio::time::timeout(LIMIT, search).await.unwrap()
}

fn message(event: Event) -> Option<Publish> {
    if let Event::Incoming(Packet::Publish(publish)) = event { Some(publish) } else { None }
}

#[tokio::test]
async fn message_arrives_as_it_was_sent() {
    let broker = Broker::start().await;
    let (subscriber, mut heard) = client(&broker, "subscriber");
    subscriber.subscribe("sources/maestro/consumers/+/agentevents", QoS::AtLeastOnce).await.unwrap();
    until(&mut heard, |event| matches!(event, Event::Incoming(Packet::SubAck(_))).then_some(())).await;

    let properties = PublishProperties {
        content_type: Some("application/json".to_owned()),
        user_properties: [("ce-b", "1"), ("ce-a", "2"), ("ce-b", "3"), ("ce-empty", "")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
        ..PublishProperties::default()
    };
    let payload = vec![b'x'; 1 << 20];
    let (publisher, mut events) = client(&broker, "publisher");
    let options = PublishOptions::new(QoS::AtLeastOnce).properties(properties.clone());
    publisher
        .publish("sources/maestro/consumers/cluster1/agentevents", payload.clone(), options)
        .await
        .unwrap();
    until(&mut events, |event| matches!(event, Event::Incoming(Packet::PubAck(_))).then_some(())).await;

    let received = until(&mut heard, message).await;
    assert_eq!(received.properties, Some(properties));
    assert_eq!(&received.payload[..], &payload[..]);
    assert_eq!((received.qos, received.retain), (QoS::AtLeastOnce, false));
}
