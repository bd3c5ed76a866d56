//! What of a cluster is secret is in its vault, is made once, and is put back as it was.

use pilothouse_clusters_service::Config;
use pilothouse_clusters_service_api::{Cluster, ClusterState};
use pilothouse_store::{Container, DocumentId, Partition, Precondition};
use pilothouse_test_support::eventually;
use serde_json::{Value, json};

use crate::support::{PATIENCE, Running, World, base_zone, context, new_cluster};

const GROUP: &str = "/subscriptions/11111111-2222-3333-4444-555555555555/resourcegroups/managed-first";
const LABEL: &str = "api.openshift.com/id";

pub(crate) fn vault(cluster: &Cluster) -> String {
    format!("{GROUP}/providers/microsoft.keyvault/vaults/kv-{}", &cluster.id.as_str()[..20])
}

fn key(cluster: &Cluster) -> String {
    format!("{}/secrets/etcd-encryption-key", vault(cluster))
}

/// What is posted for a cluster, by kind.
fn posted(world: &World, cluster: &Cluster, kind: &str) -> Vec<Value> {
    let bundle = world.maestro.bundle(cluster.id.as_str()).unwrap();
    let inner = bundle.bundle.manifests[0]["spec"]["workload"]["manifests"].as_array().unwrap().clone();
    inner.into_iter().filter(|manifest| manifest["kind"] == kind).collect()
}

/// The key that is posted is the one in the vault, which never had another.
pub(crate) fn has_one_key(world: &World, cluster: &Cluster) {
    let said = world.cloud.said(&key(cluster));
    assert_eq!(said.len(), 1, "one key was made");
    let secrets = posted(world, cluster, "Secret");
    let name = format!("{}-secret-encryption", cluster.domain_prefix);
    let secret = secrets.iter().find(|secret| secret["metadata"]["name"] == name.as_str()).unwrap();
    assert_eq!(secret["data"]["key"], said[0].as_str(), "both are written in base64");
}

async fn ready(world: &World) -> (Running, Cluster) {
    world.maestro.play_agent();
    let often = |config: &mut Config| config.resync = pilothouse_runtime::config::Duration::from_secs(1);
    let service = world.start_with(often).await;
    let cluster = service.create(&new_cluster("first")).await;
    let cluster = service.until(&cluster.id, ClusterState::Ready).await;
    (service, cluster)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_has_a_vault_with_what_is_secret_of_it() {
    let world = World::new().await;
    let (_service, cluster) = ready(&world).await;
    let vault = vault(&cluster);
    let mut names: Vec<_> = world.cloud.paths();
    names.retain(|path| path.starts_with(&format!("{vault}/")));
    let names: Vec<_> = names.iter().map(|path| path.rsplit_once('/').unwrap().1).collect();
    assert_eq!(names, ["etcd-encryption-key", "first-control-plane", "first-data-plane", "pull-secret"]);
    assert_eq!(world.cloud.get(&vault).unwrap()["tags"], json!({LABEL: cluster.id}));
    assert_eq!(world.cloud.said(&format!("{vault}/secrets/pull-secret")), [r#"{"auths":{}}"#]);
    has_one_key(&world, &cluster);

    let spec = posted(&world, &cluster, "HostedCluster").remove(0)["spec"].take();
    let named = json!({"type": "aescbc", "aescbc": {"activeKey": {"name": "first-secret-encryption"}}});
    assert_eq!(spec["secretEncryption"], named);
    let identities = &spec["platform"]["azure"]["azureAuthenticationConfig"]["managedIdentities"];
    let vault_name = vault.rsplit_once('/').unwrap().1;
    assert_eq!(identities["controlPlane"]["managedIdentitiesKeyVault"]["name"], vault_name);
    let part = json!({"clientID": "first-control-plane", "objectEncoding": "utf-8",
                      "credentialsSecretName": "first-control-plane"});
    assert_eq!(identities["controlPlane"]["disk"], part);
    assert_eq!(identities["dataPlane"]["diskMSIClientID"], "first-data-plane");
    let credential = world.cloud.said(&format!("{vault}/secrets/first-control-plane")).remove(0);
    let credential: Value = serde_json::from_str(&credential).unwrap();
    assert_eq!(credential["client_id"], "first-control-plane");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_changed_or_removed_in_the_cloud_is_put_back_as_it_was() {
    let world = World::new().await;
    let (_service, cluster) = ready(&world).await;
    let vault = vault(&cluster);
    let made = world.cloud.said(&key(&cluster));
    let record = format!("{GROUP}/providers/microsoft.network/dnszones/first.pilothouse.test/a/api");
    let delegation = base_zone().child("NS", "first").key();
    let until = async |what: &str, holds: &dyn Fn() -> bool| {
        eventually(what, PATIENCE, || async { if holds() { Ok(()) } else { Err("not yet") } }).await;
    };

    world.cloud.remove(&key(&cluster));
    until("the key is there again", &|| world.cloud.get(&key(&cluster)).is_some()).await;
    world.cloud.say(&key(&cluster), "something else");
    world.cloud.remove(&vault);
    until("the vault is there again", &|| world.cloud.get(&vault).is_some()).await;
    until("it says what it said", &|| world.cloud.said(&key(&cluster)).last() == made.last()).await;
    let pull_secret = format!("{vault}/secrets/pull-secret");
    world.cloud.say(&pull_secret, "somebody else's");
    until("it pulls with its own", &|| world.cloud.said(&pull_secret).last().unwrap().contains("auths"))
        .await;

    let address = |value: &Value| value["properties"]["ARecords"][0]["ipv4Address"].clone();
    world
        .cloud
        .change(&record, |found| found["properties"]["ARecords"][0]["ipv4Address"] = json!("192.0.2.1"));
    until("the name leads to the cluster", &|| address(&world.cloud.get(&record).unwrap()) == "127.0.0.1")
        .await;
    let server = |value: &Value| value["properties"]["NSRecords"][0]["nsdname"].clone();
    world
        .cloud
        .change(&delegation, |found| found["properties"]["NSRecords"][0]["nsdname"] = json!("else.test."));
    until("the zone is led to", &|| server(&world.cloud.get(&delegation).unwrap()) != "else.test.").await;
    assert_eq!(posted(&world, &cluster, "Secret").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_from_before_there_were_vaults_stays_without_one() {
    let world = World::new().await;
    let (service, cluster) = ready(&world).await;
    service.kill();
    // As it was stored then.
    let clusters = Container::new("clusters");
    let partition = Partition::try_new("region").unwrap();
    let id = DocumentId::try_new(cluster.id.as_str()).unwrap();
    let found = world.store.get(&clusters, &partition, &id).await.unwrap().unwrap();
    let mut record: Value = found.parse().unwrap();
    assert!(record.as_object_mut().unwrap().remove("prepared").unwrap()["encryption_key"].is_string());
    world.store.put(&clusters, &partition, id, Precondition::Any, &record).await.unwrap();
    let vault = vault(&cluster);
    for path in world.cloud.paths().iter().filter(|path| path.starts_with(&vault)) {
        world.cloud.remove(path);
    }
    let balancer = format!("{GROUP}/providers/microsoft.network/loadbalancers/first-api");
    world.cloud.remove(&balancer);
    let often = |config: &mut Config| config.resync = pilothouse_runtime::config::Duration::from_secs(1);
    let _service = world.start_with(often).await;
    eventually("it was looked at, and mended", PATIENCE, || async {
        if world.cloud.get(&balancer).is_some() { Ok(()) } else { Err("not yet") }
    })
    .await;
    eventually("its manifests have nothing of a vault", PATIENCE, || async {
        let spec = posted(&world, &cluster, "HostedCluster").remove(0)["spec"].take();
        let azure = &spec["platform"]["azure"];
        match (spec.get("secretEncryption"), azure.get("azureAuthenticationConfig")) {
            (None, None) if posted(&world, &cluster, "Secret").len() == 1 => Ok(()),
            _ => Err(spec.to_string()),
        }
    })
    .await;
    assert!(!world.cloud.paths().iter().any(|path| path.contains("/vaults/")), "{:?}", world.cloud.paths());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lost_its_mark_is_not_left_behind_unsaid() {
    let delegation = base_zone().child("NS", "first").key();
    for path in [GROUP.to_owned(), delegation] {
        let world = World::new().await;
        let (service, cluster) = ready(&world).await;
        // Nothing in it is marked either, so only who manages it says whose it is.
        for found in world.cloud.paths() {
            world.cloud.change(&found, |found| found["tags"] = Value::Null);
        }
        world.cloud.change(GROUP, |group| group["tags"] = json!({LABEL: cluster.id}));
        let mark = world.cloud.get(&path).unwrap();
        world.cloud.change(&path, |found| {
            found["tags"] = Value::Null;
            found["properties"]["metadata"] = Value::Null;
        });
        service.client.cluster_delete(&context(), &cluster.id).await.unwrap();
        let told = service.until_it_says(&cluster.id, "does not say any more that it is cluster").await;
        let says = told.status.description;
        assert!(says.to_lowercase().contains(&path) && says.contains("again"), "{says}");
        assert_eq!(told.state, ClusterState::Uninstalling);
        assert!(world.cloud.get(&path).is_some());
        world.cloud.change(&path, |found| *found = mark);
        service.until_gone(&cluster.id).await;
        assert_eq!(world.cloud.paths(), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_still_in_a_group_of_another_name_is_said_and_what_is_not_is_not_waited_for() {
    let world = World::new().await;
    let (service, cluster) = ready(&world).await;
    world.cloud.change(GROUP, |group| group["tags"] = json!({LABEL: "another"}));
    service.client.cluster_delete(&context(), &cluster.id).await.unwrap();
    service.until_it_says(&cluster.id, "does not say any more that it is cluster").await;
    for path in world.cloud.paths().iter().filter(|path| path.starts_with(&format!("{GROUP}/"))) {
        world.cloud.remove(path);
    }
    service.until_gone(&cluster.id).await;
    assert_eq!(world.cloud.paths(), [GROUP], "it is somebody else's");
}
