//! Agents that dial the server: the same as over a broker, without one.

use pilothouse_maestro_api::proto::SubscriptionRequest;
use pilothouse_maestro_api::{
    Action, CloudEvent, DATA_TYPE, Dial, Error, EventChannel, EventType, Subresource, extension, work_uid,
};
use pilothouse_test_support::eventually;

use crate::cluster::PATIENCE;
use crate::flow::story;
use crate::replicas::until_sent;
use crate::world::{BrokerPart, CONSUMER, SOURCE, World, shows, until, work};

#[tokio::test]
async fn bundle_is_applied_reported_changed_and_removed_without_a_broker() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::with(BrokerPart::dialled(), folder.path()).await;
    story(&world).await;
}

#[tokio::test]
async fn what_was_accepted_while_the_agent_was_away_is_sent_when_it_dials_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::with(BrokerPart::dialled(), folder.path()).await;
    let source = world.server.source.clone();
    let mut events = source.subscribe().await.unwrap();
    for name in ["stays", "goes"] {
        source.work_create(&work(name, "1")).await.unwrap();
        until(&mut events, |event| shows(event, "1")).await;
    }
    let before = world.until_map("stays", Some("1")).await.unwrap();

    world.agent.take().unwrap().stop().await;
    source.work_delete(&work("goes", "")).await.unwrap();
    source.work_create(&work("new", "1")).await.unwrap();
    world.restart_agent().await;
    world.until_map("goes", None).await;
    world.until_map("new", Some("1")).await;
    until_sent(&world.server).await;
    let after = world.until_map("stays", Some("1")).await.unwrap();
    assert_eq!(after.metadata.resource_version, before.metadata.resource_version);

    // And the other way round: the agent goes on while the server is away, and dials until it is there.
    drop(events);
    world.server.kill().await;
    world.server = world.broker.server(folder.path()).await;
    let source = world.server.source.clone();
    source.work_update(&work("stays", "2"), 0).await.unwrap();
    world.until_map("stays", Some("2")).await;
    let id = work_uid(SOURCE, CONSUMER, "stays").to_string();
    eventually("the server knows how it is", PATIENCE, || async {
        let bundle = world.server.rest.resource_bundle_get(&id).await.map_err(|error| error.to_string())?;
        let status = bundle.and_then(|bundle| bundle.status).ok_or("no status")?;
        if status.observed_version == 2 { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
}

/// What an agent is told when it does something wrong.
#[tokio::test]
async fn agents_are_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let broker = BrokerPart::dialled();
    let server = broker.server(folder.path()).await;
    let channel = EventChannel::try_new(Dial::plain(format!("http://127.0.0.1:{}", broker.port))).unwrap();
    let subscribe = async |cluster: &str, data_type: &str| {
        let wanted = SubscriptionRequest {
            source: String::new(),
            cluster_name: cluster.to_owned(),
            data_type: data_type.to_owned(),
        };
        match channel.subscribe(wanted).await {
            Ok(_) => "welcome".to_owned(),
            Err(Error::Refused(reason)) => reason,
            Err(error) => error.to_string(),
        }
    };
    assert_eq!(subscribe(CONSUMER, DATA_TYPE).await, "welcome");
    assert_eq!(subscribe("", DATA_TYPE).await, "the name of a cluster is needed");
    assert_eq!(subscribe("nobody", DATA_TYPE).await, "there is no consumer `nobody`; create it first");
    assert_eq!(subscribe(CONSUMER, "a.b.c").await, "`a.b.c` is not served");

    let publish = async |event: CloudEvent| match channel.publish(event).await {
        Ok(()) => "taken".to_owned(),
        Err(Error::Refused(reason)) => reason,
        Err(error) => error.to_string(),
    };
    let event = |subresource, action| {
        CloudEvent::new("agent", &EventType::new(subresource, action), jiff::Timestamp::UNIX_EPOCH)
    };
    let nameless = event(Subresource::Status, Action::Update).with(extension::RESOURCE_ID, "r");
    assert!(publish(nameless).await.contains("clustername"));
    let order = event(Subresource::Spec, Action::Create).with(extension::CLUSTER_NAME, CONSUMER);
    assert!(publish(order).await.contains("is not for servers"));
    server.source.work_create(&work("one", "1")).await.unwrap();
    let id = work_uid(SOURCE, CONSUMER, "one").to_string();
    let status = |cluster: &str| {
        event(Subresource::Status, Action::Update)
            .with(extension::CLUSTER_NAME, cluster)
            .with(extension::ORIGINAL_SOURCE, "maestro")
            .with(extension::RESOURCE_ID, id.as_str())
            .with(extension::RESOURCE_VERSION, 1)
            .with_data(r#"{"conditions":[]}"#)
    };
    assert_eq!(publish(status("other")).await, "`other` reports on a bundle of another consumer");
    assert!(publish(status(CONSUMER).with_data("{")).await.contains("JSON"));
    let before = server.rest.resource_bundle_get(&id).await.unwrap().unwrap();
    assert!(before.status.is_none(), "what was refused changed something");
    assert_eq!(publish(status(CONSUMER)).await, "taken");
    let after = server.rest.resource_bundle_get(&id).await.unwrap().unwrap();
    assert_eq!(after.status.unwrap().observed_version, 1, "taken means stored");
}
