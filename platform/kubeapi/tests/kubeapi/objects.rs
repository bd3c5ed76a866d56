//! Creating, reading, changing and deleting.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret, Service};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;

use crate::support::{Cluster, refused};

fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name }, "data": { "key": value } })).unwrap()
}

fn pod(name: &str, node: Option<&str>) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "nodeName": node, "containers": [{ "name": "main", "image": "busybox" }] },
    }))
    .unwrap()
}

#[tokio::test]
async fn an_object_lives_from_create_to_delete() {
    let cluster = Cluster::start().await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.admin().await, "default");
    let made = maps.create(&PostParams::default(), &config_map("a", "one")).await.unwrap();
    assert!(made.metadata.uid.is_some() && made.metadata.creation_timestamp.is_some());
    let (code, reason, _) = refused(maps.create(&PostParams::default(), &config_map("a", "one")).await);
    assert_eq!((code, reason.as_str()), (409, "AlreadyExists"));

    let mut changed = made.clone();
    changed.data = Some(BTreeMap::from([("key".to_owned(), "two".to_owned())]));
    let changed = maps.replace("a", &PostParams::default(), &changed).await.unwrap();
    assert_ne!(changed.metadata.resource_version, made.metadata.resource_version);
    let (code, reason, message) = refused(maps.replace("a", &PostParams::default(), &made).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    assert!(message.contains("the object has been modified"), "{message}");

    let merged = maps
        .patch("a", &PatchParams::default(), &Patch::Merge(json!({ "data": { "more": "three" } })))
        .await
        .unwrap();
    assert_eq!(merged.data.unwrap().len(), 2);
    assert_eq!(maps.list(&ListParams::default()).await.unwrap().items.len(), 1);

    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(maps.get_opt("a").await.unwrap().is_none());
    let (code, _, message) = refused(maps.delete("a", &DeleteParams::default()).await);
    assert_eq!((code, message.as_str()), (404, "configmaps \"a\" not found"));
    cluster.stop().await;
}

#[tokio::test]
async fn a_patch_survives_others_and_a_change_of_nothing_is_none() {
    let cluster = Cluster::start().await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.admin().await, "default");
    maps.create(&PostParams::default(), &config_map("a", "one")).await.unwrap();
    let writes = (0..10).map(|number| {
        let maps = maps.clone();
        async move {
            let patch = Patch::Merge(json!({ "data": { (number.to_string()): "x" } }));
            maps.patch("a", &PatchParams::default(), &patch).await.unwrap()
        }
    });
    futures::future::join_all(writes).await;
    let all = maps.get("a").await.unwrap();
    assert_eq!(all.data.as_ref().unwrap().len(), 11);
    let same = maps
        .patch("a", &PatchParams::default(), &Patch::Merge(json!({ "data": { "key": "one" } })))
        .await
        .unwrap();
    assert_eq!(same.metadata.resource_version, all.metadata.resource_version);
    cluster.stop().await;
}

#[tokio::test]
async fn lists_come_in_pages_of_one_instant() {
    let cluster = Cluster::start().await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.admin().await, "default");
    for name in ["a", "b", "c", "d", "e"] {
        maps.create(&PostParams::default(), &config_map(name, "one")).await.unwrap();
    }
    let first = maps.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(first.items.len(), 2);
    assert_eq!(first.metadata.remaining_item_count, Some(3));
    maps.delete("d", &DeleteParams::default()).await.unwrap();
    let token = first.metadata.continue_.clone().unwrap();
    let second = maps.list(&ListParams::default().limit(2).continue_token(&token)).await.unwrap();
    let names: Vec<_> = second.items.iter().map(|map| map.metadata.name.clone().unwrap()).collect();
    assert_eq!(names, ["c", "d"], "the deletion came after the first page");
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
    let token = second.metadata.continue_.clone().unwrap();
    let last = maps.list(&ListParams::default().limit(2).continue_token(&token)).await.unwrap();
    assert_eq!((last.items.len(), last.metadata.continue_.as_deref().unwrap_or_default()), (1, ""));

    let labelled = maps.list(&ListParams::default().fields("metadata.name=b")).await.unwrap();
    assert_eq!(labelled.items.len(), 1);
    cluster.stop().await;
}

#[tokio::test]
async fn finalizers_are_waited_for_and_preconditions_are_kept() {
    let cluster = Cluster::start().await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.admin().await, "default");
    let mut held = config_map("a", "one");
    held.metadata.finalizers = Some(vec!["test.dev/hold".to_owned()]);
    maps.create(&PostParams::default(), &held).await.unwrap();

    let stranger = Preconditions { uid: Some("other".to_owned()), resource_version: None };
    let parameters = DeleteParams { preconditions: Some(stranger), ..DeleteParams::default() };
    assert_eq!(refused(maps.delete("a", &parameters).await).0, 409);

    let going = maps.delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(going.metadata.deletion_timestamp.is_some());
    assert!(maps.get("a").await.is_ok());
    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    maps.patch("a", &PatchParams::default(), &release).await.unwrap();
    assert!(maps.get_opt("a").await.unwrap().is_none());

    maps.create(&PostParams::default(), &config_map("b", "one")).await.unwrap();
    let waiting = maps.delete("b", &DeleteParams::foreground()).await.unwrap().left().unwrap();
    assert_eq!(waiting.metadata.finalizers.unwrap(), ["foregroundDeletion"]);
    cluster.stop().await;
}

#[tokio::test]
async fn namespaces_are_deleted_one_by_one() {
    let cluster = Cluster::start().await;
    let namespaces: Api<Namespace> = Api::all(cluster.admin().await);
    let all = namespaces.delete_collection(&DeleteParams::default(), &ListParams::default()).await;
    let (code, reason, _) = refused(all);
    assert_eq!((code, reason.as_str()), (405, "MethodNotAllowed"));
    assert!(namespaces.get("default").await.unwrap().metadata.deletion_timestamp.is_none());
    cluster.stop().await;
}

#[tokio::test]
async fn a_running_pod_is_deleted_by_its_kubelet() {
    let cluster = Cluster::start().await;
    let pods: Api<Pod> = Api::namespaced(cluster.admin().await, "default");
    pods.create(&PostParams::default(), &pod("bound", Some("one"))).await.unwrap();
    let going = pods.delete("bound", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(going.metadata.deletion_grace_period_seconds, Some(30));
    assert!(pods.get("bound").await.is_ok());
    pods.delete("bound", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert!(pods.get_opt("bound").await.unwrap().is_none());
    cluster.stop().await;
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let cluster = Cluster::start().await;
    let client = cluster.admin().await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    pods.create(&PostParams::default(), &pod("free", None)).await.unwrap();
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": { "name": "free" },
        "target": { "apiVersion": "v1", "kind": "Node", "name": "one" },
    });
    pods.create_subresource::<_, serde_json::Value>("binding", "free", &PostParams::default(), &binding)
        .await
        .unwrap();
    let bound = pods.get("free").await.unwrap();
    assert_eq!(bound.spec.unwrap().node_name.as_deref(), Some("one"));
    let conditions = bound.status.unwrap().conditions.unwrap();
    assert!(conditions.iter().any(|one| one.type_ == "PodScheduled" && one.status == "True"));
    let again = pods
        .create_subresource::<_, serde_json::Value>("binding", "free", &PostParams::default(), &binding)
        .await;
    assert_eq!(refused(again).0, 409);

    let status = Patch::Merge(json!({ "status": { "phase": "Running" }, "spec": { "nodeName": "two" } }));
    let running = pods.patch_status("free", &PatchParams::default(), &status).await.unwrap();
    assert_eq!(running.status.unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(running.spec.unwrap().node_name.as_deref(), Some("one"));
    cluster.stop().await;
}

#[tokio::test]
async fn a_namespace_that_is_missing_or_going_takes_nothing_in() {
    let cluster = Cluster::start().await;
    let client = cluster.admin().await;
    let missing: Api<ConfigMap> = Api::namespaced(client.clone(), "kitchen");
    let (code, _, message) = refused(missing.create(&PostParams::default(), &config_map("a", "one")).await);
    assert_eq!((code, message.as_str()), (404, "namespaces \"kitchen\" not found"));

    let namespaces: Api<Namespace> = Api::all(client.clone());
    let kitchen = serde_json::from_value(json!({ "metadata": { "name": "kitchen" } })).unwrap();
    namespaces.create(&PostParams::default(), &kitchen).await.unwrap();
    missing.create(&PostParams::default(), &config_map("a", "one")).await.unwrap();
    let going = namespaces.delete("kitchen", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(going.status.clone().unwrap().phase.as_deref(), Some("Terminating"));
    let (code, _, message) = refused(missing.create(&PostParams::default(), &config_map("b", "one")).await);
    assert_eq!(code, 403, "{message}");

    // What the namespace controller does once the namespace is empty.
    let mut emptied = going;
    emptied.spec.as_mut().unwrap().finalizers = None;
    let body = serde_json::to_vec(&emptied).unwrap();
    let request = http::Request::put("/api/v1/namespaces/kitchen/finalize").body(body).unwrap();
    client.request::<serde_json::Value>(request).await.unwrap();
    assert!(namespaces.get_opt("kitchen").await.unwrap().is_none());
    let (code, ..) = refused(namespaces.delete("default", &DeleteParams::default()).await);
    assert_eq!(code, 403);
    cluster.stop().await;
}

#[tokio::test]
async fn services_get_addresses_of_their_own() {
    let cluster = Cluster::start().await;
    let services: Api<Service> = Api::namespaced(cluster.admin().await, "default");
    let own = services.get("kubernetes").await.unwrap();
    assert_eq!(own.spec.unwrap().cluster_ip.as_deref(), Some("10.96.0.1"));
    let make = |name: String, address: Option<&'static str>| {
        let services = services.clone();
        async move {
            let service = json!({
                "metadata": { "name": name },
                "spec": { "clusterIP": address, "ports": [{ "port": 80 }] },
            });
            services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await
        }
    };
    let made = futures::future::join_all((0..8).map(|number| make(format!("s{number}"), None))).await;
    let addresses: std::collections::BTreeSet<_> =
        made.into_iter().map(|service| service.unwrap().spec.unwrap().cluster_ip.unwrap()).collect();
    assert_eq!(addresses.len(), 8, "{addresses:?}");
    assert_eq!(
        make("fixed".to_owned(), Some("10.96.0.9")).await.unwrap().spec.unwrap().cluster_ip.unwrap(),
        "10.96.0.9"
    );
    assert_eq!(refused(make("same".to_owned(), Some("10.96.0.9")).await).0, 422);
    let headless = make("headless".to_owned(), Some("None")).await.unwrap();
    assert_eq!(headless.spec.unwrap().cluster_ip.as_deref(), Some("None"));
    cluster.stop().await;
}

#[tokio::test]
async fn a_dry_run_says_what_would_be_and_does_nothing() {
    let cluster = Cluster::start().await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.admin().await, "default");
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let mut generated = config_map("", "one");
    generated.metadata.name = None;
    generated.metadata.generate_name = Some("a-".to_owned());
    let made = maps.create(&dry, &generated).await.unwrap();
    assert_eq!(made.metadata.name.unwrap().len(), "a-".len() + 5);
    assert!(maps.list(&ListParams::default()).await.unwrap().items.is_empty());
    cluster.stop().await;
}

#[tokio::test]
async fn server_side_apply_makes_changes_and_conflicts() {
    let cluster = Cluster::start().await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.admin().await, "default");
    let applied = |value: &str| {
        Patch::Apply(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "key": value },
        }))
    };
    let ours = PatchParams::apply("ours");
    maps.patch("a", &ours, &applied("one")).await.unwrap();
    let again = maps.patch("a", &ours, &applied("two")).await.unwrap();
    assert_eq!(again.data.unwrap()["key"], "two");
    let theirs = PatchParams::apply("theirs");
    let (code, reason, _) = refused(maps.patch("a", &theirs, &applied("three")).await);
    assert_eq!((code, reason.as_str()), (409, "Conflict"));
    let forced = maps.patch("a", &theirs.clone().force(), &applied("three")).await.unwrap();
    assert_eq!(forced.data.unwrap()["key"], "three");
    let owners: Vec<_> =
        forced.metadata.managed_fields.unwrap().into_iter().filter_map(|entry| entry.manager).collect();
    assert!(owners.contains(&"theirs".to_owned()), "{owners:?}");
    cluster.stop().await;
}

#[tokio::test]
async fn a_secret_is_readable_by_its_api_and_nowhere_else() {
    let ground = crate::support::Ground::new();
    let path = ground.path("kubeapi.db").to_str().unwrap().to_owned();
    let cluster = ground.start(pilothouse_store::Location::sqlite(path)).await;
    let secrets: Api<Secret> = Api::namespaced(cluster.admin().await, "default");
    let word = "open-sesame-3141592653";
    let secret =
        serde_json::from_value(json!({ "metadata": { "name": "a" }, "stringData": { "word": word } }));
    secrets.create(&PostParams::default(), &secret.unwrap()).await.unwrap();
    let read = secrets.get("a").await.unwrap();
    assert_eq!(read.data.unwrap()["word"].0, word.as_bytes());
    assert_eq!(secrets.list(&ListParams::default()).await.unwrap().items.len(), 1);
    let ground = cluster.stop().await;
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(word);
    for entry in std::fs::read_dir(ground.directory.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        for text in [word, &encoded] {
            assert!(!bytes.windows(text.len()).any(|window| window == text.as_bytes()));
        }
    }
}

#[tokio::test]
async fn an_event_is_the_same_in_both_groups() {
    use k8s_openapi::api::core::v1::Event as CoreEvent;
    use k8s_openapi::api::events::v1::Event;

    let cluster = Cluster::start().await;
    let client = cluster.admin().await;
    let (core, own) = (
        Api::<CoreEvent>::namespaced(client.clone(), "default"),
        Api::<Event>::namespaced(client, "default"),
    );
    let event: CoreEvent = serde_json::from_value(json!({
        "metadata": { "name": "one", "namespace": "default" },
        "involvedObject": { "kind": "Pod", "name": "web" },
        "message": "it started", "reason": "Started", "type": "Normal", "count": 2,
    }))
    .unwrap();
    core.create(&PostParams::default(), &event).await.unwrap();
    let other: Event = serde_json::from_value(json!({
        "metadata": { "name": "two", "namespace": "default" },
        "eventTime": "2026-01-02T03:04:05.000006Z", "regarding": { "kind": "Pod", "name": "web" },
        "note": "it stopped", "reason": "Stopped", "type": "Normal", "action": "Stopping",
        "reportingController": "test", "reportingInstance": "test-1",
    }))
    .unwrap();
    own.create(&PostParams::default(), &other).await.unwrap();

    let stopped = core.get("two").await.unwrap();
    assert_eq!(
        (stopped.message.as_deref(), stopped.reporting_component.as_deref()),
        (Some("it stopped"), Some("test"))
    );
    let about = ListParams::default().fields("regarding.name=web");
    let listed = own.list(&about).await.unwrap().items;
    let notes: Vec<_> = listed.iter().filter_map(|event| event.note.as_deref()).collect();
    assert_eq!(notes, ["it started", "it stopped"]);
    assert_eq!(listed[0].deprecated_count, Some(2));
    own.delete("one", &DeleteParams::default()).await.unwrap();
    assert_eq!(core.list(&ListParams::default()).await.unwrap().items.len(), 1);
    cluster.stop().await;
}

#[tokio::test]
async fn a_method_that_a_path_does_not_have_is_refused() {
    let cluster = Cluster::start().await;
    let client = cluster.admin().await;
    let object = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"}}"#;
    for (method, path) in [
        ("PUT", "configmaps"),
        ("PATCH", "configmaps"),
        ("POST", "configmaps/one"),
        ("TRACE", "configmaps/one"),
        ("DELETE", "pods/one/log"),
    ] {
        let path = format!("/api/v1/namespaces/default/{path}");
        let request =
            http::Request::builder().method(method).uri(&path).header("content-type", "application/json");
        let answer = client.request::<serde_json::Value>(request.body(object.into()).unwrap()).await;
        let (code, reason, _) = refused(answer);
        assert_eq!((code, reason.as_str()), (405, "MethodNotAllowed"), "{method} {path}");
    }
    cluster.stop().await;
}

#[tokio::test]
async fn items_of_a_list_do_not_repeat_what_they_are() {
    let cluster = Cluster::start().await;
    let client = cluster.admin().await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    maps.create(&PostParams::default(), &config_map("a", "one")).await.unwrap();
    let request = http::Request::get("/api/v1/namespaces/default/configmaps").body(Vec::new()).unwrap();
    let list: serde_json::Value = client.request(request).await.unwrap();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
    let item = &list["items"][0];
    assert_eq!((item.get("kind"), item.get("apiVersion")), (None, None));
    assert_eq!((&item["metadata"]["name"], &item["data"]["key"]), (&json!("a"), &json!("one")));
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    assert_eq!(refused(maps.create(&dry, &config_map("a", "one")).await).0, 409);
    cluster.stop().await;
}

#[tokio::test]
async fn an_eviction_takes_from_the_budget_of_its_pod() {
    let cluster = Cluster::start().await;
    let client = cluster.admin().await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let budgets: Api<k8s_openapi::api::policy::v1::PodDisruptionBudget> = Api::namespaced(client, "default");
    let budget = serde_json::from_value(json!({
        "metadata": { "name": "all" }, "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } },
    }));
    budgets.create(&PostParams::default(), &budget.unwrap()).await.unwrap();
    let mut made = pod("one", Some("node"));
    made.metadata.labels = Some(BTreeMap::from([("app".to_owned(), "web".to_owned())]));
    pods.create(&PostParams::default(), &made).await.unwrap();
    let ready =
        json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
    pods.patch_status("one", &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
    let counted = json!({ "status": {
        "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
    } });
    budgets.patch_status("all", &PatchParams::default(), &Patch::Merge(counted)).await.unwrap();
    pods.evict("one", &kube::api::EvictParams::default()).await.unwrap();
    let left = budgets.get("all").await.unwrap().status.unwrap();
    assert_eq!((left.disruptions_allowed, left.disrupted_pods.unwrap().contains_key("one")), (0, true));
    let going = pods.get("one").await.unwrap();
    assert!(going.metadata.deletion_timestamp.is_some());
    assert!(going.status.unwrap().conditions.unwrap().iter().any(|one| one.type_ == "DisruptionTarget"));
    cluster.stop().await;
}

#[tokio::test]
async fn services_on_nodes_get_ports_of_their_own() {
    let cluster = Cluster::start().await;
    let services: Api<Service> = Api::namespaced(cluster.admin().await, "default");
    let service = |name: &str, kind: &str, port: Option<i32>| -> Service {
        let spec = json!({ "type": kind, "ports": [{ "port": 80, "nodePort": port }] });
        serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap()
    };
    let port = |service: &Service| service.spec.as_ref().unwrap().ports.as_ref().unwrap()[0].node_port;
    let create = |service: Service| {
        let services = services.clone();
        async move { services.create(&PostParams::default(), &service).await }
    };
    let chosen = port(&create(service("a", "NodePort", None)).await.unwrap()).unwrap();
    assert!((30_000..=32_767).contains(&chosen), "{chosen}");
    let (code, _, message) = refused(create(service("b", "NodePort", Some(chosen))).await);
    assert_eq!(code, 422);
    assert!(message.ends_with("provided port is already allocated"), "{message}");
    let (_, _, message) = refused(create(service("b", "NodePort", Some(80))).await);
    assert!(message.contains("The range of valid ports is 30000-32767"), "{message}");
    // The port stays with updates, and goes with the type.
    let labelled = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
    let same = services.patch("a", &PatchParams::default(), &labelled).await.unwrap();
    assert_eq!(port(&same), Some(chosen));
    let inside = Patch::Merge(json!({ "spec": { "type": "ClusterIP" } }));
    assert_eq!(port(&services.patch("a", &PatchParams::default(), &inside).await.unwrap()), None);
    let outside = Patch::Merge(json!({ "spec": { "type": "NodePort" } }));
    assert!(port(&services.patch("a", &PatchParams::default(), &outside).await.unwrap()).is_some());
    cluster.stop().await;
}
