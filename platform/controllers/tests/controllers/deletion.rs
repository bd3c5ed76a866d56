//! What goes with what.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Pod, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::support::{Cluster, NAMESPACE, eventually, gone, on_both};

on_both! {
    namespace_is_emptied_of_everything_custom_resources_included;
    custom_resources_own_and_are_owned_like_any_other;
}

fn deployment() -> serde_json::Value {
    json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "main", "image": "busybox:1" }] },
            },
        },
    })
}

async fn started() -> Cluster {
    let cluster = Cluster::start().await;
    cluster.node("one").await;
    cluster.create::<Deployment>(deployment()).await;
    cluster.bound_pods("app=web", 2).await;
    cluster
}

async fn no_pods(cluster: &Cluster) {
    eventually("no pods are left", || async {
        cluster.confirm_ended_pods(NAMESPACE).await;
        match cluster.api::<Pod>().list(&ListParams::default()).await.unwrap().items.len() {
            0 => Ok(()),
            other => Err(format!("{other} pods")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn background_deletion_takes_sets_and_pods_afterwards() {
    let cluster = started().await;
    cluster.api::<Deployment>().delete("web", &DeleteParams::background()).await.unwrap();
    gone(&cluster.api::<Deployment>(), "web").await;
    no_pods(&cluster).await;
    assert!(cluster.api::<ReplicaSet>().list(&ListParams::default()).await.unwrap().items.is_empty());
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn foreground_deletion_waits_for_the_last_pod() {
    let cluster = started().await;
    cluster.api::<Deployment>().delete("web", &DeleteParams::foreground()).await.unwrap();
    eventually("the pods were asked to end", || async {
        let pods = cluster.api::<Pod>().list(&ListParams::default()).await.unwrap().items;
        let ending = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()).count();
        if ending == 2 { Ok(()) } else { Err(format!("{ending} of {}", pods.len())) }
    })
    .await;
    assert!(cluster.api::<Deployment>().get_opt("web").await.unwrap().is_some(), "pods are still there");
    no_pods(&cluster).await;
    gone(&cluster.api::<Deployment>(), "web").await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn orphaned_sets_and_pods_stay() {
    let cluster = started().await;
    cluster.api::<Deployment>().delete("web", &DeleteParams::orphan()).await.unwrap();
    gone(&cluster.api::<Deployment>(), "web").await;
    let sets = cluster.api::<ReplicaSet>().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(sets.len(), 1);
    assert!(sets[0].owner_references().is_empty());
    assert_eq!(cluster.pods("app=web").await.len(), 2);
    cluster.stop().await;
}

async fn namespace_is_emptied_of_everything_custom_resources_included(cluster: Cluster) {
    cluster.node("one").await;
    let widgets = define_widgets(&cluster).await;
    cluster.namespace("doomed").await;
    let objects: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), "doomed", &widgets);
    let mut widget = DynamicObject::new("one", &widgets);
    widget.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    eventually("widgets are served", || async {
        objects.create(&PostParams::default(), &widget).await.map_err(|error| error.to_string())
    })
    .await;
    let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), "doomed");
    let wanted: Deployment = serde_json::from_value(deployment()).unwrap();
    deployments.create(&PostParams::default(), &wanted).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), "doomed");
    eventually("there are pods", || async {
        let found = pods.list(&ListParams::default()).await.unwrap().items.len();
        if found == 2 { Ok(()) } else { Err(format!("{found}")) }
    })
    .await;

    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    namespaces.delete("doomed", &Default::default()).await.unwrap();
    eventually("only what is held is left, and the namespace says so", || async {
        cluster.confirm_ended_pods("doomed").await;
        let status = namespaces.get("doomed").await.unwrap().status.unwrap();
        let conditions = status.conditions.unwrap_or_default();
        let remaining = conditions.iter().find(|condition| condition.type_ == "NamespaceContentRemaining");
        let message = remaining.and_then(|condition| condition.message.clone()).unwrap_or_default();
        if message == "Some resources are remaining: widgets.example.com has 1 resource instances" {
            Ok(())
        } else {
            Err(message)
        }
    })
    .await;
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "doomed");
    assert!(secrets.list(&ListParams::default()).await.unwrap().items.is_empty());

    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    objects.patch("one", &Default::default(), &release).await.unwrap();
    gone(&namespaces, "doomed").await;
    cluster.stop().await;
}

/// Every resource has to be asked about, but not again for every object that goes.
#[tokio::test(flavor = "multi_thread")]
async fn namespace_is_asked_about_each_resource_once() {
    let (cluster, asked) = Cluster::start_counting().await;
    cluster.namespace("doomed").await;
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "doomed");
    for number in 0..10 {
        let secret = serde_json::from_value(json!({ "metadata": { "name": format!("s{number}") } })).unwrap();
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    }
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), "doomed");
    let event = json!({ "metadata": { "name": "e" }, "involvedObject": { "namespace": "doomed" } });
    events.create(&PostParams::default(), &serde_json::from_value(event).unwrap()).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "doomed");
    eventually("the namespace has what every one has", || async {
        let found = maps.list(&ListParams::default()).await.unwrap().items.len();
        if found == 1 { Ok(()) } else { Err(format!("{found} config maps")) }
    })
    .await;
    cluster.at_rest().await;
    asked.lock().unwrap().clear();

    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    namespaces.delete("doomed", &Default::default()).await.unwrap();
    gone(&namespaces, "doomed").await;
    cluster.at_rest().await;
    let mut lists: BTreeMap<String, usize> = BTreeMap::new();
    let mut writes = 0;
    for line in asked.lock().unwrap().iter() {
        let Some((method, path)) = line.split_once(' ') else { continue };
        let Some((_, resource)) = path.split_once("/namespaces/doomed/") else { continue };
        match method {
            "GET" if !resource.contains('/') => *lists.entry(path.to_owned()).or_default() += 1,
            "PATCH" => writes += 1,
            _ => {}
        }
    }
    assert!(lists.len() > 20, "{lists:?}");
    // Nobody tells of events: they are looked for again after they were deleted.
    let more = lists.iter().filter(|(path, count)| **count > 1 + usize::from(path.ends_with("/events")));
    assert_eq!(more.collect::<Vec<_>>(), []);
    assert_eq!(writes, 0, "nothing was held, so there was nothing to say");
    cluster.stop().await;
}

async fn custom_resources_own_and_are_owned_like_any_other(cluster: Cluster) {
    let widgets = define_widgets(&cluster).await;
    let objects: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), NAMESPACE, &widgets);
    let owner = eventually("widgets are served", || async {
        objects
            .create(&PostParams::default(), &DynamicObject::new("owner", &widgets))
            .await
            .map_err(|e| e.to_string())
    })
    .await;
    let reference = json!([{
        "apiVersion": "example.com/v1", "kind": "Widget", "name": "owner", "uid": owner.uid().unwrap(),
    }]);
    cluster
        .create::<ConfigMap>(json!({ "metadata": { "name": "owned", "ownerReferences": reference } }))
        .await;
    let mut part = DynamicObject::new("part", &widgets);
    part.metadata.owner_references = serde_json::from_value(reference).unwrap();
    objects.create(&PostParams::default(), &part).await.unwrap();

    objects.delete("owner", &DeleteParams::background()).await.unwrap();
    gone(&cluster.api::<ConfigMap>(), "owned").await;
    gone(&objects, "part").await;
    cluster.stop().await;
}

async fn define_widgets(cluster: &Cluster) -> ApiResource {
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let definition = serde_json::from_value(json!({
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    }))
    .unwrap();
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"))
}
