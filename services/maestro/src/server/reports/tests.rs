use jiff::Timestamp;
use pilothouse_maestro_api::EventType;
use pilothouse_runtime::{Controller, Reason, Shutdown, reconcile};
use pilothouse_store::{Keyring, Location, Options, Store};
use prometheus_client::registry::Registry;
use serde_json::json;

use super::*;
use crate::link::Link;
use crate::server::accepted::Accepted;
use crate::server::outbox::Outbox;

async fn reports(link: &Link) -> Reports {
    let catalog = crate::server::records::catalog();
    let options = Options {
        keyring: Some(Keyring::ephemeral().unwrap()),
        ..Options::new(Location::memory(), catalog, Shutdown::new())
    };
    let records = Records::try_new(Store::open(options).await.unwrap()).unwrap();
    let (clock, source_id) = (Clock::system(), "maestro".to_owned());
    let metrics = Metrics::register(&mut Registry::default());
    let outbox = Outbox {
        records: records.clone(),
        link: link.clone(),
        share: Share::All,
        clock: clock.clone(),
        source_id: source_id.clone(),
        metrics: metrics.clone(),
        accepted: Accepted::default(),
    };
    let resync = Resync {
        records: records.clone(),
        link: link.clone(),
        clock: clock.clone(),
        source_id: source_id.clone(),
        share: Share::All,
        metrics: metrics.clone(),
    };
    let shutdown = Shutdown::new();
    Reports {
        records,
        clock,
        source_id,
        again: Again::new(shutdown.clone(), metrics.clone()),
        metrics,
        resync,
        tasks: Tasks::new("reports", shutdown),
        share: Share::All,
        is_broadcast: false,
        outbox: Controller::new("outbox", outbox, reconcile::Options::default()).handle(),
        in_hand: InHand::default(),
    }
}

#[tokio::test]
async fn agent_that_asks_before_it_can_be_told_is_answered_when_it_can() {
    let (link, agents, happenings) = Link::to_agents();
    let reports = reports(&link).await;
    let payload = json!({"specversion": "1.0", "id": "1", "source": "cs", "type": "t",
        "data": {"manifests": [1]}});
    let resource = Resource {
        id: "r".into(),
        name: "r".into(),
        source: "cs".into(),
        consumer_name: "c1".into(),
        version: 1,
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
        deleted_at: None,
        payload: payload.into(),
        status: None,
    };
    reports.records.write(&resource, Precondition::Absent).await.unwrap();
    let tasks = reports.tasks.clone();
    tasks.spawn("reports", OnExit::LogError, async move {
        reports.run(happenings).await;
        Ok(())
    });
    let kind = EventType::new(Subresource::Spec, Action::ResyncRequest);
    let question = CloudEvent::new("agent", &kind, Timestamp::UNIX_EPOCH)
        .with(extension::CLUSTER_NAME, "c1")
        .with(extension::ORIGINAL_SOURCE, "")
        .with_data(r#"{"resourceVersions":[]}"#);
    agents.arrived(question).await.unwrap();
    // Time for an answer that would be in vain.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let mut seat = agents.join("c1".to_owned()).await;
    let told = tokio::time::timeout(Duration::from_secs(60), seat.queue.recv()).await;
    let told = told.expect("an answer").unwrap();
    assert_eq!(told.text(extension::RESOURCE_ID).as_deref(), Some("r"));
}

/// The connection stands all the while, so that nothing else has the question asked.
#[tokio::test(start_paused = true)]
async fn consumer_whose_question_was_not_acknowledged_is_asked_again_and_no_other() {
    let (link, agents, _happenings) = Link::to_agents();
    let reports = reports(&link).await;
    let mut seats = Vec::new();
    for consumer in ["busy", "idle"] {
        reports.records.ensure_consumer(consumer, Timestamp::UNIX_EPOCH).await.unwrap();
        seats.push(agents.join(consumer.to_owned()).await);
    }
    let [busy, idle] = &mut seats[..] else { panic!("two") };
    let kind = EventType::new(Subresource::Spec, Action::ResyncResponse);
    let other =
        CloudEvent::new("maestro", &kind, Timestamp::UNIX_EPOCH).with(extension::CLUSTER_NAME, "busy");
    // As much as it may have before it takes the first.
    while let Ok(()) = link.publish("t".to_owned(), &other).await {}
    reports.ask_all();
    let question = idle.queue.recv().await.unwrap();
    assert_eq!(question.event_type().unwrap().action, Action::ResyncRequest);
    let asked_at_last = async {
        // The second attempt is in vain, too.
        while reports.metrics.put_off.get() < 2 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        while busy.queue.recv().await.unwrap().event_type().unwrap().action != Action::ResyncRequest {}
    };
    tokio::time::timeout(Duration::from_secs(600), asked_at_last).await.expect("a question");
    reports.tasks.shutdown().request(Reason::Asked("the test is over".to_owned()));
    reports.tasks.drain(Duration::from_secs(60)).await.unwrap();
    assert!(idle.queue.try_recv().is_err(), "it was asked once");
    assert!(busy.queue.try_recv().is_err());
}

#[test]
fn only_later_statuses_of_the_present_version_are_news() {
    let mut resource = Resource {
        id: "r".into(),
        name: "r".into(),
        source: "cs".into(),
        consumer_name: "c1".into(),
        version: 2,
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
        deleted_at: None,
        payload: json!({}).into(),
        status: None,
    };
    let event = |sequence: u64| {
        CloudEvent::new("agent", &EventType::new(Subresource::Status, Action::Update), Timestamp::UNIX_EPOCH)
            .with(extension::SEQUENCE_ID, (sequence << 22 | 1 << 12).to_string())
    };
    assert!(is_news(&resource, &event(1), 2), "the first one is");
    assert!(!is_news(&resource, &event(1), 1), "one of an older version is not");
    resource.status =
        Some(json!({"resourceversion": "2", "sequenceid": (5_u64 << 22 | 1 << 12).to_string()}).into());
    assert!(is_news(&resource, &event(6), 2));
    assert!(!is_news(&resource, &event(5), 2), "the same again is not");
    assert!(!is_news(&resource, &event(4), 2));
    resource.status =
        Some(json!({"resourceversion": 1, "sequenceid": (9_u64 << 22 | 1 << 12).to_string()}).into());
    assert!(is_news(&resource, &event(4), 2), "the first of a new version is");
}
