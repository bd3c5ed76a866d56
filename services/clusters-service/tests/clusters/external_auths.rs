//! Issuers of tokens that clusters are to trust.

use std::pin::Pin;

use futures::{Stream, StreamExt as _};
use pilothouse_clusters_service_api::{
    Change, Cluster, ClusterState, Error, Event, ExternalAuth, ExternalAuthStateValue, ExternalAuthUpdate,
    ListQuery, NewExternalAuth, TokenIssuer, properties,
};
use pilothouse_test_support::eventually;
use serde_json::json;

use crate::maestro::issuer_report;
use crate::support::{PATIENCE, Running, World, context, new_cluster};

fn new_auth(name: &str) -> NewExternalAuth {
    serde_json::from_value(json!({
        "id": name, "issuer": {"url": "https://issuer.test", "audiences": ["a"]},
        "claim": {"mappings": {"username": {"claim": "sub"}}},
        "properties": {(properties::OPERATION_ID): format!("create-{name}")},
    }))
    .unwrap()
}

async fn ready(world: &World, service: &Running) -> Cluster {
    world.maestro.play_agent();
    let cluster = service.create(&new_cluster("first")).await;
    service.until(&cluster.id, ClusterState::Ready).await
}

async fn until(service: &Running, auth: &ExternalAuth, state: ExternalAuthStateValue) -> ExternalAuth {
    eventually("the external auth is in its state", PATIENCE, || async {
        let found = service.client.external_auth_get(&context(), &auth.cluster_id, &auth.id).await.unwrap();
        if found.status.state.value == state { Ok(found) } else { Err(format!("{:?}", found.status)) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_handed_over_changed_taken_away_and_every_step_is_told() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = ready(&world, &service).await;
    let mut events: Pin<Box<dyn Stream<Item = Result<Event, Error>> + Send>> =
        Box::pin(service.client.watch(None).await.unwrap());

    let tried =
        service.client.external_auth_preflight(&context(), &cluster.id, &new_auth("entra")).await.unwrap();
    assert!(
        service
            .client
            .external_auth_get(&context(), &cluster.id, &tried.id)
            .await
            .unwrap_err()
            .is_not_found()
    );
    let made =
        service.client.external_auth_create(&context(), &cluster.id, &new_auth("entra")).await.unwrap();
    assert_eq!(made.status.state.value, ExternalAuthStateValue::Validating);
    let again =
        service.client.external_auth_create(&context(), &cluster.id, &new_auth("entra")).await.unwrap();
    assert_eq!(again.creation_timestamp, made.creation_timestamp);
    let found = until(&service, &made, ExternalAuthStateValue::Ready).await;
    assert!(found.status.message.contains("was told to believe the issuer"), "{found:?}");
    let posted = world.maestro.bundle(cluster.id.as_str()).unwrap().bundle.manifests[0].to_string();
    assert!(posted.contains("https://issuer.test"), "{posted}");

    let issuer = TokenIssuer { url: "https://other.test".into(), audiences: vec!["b".into()], ca: None };
    let update = ExternalAuthUpdate { issuer: Some(issuer), ..ExternalAuthUpdate::default() };
    let changed =
        service.client.external_auth_update(&context(), &cluster.id, &made.id, &update).await.unwrap();
    assert_eq!(changed.status.state.value, ExternalAuthStateValue::Updating);
    until(&service, &made, ExternalAuthStateValue::Ready).await;
    assert_eq!(service.cluster(&cluster.id).await.state, ClusterState::Ready);

    service.client.external_auth_delete(&context(), &cluster.id, &made.id).await.unwrap();
    let mut told = Vec::new();
    while told.last().is_none_or(|last| last != "gone") {
        let event = tokio::time::timeout(PATIENCE, events.next()).await.unwrap().unwrap().unwrap();
        match event.change {
            Change::ExternalAuth(auth) => told.push(format!("{:?}", auth.status.state.value)),
            Change::ExternalAuthDeleted(owner, id) => {
                assert_eq!((&owner, &id), (&cluster.id, &made.id));
                told.push("gone".to_owned());
            }
            _ => {}
        }
    }
    told.dedup();
    for step in ["Validating", "Ready", "Updating", "Uninstalling", "gone"] {
        assert!(told.iter().any(|found| found == step), "{step} in {told:?}");
    }
    let posted = world.maestro.bundle(cluster.id.as_str()).unwrap().bundle.manifests[0].to_string();
    assert!(!posted.contains("https://other.test"), "{posted}");
    let left =
        service.client.external_auth_list(&context(), &cluster.id, &ListQuery::default()).await.unwrap();
    assert_eq!(left.total, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_ready_when_the_api_server_was_told_and_no_earlier() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = ready(&world, &service).await;
    world.maestro.leave_agent();
    let made =
        service.client.external_auth_create(&context(), &cluster.id, &new_auth("entra")).await.unwrap();
    eventually("the issuer is posted", PATIENCE, || async {
        let posted = world.maestro.bundle(cluster.id.as_str()).unwrap().bundle.manifests[0].to_string();
        if posted.contains("https://issuer.test") { Ok(()) } else { Err(posted) }
    })
    .await;
    world.maestro.report(cluster.id.as_str(), issuer_report("Unknown", "the API server is started anew"));
    eventually("it says what it waits for", PATIENCE, || async {
        let found = until(&service, &made, ExternalAuthStateValue::Installing).await;
        let message = found.status.message;
        if message.ends_with("the API server is started anew") { Ok(()) } else { Err(message) }
    })
    .await;
    world.maestro.report(cluster.id.as_str(), issuer_report("False", "the issuer is not believed"));
    let refused = until(&service, &made, ExternalAuthStateValue::Error).await;
    assert!(refused.status.message.ends_with("the issuer is not believed"), "{refused:?}");
    world.maestro.report(cluster.id.as_str(), issuer_report("True", "the API server was told"));
    until(&service, &made, ExternalAuthStateValue::Ready).await;
    // What is out of order for a while was made all the same.
    world.maestro.report(cluster.id.as_str(), issuer_report("Unknown", "nobody answers"));
    service.until_it_says(&cluster.id, "the control plane answers").await;
    until(&service, &made, ExternalAuthStateValue::Ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_trusts_one_issuer_at_most_and_it_goes_with_its_cluster() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = ready(&world, &service).await;
    service.client.external_auth_create(&context(), &cluster.id, &new_auth("entra")).await.unwrap();
    for refusal in [
        service
            .client
            .external_auth_preflight(&context(), &cluster.id, &new_auth("other"))
            .await
            .unwrap_err(),
        service.client.external_auth_create(&context(), &cluster.id, &new_auth("other")).await.unwrap_err(),
    ] {
        assert!(refusal.is_conflict() && refusal.to_string().contains("`entra`"), "{refusal}");
    }
    let mut wrong = new_auth("wrong");
    wrong.issuer.url = "http://issuer.test".into();
    let refusal = service.client.external_auth_preflight(&context(), &cluster.id, &wrong).await.unwrap_err();
    assert_eq!(refusal.details()[0].target, "issuer.url");

    // Killed and started again it is still there, and a watch begins with it.
    service.kill();
    let service = world.start().await;
    let mut events = Box::pin(service.client.watch(None).await.unwrap());
    let mut seen = 0;
    loop {
        match events.next().await.unwrap().unwrap().change {
            Change::ExternalAuth(_) => seen += 1,
            Change::Bookmark => break,
            _ => {}
        }
    }
    assert_eq!(seen, 1);
    service.client.cluster_delete(&context(), &cluster.id).await.unwrap();
    service.until_gone(&cluster.id).await;
}
