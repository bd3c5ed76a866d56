//! An identity that somebody removes comes back as another one, and whatever names it follows.

use pilothouse_clusters_service::Config;
use pilothouse_clusters_service_api::{Cluster, ClusterState};
use pilothouse_test_support::eventually;
use serde_json::{Value, json};

use crate::support::{PATIENCE, Running, World, new_cluster};
use crate::vaults;

const GROUP: &str = "/subscriptions/11111111-2222-3333-4444-555555555555/resourcegroups/managed-first";

fn identity(operator: &str) -> String {
    format!("{GROUP}/providers/microsoft.managedidentity/userassignedidentities/first-{operator}")
}

/// It looks at everything every second.
async fn start(world: &World) -> Running {
    let often = |config: &mut Config| config.resync = pilothouse_runtime::config::Duration::from_secs(1);
    world.start_with(often).await
}

async fn ready(world: &World) -> (Running, Cluster) {
    world.maestro.play_agent();
    let service = start(world).await;
    let cluster = service.create(&new_cluster("first")).await;
    let cluster = service.until(&cluster.id, ClusterState::Ready).await;
    (service, cluster)
}

/// Until every part of the cluster is told that it acts as these, and the vault proves just that.
async fn acts_as(world: &World, cluster: &Cluster, control_plane: &str, data_plane: &str) {
    eventually("the identities are named by whatever names them", PATIENCE, || async {
        let posted = world.maestro.bundle(cluster.id.as_str()).unwrap().bundle;
        let works = posted.manifests[0]["spec"]["workload"]["manifests"].as_array().unwrap();
        let hosted = works.iter().find(|manifest| manifest["kind"] == "HostedCluster").unwrap();
        let identities =
            &hosted["spec"]["platform"]["azure"]["azureAuthenticationConfig"]["managedIdentities"];
        let parts = identities["controlPlane"].as_object().unwrap().values();
        let of_parts: Vec<_> = parts.filter_map(|part| part.get("clientID")).collect();
        let of_nodes: Vec<_> = identities["dataPlane"].as_object().unwrap().values().collect();
        let proved = ["control-plane", "data-plane"].map(|operator| {
            let credential = format!("{}/secrets/first-{operator}", vaults::vault(cluster));
            let said = world.cloud.said(&credential).pop().unwrap();
            serde_json::from_str::<Value>(&said).unwrap()["client_id"].clone()
        });
        let right = of_parts.len() == 8
            && of_parts.iter().all(|id| **id == control_plane)
            && of_nodes.len() == 3
            && of_nodes.iter().all(|id| **id == data_plane)
            && proved == [control_plane, data_plane];
        if right { Ok(()) } else { Err(format!("{of_parts:?}, {of_nodes:?}, {proved:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_that_was_removed_is_known_by_its_new_id_everywhere() {
    let world = World::new().await;
    let (service, cluster) = ready(&world).await;
    acts_as(&world, &cluster, "first-control-plane", "first-data-plane").await;
    let prove =
        |operator: &str| world.cloud.said(&format!("{}/secrets/first-{operator}", vaults::vault(&cluster)));
    let before = prove("data-plane");

    world.cloud.remove(&identity("control-plane"));
    acts_as(&world, &cluster, "first-control-plane-2", "first-data-plane").await;
    assert_eq!(prove("data-plane"), before, "who stays the same proves it as before");
    let secret = |said: &String| serde_json::from_str::<Value>(said).unwrap()["client_secret"].clone();
    let secrets: Vec<_> = prove("control-plane").iter().map(secret).collect();
    assert!(secrets.len() == 2 && secrets[0] != secrets[1], "what somebody else had proves nothing");
    vaults::has_one_key(&world, &cluster);

    // Again, and with all that belongs to it.
    world.cloud.remove(&identity("data-plane"));
    let vault = vaults::vault(&cluster);
    for path in world.cloud.paths().iter().filter(|path| path.starts_with(&vault)) {
        world.cloud.remove(path);
    }
    acts_as(&world, &cluster, "first-control-plane-2", "first-data-plane-2").await;
    let cluster = service.until(&cluster.id, ClusterState::Ready).await;
    assert_eq!(service.until_it_says(&cluster.id, "the control plane answers").await.state, cluster.state);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_that_was_replaced_while_nobody_looked_is_noticed() {
    let world = World::new().await;
    let (service, cluster) = ready(&world).await;
    // As after a crash between the making of another one and the note of it; or somebody else made it.
    service.kill();
    let (before, path) = ("first-control-plane", identity("control-plane"));
    world.cloud.change(&path, |found| found["properties"]["clientId"] = json!("somebody"));
    acts_as(&world, &cluster, before, "first-data-plane").await;
    let service = start(&world).await;
    acts_as(&world, &cluster, "somebody", "first-data-plane").await;
    service.kill();

    // Where a list does not show it, it is asked for.
    world.cloud.hide("clientId");
    world.cloud.change(&path, |found| found["properties"]["clientId"] = json!("nobody"));
    let _service = start(&world).await;
    acts_as(&world, &cluster, "nobody", "first-data-plane").await;
}
