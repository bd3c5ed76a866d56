use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pilothouse_arm::ProvisioningState::{Provisioning, Succeeded};
use pilothouse_clusters_service_api::ClusterState;
use pilothouse_clusters_service_api::simulated::{Fault, Mode};
use pilothouse_test_support::eventually;
use rstest::rstest;

use crate::rig::{Engine, PATIENCE, Rig};

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_backend_killed_after_every_step_is_taken_over_by_the_next(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine, Mode::Explicit).await else { return };
    let operation = rig.put_cluster("First").await;
    let backend = rig.mortal().await;
    let made = rig.until_made("First").await;
    backend.kill();
    rig.service.change_cluster(&made.id, |cluster| cluster.status.state = ClusterState::Installing);
    let backend = rig.mortal().await;
    rig.until_state(&operation, Provisioning).await;
    backend.kill();
    rig.service.finish(&made);
    let backend = rig.mortal().await;
    rig.until_state(&operation, Succeeded).await;
    backend.kill();

    let deletion = rig.delete_cluster("First").await;
    let backend = rig.mortal().await;
    eventually("deletion is asked for", PATIENCE, || async {
        match rig.service.clusters()[0].state {
            ClusterState::Uninstalling => Ok(()),
            state => Err(format!("{state:?}")),
        }
    })
    .await;
    backend.kill();
    rig.service.finish(&made);
    let backend = rig.backend().await;
    rig.until_state(&deletion, Succeeded).await;
    assert!(rig.is_gone("First").await);
    assert_eq!(rig.service.asked()[&operation.id.to_string()], 1);
    backend.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_asked_for_again(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    rig.service.inject_times(3, Fault::LoseAnswer, |call| call.is_creation());
    let backend = rig.backend().await;
    let operation = rig.put_cluster("First").await;
    let operation = rig.until_state(&operation, Succeeded).await;
    assert_eq!(rig.service.clusters().len(), 1);
    let asked = operation.steps.iter().find(|step| step.number == 4).unwrap();
    assert!(asked.message.starts_with("asked Clusters Service"), "{asked:?}");
    assert!(asked.attempt > 1, "{asked:?}");
    backend.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn two_backends_do_the_work_once_and_never_at_the_same_time(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    const CLUSTERS: usize = 20;
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    let (one, two) = (rig.backend().await, rig.backend().await);
    let mut operations = Vec::new();
    for number in 0..CLUSTERS {
        operations.push(rig.put_cluster(&format!("c{number}")).await);
    }
    for operation in &operations {
        rig.until_state(operation, Succeeded).await;
    }
    let mut deletions = Vec::new();
    for number in 0..CLUSTERS {
        deletions.push(rig.delete_cluster(&format!("c{number}")).await);
    }
    for deletion in &deletions {
        rig.until_state(deletion, Succeeded).await;
    }
    assert_eq!(rig.service.asked().into_values().collect::<Vec<_>>(), [1; CLUSTERS]);
    assert_eq!(rig.service.most_at_once_of_any(), 1);
    one.stop().await;
    two.stop().await;
}

/// Were every end a reason to wait longer, so many would take far longer than anybody waits here.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_broken_off_again_and_again_is_taken_up_again_at_once() {
    const TIMES: usize = 40;
    let Some(rig) = Rig::new(Engine::Sqlite, Mode::Automatic).await else { return };
    let watches = Arc::new(AtomicUsize::new(0));
    let counted = watches.clone();
    rig.service.inject(Fault::BreakOff, move |call| {
        call.is_watch() && counted.fetch_add(1, Ordering::Relaxed) < TIMES
    });
    let backend = rig.backend().await;
    eventually("the watch goes on", PATIENCE, || async {
        let begun = watches.load(Ordering::Relaxed);
        if begun > TIMES { Ok(()) } else { Err(format!("it was begun {begun} times")) }
    })
    .await;
    backend.stop().await;
}

/// A backend that is stopped in its tracks while it asks, and one that takes over when the lease is over.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_lost_its_lease_has_hung_up_before_the_next_one_asks(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    rig.service.inject_times(1, Fault::Stall, |call| call.is_creation());
    let operation = rig.put_cluster("First").await;
    let first = rig.mortal().await;
    eventually("it hangs", PATIENCE, || async {
        if rig.service.stalled() == 1 { Ok(()) } else { Err("not yet") }
    })
    .await;
    first.kill();
    let second = rig.backend().await;
    rig.until_state(&operation, Succeeded).await;
    assert_eq!(rig.service.clusters().len(), 1);
    assert_eq!(rig.service.most_at_once_of_any(), 1);
    second.stop().await;
}
