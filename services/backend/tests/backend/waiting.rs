use std::time::Duration;

use pilothouse_arm::ProvisioningState::{Canceled, Deleting, Succeeded};
use pilothouse_backend::Config;
use pilothouse_clusters_service_api::simulated::{Fault, Mode};
use pilothouse_records::Hold;
use pilothouse_test_support::eventually;
use rstest::rstest;

use crate::rig::{Engine, PATIENCE, Rig};

/// Nothing is seen by looking again; whatever is seen was announced.
fn without_resync() -> Config {
    Config { resync: "1h".parse().unwrap(), ..Rig::config() }
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_on_hold_is_left_alone_until_it_is_released(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    let backend = rig.backend_with(without_resync()).await;
    rig.ready_cluster("First").await;
    let since = rig.clock.now();
    let hold = Hold { reason: "an investigation".to_owned(), by: "ada".to_owned(), since };
    rig.alter_cluster("First", |cluster| cluster.hold = Some(hold.clone())).await;
    let calls = rig.service.calls().len();
    let deletion = rig.delete_cluster("First").await;
    let waiting = rig.until("it waits", &deletion, |now| now.waiting.is_some()).await.waiting.unwrap();
    assert_eq!(waiting.reason, "the cluster was put on hold by ada: an investigation");
    assert_eq!(waiting.next_at, None);
    assert_eq!(rig.stored(&deletion).await.state, Deleting);
    assert_eq!(rig.service.calls().len(), calls);
    rig.alter_cluster("First", |cluster| cluster.hold = None).await;
    let ended = rig.until_state(&deletion, Succeeded).await;
    assert!(ended.waiting.is_none() && ended.requeued_at >= Some(since));
    backend.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_fails_says_why_and_when_it_is_made_again(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
    #[values(
        Fault::Unavailable,
        Fault::Foreign { status: 429, body: "too many requests" },
        Fault::Foreign { status: 404, body: "no such route" },
        Fault::Foreign { status: 403, body: r#"{"title": "Forbidden", "status": 403}"# },
        Fault::Foreign { status: 200, body: "<html>signing in</html>" },
        Fault::Disconnect,
        Fault::Stall,
        Fault::LoseAnswer,
        Fault::Late(Duration::from_secs(2))
    )]
    fault: Fault,
) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    rig.service.inject(fault, |call| call.is_creation());
    let backend = rig.backend_with(Config { call_limit: "500ms".parse().unwrap(), ..without_resync() }).await;
    let operation = rig.put_cluster("First").await;
    let seen = rig
        .until("it was tried twice", &operation, |now| {
            now.waiting.as_ref().is_some_and(|waiting| waiting.attempts >= 2)
        })
        .await;
    let waiting = seen.waiting.unwrap();
    assert!(
        waiting.reason.starts_with("Clusters Service cannot be asked about cluster First: "),
        "{waiting:?}"
    );
    assert!(waiting.next_at.is_some());
    let step = seen.steps.iter().find(|step| step.number == 4).unwrap();
    assert!(step.attempt >= 3 && step.finished_at.is_none(), "{step:?}");
    rig.service.clear_faults();
    let ended = rig.until_state(&operation, Succeeded).await;
    assert!(ended.waiting.is_none());
    assert_eq!(rig.service.clusters().len(), 1);
    backend.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn what_an_administrator_cancels_is_left_alone_and_what_is_queued_again_is_tried_at_once(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    rig.service.inject(Fault::Unavailable, |call| call.is_creation());
    let backend = rig.backend_with(Config { call_limit: "50ms".parse().unwrap(), ..without_resync() }).await;
    let canceled = rig.put_cluster("First").await;
    let requeued = rig.put_cluster("Second").await;
    for operation in [&canceled, &requeued] {
        rig.until("it waits", operation, |now| now.waiting.is_some()).await;
    }
    let now = rig.clock.now();
    rig.alter(&canceled, |operation| operation.cancel("stop that", now)).await;
    // Far beyond any wait of its own.
    let far = now.saturating_add(jiff::SignedDuration::from_hours(5)).unwrap();
    rig.alter(&requeued, |operation| {
        operation.waiting = operation
            .waiting
            .clone()
            .map(|waiting| pilothouse_records::Waiting { next_at: Some(far), ..waiting });
    })
    .await;
    rig.service.clear_faults();
    let asked = rig.service.asked().get(&canceled.id.to_string()).copied().unwrap_or_default();
    rig.alter(&requeued, |operation| {
        operation.waiting = None;
        operation.requeued_at = Some(now);
    })
    .await;
    rig.until_state(&requeued, Succeeded).await;
    let stored = rig.stored(&canceled).await;
    assert_eq!((stored.state, stored.error.clone().unwrap().message), (Canceled, "stop that".to_owned()));
    // A pass that had read it before may have been under way.
    let asked_since = rig.service.asked().get(&canceled.id.to_string()).copied().unwrap_or_default() - asked;
    assert!(asked_since <= 1, "asked {asked_since} times after it was cancelled");
    backend.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_state_from_which_nothing_follows_is_looked_at_again(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine, Mode::Explicit).await else { return };
    let backend = rig.backend_with(without_resync()).await;
    let operation = rig.put_cluster("First").await;
    let made = rig.until_made("First").await;
    rig.service.change_cluster(&made.id, |cluster| {
        cluster.status.state = pilothouse_clusters_service_api::ClusterState::Unknown;
        cluster.status.description = "hibernating".into();
    });
    let seen = rig.until("it waits", &operation, |now| now.waiting.is_some()).await;
    let reason = seen.waiting.unwrap().reason;
    assert!(reason.ends_with(": hibernating"), "{reason}");
    eventually("it is asked about again", PATIENCE, || async {
        let reads = rig.service.calls().iter().filter(|call| call.is_read()).count();
        if reads > 2 { Ok(()) } else { Err(reads) }
    })
    .await;
    rig.service.change_cluster(&made.id, |cluster| {
        cluster.status.state = pilothouse_clusters_service_api::ClusterState::Ready;
    });
    rig.until_state(&operation, Succeeded).await;
    backend.stop().await;
}
