//! Properties are kept when they are all that changes, and nothing else happens for their sake.

use std::collections::BTreeMap;

use pilothouse_clusters_service_api::{
    ClusterState, ClusterUpdate, ExternalAuthStateValue, ExternalAuthUpdate, NodePoolStateValue,
    NodePoolUpdate, properties,
};
use pilothouse_test_support::eventually;
use serde_json::json;

use crate::support::{PATIENCE, World, context, new_cluster, new_node_pool};

fn noted(note: &str) -> BTreeMap<String, String> {
    let operation = (properties::OPERATION_ID.to_owned(), format!("note-{note}"));
    [operation, ("note".to_owned(), note.to_owned())].into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_nothing_but_properties_is_kept_and_makes_no_work() {
    let world = World::new().await;
    let service = world.start().await;
    world.maestro.play_agent();
    let cluster = service.create(&new_cluster("first")).await;
    let id = &cluster.id;
    service.until(id, ClusterState::Ready).await;
    let pool = service.client.node_pool_create(&context(), id, &new_node_pool("workers")).await.unwrap();
    service.until_node_pool(&pool, NodePoolStateValue::Ready).await;
    let auth = json!({"id": "entra", "issuer": {"url": "https://issuer.test", "audiences": ["a"]},
                      "claim": {"mappings": {"username": {"claim": "sub"}}}});
    let auth = serde_json::from_value(auth).unwrap();
    let auth = service.client.external_auth_create(&context(), id, &auth).await.unwrap();
    eventually("the external auth is ready", PATIENCE, || async {
        let found = service.client.external_auth_get(&context(), id, &auth.id).await.unwrap();
        let ready = found.status.state.value == ExternalAuthStateValue::Ready;
        if ready { Ok(()) } else { Err(format!("{:?}", found.status)) }
    })
    .await;
    let posted = world.maestro.log().len();

    let update = ClusterUpdate { properties: noted("kept"), ..ClusterUpdate::default() };
    let tried = service.client.cluster_update_preflight(&context(), id, &update).await.unwrap();
    assert_eq!(tried.properties.get("note").map(String::as_str), Some("kept"));
    assert_eq!(service.cluster(id).await.properties.get("note"), None);
    let changed = service.client.cluster_update(&context(), id, &update).await.unwrap();
    assert_eq!(changed, service.cluster(id).await);
    assert_eq!((changed.state, changed.properties["note"].as_str()), (ClusterState::Ready, "kept"));

    let update = NodePoolUpdate { properties: noted("kept"), ..NodePoolUpdate::default() };
    service.client.node_pool_update(&context(), id, &pool.id, &update).await.unwrap();
    let found = service.client.node_pool_get(&context(), id, &pool.id).await.unwrap();
    assert_eq!(found.properties.get("note").map(String::as_str), Some("kept"));
    assert_eq!(found.status.state.value, NodePoolStateValue::Ready);

    let update = ExternalAuthUpdate { properties: noted("kept"), ..ExternalAuthUpdate::default() };
    service.client.external_auth_update(&context(), id, &auth.id, &update).await.unwrap();
    let found = service.client.external_auth_get(&context(), id, &auth.id).await.unwrap();
    assert_eq!(found.properties.get("note").map(String::as_str), Some("kept"));
    assert_eq!(found.status.state.value, ExternalAuthStateValue::Ready);
    assert_eq!(world.maestro.log().len(), posted, "{:?}", world.maestro.log());

    // Who asks is not what is asked: another operation with nothing new in it changes nothing.
    let who = [(properties::OPERATION_ID.to_owned(), "another".to_owned())];
    let update = ClusterUpdate { properties: who.into(), ..ClusterUpdate::default() };
    let same = service.client.cluster_update(&context(), id, &update).await.unwrap();
    assert_eq!(same.properties[properties::OPERATION_ID], "note-kept");
}
