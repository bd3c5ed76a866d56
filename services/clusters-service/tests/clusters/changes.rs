//! Changes of clusters, and what can be asked without changing anything.

use pilothouse_clusters_service_api::{
    Autoscaler, AzureUpdate, Cluster, ClusterState, ClusterUpdate, ListQuery, Version, properties,
};
use serde_json::Value;

use crate::maestro::hosted_cluster_report;
use crate::support::{PATIENCE, Running, World, context, new_cluster};
use pilothouse_test_support::eventually;

async fn ready(world: &World, service: &Running) -> Cluster {
    world.maestro.play_agent();
    let cluster = service.create(&new_cluster("first")).await;
    service.until(&cluster.id, ClusterState::Ready).await
}

fn asked_by(operation: &str, update: ClusterUpdate) -> ClusterUpdate {
    ClusterUpdate {
        properties: [(properties::OPERATION_ID.to_owned(), operation.to_owned())].into(),
        ..update
    }
}

fn scaling(seconds: i32) -> ClusterUpdate {
    let max_pod_grace_period = Some(seconds);
    ClusterUpdate {
        autoscaler: Some(Autoscaler { max_pod_grace_period, ..Autoscaler::default() }),
        ..ClusterUpdate::default()
    }
}

/// The `HostedCluster` that Maestro was given.
fn posted(world: &World, cluster: &Cluster) -> Value {
    let bundle = world.maestro.bundle(cluster.id.as_str()).unwrap();
    let inner = &bundle.bundle.manifests[0]["spec"]["workload"]["manifests"];
    inner.as_array().unwrap().last().unwrap()["spec"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_goes_down_in_the_manifests_and_comes_back_as_ready() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = ready(&world, &service).await;
    world.maestro.leave_agent();

    let update = asked_by("change", scaling(30));
    let preview = service.client.cluster_update_preflight(&context(), &cluster.id, &update).await.unwrap();
    assert_eq!((preview.state, preview.autoscaler), (ClusterState::Updating, update.autoscaler.clone()));
    assert_eq!(service.cluster(&cluster.id).await, cluster, "trying changes nothing");

    let changed = service.client.cluster_update(&context(), &cluster.id, &update).await.unwrap();
    assert_eq!(changed.state, ClusterState::Updating);
    eventually("the manifests were posted", PATIENCE, || async {
        let spec = posted(&world, &cluster);
        if spec["autoscaling"]["maxPodGracePeriod"] == 30 { Ok(()) } else { Err(spec.to_string()) }
    })
    .await;
    assert_eq!(service.cluster(&cluster.id).await.state, ClusterState::Updating);
    world.maestro.report(cluster.id.as_str(), hosted_cluster_report("True"));
    service.until(&cluster.id, ClusterState::Ready).await;

    // Again, as after a lost answer: nothing happens.
    let again = service.client.cluster_update(&context(), &cluster.id, &update).await.unwrap();
    assert_eq!(again.state, ClusterState::Ready);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_version_is_another_release_of_the_hosted_cluster() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = ready(&world, &service).await;
    let to = |version: &str| {
        let version = Some(Version::of_number(version));
        asked_by(&format!("to-{version:?}"), ClusterUpdate { version, ..ClusterUpdate::default() })
    };
    for refused in ["4.20.2", "4.22.0", "4.20.99"] {
        let error = service.client.cluster_update(&context(), &cluster.id, &to(refused)).await.unwrap_err();
        assert_eq!(
            (error.is_invalid(), error.details()[0].target.as_str()),
            (true, "version.id"),
            "{refused}"
        );
    }
    service.client.cluster_update(&context(), &cluster.id, &to("4.21.2")).await.unwrap();
    let changed = service.until(&cluster.id, ClusterState::Ready).await;
    assert_eq!(changed.version.number(), Some("4.21.2"));
    assert_eq!(posted(&world, &cluster)["release"]["image"], "pilothouse/release:4.21.2");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_below_could_do_is_refused_with_its_field_and_in_words() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = ready(&world, &service).await;
    let key = ClusterUpdate { azure: Some(AzureUpdate::of_key_version("2")), ..ClusterUpdate::default() };
    for refusal in [
        service.client.cluster_update_preflight(&context(), &cluster.id, &key).await.unwrap_err(),
        service.client.cluster_update(&context(), &cluster.id, &key).await.unwrap_err(),
    ] {
        let detail = &refusal.details()[0];
        assert!(refusal.is_invalid() && detail.target.starts_with("azure.etcd_encryption"), "{detail:?}");
        assert_eq!(detail.code, "NotPossibleYet");
    }

    world.maestro.leave_agent();
    service.client.cluster_delete(&context(), &cluster.id).await.unwrap();
    let late = service.client.cluster_update(&context(), &cluster.id, &scaling(1)).await.unwrap_err();
    assert!(late.is_conflict());
    let missing = format!("{:032}", 0).parse().unwrap();
    assert!(
        service.client.cluster_update(&context(), &missing, &scaling(1)).await.unwrap_err().is_not_found()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_catalogue_of_releases_can_be_searched_and_each_one_asked_for() {
    let world = World::new().await;
    let service = world.start().await;
    let query =
        ListQuery { size: Some(500), ..ListQuery::search("channel_group = 'fast' and enabled = true") };
    let found = service.client.version_list(&context(), &query).await.unwrap();
    assert_eq!((found.kind.as_str(), found.total), ("VersionList", 21 + 11));
    let one = service.client.version_get(&context(), "openshift-v4.20.8").await.unwrap();
    assert!(one.default && one.href.ends_with("/versions/openshift-v4.20.8"), "{one:?}");
    assert!(service.client.version_get(&context(), "openshift-v4.99.0").await.unwrap_err().is_not_found());
}
