use jiff::Timestamp;
use pilothouse_arm::ProvisioningState::{Accepted, Deleting, Failed, Provisioning, Succeeded, Updating};
use pilothouse_clusters_service_api::simulated::{Fault, Mode};
use pilothouse_clusters_service_api::{ClusterState, PROVISION_SHARD};
use pilothouse_runtime::Clock;
use pilothouse_test_support::eventually;
use rstest::rstest;
use serde_json::json;
use std::time::Duration;

use crate::rig::{Engine, PATIENCE, Rig, cluster_id, new_cluster};

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_followed_until_it_is_ready(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    let Some(rig) = Rig::new(engine, Mode::Explicit).await else { return };
    let backend = rig.backend().await;
    let operation = rig.put_cluster("First").await;
    let made = rig.until_made("First").await;
    assert_eq!(rig.service.calls()[0].correlation_id.as_deref(), Some("the-correlation"));
    assert_eq!(rig.stored(&operation).await.state, Accepted);
    rig.service.change_cluster(&made.id, |cluster| {
        cluster.status.state = ClusterState::Installing;
        cluster.status.description = "step 9: waiting for the control plane".into();
    });
    let now = rig.until_state(&operation, Provisioning).await;
    let waiting = now.steps.last().unwrap();
    assert_eq!((waiting.number, waiting.component.as_str()), (9, "services/hypershift"));
    assert_eq!(rig.stored_cluster("First").await.resource.status.provisioning_state, Provisioning);
    let active =
        r#"operations_active{resource="Cluster",request="Create",state="Provisioning",waiting="No"} 1"#;
    eventually("it is counted", PATIENCE, || async {
        let numbers = backend.numbers();
        if numbers.contains(active) { Ok(()) } else { Err(numbers) }
    })
    .await;

    rig.service.finish(&made);
    let now = rig.until_state(&operation, Succeeded).await;
    assert!(now.steps.iter().all(|step| step.finished_at.is_some()), "{:?}", now.steps);
    assert_eq!(now.steps.last().unwrap().number, 14);
    let cluster = rig.stored_cluster("first").await;
    assert_eq!(cluster.active_operation, None);
    let (hub, made) = (&cluster.resource, rig.until_made("First").await);
    assert_eq!(hub.status.provisioning_state, Succeeded);
    assert_eq!(hub.status.api_url, made.api.url);
    assert!(hub.status.api_url.is_some());
    assert_eq!(hub.status.base_domain.as_deref(), Some("simulated.test"));
    assert_eq!(hub.status.active_versions, ["4.20"]);
    assert_eq!(
        (hub.spec.base_domain_prefix.as_deref(), hub.spec.version.id.as_deref()),
        (Some("first"), Some("4.20"))
    );
    let ended = r#"operations_ended_total{resource="Cluster",request="Create",end="Succeeded"} 1"#;
    let gone =
        r#"operations_active{resource="Cluster",request="Create",state="Provisioning",waiting="No"} 0"#;
    eventually("its end is counted", PATIENCE, || async {
        let numbers = backend.numbers();
        if numbers.contains(ended) && numbers.contains(gone) { Ok(()) } else { Err(numbers) }
    })
    .await;
    backend.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_asked_for_once_with_all_it_says_and_followed(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine, Mode::Explicit).await else { return };
    let backend = rig.mortal().await;
    let made = rig.ready_cluster("First").await;
    rig.service.set_mode(Mode::Explicit);
    let update = json!({"node_drain_grace_period": {"unit": "minutes", "value": 7}});
    let operation = rig.patch_cluster("First", update).await;
    rig.until_state(&operation, Updating).await;
    // Whoever takes over goes on where the first one was.
    backend.kill();
    let backend = rig.backend().await;
    rig.service.finish(&made);
    rig.until_state(&operation, Succeeded).await;
    let stored = rig.stored_cluster("First").await;
    assert_eq!((stored.resource.status.provisioning_state, stored.active_operation), (Succeeded, None));
    assert_eq!(rig.service.asked()[&operation.id.to_string()], 1);
    let updates: Vec<_> = rig.service.calls().into_iter().filter(|call| call.is_update()).collect();
    assert_eq!(updates[0].body["node_drain_grace_period"]["value"], 7);
    backend.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_what_is_only_stored_asks_nobody(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine, Mode::Explicit).await else { return };
    let backend = rig.backend().await;
    rig.ready_cluster("First").await;
    let calls = rig.service.calls().len();
    let mut operation = rig.operation(pilothouse_records::Request::Update, &cluster_id("First"), None);
    operation.clusters_service_request = None;
    let mut cluster = rig.stored_cluster("First").await;
    cluster.active_operation = Some(operation.id);
    let mut change = rig.records.change(crate::rig::subscription()).unwrap();
    change.cluster_replace(&cluster).unwrap().operation_create(&operation).unwrap().commit().await.unwrap();
    rig.until_state(&operation, Succeeded).await;
    assert_eq!(rig.service.calls().len(), calls);
    backend.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_arrives_with_its_cause(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    let Some(rig) = Rig::new(engine, Mode::Explicit).await else { return };
    let backend = rig.backend().await;
    for (name, code, message, expected) in [
        (
            "First",
            "CloudResourcesFailed",
            "Step 5 (services/clusters-service) failed on cluster x: no quota. To do: ask for more.",
            (5, "no quota", "ask for more"),
        ),
        (
            "Second",
            "OCM4001",
            "checks failed",
            (5, "checks failed", "remove the cause, delete the resource and make it anew"),
        ),
    ] {
        let operation = rig.put_cluster(name).await;
        let made = rig.until_made(name).await;
        rig.service.fail(&made, code, message);
        let error = rig.until_state(&operation, Failed).await.error.unwrap();
        let failure = &error.additional_info[0].info;
        assert_eq!(error.code, code);
        assert_eq!((failure.step, failure.observed.as_str(), failure.remedy.as_str()), expected);
        let cluster = rig.stored_cluster(name).await;
        assert_eq!((cluster.resource.status.provisioning_state, cluster.active_operation), (Failed, None));
    }
    backend.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_creation_that_clusters_service_refuses_fails_with_what_it_said(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
    // What it says of a region that is full is no reason to ask again and again.
    #[values((400, None, "CLUSTERS-MGMT-400"), (503, Some(PROVISION_SHARD), "NoCapacity"))] said: (
        u16,
        Option<&'static str>,
        &str,
    ),
) {
    let Some(rig) = Rig::new(engine, Mode::Explicit).await else { return };
    let (status, target, code) = said;
    let fault = Fault::Refuse { status, target, message: "there is no room for it" };
    rig.service.inject(fault, |call| call.is_creation());
    let backend = rig.backend().await;
    let operation = rig.put_cluster("First").await;
    let error = rig.until_state(&operation, Failed).await.error.unwrap();
    assert_eq!(error.code, code);
    assert!(error.message.contains("there is no room for it"), "{error}");
    let failure = &error.additional_info[0].info;
    assert_eq!((failure.step, failure.component.as_str()), (4, "services/clusters-service"));
    backend.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_cluster_is_gone_when_nothing_of_it_is_left(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
    #[values(true, false)] written_down: bool,
) {
    let Some(rig) = Rig::new(engine, Mode::Explicit).await else { return };
    let created = rig.put_cluster("First").await;
    let id = if written_down {
        let backend = rig.backend().await;
        let made = rig.until_made("First").await;
        backend.stop().await;
        made.id
    } else {
        // It was made, and then the backend died before writing down its id.
        rig.service.make_cluster(new_cluster(&cluster_id("First"))).id
    };
    let operation = rig.delete_cluster("First").await;
    let backend = rig.backend().await;
    eventually("deletion is asked for", PATIENCE, || async {
        match rig.service.clusters()[0].state {
            ClusterState::Uninstalling => Ok(()),
            state => Err(format!("{state:?}")),
        }
    })
    .await;
    assert_eq!(rig.stored_cluster("First").await.resource.status.provisioning_state, Deleting);
    rig.service.finish(&id);
    rig.until_state(&operation, Succeeded).await;
    assert!(rig.is_gone("First").await);
    assert_eq!(rig.stored(&created).await.error.clone().unwrap().code, "Canceled");
    backend.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn what_takes_too_long_fails_and_says_what_it_was_waiting_for(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let (clock, time) = Clock::manual("2026-11-15T00:00:00Z".parse::<Timestamp>().unwrap());
    let Some(rig) = Rig::with_clock(engine, Mode::Explicit, clock).await else { return };
    let backend = rig.backend().await;
    let made_late = rig.put_cluster("First").await;
    rig.until_made("First").await;
    time.advance(Duration::from_secs(30 * 60));
    let begun_anew = rig.put_cluster("Second").await;
    rig.until_made("Second").await;
    time.advance(Duration::from_secs(31 * 60));
    let error = rig.until_state(&made_late, Failed).await.error.unwrap();
    assert_eq!(error.code, "DeadlineExceeded");
    assert!(error.message.contains("last seen: accepted"), "{error}");
    // Another half hour would be the end of the second one, too, had nobody begun it anew.
    let now = rig.clock.now();
    rig.alter(&begun_anew, |operation| operation.requeued_at = Some(now)).await;
    time.advance(Duration::from_secs(45 * 60));
    let third = rig.put_cluster("Third").await;
    rig.until_made("Third").await;
    assert_eq!(rig.stored(&begun_anew).await.state, Accepted);
    time.advance(Duration::from_secs(16 * 60));
    rig.until_state(&begun_anew, Failed).await;
    assert_eq!(rig.stored(&third).await.state, Accepted);
    backend.stop().await;
}
