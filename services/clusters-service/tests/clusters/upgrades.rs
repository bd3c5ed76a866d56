//! Upgrades: at once, at their time, and not at all.

use std::time::Duration;

use jiff::Timestamp;
use pilothouse_clusters_service_api::{
    Cluster, ClusterId, ClusterState, ClusterUpdate, ListQuery, NewUpgradePolicy, NodePool,
    NodePoolStateValue, UpgradePolicy, UpgradePolicyStateValue, UpgradePolicyUpdate, Version, properties,
};
use pilothouse_test_support::eventually;

use crate::maestro::{hosted_cluster_report, refused_release_report};
use crate::support::{PATIENCE, Running, World, context, new_cluster, new_node_pool};

async fn ready(world: &World, service: &Running) -> Cluster {
    world.maestro.play_agent();
    let cluster = service.create(&new_cluster("first")).await;
    service.until(&cluster.id, ClusterState::Ready).await
}

async fn with_pool(world: &World, service: &Running, version: &str) -> (Cluster, NodePool) {
    let cluster = ready(world, service).await;
    let mut new = new_node_pool("workers");
    new.version = Some(Version::of_number(version));
    let pool = service.client.node_pool_create(&context(), &cluster.id, &new).await.unwrap();
    let pool = service.until_node_pool(&pool, NodePoolStateValue::Ready).await;
    (cluster, pool)
}

fn to(version: &str) -> NewUpgradePolicy {
    NewUpgradePolicy {
        version: version.into(),
        properties: [(properties::OPERATION_ID.to_owned(), format!("to-{version}"))].into(),
        ..NewUpgradePolicy::default()
    }
}

fn at(version: &str, next_run: &str) -> NewUpgradePolicy {
    NewUpgradePolicy { next_run: Some(next_run.parse().unwrap()), ..to(version) }
}

async fn until(
    service: &Running,
    cluster: &ClusterId,
    id: &str,
    value: UpgradePolicyStateValue,
) -> UpgradePolicy {
    eventually("the upgrade is in its state", PATIENCE, || async {
        let policy = service.client.upgrade_policy_get(&context(), cluster, id).await.unwrap();
        if policy.state.value == value { Ok(policy) } else { Err(format!("{:?}", policy.state)) }
    })
    .await
}

fn image(world: &World, work: &str) -> String {
    let bundle = world.maestro.bundle(work).unwrap();
    let inner = bundle.bundle.manifests[0]["spec"]["workload"]["manifests"].as_array().unwrap().clone();
    inner.last().unwrap()["spec"]["release"]["image"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_is_done_when_its_version_runs_and_a_change_of_version_is_one() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = ready(&world, &service).await;
    let client = &service.client;
    let tried = client.upgrade_policy_preflight(&context(), &cluster.id, &to("4.20.5")).await.unwrap();
    assert_eq!((tried.version.as_str(), tried.state.value), ("4.20.5", UpgradePolicyStateValue::Pending));
    assert_eq!(
        client.upgrade_policy_list(&context(), &cluster.id, &ListQuery::default()).await.unwrap().total,
        0
    );

    let first = client.upgrade_policy_create(&context(), &cluster.id, &to("4.20.5")).await.unwrap();
    assert_eq!(
        (first.kind.as_str(), first.upgrade_type.as_str()),
        ("ControlPlaneUpgradePolicy", "ControlPlane")
    );
    assert!(first.href.ends_with("/control_plane_upgrade_policies/1"), "{}", first.href);
    let again = client.upgrade_policy_create(&context(), &cluster.id, &to("4.20.5")).await.unwrap();
    assert_eq!(again.id, first.id, "a lost answer is no second upgrade");
    let done = until(&service, &cluster.id, &first.id, UpgradePolicyStateValue::Completed).await;
    assert_eq!(done.state.description, "version 4.20.5 runs");
    let upgraded = service.cluster(&cluster.id).await;
    assert_eq!((upgraded.version.number(), upgraded.state), (Some("4.20.5"), ClusterState::Ready));
    assert_eq!(image(&world, cluster.id.as_str()), "pilothouse/release:4.20.5");

    // Asked for in the cluster itself, as the resource provider does.
    let update = ClusterUpdate {
        version: Some(Version::of_number("4.21.2")),
        properties: [(properties::OPERATION_ID.to_owned(), "patch".to_owned())].into(),
        ..ClusterUpdate::default()
    };
    client.cluster_update(&context(), &cluster.id, &update).await.unwrap();
    until(&service, &cluster.id, "2", UpgradePolicyStateValue::Completed).await;
    let query = ListQuery { order: Some("creation_timestamp desc, id desc".into()), ..ListQuery::default() };
    let all = client.upgrade_policy_list(&context(), &cluster.id, &query).await.unwrap();
    let versions: Vec<_> = all.items.iter().map(|policy| policy.version.as_str()).collect();
    assert_eq!((all.kind.as_str(), versions), ("ControlPlaneUpgradePolicyList", vec!["4.21.2", "4.20.5"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_waits_for_its_time_may_be_moved_and_taken_back_and_survives_a_restart() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = ready(&world, &service).await;
    let client = &service.client;
    let planned = at("4.20.5", "2026-01-01T02:00:00Z");
    let policy = client.upgrade_policy_create(&context(), &cluster.id, &planned).await.unwrap();
    assert_eq!(policy.state.value, UpgradePolicyStateValue::Scheduled);
    assert_eq!(policy.state.description, "it begins at 2026-01-01T02:00:00Z");
    let refusal = client.upgrade_policy_create(&context(), &cluster.id, &to("4.20.6")).await.unwrap_err();
    assert!(refusal.is_conflict() && refusal.to_string().contains("is not over"), "{refusal}");
    let update = UpgradePolicyUpdate {
        version: Some("4.20.7".into()),
        next_run: Some("2026-01-01T01:00:00Z".parse::<Timestamp>().unwrap()),
    };
    let moved = client.upgrade_policy_update(&context(), &cluster.id, &policy.id, &update).await.unwrap();
    assert_eq!((moved.version.as_str(), moved.id.as_str()), ("4.20.7", policy.id.as_str()));

    client.upgrade_policy_delete(&context(), &cluster.id, &policy.id).await.unwrap();
    let taken_back = client.upgrade_policy_get(&context(), &cluster.id, &policy.id).await.unwrap();
    assert_eq!(taken_back.state.value, UpgradePolicyStateValue::Cancelled);
    client.upgrade_policy_delete(&context(), &cluster.id, &policy.id).await.unwrap();
    let gone = client.upgrade_policy_get(&context(), &cluster.id, &policy.id).await.unwrap_err();
    assert!(gone.is_not_found(), "one that is over is forgotten");

    let planned = at("4.20.8", "2026-01-01T03:00:00Z");
    let policy = client.upgrade_policy_create(&context(), &cluster.id, &planned).await.unwrap();
    service.kill();
    world.time.advance(Duration::from_secs(2 * 3600));
    let service = world.start().await;
    let waiting = service.client.upgrade_policy_get(&context(), &cluster.id, &policy.id).await.unwrap();
    assert_eq!(waiting.state.value, UpgradePolicyStateValue::Scheduled);
    assert_eq!(service.cluster(&cluster.id).await.version.number(), Some("4.20.3"));
    // Its time comes, and anything wakes the cluster: here, a report.
    world.time.advance(Duration::from_secs(3600));
    world.maestro.report(cluster.id.as_str(), hosted_cluster_report("True"));
    until(&service, &cluster.id, &policy.id, UpgradePolicyStateValue::Completed).await;
    assert_eq!(service.cluster(&cluster.id).await.version.number(), Some("4.20.8"));
    assert_eq!(image(&world, cluster.id.as_str()), "pilothouse/release:4.20.8");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_reached_is_refused_and_what_stands_in_the_way_by_then_fails_it() {
    let world = World::new().await;
    let service = world.start().await;
    let (cluster, pool) = with_pool(&world, &service, "4.18.0").await;
    let client = &service.client;
    for (version, words) in [
        ("4.20.2", "cannot be reached from `4.20.3`; 4.20.4, 4.20.5, 4.20.6, 4.20.7, 4.20.8 and others can"),
        ("4.20.3", "cannot be reached"),
        ("4.22.0", "cannot be reached"),
        ("", "cannot be reached"),
        ("4.21.0", "node pool `workers` runs `openshift-v4.18.0`"),
    ] {
        for refusal in [
            client.upgrade_policy_preflight(&context(), &cluster.id, &to(version)).await.unwrap_err(),
            client.upgrade_policy_create(&context(), &cluster.id, &to(version)).await.unwrap_err(),
        ] {
            let detail = &refusal.details()[0];
            assert!(refusal.is_invalid() && detail.target.starts_with("version"), "{version}: {detail:?}");
            assert!(detail.message.contains(words), "{version}: {detail:?}");
        }
    }
    let automatic = NewUpgradePolicy { schedule_type: Some("automatic".into()), ..to("4.20.5") };
    let refusal = client.upgrade_policy_create(&context(), &cluster.id, &automatic).await.unwrap_err();
    assert_eq!(refusal.details()[0].code, "NotPossibleYet");

    // The pool is brought nearer, the upgrade planned, and then the pool goes back.
    let pool_at = |version: &str| {
        let mut update = crate::support::scale_to(2, &format!("pool-{version}"));
        update.version = Some(Version::of_number(version));
        update
    };
    client.node_pool_update(&context(), &cluster.id, &pool.id, &pool_at("4.19.1")).await.unwrap();
    service.until_node_pool(&pool, NodePoolStateValue::Ready).await;
    let planned = at("4.21.0", "2026-01-01T01:00:00Z");
    let policy = client.upgrade_policy_create(&context(), &cluster.id, &planned).await.unwrap();
    client.node_pool_update(&context(), &cluster.id, &pool.id, &pool_at("4.18.2")).await.unwrap();
    service.until_node_pool(&pool, NodePoolStateValue::Ready).await;
    world.time.advance(Duration::from_secs(3600));
    world.maestro.report(cluster.id.as_str(), hosted_cluster_report("True"));
    let failed = until(&service, &cluster.id, &policy.id, UpgradePolicyStateValue::Failed).await;
    assert!(failed.state.description.contains("nodes may be at most 2 minor versions behind"), "{failed:?}");
    let untouched = service.cluster(&cluster.id).await;
    assert_eq!((untouched.version.number(), untouched.state), (Some("4.20.3"), ClusterState::Ready));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_waits_for_a_cluster_that_is_ready_and_fails_with_what_its_cluster_says() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = service.create(&new_cluster("first")).await;
    let policy = service.client.upgrade_policy_create(&context(), &cluster.id, &to("4.20.5")).await.unwrap();
    eventually("the manifests are posted", PATIENCE, || async {
        world.maestro.bundle(&format!("{}-managed", cluster.id)).ok_or("not yet")
    })
    .await;
    let delayed = until(&service, &cluster.id, &policy.id, UpgradePolicyStateValue::Delayed).await;
    assert!(delayed.state.description.starts_with("waiting for the cluster to be ready: "), "{delayed:?}");
    assert_eq!(image(&world, cluster.id.as_str()), "pilothouse/release:4.20.3");

    world.maestro.report(&format!("{}-managed", cluster.id), crate::maestro::managed_cluster_report("True"));
    world.maestro.report(cluster.id.as_str(), hosted_cluster_report("True"));
    let started = until(&service, &cluster.id, &policy.id, UpgradePolicyStateValue::Started).await;
    let refusal =
        service.client.upgrade_policy_delete(&context(), &cluster.id, &started.id).await.unwrap_err();
    assert!(refusal.is_conflict() && refusal.to_string().contains("no way back"), "{refusal}");
    eventually("the new release is posted", PATIENCE, || async {
        let image = image(&world, cluster.id.as_str());
        if image == "pilothouse/release:4.20.5" { Ok(()) } else { Err(image) }
    })
    .await;
    world.maestro.report(cluster.id.as_str(), refused_release_report());
    let failed = until(&service, &cluster.id, &policy.id, UpgradePolicyStateValue::Failed).await;
    assert!(failed.state.description.contains("there is no such release"), "{failed:?}");
    assert_eq!(service.cluster(&cluster.id).await.state, ClusterState::Error);

    // It gets there all the same.
    world.maestro.report(cluster.id.as_str(), hosted_cluster_report("True"));
    until(&service, &cluster.id, &policy.id, UpgradePolicyStateValue::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_was_delayed_has_all_of_its_time_again_when_it_is_moved() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = ready(&world, &service).await;
    world.maestro.leave_agent();
    // An outage that nobody ends.
    let client = &service.client;
    world.maestro.report(cluster.id.as_str(), hosted_cluster_report("False"));
    service.until_it_says(&cluster.id, "it was ready before").await;
    let policy = client.upgrade_policy_create(&context(), &cluster.id, &to("4.20.5")).await.unwrap();
    until(&service, &cluster.id, &policy.id, UpgradePolicyStateValue::Delayed).await;
    let moved = "2026-01-02T00:00:00Z".parse::<Timestamp>().unwrap();
    let update = UpgradePolicyUpdate { next_run: Some(moved), ..UpgradePolicyUpdate::default() };
    client.upgrade_policy_update(&context(), &cluster.id, &policy.id, &update).await.unwrap();
    until(&service, &cluster.id, &policy.id, UpgradePolicyStateValue::Scheduled).await;
    world.time.advance(Duration::from_secs(24 * 3600));
    world.maestro.report(cluster.id.as_str(), hosted_cluster_report("False"));
    let delayed = until(&service, &cluster.id, &policy.id, UpgradePolicyStateValue::Delayed).await;
    assert!(delayed.state.description.contains("available again"), "{delayed:?}");
    world.maestro.report(cluster.id.as_str(), hosted_cluster_report("True"));
    until(&service, &cluster.id, &policy.id, UpgradePolicyStateValue::Started).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_pools_are_upgraded_up_to_their_control_plane() {
    let world = World::new().await;
    let service = world.start().await;
    let (cluster, pool) = with_pool(&world, &service, "4.19.1").await;
    let client = &service.client;
    let asked = async |new: NewUpgradePolicy| {
        client.node_pool_upgrade_policy_create(&context(), &cluster.id, &pool.id, &new).await
    };
    for (version, words) in [
        ("4.20.4", "is newer than its cluster's"),
        ("4.19.0", "is not newer than"),
        ("4.19.1", "is not newer than"),
        ("4.19.99", "cannot be served"),
    ] {
        let refusal = asked(to(version)).await.unwrap_err();
        assert!(refusal.is_invalid() && refusal.to_string().contains(words), "{version}: {refusal}");
    }
    let created = asked(to("4.20.3")).await.unwrap();
    assert_eq!(
        (created.kind.as_str(), created.node_pool_id.as_deref()),
        ("NodePoolUpgradePolicy", Some("workers"))
    );
    eventually("the pool is upgraded", PATIENCE, || async {
        let query = ListQuery::default();
        let list =
            client.node_pool_upgrade_policy_list(&context(), &cluster.id, &pool.id, &query).await.unwrap();
        let state = &list.items[0].state;
        if state.value == UpgradePolicyStateValue::Completed { Ok(()) } else { Err(format!("{state:?}")) }
    })
    .await;
    let upgraded = service.until_node_pool(&pool, NodePoolStateValue::Ready).await;
    assert_eq!(upgraded.version.number(), Some("4.20.3"));
    assert_eq!(image(&world, &format!("{}-pool-workers", cluster.id)), "pilothouse/release:4.20.3");
    assert_eq!(service.cluster(&cluster.id).await.version.number(), Some("4.20.3"));
}
