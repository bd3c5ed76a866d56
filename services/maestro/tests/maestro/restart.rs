//! Agents that are started again.

use std::path::Path;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use pilothouse_crds::AppliedManifestWork;
use pilothouse_maestro_api::{Action, CloudEvent, EventType, Subresource, work_uid};
use pilothouse_store::Store;
use pilothouse_test_support::eventually;
use serde_json::json;

use crate::cluster::{Cluster, PATIENCE};
use crate::packets::{Recorder, publish};
use crate::world::{
    BrokerPart, CONSUMER, SOURCE, Server, World, lasting_store, start_remembering_agent, work,
};

/// Everything, with an agent that remembers.
struct Lasting {
    world: World,
    store: Store,
}

impl Lasting {
    async fn start(folder: &Path) -> Self {
        let broker = BrokerPart::ours(0).await;
        let cluster = Cluster::start().await;
        let server = Server::start(folder, broker.port).await;
        let store = lasting_store(folder).await;
        let agent = start_remembering_agent(&cluster.client, broker.port, "maestro", store.clone()).await;
        Self { world: World { cluster, broker, agent: Some(agent), server }, store }
    }

    async fn stop_agent(&mut self) {
        self.world.agent.take().unwrap().stop().await;
        self.store.close().await;
    }

    async fn start_agent(&mut self, folder: &Path) {
        self.store = lasting_store(folder).await;
        let (client, port) = (&self.world.cluster.client, self.world.broker.port);
        self.world.agent = Some(start_remembering_agent(client, port, "maestro", self.store.clone()).await);
    }

    /// Waits until the server knows that a work was applied as it is now.
    async fn until_known(&self, name: &str) {
        let id = work_uid(SOURCE, CONSUMER, name).to_string();
        eventually("the server knows that it was applied", PATIENCE, || async {
            let bundle = self.world.server.rest.resource_bundle_get(&id).await;
            let bundle = bundle.map_err(|error| error.to_string())?.ok_or("it is not there")?;
            let status = bundle.status.ok_or("it has no status")?;
            if status.observed_version == bundle.version && status.status.is_true("Available") {
                Ok(())
            } else {
                Err(format!("{status:?}"))
            }
        })
        .await;
    }
}

/// Says in the agent's name that a bundle is gone.
pub(crate) async fn tell_that_it_is_gone(port: u16, id: &str) {
    let kind = EventType::new(Subresource::Status, Action::Update);
    let conditions = json!([{"type": "Deleted", "status": "True", "reason": "ManifestsDeleted", "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z"}]);
    let event = CloudEvent::new("local-cluster-work-agent", &kind, jiff::Timestamp::UNIX_EPOCH)
        .with("clustername", CONSUMER)
        .with("originalsource", "maestro")
        .with("resourceid", id)
        .with("resourceversion", 1)
        .with("sequenceid", "2006924428440506368")
        .with_data(json!({"conditions": conditions, "resourceStatus": []}).to_string());
    publish(port, &format!("sources/maestro/consumers/{CONSUMER}/agentevents"), &event).await;
}

#[tokio::test]
async fn agent_that_is_started_again_asks_for_what_is_newer_and_says_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut lasting = Lasting::start(folder.path()).await;
    let source = lasting.world.server.source.clone();
    source.work_create(&work("same", "1")).await.unwrap();
    lasting.until_known("same").await;
    lasting.stop_agent().await;
    let id = work_uid(SOURCE, CONSUMER, "same").to_string();
    let records: Api<AppliedManifestWork> = Api::all(lasting.world.cluster.client.clone());
    let maps = lasting.world.maps();
    let versions = async || -> Vec<Option<String>> {
        let map = maps.get("same").await.unwrap().resource_version();
        let all = records.list(&Default::default()).await.unwrap().items;
        let its = all.iter().filter(|record| record.spec.manifest_work_name == id);
        its.map(ResourceExt::resource_version).chain([map]).collect()
    };
    let before = versions().await;

    let mut recorder = Recorder::start(lasting.world.broker.port).await;
    lasting.start_agent(folder.path()).await;
    let asked = recorder.find(&("question", "spec.resync_request", |_| true)).await;
    let expected = format!(r#"{{"resourceVersions":[{{"resourceID":"{id}","resourceVersion":1}}]}}"#);
    assert_eq!(asked.text(), expected);

    // What comes after all of that is over has a report of its own.
    source.work_create(&work("other", "1")).await.unwrap();
    lasting.until_known("other").await;
    let about = recorder.so_far().into_iter().filter(|seen| seen.is_about(&id));
    let about: Vec<_> = about.map(|seen| seen.kind()).collect();
    assert_eq!(about, Vec::<String>::new(), "neither sent nor reported again");
    assert_eq!(versions().await, before, "nothing was written");
}

#[tokio::test]
async fn agent_looks_after_what_it_knows_while_there_is_no_broker() {
    let folder = tempfile::tempdir().unwrap();
    let mut lasting = Lasting::start(folder.path()).await;
    let source = lasting.world.server.source.clone();
    source.work_create(&work("kept", "1")).await.unwrap();
    lasting.until_known("kept").await;
    lasting.stop_agent().await;
    lasting.world.broker.stop().await;
    let maps = lasting.world.maps();
    let drift = json!({"data": {"k": "drifted"}});
    maps.patch("kept", &PatchParams::default(), &Patch::Merge(&drift)).await.unwrap();
    lasting.start_agent(folder.path()).await;
    lasting.world.until_map("kept", Some("1")).await;
}

#[tokio::test]
async fn what_a_manifest_no_longer_says_goes_although_the_agent_was_away() {
    let folder = tempfile::tempdir().unwrap();
    let mut lasting = Lasting::start(folder.path()).await;
    let source = lasting.world.server.source.clone();
    let labelled = |labels: serde_json::Value| {
        let mut wanted = work("labelled", "1");
        wanted.bundle.manifests[0]["metadata"]["labels"] = labels;
        wanted
    };
    source.work_create(&labelled(json!({"kept": "1", "dropped": "1"}))).await.unwrap();
    lasting.until_known("labelled").await;
    lasting.stop_agent().await;
    source.work_update(&labelled(json!({"kept": "1"})), 0).await.unwrap();
    lasting.start_agent(folder.path()).await;
    lasting.until_known("labelled").await;
    let map: ConfigMap = lasting.world.maps().get("labelled").await.unwrap();
    assert_eq!(map.labels(), &[("kept".to_owned(), "1".to_owned())].into());
}

#[tokio::test]
async fn agent_that_lost_its_store_asks_about_what_it_finds_in_the_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let mut lasting = Lasting::start(folder.path()).await;
    let source = lasting.world.server.source.clone();
    source.work_create(&work("wanted", "1")).await.unwrap();
    source.work_create(&work("orphan", "1")).await.unwrap();
    lasting.until_known("wanted").await;
    lasting.until_known("orphan").await;
    lasting.stop_agent().await;
    // The server hears that it is gone from somebody who did not remove it.
    source.work_delete(&work("orphan", "")).await.unwrap();
    let id = work_uid(SOURCE, CONSUMER, "orphan").to_string();
    tell_that_it_is_gone(lasting.world.broker.port, &id).await;
    eventually("the server has forgotten it", PATIENCE, || async {
        match lasting.world.server.rest.resource_bundle_get(&id).await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let path = file.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("agent") {
            std::fs::remove_file(path).unwrap();
        }
    }
    lasting.start_agent(folder.path()).await;
    lasting.world.until_map("orphan", None).await;
    lasting.world.until_map("wanted", Some("1")).await;
    let records: Api<AppliedManifestWork> = Api::all(lasting.world.cluster.client.clone());
    eventually("one record is left", PATIENCE, || async {
        let left = records.list(&Default::default()).await.unwrap().items.len();
        if left == 1 { Ok(()) } else { Err(left) }
    })
    .await;
}
