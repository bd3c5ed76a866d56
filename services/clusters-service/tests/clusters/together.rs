//! Changes that come at once, and changes that nobody signs.

use pilothouse_clusters_service_api::{
    Autoscaler, ClusterState, ClusterUpdate, ExternalAuthUpdate, TokenIssuer, Version, properties,
};
use pilothouse_test_support::eventually;
use serde_json::json;

use crate::support::{PATIENCE, World, context, new_cluster};

#[tokio::test(flavor = "multi_thread")]
async fn of_two_versions_at_once_the_older_never_follows_the_newer() {
    let world = World::new().await;
    world.maestro.play_agent();
    let replicas = [world.start().await, world.start().await];
    let to = |version: &str| ClusterUpdate {
        version: Some(Version::of_number(version)),
        properties: [(properties::OPERATION_ID.to_owned(), format!("to-{version}"))].into(),
        ..ClusterUpdate::default()
    };
    for attempt in 0..40 {
        let cluster = replicas[0].create(&new_cluster(&format!("cluster-{attempt}"))).await;
        let (newer, older) = (to("4.21.0"), to("4.20.5"));
        let (one, other) = (context(), context());
        let (first, second) = tokio::join!(
            replicas[0].client.cluster_update(&one, &cluster.id, &newer),
            replicas[1].client.cluster_update(&other, &cluster.id, &older),
        );
        first.unwrap();
        let refused = second.err().is_some_and(|error| error.is_invalid());
        let found = replicas[0].cluster(&cluster.id).await.version;
        assert_eq!(found.number(), Some("4.21.0"), "in attempt {attempt}, refused: {refused}");
    }
}

/// A text of the `HostedCluster` that Maestro has been given by now.
async fn until_posted(world: &World, work: &str, text: &str) {
    eventually("it is posted", PATIENCE, || async {
        let bundle = world.maestro.bundle(work).ok_or("nothing is posted")?;
        let posted = bundle.bundle.manifests[0].to_string();
        if posted.contains(text) { Ok(()) } else { Err(posted) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_on_a_change_goes_down_though_nobody_says_which_operation_it_is() {
    let world = World::new().await;
    let service = world.start().await;
    world.maestro.play_agent();
    let cluster = service.create(&new_cluster("first")).await;
    let id = &cluster.id;
    service.until(id, ClusterState::Ready).await;
    world.maestro.leave_agent();
    for seconds in [31, 32, 33] {
        let max_pod_grace_period = Some(seconds);
        let autoscaler = Some(Autoscaler { max_pod_grace_period, ..Autoscaler::default() });
        let update = ClusterUpdate { autoscaler, ..ClusterUpdate::default() };
        service.client.cluster_update(&context(), id, &update).await.unwrap();
        until_posted(&world, id.as_str(), &format!("\"maxPodGracePeriod\":{seconds}")).await;
    }

    let auth = json!({"id": "entra", "issuer": {"url": "https://issuer.test", "audiences": ["a"]},
                      "claim": {"mappings": {"username": {"claim": "sub"}}}});
    let auth = serde_json::from_value(auth).unwrap();
    let auth = service.client.external_auth_create(&context(), id, &auth).await.unwrap();
    until_posted(&world, id.as_str(), "https://issuer.test").await;
    for host in ["one", "two", "three"] {
        let url = format!("https://{host}.test");
        let issuer = Some(TokenIssuer { url: url.clone(), audiences: vec!["a".into()], ca: None });
        let update = ExternalAuthUpdate { issuer, ..ExternalAuthUpdate::default() };
        service.client.external_auth_update(&context(), id, &auth.id, &update).await.unwrap();
        until_posted(&world, id.as_str(), &url).await;
    }
}
