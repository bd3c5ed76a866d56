use std::time::Duration;

use pilothouse_clusters_service_api::simulated::{Call, Fault};
use pilothouse_clusters_service_api::{ClusterState, Error, NodePoolUpdate};
use pilothouse_http::Context;
use pilothouse_test_support::eventually;

use crate::support::{PATIENCE, context, new_cluster, with_cluster};

/// Far less than a call is given otherwise.
fn in_a_hurry() -> Context {
    Context::new(Duration::from_millis(300))
}

#[tokio::test]
async fn an_answer_can_be_lost_after_the_work_was_done() {
    let (service, client, first) = with_cluster().await;
    service.inject_times(1, Fault::LoseAnswer, Call::is_creation);
    let lost = client.cluster_create(&context(), &new_cluster("second")).await.unwrap_err();
    assert!(matches!(lost, Error::Unreachable(_)), "{lost:?}");
    assert_eq!(service.clusters().len(), 2);
    client.cluster_create(&context(), &new_cluster("second")).await.unwrap();
    assert_eq!((service.clusters().len(), service.asked()["create-second"]), (2, 2));

    service.inject_times(1, Fault::LoseAnswer, Call::is_deletion);
    assert!(matches!(client.cluster_delete(&context(), &first.id).await, Err(Error::Unreachable(_))));
    assert_eq!(service.clusters().len(), 1, "an answer without a body is lost as well");
}

#[tokio::test]
async fn a_call_can_be_refused_or_the_connection_cut_and_nothing_is_done() {
    let (service, client, _) = with_cluster().await;
    service.inject(Fault::Refuse { status: 400, target: Some("name"), message: "no" }, Call::is_preflight);
    let refused = client.cluster_preflight(&context(), &new_cluster("second")).await.unwrap_err();
    assert_eq!((refused.is_invalid(), refused.details()[0].target.as_str()), (true, "name"));
    service.inject_times(1, Fault::Disconnect, Call::is_creation);
    let cut = client.cluster_create(&context(), &new_cluster("second")).await.unwrap_err();
    assert!(matches!(cut, Error::Unreachable(_)), "{cut:?}");
    assert_eq!(service.clusters().len(), 1);
    // The client itself tries again when it is told that the service is not available.
    service.inject_times(2, Fault::Unavailable, Call::is_mutation);
    client.cluster_create(&context(), &new_cluster("second")).await.unwrap();
    assert_eq!(service.asked()["create-second"], 4);
    service.clear_faults();
    assert!(client.cluster_preflight(&context(), &new_cluster("third")).await.is_ok());
}

#[tokio::test]
async fn what_somebody_else_answers_is_no_answer_of_the_service() {
    let (service, client, cluster) = with_cluster().await;
    for (status, body) in [(404, "no such route"), (403, r#"{"title": "Forbidden"}"#), (200, "<html>")] {
        service.inject_times(1, Fault::Foreign { status, body }, Call::is_read);
        let foreign = client.cluster_get(&context(), &cluster.id).await.unwrap_err();
        assert!(matches!(foreign, Error::Unreadable { .. }), "{foreign:?}");
        assert!(foreign.is_retryable() && !foreign.is_not_found(), "{foreign:?}");
    }
}

#[tokio::test]
async fn whoever_may_not_ask_is_told_so_by_whoever_lets_in() {
    let (service, client, cluster) = with_cluster().await;
    let body =
        r#"{"error": {"code": "CallerNotAllowed", "message": "`maestro` is not among the allowed callers"}}"#;
    service.inject_times(1, Fault::Foreign { status: 403, body }, Call::is_read);
    let told = client.cluster_get(&context(), &cluster.id).await.unwrap_err();
    assert!(told.is_not_allowed() && told.is_retryable(), "{told:?}");
    assert!(told.to_string().ends_with(": `maestro` is not among the allowed callers"), "{told}");
}

#[tokio::test]
async fn a_call_can_hang_until_it_is_let_go() {
    let (service, client, cluster) = with_cluster().await;
    service.inject(Fault::Stall, Call::is_deletion);
    let gave_up = client.cluster_delete(&in_a_hurry(), &cluster.id).await.unwrap_err();
    assert!(matches!(gave_up, Error::Unreachable(_)), "{gave_up:?}");
    eventually("nobody hangs", PATIENCE, || async {
        match service.stalled() {
            0 => Ok(()),
            count => Err(format!("{count} hang although nobody waits")),
        }
    })
    .await;
    assert_eq!(service.clusters()[0].state, ClusterState::Ready, "whoever hung up never asked");

    let context = context();
    let deleted = client.cluster_delete(&context, &cluster.id);
    let let_go = async {
        while service.stalled() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(service.clusters().len(), 1);
        service.clear_faults();
    };
    let (deleted, ()) = tokio::join!(deleted, let_go);
    deleted.unwrap();
    assert_eq!(service.clusters(), []);
}

#[tokio::test]
async fn an_answer_can_come_too_late_although_the_work_was_done() {
    let (service, client, _) = with_cluster().await;
    service.inject_times(1, Fault::Late(PATIENCE), Call::is_creation);
    let late = client.cluster_create(&in_a_hurry(), &new_cluster("second")).await.unwrap_err();
    assert!(matches!(late, Error::Unreachable(_)), "{late:?}");
    assert_eq!(service.clusters().len(), 2);
}

#[tokio::test]
async fn it_counts_who_asks_at_the_same_time() {
    let (service, client, cluster) = with_cluster().await;
    let resource = cluster.azure.resource_id();
    assert_eq!((service.most_at_once(&resource), service.most_at_once_of_any()), (1, 1));
    service.inject(Fault::Stall, Call::is_mutation);
    let (context, pool) = (context(), "workers".parse().unwrap());
    let update = NodePoolUpdate::default();
    let calls = async {
        tokio::join!(
            client.cluster_delete(&context, &cluster.id),
            client.node_pool_update(&context, &cluster.id, &pool, &update),
        )
    };
    let let_go = async {
        while service.stalled() < 2 {
            tokio::task::yield_now().await;
        }
        service.clear_faults();
    };
    tokio::join!(calls, let_go).0.0.unwrap();
    assert_eq!((service.most_at_once(&resource), service.most_at_once("/other")), (2, 0));
    let paths: Vec<_> =
        service.calls().iter().filter(|call| call.is_update()).map(|call| call.path.clone()).collect();
    assert_eq!(paths, [format!("/clusters/{}/node_pools/workers", cluster.id)]);
}
