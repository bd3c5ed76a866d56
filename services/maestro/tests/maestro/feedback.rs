//! Objects whose feedback is read change after they were reported: that is said again, however the work has them updated, and
//! whoever else has a hand in them.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use pilothouse_crds::find_condition;
use pilothouse_maestro_api::{BundleStatus, Work, feedback, work_uid};
use pilothouse_test_support::eventually;
use serde_json::{Value, json};

use crate::cluster::PATIENCE;
use crate::packets::Recorder;
use crate::world::{BrokerPart, CONSUMER, SOURCE, World, map, work};

/// Every update strategy, with whether a work that has it puts back what others change.
const STRATEGIES: [(&str, bool); 4] =
    [("ServerSideApply", true), ("Update", true), ("CreateOnly", false), ("ReadOnly", false)];

/// A work with this object, updated and fed back like this.
fn fed_back(manifest: &Value, resource: (&str, &str), strategy: Value, rule: Value) -> Work {
    let name = manifest["metadata"]["name"].as_str().unwrap();
    let bundle = json!({"manifests": [manifest], "manifestConfigs": [{
        "resourceIdentifier": {"group": resource.0, "resource": resource.1, "name": name, "namespace": "default"},
        "updateStrategy": strategy,
        "feedbackRules": [rule],
    }]});
    let mut wanted = work(name, "");
    wanted.bundle = serde_json::from_value(bundle).unwrap();
    wanted
}

/// As somebody asks for it who means to have his way.
fn strategy(name: &str) -> Value {
    match name {
        "ServerSideApply" => json!({"type": name, "serverSideApply": {"force": true}}),
        _ => json!({"type": name}),
    }
}

fn data() -> Value {
    json!({"type": "JSONPaths", "jsonPaths": [{"name": "data", "path": ".data"}]})
}

/// The same, with a label that no work says anything of.
fn data_and_round() -> Value {
    json!({"type": "JSONPaths", "jsonPaths": [
        {"name": "data", "path": ".data"}, {"name": "round", "path": ".metadata.labels.round"}]})
}

fn id(name: &str) -> String {
    work_uid(SOURCE, CONSUMER, name).to_string()
}

/// Waits until the server knows a status of a work that is as it should be.
async fn until_known<E: std::fmt::Display>(
    world: &World,
    name: &str,
    is_so: impl Fn(&BundleStatus) -> Result<(), E>,
) {
    let id = id(name);
    eventually(&format!("the server knows how `{name}` is"), PATIENCE, || async {
        let bundle = world.server.rest.resource_bundle_get(&id).await;
        let bundle = bundle.map_err(|error| error.to_string())?.ok_or("it is not there")?;
        let status = bundle.status.ok_or("it has no status")?;
        is_so(&status.status).map_err(|seen| seen.to_string())
    })
    .await;
}

/// Waits until the server knows this value of a work.
async fn until_fed_back(world: &World, name: &str, value: &str, expected: &Value) {
    let is_so = |status: &BundleStatus| {
        let found = status.resource_status.first().and_then(|manifest| feedback(manifest, value));
        if found.as_ref() == Some(expected) { Ok(()) } else { Err(format!("{status:?}")) }
    };
    until_known(world, name, is_so).await;
}

async fn change(maps: &Api<ConfigMap>, name: &str, data: &Value) {
    let patch = Patch::Merge(json!({"data": data}));
    maps.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

async fn label(maps: &Api<ConfigMap>, name: &str, round: &str) {
    let patch = Patch::Merge(json!({"metadata": {"labels": {"round": round}}}));
    maps.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test]
async fn every_change_of_what_a_path_finds_is_reported_whatever_the_strategy() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::start(folder.path()).await;
    let maps = world.maps();
    let mut recorder = Recorder::start(world.broker.port).await;
    let names = STRATEGIES.map(|(strategy, puts_back)| (strategy, strategy.to_lowercase(), puts_back));
    for (kind, name, _) in &names {
        let manifest = map(name, "1");
        if *kind == "ReadOnly" {
            let there = serde_json::from_value(manifest.clone()).unwrap();
            maps.create(&PostParams::default(), &there).await.unwrap();
        }
        let wanted = fed_back(&manifest, ("", "configmaps"), strategy(kind), data_and_round());
        world.server.source.work_create(&wanted).await.unwrap();
        until_fed_back(&world, name, "data", &json!({"k": "1"})).await;
    }
    // Of what the work says nothing, nobody puts back.
    for round in ["1", "2"] {
        for (_, name, _) in &names {
            label(&maps, name, round).await;
            until_fed_back(&world, name, "round", &json!(round)).await;
        }
    }
    // What it does say, only some do; and then there was nothing to report.
    for (_, name, puts_back) in &names {
        change(&maps, name, &json!({"k": "drifted"})).await;
        if *puts_back {
            world.until_map(name, Some("1")).await;
        } else {
            until_fed_back(&world, name, "data", &json!({"k": "drifted"})).await;
        }
    }
    // An agent that has not applied them itself watches them all the same.
    world.agent.take().unwrap().stop().await;
    world.restart_agent().await;
    for (_, name, puts_back) in &names {
        label(&maps, name, "3").await;
        until_fed_back(&world, name, "round", &json!("3")).await;
        let k = if *puts_back { "1" } else { "drifted" };
        until_fed_back(&world, name, "data", &json!({"k": k})).await;
    }
    let all = recorder.so_far();
    for (_, name, puts_back) in &names {
        let id = id(name);
        let drifted = all.iter().filter(|seen| seen.is_about(&id) && seen.text().contains("drifted"));
        assert_eq!(drifted.count() == 0, *puts_back, "{name}");
    }
}

#[tokio::test]
async fn every_change_of_a_well_known_status_is_reported_whatever_the_strategy() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::start(folder.path()).await;
    let deployments: Api<Deployment> = Api::namespaced(world.cluster.client.clone(), "default");
    for (kind, _) in STRATEGIES {
        let name = kind.to_lowercase();
        let manifest = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": name}}, "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "main:1"}]}}}});
        if kind == "ReadOnly" {
            let there = serde_json::from_value(manifest.clone()).unwrap();
            deployments.create(&PostParams::default(), &there).await.unwrap();
        }
        let rule = json!({"type": "WellKnownStatus"});
        let wanted = fed_back(&manifest, ("apps", "deployments"), strategy(kind), rule);
        world.server.source.work_create(&wanted).await.unwrap();
        until_known(&world, &name, |status| {
            if status.is_true("Available") { Ok(()) } else { Err(format!("{status:?}")) }
        })
        .await;
        for ready in 1..=2 {
            let patch =
                json!({"status": {"replicas": 2, "readyReplicas": ready, "availableReplicas": ready}});
            deployments.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
            until_fed_back(&world, &name, "ReadyReplicas", &json!(ready)).await;
        }
    }
}

/// As it is with the original, whose feedback does not ask whether an object could be applied.
#[tokio::test]
async fn object_that_cannot_be_changed_is_reported_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::start(folder.path()).await;
    let (source, maps) = (&world.server.source, world.maps());
    for kind in ["ServerSideApply", "Update"] {
        let name = kind.to_lowercase();
        let of = |content: &str| {
            let mut manifest = map(&name, content);
            manifest["immutable"] = json!(true);
            let labels = json!({"type": "JSONPaths", "jsonPaths": [{"name": "round", "path": ".metadata.labels.round"}]});
            fed_back(&manifest, ("", "configmaps"), strategy(kind), labels)
        };
        source.work_create(&of("1")).await.unwrap();
        world.until_map(&name, Some("1")).await;
        label(&maps, &name, "first").await;
        until_fed_back(&world, &name, "round", &json!("first")).await;
        source.work_update(&of("2"), 1).await.unwrap();
        until_known(&world, &name, |status| {
            let manifest = status.resource_status.first();
            let is_refused = manifest
                .and_then(|manifest| find_condition(&manifest.conditions, "Applied"))
                .is_some_and(|applied| applied.message.contains("immutable"));
            if is_refused && status.is_true("Available") { Ok(()) } else { Err(format!("{status:?}")) }
        })
        .await;
        until_fed_back(&world, &name, "round", &json!("first")).await;
        label(&maps, &name, "second").await;
        until_fed_back(&world, &name, "round", &json!("second")).await;
        let map = maps.get(&name).await.unwrap();
        assert_eq!(map.data.unwrap()["k"], "1", "it could not be changed");
        // And it goes with its work, although the last version of that could not be applied.
        source.work_delete(&of("")).await.unwrap();
        world.until_map(&name, None).await;
    }
}

/// Nothing is read, so there is nothing to say.
#[tokio::test]
async fn change_of_an_object_that_nobody_asks_about_is_not_reported() {
    let folder = tempfile::tempdir().unwrap();
    let broker = BrokerPart::ours(0).await;
    let mut recorder = Recorder::start(broker.port).await;
    let server = broker.server(folder.path()).await;
    let world = World::acquainted(broker, server, &mut recorder).await;
    let maps = world.maps();
    let mut silent = work("silent", "1");
    silent.bundle.manifest_configs.clear();
    world.server.source.work_create(&silent).await.unwrap();
    until_known(&world, "silent", |status| {
        if status.is_true("Available") { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    let so_far = |recorder: &mut Recorder| {
        let (all, id) = (recorder.so_far(), id("silent"));
        all.iter().filter(|seen| seen.is_about(&id) && seen.kind().contains(".status.")).count()
    };
    let before = so_far(&mut recorder);
    change(&maps, "silent", &json!({"other": "1"})).await;
    // Whatever would be said about it comes before what is said about another that was changed later.
    let loud = fed_back(&map("loud", "1"), ("", "configmaps"), strategy("CreateOnly"), data());
    world.server.source.work_create(&loud).await.unwrap();
    until_fed_back(&world, "loud", "data", &json!({"k": "1"})).await;
    change(&maps, "loud", &json!({"k": "2"})).await;
    until_fed_back(&world, "loud", "data", &json!({"k": "2"})).await;
    assert_eq!(so_far(&mut recorder), before);
}
