//! What is only tried changes nothing, whatever the method; and what a write does not know it does not ignore.

use pilothouse_clusters_service_api::{BASES, Cluster, ClusterState, NewBreakGlassCredential};
use serde_json::{Value, json};

use crate::support::{Running, World, context, new_cluster, new_node_pool};

/// A cluster with one of everything.
async fn furnished(world: &World, service: &Running) -> Cluster {
    world.maestro.play_agent();
    let cluster = service.create(&new_cluster("first")).await;
    let cluster = service.until(&cluster.id, ClusterState::Ready).await;
    let id = &cluster.id;
    service.client.node_pool_create(&context(), id, &new_node_pool("workers")).await.unwrap();
    let auth = json!({"id": "entra", "issuer": {"url": "https://issuer.test", "audiences": ["a"]},
                      "claim": {"mappings": {"username": {"claim": "sub"}}}});
    let auth = serde_json::from_value(auth).unwrap();
    service.client.external_auth_create(&context(), id, &auth).await.unwrap();
    let credential = NewBreakGlassCredential::default();
    service.client.break_glass_create(&context(), id, &credential).await.unwrap();
    let (status, _) = service
        .call(
            "POST",
            &format!("{}/provision_shards", BASES[0]),
            &json!({"id": "spare", "maestro_config": {"consumer_name": "spare"}}),
        )
        .await;
    assert_eq!(status, 201);
    cluster
}

fn upgrades(cluster: &Cluster) -> String {
    format!("{}/control_plane_upgrade_policies", cluster.href)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_is_only_tried_deletes_nothing() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = furnished(&world, &service).await;
    let later = json!({"version": "4.20.5", "next_run": "2030-01-01T00:00:00Z"});
    let (_, policy) = service.call("POST", &upgrades(&cluster), &later).await;
    let policy = policy["href"].as_str().unwrap().to_owned();
    let href = &cluster.href;
    for path in [
        href.clone(),
        format!("{href}/node_pools/workers"),
        format!("{href}/external_auth_config/external_auths/entra"),
        policy,
        format!("{}/provision_shards/spare", BASES[0]),
    ] {
        let (status, body) = service.call("DELETE", &format!("{path}?dryRun=true"), &Value::Null).await;
        assert_eq!(status, 204, "{path}: {body}");
        let (status, found) = service.call("GET", &path, &Value::Null).await;
        let text = found.to_string();
        assert!(status == 200 && !text.contains("uninstalling") && !text.contains("cancelled"), "{found}");
        let (status, _) = service.call("DELETE", &format!("{path}-none?dryRun=true"), &Value::Null).await;
        assert_eq!(status, 404, "what is not there cannot be deleted: {path}");
    }
    let credentials = format!("{href}/break_glass_credentials");
    let (status, _) = service.call("DELETE", &format!("{credentials}?dryRun=true"), &Value::Null).await;
    assert_eq!(status, 204);
    let (_, found) = service.call("GET", &credentials, &Value::Null).await;
    assert_eq!(found["items"][0]["status"], "created", "{found}");

    // A conflict is one when it is tried as well: the region's own management cluster would come back.
    let own = format!("{}/provision_shard", href);
    let (_, shard) = service.call("GET", &own, &Value::Null).await;
    let path = format!("{}?dryRun=true", shard["href"].as_str().unwrap());
    assert_eq!(service.call("DELETE", &path, &Value::Null).await.0, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_management_cluster_is_made_known_and_changed_only_in_earnest() {
    let world = World::new().await;
    let service = world.start().await;
    let shards = format!("{}/provision_shards", BASES[1]);
    let new = json!({"id": "new", "maestro_config": {"consumer_name": "new"}, "capacity": 7});
    let (status, shown) = service.call("POST", &format!("{shards}?dryRun=true"), &new).await;
    assert_eq!((status, &shown["id"], &shown["capacity"]), (200, &json!("new"), &json!(7)), "{shown}");
    assert_eq!(service.call("GET", &format!("{shards}/new"), &Value::Null).await.0, 404);
    assert_eq!(service.call("POST", &shards, &new).await.0, 201);
    assert_eq!(service.call("POST", &format!("{shards}?dryRun=true"), &new).await.0, 409);
    let change = json!({"status": "maintenance"});
    let (status, shown) = service.call("PATCH", &format!("{shards}/new?dryRun=true"), &change).await;
    assert_eq!((status, &shown["status"]), (200, &json!("maintenance")), "{shown}");
    let (_, found) = service.call("GET", &format!("{shards}/new"), &Value::Null).await;
    assert_eq!(found["status"], "active");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_refuses_parameters_that_it_does_not_know() {
    let world = World::new().await;
    let service = world.start().await;
    let cluster = furnished(&world, &service).await;
    let href = &cluster.href;
    let pool = format!("{href}/node_pools/workers");
    for (method, path, name) in [
        ("DELETE", format!("{href}?deprovision=false"), "deprovision"),
        ("DELETE", format!("{href}?dryRun=yes"), "dryRun"),
        ("DELETE", format!("{href}?dry_run=true"), "dry_run"),
        ("DELETE", format!("{pool}?best_effort=true"), "best_effort"),
        ("PATCH", format!("{pool}?dryrun=true"), "dryrun"),
        ("POST", format!("{href}/node_pools?dryRun="), "dryRun"),
    ] {
        let (status, body) = service.call(method, &path, &json!({"id": "other"})).await;
        assert_eq!(status, 400, "{path}: {body}");
        assert!(body["reason"].as_str().unwrap().contains(&format!("`{name}`")), "{body}");
    }
    assert_eq!(service.cluster(&cluster.id).await.state, ClusterState::Ready);
    let (status, _) =
        service.call("DELETE", &format!("{href}?deprovision=true&dryRun=false"), &Value::Null).await;
    assert_eq!(status, 204);
    service.until_gone(&cluster.id).await;
}
