//! More nodes, and fewer.

use pilothouse_clusters_service_api::{
    Autoscaling, ClusterState, NodePool, NodePoolStateValue, NodePoolUpdate, properties,
};
use pilothouse_http::{ClientBuilder, Context};
use pilothouse_test_support::eventually;
use serde_json::{Value, json};

use crate::maestro::{Bundle, node_pool_report};
use crate::support::{PATIENCE, Running, World, context, new_cluster, new_node_pool, scale_to};

const OTHER_CORRELATION: &str = "9a7e5a3c-0000-4000-8000-000000000002";

/// A pool of two nodes that are ready, in a cluster that is.
async fn pool(world: &World, service: &Running) -> NodePool {
    world.maestro.play_agent();
    let cluster = service.create(&new_cluster("first")).await;
    service.until(&cluster.id, ClusterState::Ready).await;
    let created = service.client.node_pool_create(&context(), &cluster.id, &new_node_pool("workers")).await;
    service.until_node_pool(&created.unwrap(), NodePoolStateValue::Ready).await
}

fn work(pool: &NodePool) -> String {
    format!("{}-pool-{}", pool.cluster_id, pool.id)
}

async fn until_posted(world: &World, pool: &NodePool, replicas: u32) -> Bundle {
    eventually("the change is posted", PATIENCE, || async {
        let bundle = world.maestro.bundle(&work(pool)).unwrap();
        let manifest = &bundle.bundle.manifests[0]["spec"]["workload"]["manifests"][0];
        if manifest["spec"]["replicas"] == replicas { Ok(bundle) } else { Err(manifest.to_string()) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scaled_pool_is_ready_again_once_its_new_number_of_nodes_was_seen() {
    let world = World::new().await;
    let service = world.start().await;
    let pool = pool(&world, &service).await;
    world.maestro.leave_agent();
    let caller = Context::new(PATIENCE).with_correlation_id(OTHER_CORRELATION);
    let update = scale_to(3, "scale");
    let asked = service.client.node_pool_update(&caller, &pool.cluster_id, &pool.id, &update).await.unwrap();
    assert_eq!((asked.replicas, asked.status.state.value), (Some(3), NodePoolStateValue::ValidatingUpdate));
    assert_eq!(asked.properties[properties::OPERATION_ID], "scale");
    let bundle = until_posted(&world, &pool, 3).await;
    assert_eq!((bundle.version, bundle.correlation.as_deref()), (2, Some(OTHER_CORRELATION)));

    // What was seen of the two is not what was asked for.
    world.maestro.report(&work(&pool), node_pool_report("True", 2));
    eventually("the pool says how far it is", PATIENCE, || async {
        let found = service.until_node_pool(&pool, NodePoolStateValue::Updating).await;
        let message = found.status.message;
        if message.starts_with("step 9: 2 of 3 nodes are ready") { Ok(()) } else { Err(message) }
    })
    .await;
    world.maestro.report(&work(&pool), node_pool_report("True", 3));
    let ready = service.until_node_pool(&pool, NodePoolStateValue::Ready).await;
    assert_eq!((ready.replicas, ready.status.current_replicas), (Some(3), 3));

    // The same operation again, and another one that asks for nothing new.
    for operation in ["scale", "again"] {
        let update = scale_to(3, operation);
        let again =
            service.client.node_pool_update(&caller, &pool.cluster_id, &pool.id, &update).await.unwrap();
        assert_eq!(again.status.state.value, NodePoolStateValue::Ready, "{operation}");
    }
    let updates = world.maestro.log().into_iter().filter(|line| line.starts_with("Update")).count();
    assert_eq!(updates, 1, "{:?}", world.maestro.log());
    assert_eq!(service.cluster(&pool.cluster_id).await.status.current_compute, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_follows_the_load_is_ready_with_what_that_asks_for() {
    let world = World::new().await;
    let service = world.start().await;
    let pool = pool(&world, &service).await;
    let update = NodePoolUpdate {
        autoscaling: Some(Autoscaling { min_replica: 1, max_replica: 5 }),
        ..NodePoolUpdate::default()
    };
    service.client.node_pool_update(&context(), &pool.cluster_id, &pool.id, &update).await.unwrap();
    let most = service.until_node_pool(&pool, NodePoolStateValue::Ready).await;
    assert_eq!((most.replicas, most.status.current_replicas), (None, 5));
    world.maestro.leave_agent();
    world.maestro.report(&work(&pool), node_pool_report("True", 3));
    eventually("the pool tells how many there are", PATIENCE, || async {
        let found = service.until_node_pool(&pool, NodePoolStateValue::Ready).await;
        let message = found.status.message;
        if message.starts_with("3 nodes are ready, of 1 to 5") { Ok(()) } else { Err(message) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_comes_too_late_is_posted_on_top_of_what_is_there() {
    let world = World::new().await;
    let service = world.start().await;
    let pool = pool(&world, &service).await;
    world.maestro.interfere();
    let update = scale_to(0, "scale");
    service.client.node_pool_update(&context(), &pool.cluster_id, &pool.id, &update).await.unwrap();
    assert_eq!(until_posted(&world, &pool, 0).await.version, 3);
    let ready = service.until_node_pool(&pool, NodePoolStateValue::Ready).await;
    assert_eq!(ready.status.current_replicas, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_request_of_a_change_ends_in_the_number_asked_for() {
    // Fewer requests than a change makes: three looks at bundles, one post, and looks again.
    for requests in 0..5 {
        let world = World::new().await;
        let service = world.start().await;
        let pool = pool(&world, &service).await;
        world.switch.limit(requests);
        let update = scale_to(1, "scale");
        service.client.node_pool_update(&context(), &pool.cluster_id, &pool.id, &update).await.unwrap();
        eventually("somebody waits for an answer", PATIENCE, || async {
            if world.switch.holds() { Ok(()) } else { Err(format!("{} requests", world.switch.seen())) }
        })
        .await;
        service.kill();
        world.switch.release();
        let service = world.start().await;
        let ready = service.until_node_pool(&pool, NodePoolStateValue::Ready).await;
        assert_eq!((ready.replicas, ready.status.current_replicas), (Some(1), 1), "{requests}");
        assert_eq!(world.maestro.bundle(&work(&pool)).unwrap().version, 2, "{requests}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_changed_is_refused_with_its_field() {
    let world = World::new().await;
    let service = world.start().await;
    let pool = pool(&world, &service).await;
    let change = async |update: &NodePoolUpdate| {
        service.client.node_pool_update(&context(), &pool.cluster_id, &pool.id, update).await
    };
    let refusal = change(&scale_to(501, "too-many")).await.unwrap_err();
    assert_eq!(refusal.details()[0].target, "replicas");

    let http = ClientBuilder::new(PATIENCE).build().unwrap();
    let url = format!(
        "http://{}/api/aro_hcp/v1alpha1/clusters/{}/node_pools/{}",
        service.address, pool.cluster_id, pool.id
    );
    let patch = async |query: &str, body: Value| {
        let call = http.call(http::Method::PATCH, format!("{url}{query}").parse().unwrap()).json(&body);
        let response = call.send().await.unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_slice::<Value>(&response.bytes().await.unwrap()).unwrap())
    };
    let (status, body) = patch("", json!({"auto_repair": false})).await;
    assert_eq!(status, 400, "{body}");
    assert!(body["reason"].as_str().unwrap().contains("unknown field `auto_repair`"), "{body}");
    let (status, body) = patch("", json!({"version": {"id": "openshift-v4.20.4"}})).await;
    assert_eq!(
        (status, &body["details"][0]["target"]),
        (400, &json!("version.id")),
        "newer than the cluster"
    );
    let (status, body) = patch("?dryRun=true", json!({"replicas": 4})).await;
    assert_eq!((status, &body["replicas"]), (200, &json!(4)));
    let unchanged = service.client.node_pool_get(&context(), &pool.cluster_id, &pool.id).await.unwrap();
    assert_eq!(unchanged, pool);
    let (status, body) = patch("", json!({"labels": {"tier": "db"}})).await;
    assert_eq!((status, &body["labels"], &body["replicas"]), (200, &json!({"tier": "db"}), &json!(2)));

    let missing = "missing".parse().unwrap();
    let update = scale_to(1, "scale");
    let refusal = service.client.node_pool_update(&context(), &pool.cluster_id, &missing, &update).await;
    assert!(refusal.unwrap_err().is_not_found());
    world.maestro.leave_agent();
    service.client.node_pool_delete(&context(), &pool.cluster_id, &pool.id).await.unwrap();
    assert!(change(&update).await.unwrap_err().is_conflict());
}
