use pilothouse_arm::ProvisioningState::Succeeded;
use pilothouse_backend::Config;
use pilothouse_clusters_service_api::simulated::{Fault, Mode};
use pilothouse_test_support::eventually;
use rstest::rstest;

use crate::rig::{Engine, PATIENCE, Rig, numbered};

/// The first subscription's clusters are asked for and never answered.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_with_very_many_clusters_waiting_delays_no_other(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    const MANY: usize = 200;
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    let (many, few) = (numbered(1), numbered(2));
    let theirs = many.to_string();
    rig.service.inject(Fault::Stall, move |call| call.body["azure"]["subscription_id"] == theirs.as_str());
    for number in 0..MANY {
        rig.put_cluster_of(many, &format!("c{number}")).await;
    }
    let backend = rig.backend_with(Config { concurrency: 4, ..Rig::config() }).await;
    eventually("as many as may be are asked for", PATIENCE, || async {
        match rig.service.stalled() {
            3 => Ok(()),
            stalled => Err(stalled),
        }
    })
    .await;
    let operation = rig.put_cluster_of(few, "first").await;
    rig.until_state(&operation, Succeeded).await;
    assert_eq!(rig.service.stalled(), 3);
    assert_eq!(rig.service.clusters().len(), 1);
    backend.kill();
}

/// Work that has ended, or rests, costs an event nothing.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn news_of_clusters_that_nobody_works_on_cause_no_passes(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    let backend = rig.backend().await;
    let made = rig.ready_cluster("First").await;
    let calls = rig.service.calls().len();
    for number in 0..50 {
        rig.service.change_cluster(&made.id, |cluster| cluster.status.description = format!("news {number}"));
    }
    let other = rig.put_cluster_of(numbered(2), "second").await;
    rig.until_state(&other, Succeeded).await;
    let asked = rig.service.calls().len() - calls;
    assert!(asked <= 4, "{asked} calls");
    backend.stop().await;
}
