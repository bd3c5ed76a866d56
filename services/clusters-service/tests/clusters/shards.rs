//! Several management clusters: which one a cluster goes to, and what becomes of one that is lost.

use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_clusters_service::{Config, Probes, Shard};
use pilothouse_clusters_service_api::{
    ClusterState, Error, ListQuery, MaestroConfig, NewProvisionShard, PROVISION_SHARD, ProvisionShard,
    ProvisionShardStatus, ProvisionShardUpdate, ShardHealthState,
};
use pilothouse_http::ClientBuilder;
use pilothouse_store::{Container, DocumentId, Partition, Precondition};
use pilothouse_test_support::eventually;
use serde_json::{Value, json};

use crate::support::{PATIENCE, Running, World, context, new_cluster};

/// Management clusters `a` and `b`, asked often.
fn two(capacity_of_a: u32, capacity_of_b: u32) -> impl Fn(&mut Config) + Copy {
    move |config| {
        let shard = |id: &str, capacity| Shard {
            id: id.into(),
            consumer: format!("management-{id}"),
            capacity,
            ..Shard::default()
        };
        config.shards = vec![shard("a", capacity_of_a), shard("b", capacity_of_b)];
        config.probes = Probes {
            every: pilothouse_runtime::config::Duration(Duration::from_millis(100)),
            silence: pilothouse_runtime::config::Duration(Duration::from_secs(60)),
            ..Probes::default()
        };
    }
}

async fn counts(service: &Running) -> BTreeMap<String, u32> {
    let list = service.client.provision_shard_list(&context()).await.unwrap();
    list.items.into_iter().map(|shard| (shard.id, shard.clusters)).collect()
}

fn of(counts: &[(&str, u32)]) -> BTreeMap<String, u32> {
    counts.iter().map(|(id, count)| ((*id).to_owned(), *count)).collect()
}

async fn until_health(service: &Running, id: &str, state: ShardHealthState) -> ProvisionShard {
    eventually("the management cluster is known to be so", PATIENCE, || async {
        let shard = service.client.provision_shard_get(&context(), id).await.unwrap();
        if shard.health.state == state { Ok(shard) } else { Err(format!("{:?}", shard.health)) }
    })
    .await
}

fn out_of_capacity(error: &Error, reason: &str) {
    assert!(error.is_out_of_capacity() && !error.is_retryable(), "{error:?}");
    let body = error.body().unwrap();
    assert_eq!((body.status, body.details[0].target.as_str()), (503, PROVISION_SHARD));
    assert!(body.reason.contains(reason), "{}", body.reason);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_at_once_over_two_replicas_fill_management_clusters_evenly_and_not_beyond_what_they_take() {
    let world = World::new().await;
    world.maestro.play_agent();
    let replicas = [world.start_with(two(30, 60)).await, world.start_with(two(30, 60)).await];
    let created = (0..100).map(|index| {
        let client = &replicas[index % 2].client;
        let new = new_cluster(&format!("cluster-{index}"));
        async move { client.cluster_create(&context(), &new).await }
    });
    let outcomes = futures::future::join_all(created).await;
    let clusters: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok()).collect();
    assert_eq!(clusters.len(), 90);
    for error in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        out_of_capacity(error, "`a` is full (30 of 30), `b` is full (60 of 60)");
    }
    let service = &replicas[0];
    assert_eq!(counts(service).await, of(&[("a", 30), ("b", 60)]));
    let mut hosts: BTreeMap<String, u32> = BTreeMap::new();
    for cluster in &clusters {
        let shard = service.client.provision_shard(&context(), &cluster.id).await.unwrap();
        *hosts.entry(shard.id).or_default() += 1;
    }
    assert_eq!(hosts, of(&[("a", 30), ("b", 60)]));
    for cluster in &clusters {
        service.until(&cluster.id, ClusterState::Ready).await;
    }

    // A dry run says the same, and one that goes makes room for one.
    let error = service.client.cluster_preflight(&context(), &new_cluster("late")).await.unwrap_err();
    out_of_capacity(&error, "is full");
    let gone = clusters[0];
    let shard = service.client.provision_shard(&context(), &gone.id).await.unwrap().id;
    service.client.cluster_delete(&context(), &gone.id).await.unwrap();
    service.until_gone(&gone.id).await;
    let late = service.create(&new_cluster("late")).await;
    assert_eq!(service.client.provision_shard(&context(), &late.id).await.unwrap().id, shard);
    out_of_capacity(
        &service.client.cluster_create(&context(), &new_cluster("later")).await.unwrap_err(),
        "is full",
    );
    assert_eq!(counts(service).await, of(&[("a", 30), ("b", 60)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_lost_gets_no_new_clusters_and_its_clusters_say_why_until_it_is_back() {
    let world = World::new().await;
    world.maestro.play_agent();
    let service = world.start_with(two(10, 10)).await;
    until_health(&service, "a", ShardHealthState::Healthy).await;
    until_health(&service, "b", ShardHealthState::Healthy).await;
    let first = service.create(&new_cluster("first")).await;
    assert_eq!(service.client.provision_shard(&context(), &first.id).await.unwrap().id, "a");
    service.until(&first.id, ClusterState::Ready).await;
    let second = service.create(&new_cluster("second")).await;
    service.until(&second.id, ClusterState::Ready).await;

    world.maestro.lose("management-a");
    world.time.advance(Duration::from_secs(1));
    // Asked after the loss, and not answered for longer than it may take.
    eventually("it is asked again", PATIENCE, || async {
        let asked = world.maestro.bundle("probe-a").unwrap().bundle.manifests[0]["data"]["asked-at"].clone();
        if asked == "2026-01-01T00:00:01Z" { Ok(()) } else { Err(asked.to_string()) }
    })
    .await;
    world.time.advance(Duration::from_secs(60));
    let lost = until_health(&service, "a", ShardHealthState::Unresponsive).await;
    assert_eq!(lost.status, ProvisionShardStatus::Active, "what is wanted of it is the operator's");
    let said =
        service.until_it_says(&first.id, "its management cluster `management-a` has not answered").await;
    assert_eq!(said.state, ClusterState::Ready, "what was made stays made");
    assert_eq!(service.cluster(&second.id).await.status.description, "the control plane answers");
    for name in ["third", "fourth", "fifth"] {
        let made = service.create(&new_cluster(name)).await;
        assert_eq!(service.client.provision_shard(&context(), &made.id).await.unwrap().id, "b");
    }
    // One that is to go says why it does not.
    service.client.cluster_delete(&context(), &first.id).await.unwrap();
    service.until_it_says(&first.id, "its management cluster `management-a` has not answered").await;

    world.maestro.find_again("management-a");
    until_health(&service, "a", ShardHealthState::Healthy).await;
    service.until_gone(&first.id).await;
    assert_eq!(counts(&service).await, of(&[("a", 0), ("b", 4)]));
    let sixth = service.create(&new_cluster("sixth")).await;
    assert_eq!(service.client.provision_shard(&context(), &sixth.id).await.unwrap().id, "a");
    service.until(&sixth.id, ClusterState::Ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_management_cluster_is_added_drained_and_forgotten_while_the_service_runs() {
    let world = World::new().await;
    world.maestro.play_agent();
    let service = world.start().await;
    let client = &service.client;
    let first = service.create(&new_cluster("first")).await;
    assert_eq!(
        world.maestro.bundle("probe-local").map(|bundle| bundle.id),
        None,
        "there is no choice to make"
    );
    let alone = client.provision_shard_get(&context(), "local").await.unwrap();
    assert_eq!((alone.clusters, alone.capacity, alone.health.state), (1, 1000, ShardHealthState::Unknown));

    let named = |consumer: &str| NewProvisionShard {
        capacity: Some(5),
        maestro_config: MaestroConfig { consumer_name: consumer.into(), ..MaestroConfig::default() },
        ..NewProvisionShard::default()
    };
    let refusal = client.provision_shard_create(&context(), &named("")).await.unwrap_err();
    assert_eq!(refusal.details()[0].target, "maestro_config.consumer_name");
    let added = client.provision_shard_create(&context(), &named("mgmt-2")).await.unwrap();
    assert_eq!(
        (added.id.as_str(), added.status, added.capacity),
        ("mgmt-2", ProvisionShardStatus::Active, 5)
    );
    for consumer in ["mgmt-2", "local-cluster"] {
        assert!(client.provision_shard_create(&context(), &named(consumer)).await.unwrap_err().is_conflict());
    }
    until_health(&service, "mgmt-2", ShardHealthState::Healthy).await;

    // Drained: it takes nothing any more, and what it has goes on.
    let status = |status| ProvisionShardUpdate { status: Some(status), ..ProvisionShardUpdate::default() };
    let maintenance = status(ProvisionShardStatus::Maintenance);
    let drained = client.provision_shard_update(&context(), "local", &maintenance).await.unwrap();
    assert_eq!((drained.status, drained.clusters), (ProvisionShardStatus::Maintenance, 1));
    let second = service.create(&new_cluster("second")).await;
    assert_eq!(client.provision_shard(&context(), &second.id).await.unwrap().id, "mgmt-2");
    service.until(&first.id, ClusterState::Ready).await;
    client.provision_shard_update(&context(), "mgmt-2", &maintenance).await.unwrap();
    let refusal = client.cluster_create(&context(), &new_cluster("third")).await.unwrap_err();
    // That passes by itself: whoever asks may ask again.
    assert!(refusal.is_retryable() && !refusal.is_out_of_capacity(), "{refusal:?}");
    let body = refusal.body().unwrap();
    let reason = "`local` is in maintenance, `mgmt-2` is in maintenance; add a management cluster";
    assert!(body.status == 503 && body.reason.contains(reason), "{body:?}");

    let offline = status(ProvisionShardStatus::Offline);
    client.provision_shard_update(&context(), "mgmt-2", &offline).await.unwrap();
    service.until_it_says(&second.id, "`mgmt-2` was put offline").await;
    client.provision_shard_update(&context(), "mgmt-2", &maintenance).await.unwrap();
    service.until_it_says(&second.id, "the control plane answers").await;

    for id in ["local", "mgmt-2"] {
        let refusal = client.provision_shard_delete(&context(), id).await.unwrap_err();
        assert!(refusal.is_conflict() && refusal.to_string().contains("has 1 clusters"), "{refusal}");
    }
    for cluster in [&first.id, &second.id] {
        client.cluster_delete(&context(), cluster).await.unwrap();
        service.until_gone(cluster).await;
    }
    let refusal = client.provision_shard_delete(&context(), "local").await.unwrap_err();
    assert!(refusal.to_string().contains("is in the service's configuration"), "{refusal}");
    client.provision_shard_delete(&context(), "mgmt-2").await.unwrap();
    eventually("it is forgotten", PATIENCE, || async {
        match client.provision_shard_get(&context(), "mgmt-2").await {
            Err(error) if error.is_not_found() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    eventually("nobody is asked any more", PATIENCE, || async {
        let names = world.maestro.names();
        if names.is_empty() { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_operator_decided_outlives_a_restart_and_a_wrong_count_is_put_right() {
    let world = World::new().await;
    world.maestro.play_agent();
    let service = world.start_with(two(10, 10)).await;
    for name in ["first", "second", "third"] {
        service.create(&new_cluster(name)).await;
    }
    let before = counts(&service).await;
    assert_eq!(before.values().sum::<u32>(), 3);
    let update = ProvisionShardUpdate { status: Some(ProvisionShardStatus::Maintenance), capacity: Some(77) };
    service.client.provision_shard_update(&context(), "b", &update).await.unwrap();
    service.kill();

    // As if it had been made by a version that did not count, or counted wrongly.
    let (usage, partition) = (Container::new("shard-usage"), Partition::try_new("region").unwrap());
    let id = |id: &str| DocumentId::try_new(id).unwrap();
    world.store.delete(&usage, &partition, id("a"), Precondition::Any).await.unwrap();
    let wrong = json!({"clusters": 9});
    world.store.put(&usage, &partition, id("b"), Precondition::Any, &wrong).await.unwrap();
    let service = world.start_with(two(10, 20)).await;
    eventually("the counts are right", PATIENCE, || async {
        let now = counts(&service).await;
        if now == before { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
    let kept = service.client.provision_shard_get(&context(), "b").await.unwrap();
    assert_eq!((kept.status, kept.capacity), (ProvisionShardStatus::Maintenance, 77));
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_are_listed_searched_and_refused_like_everything_else() {
    let world = World::new().await;
    let service = world.start_with(two(10, 10)).await;
    let http = ClientBuilder::new(PATIENCE).build().unwrap();
    let call = async |method: &str, path: &str, body: Value| {
        let url = format!("http://{}/api/aro_hcp/v1alpha1/provision_shards{path}", service.address);
        let call = http.call(method.parse().unwrap(), url.parse().unwrap()).json(&body);
        let response = call.send().await.unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_slice::<Value>(&response.bytes().await.unwrap()).unwrap_or_default())
    };
    let search = "?search=maestro_config.consumer_name%3D%27management-b%27%20and%20status%3D%27active%27";
    let (status, found) = call("GET", search, Value::Null).await;
    assert_eq!((status, &found["total"], &found["items"][0]["id"]), (200, &json!(1), &json!("b")), "{found}");
    let (_, sorted) = call("GET", "?order=id%20desc&size=1", Value::Null).await;
    assert_eq!((&sorted["total"], &sorted["items"][0]["id"]), (&json!(2), &json!("b")));
    for (method, path, body, expected) in [
        ("GET", "?search=nome%3D1", Value::Null, 400),
        ("GET", "/none", Value::Null, 404),
        ("PATCH", "/none", json!({"capacity": 1}), 404),
        ("PATCH", "/a", json!({"status": "asleep"}), 400),
        ("PATCH", "/a", json!({"consumer": "x"}), 400),
        ("POST", "", json!({"id": "Not A Label", "maestro_config": {"consumer_name": "x"}}), 400),
        ("DELETE", "/none", Value::Null, 404),
        ("PUT", "/a", Value::Null, 405),
    ] {
        let (status, answer) = call(method, path, body.clone()).await;
        assert_eq!(
            (status, &answer["kind"]),
            (expected, &json!("Error")),
            "{method} {path} {body}: {answer}"
        );
    }
    assert_eq!(service.client.cluster_list(&context(), &ListQuery::default()).await.unwrap().total, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_management_cluster_in_the_original_s_shape_is_taken_and_told_whole() {
    let world = World::new().await;
    let service = world.start().await;
    let path = "/api/clusters_mgmt/v1/provision_shards";
    let local = service.client.provision_shard_get(&context(), "local").await.unwrap();
    let whole = json!({
        "id": "0b2a4b52-7a3c-4b5e-9a54-1f1f0c5c0a01",
        "status": "active",
        "topology": "shared",
        "region": {"id": local.region.id},
        "cloud_provider": {"id": "azure"},
        "azure_shard": {
            "aks_management_cluster_resource_id": "/subscriptions/s/resourceGroups/g/providers/p/managedClusters/m",
            "public_dns_zone_resource_id": "/subscriptions/s/resourceGroups/g/providers/p/dnsZones/z",
            "cx_secrets_key_vault_url": "https://local-cx-kv-2.vault.pilothouse.test",
            "cx_managed_identities_key_vault_url": "https://local-cx-mi-2.vault.pilothouse.test",
            "cx_secrets_key_vault_managed_identity_client_id": "11111111-2222-3333-4444-555555555555",
        },
        "maestro_config": {
            "consumer_name": "mgmt-2",
            "rest_api_config": {"url": "http://maestro:8000"},
            "grpc_api_config": {"url": "http://maestro:8090"},
        },
    });
    for (field, value) in [
        ("topology", json!("dedicated")),
        ("region", json!({"id": "elsewhere"})),
        ("cloud_provider", json!({"id": "aws"})),
        ("flavour", json!("sweet")),
    ] {
        let mut wrong = whole.clone();
        wrong[field] = value;
        let (status, body) = service.call("POST", path, &wrong).await;
        assert_eq!(status, 400, "{body}");
        assert!(body["reason"].as_str().unwrap().contains(field), "{body}");
    }
    let (status, made) = service.call("POST", path, &whole).await;
    assert_eq!(status, 201, "{made}");
    let (_, kept) =
        service.call("GET", &format!("{path}/{}", whole["id"].as_str().unwrap()), &Value::Null).await;
    for (name, value) in whole.as_object().unwrap() {
        assert_eq!(&kept[name], value, "{name}");
    }
}
