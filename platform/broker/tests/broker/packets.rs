use pilothouse_broker::{Access, Authorizer, Limits};
use rumqttc::mqttbytes::QoS;
use rumqttc::mqttbytes::v5::{
    Connect, ConnectAuth, ConnectProperties, ConnectReturnCode, DisconnectReasonCode, LastWill, Packet,
    PubAck, PubAckReason, Publish, SubscribeReasonCode,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Broker, LIMIT, Raw};

fn disconnect_reason(packet: Option<Packet>) -> DisconnectReasonCode {
    match packet {
        Some(Packet::Disconnect(disconnect)) => disconnect.reason_code,
        other => panic!("expected a DISCONNECT, not {other:?}"),
    }
}

fn puback_reason(packet: &Packet) -> PubAckReason {
    match packet {
        Packet::PubAck(answer) => answer.reason,
        other => panic!("expected a PUBACK, not {other:?}"),
    }
}

#[tokio::test]
async fn second_client_with_the_same_id_puts_the_first_one_out() {
    let broker = Broker::start().await;
    let mut first = Raw::connect(&broker, "twin").await;
    first.subscribe("a").await;
    let mut second = Raw::connect(&broker, "twin").await;
    assert_eq!(disconnect_reason(first.next().await), DisconnectReasonCode::SessionTakenOver);
    assert_eq!(first.next().await, None);
    let answer = second.publish("a", b"x").await;
    assert_eq!(
        puback_reason(&answer),
        PubAckReason::NoMatchingSubscribers,
        "the subscription went with its session"
    );
}

#[tokio::test]
async fn subscriber_is_sent_no_more_than_it_takes_at_once() {
    let broker = Broker::start().await;
    let properties = ConnectProperties { receive_maximum: Some(2), ..ConnectProperties::new() };
    let mut subscriber = Raw::connect_with(&broker, "subscriber", properties).await;
    subscriber.subscribe("a/+").await;
    let mut publisher = Raw::connect(&broker, "publisher").await;
    for payload in [b"1", b"2", b"3"] {
        assert_eq!(puback_reason(&publisher.publish("a/b", payload).await), PubAckReason::Success);
    }
    let mut ids = Vec::new();
    for expected in [b"1", b"2"] {
        let Some(Packet::Publish(message)) = subscriber.next().await else { panic!("no message") };
        assert_eq!(&message.payload[..], expected);
        ids.push(message.pkid);
    }
    // The answer to a ping comes after whatever was sent before it: the third message was not.
    subscriber.send(Packet::PingReq).await;
    assert_eq!(subscriber.next().await, Some(Packet::PingResp));
    subscriber.send(Packet::PubAck(PubAck::new(ids[0], None))).await;
    let Some(Packet::Publish(message)) = subscriber.next().await else { panic!("no message") };
    assert_eq!(&message.payload[..], b"3");
    assert!(!ids.contains(&message.pkid));
}

#[tokio::test]
async fn subscriber_that_does_not_keep_up_is_disconnected_and_publishers_go_on() {
    let limits = Limits { queued_messages: 10, ..Limits::default() };
    let broker = Broker::with(limits, Authorizer::open()).await;
    let properties = ConnectProperties { receive_maximum: Some(1), ..ConnectProperties::new() };
    let mut slow = Raw::connect_with(&broker, "slow", properties).await;
    slow.subscribe("a").await;
    let mut publisher = Raw::connect(&broker, "publisher").await;
    for _ in 0..20 {
        puback_reason(&publisher.publish("a", b"x").await);
    }
    assert!(matches!(slow.next().await, Some(Packet::Publish(_))));
    assert_eq!(disconnect_reason(slow.next().await), DisconnectReasonCode::QuotaExceeded);
    let answer = publisher.publish("a", b"x").await;
    assert_eq!(puback_reason(&answer), PubAckReason::NoMatchingSubscribers);
    assert!(broker.metrics().contains("connections_ended_total{end=\"Slow\"} 1"), "{}", broker.metrics());
}

#[tokio::test]
async fn what_is_not_offered_is_refused_with_its_reason() {
    let broker = Broker::start().await;
    let mut retained = Publish::new("a", QoS::AtLeastOnce, "x", None);
    (retained.pkid, retained.retain) = (1, true);
    let mut twice = Publish::new("a", QoS::ExactlyOnce, "x", None);
    twice.pkid = 1;
    for (publish, reason) in
        [(retained, DisconnectReasonCode::RetainNotSupported), (twice, DisconnectReasonCode::QoSNotSupported)]
    {
        let mut client = Raw::connect(&broker, "client").await;
        client.send(Packet::Publish(publish)).await;
        assert_eq!(disconnect_reason(client.next().await), reason);
    }

    let mut client = Raw::dial(&broker).await;
    let connect = Connect { keep_alive: 60, client_id: "w".into(), clean_start: true, properties: None };
    let will = LastWill::new("a", "gone", QoS::AtLeastOnce, false, None);
    client.send(Packet::Connect(connect, Some(will), ConnectAuth::None)).await;
    let Some(Packet::ConnAck(answer)) = client.next().await else { panic!("no CONNACK") };
    assert_eq!(answer.code, ConnectReturnCode::ImplementationSpecificError);

    let limits = Limits { packet_bytes: 100, ..Limits::default() };
    let small = Broker::with(limits, Authorizer::open()).await;
    let mut client = Raw::connect(&small, "client").await;
    let large = Publish::new("a", QoS::AtMostOnce, vec![0; 200], None);
    client.send(Packet::Publish(large)).await;
    assert_eq!(disconnect_reason(client.next().await), DisconnectReasonCode::PacketTooLarge);
}

#[tokio::test]
async fn silent_client_is_disconnected() {
    let limits = Limits { keep_alive_seconds: 1, ..Limits::default() };
    let broker = Broker::with(limits, Authorizer::open()).await;
    let mut client = Raw::connect(&broker, "client").await;
    assert_eq!(disconnect_reason(client.next().await), DisconnectReasonCode::KeepAliveTimeout);
}

#[tokio::test]
async fn authorizer_is_asked_about_ids_topics_and_filters() {
    let authorizer = Authorizer::new(|client, access| match access {
        Access::Connect => client.id != "bad",
        Access::Publish(topic) => topic == "own/topic",
        Access::Subscribe(filter) => filter == "own/+",
    });
    let broker = Broker::with(Limits::default(), authorizer).await;
    let mut client = Raw::connect(&broker, "good").await;
    for (filter, expected) in [
        ("$share/group/own/+", SubscribeReasonCode::Success(QoS::AtLeastOnce)),
        ("#", SubscribeReasonCode::NotAuthorized),
        ("a/#/b", SubscribeReasonCode::TopicFilterInvalid),
    ] {
        let Packet::SubAck(answer) = client.subscribe(filter).await else { panic!("no SUBACK") };
        assert_eq!(answer.return_codes, [expected], "{filter}");
    }
    assert_eq!(puback_reason(&client.publish("foreign", b"x").await), PubAckReason::NotAuthorized);

    let mut client = Raw::dial(&broker).await;
    let connect = Connect { keep_alive: 60, client_id: "bad".into(), clean_start: true, properties: None };
    client.send(Packet::Connect(connect, None, ConnectAuth::None)).await;
    let Some(Packet::ConnAck(answer)) = client.next().await else { panic!("no CONNACK") };
    assert_eq!(answer.code, ConnectReturnCode::NotAuthorized);
}

#[tokio::test]
async fn clients_are_told_when_the_broker_stops() {
    let broker = Broker::start().await;
    let mut client = Raw::connect(&broker, "client").await;
    broker.stop().await;
    assert_eq!(disconnect_reason(client.next().await), DisconnectReasonCode::ServerShuttingDown);
    assert_eq!(client.next().await, None);
}

#[tokio::test]
async fn bytes_that_are_no_packets_end_their_own_connection_only() {
    let broker = Broker::start().await;
    let mut healthy = Raw::connect(&broker, "healthy").await;
    for junk in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0x10, 0xff, 0xff, 0xff, 0xff],
        &[0x10, 0x04, 0, 9, 1, 1],
        &[0xf0, 0],
    ] {
        let mut stream = tokio::net::TcpStream::connect(broker.address).await.unwrap();
        stream.write_all(junk).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut rest = Vec::new();
        let read = tokio::time::timeout(LIMIT, stream.read_to_end(&mut rest)).await;
        assert!(read.is_ok(), "{junk:?} was not answered by closing");
    }
    healthy.send(Packet::PingReq).await;
    assert_eq!(healthy.next().await, Some(Packet::PingResp));
}
