use kube::api::{Patch, PatchParams};
use pilothouse_crds::AppliedManifestWork;
use pilothouse_maestro_api::{Error, Work, feedback, work_uid};
use pilothouse_test_support::eventually;
use serde_json::json;

use super::programs::Original;
use crate::cluster::{Cluster, PATIENCE};
use crate::world::{BrokerPart, CONSUMER, SOURCE, Server, World, shows, start_agent_of, until, work};

/// Which part the original plays.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Role {
    Server,
    Agent,
}

pub(super) struct Stage {
    pub(super) world: World,
    pub(super) original: Original,
    pub(super) role: Role,
    pub(super) folder: tempfile::TempDir,
}

impl Stage {
    /// `None` if something of it is not on this machine.
    pub(super) async fn set(
        role: Role,
        broker: impl AsyncFnOnce(&std::path::Path) -> BrokerPart,
    ) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let broker = broker(folder.path()).await;
        let original = Original::find(folder.path(), &broker)?;
        if role == Role::Server {
            original.prepare_database()?;
        }
        let cluster = Cluster::start().await;
        let server = Self::server(role, &original, folder.path(), &broker).await;
        let agent = Some(Self::agent(role, &original, &cluster, &broker).await);
        Some(Self { world: World { cluster, broker, agent, server }, original, role, folder })
    }

    pub(super) async fn server(
        role: Role,
        original: &Original,
        folder: &std::path::Path,
        broker: &BrokerPart,
    ) -> Server {
        if role == Role::Server { original.server().await } else { broker.server(folder).await }
    }

    pub(super) async fn agent(
        role: Role,
        original: &Original,
        cluster: &Cluster,
        broker: &BrokerPart,
    ) -> crate::world::Part {
        if role == Role::Agent { original.agent(cluster) } else { broker.agent(cluster).await }
    }

    async fn restart_server(&mut self) {
        let broker = &self.world.broker;
        self.world.server = Self::server(self.role, &self.original, self.folder.path(), broker).await;
    }

    async fn restart_agent(&mut self) {
        let World { cluster, broker, .. } = &self.world;
        self.world.agent = Some(Self::agent(self.role, &self.original, cluster, broker).await);
    }

    /// Waits until the server knows that a version of a work was applied with this content.
    async fn until_status(&self, name: &str, version: i32, content: &str) {
        let id = work_uid(SOURCE, CONSUMER, name).to_string();
        eventually("the status is known", PATIENCE, || async {
            let bundle = self.world.server.rest.resource_bundle_get(&id).await;
            let bundle = bundle.map_err(|error| error.to_string())?.ok_or("no bundle")?;
            let status = bundle.status.as_ref().ok_or("no status")?;
            let found = status.status.resource_status.first().and_then(|one| feedback(one, "data"));
            let is_it = status.observed_version == version
                && bundle.version == version
                && status.status.is_true("Applied")
                && found == Some(json!({"k": content}));
            if is_it { Ok(()) } else { Err(format!("{bundle:?}")) }
        })
        .await;
    }

    /// Create, feed back, conflict, update, restarts of both sides while the other goes on, delete.
    async fn play(mut self) {
        let source = self.world.server.source.clone();
        let mut events = source.subscribe().await.unwrap();
        for one in [work("one", "1"), work("doomed", "1"), kept()] {
            source.work_create(&one).await.unwrap();
        }
        let id = |name: &str| work_uid(SOURCE, CONSUMER, name).to_string();
        let first = until(&mut events, |event| event.resource_id == id("one") && shows(event, "1")).await;
        assert_eq!(first.version, 1);
        assert!(first.status_hash.is_some() && first.sequence_id.is_some());
        for name in ["one", "doomed", "kept"] {
            self.world.until_map(name, Some("1")).await;
            self.until_status(name, 1, "1").await;
        }

        let twice = source.work_create(&work("one", "1")).await;
        assert!(matches!(twice, Err(Error::Conflict(_))), "{twice:?}");
        let stale = source.work_update(&work("one", "2"), 7).await;
        assert!(matches!(stale, Err(Error::Conflict(_))), "{stale:?}");
        source.work_update(&work("one", "2"), 1).await.unwrap();
        self.world.until_map("one", Some("2")).await;
        self.until_status("one", 2, "2").await;

        // The agent is away while the server goes on.
        self.world.agent.take().unwrap().stop().await;
        source.work_update(&work("one", "3"), 2).await.unwrap();
        source.work_create(&work("two", "1")).await.unwrap();
        source.work_delete(&work("doomed", "")).await.unwrap();
        self.restart_agent().await;
        self.world.until_map("one", Some("3")).await;
        self.world.until_map("two", Some("1")).await;
        self.world.until_map("doomed", None).await;
        self.until_status("one", 3, "3").await;
        self.world.until_forgotten("doomed").await;
        drop(events);

        // The server is away while the agent goes on: somebody changes what is only created, not kept as it is.
        self.world.server.kill().await;
        let change = json!({"data": {"k": "changed"}});
        self.world.maps().patch("kept", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
        self.restart_server().await;
        self.until_status("kept", 1, "changed").await;

        let source = self.world.server.source.clone();
        for name in ["one", "two", "kept"] {
            source.work_delete(&work(name, "")).await.unwrap();
            self.world.until_map(name, None).await;
            self.world.until_forgotten(name).await;
        }
    }
}

/// A work whose object is made and then left alone.
fn kept() -> Work {
    let mut kept = work("kept", "1");
    let strategy = json!({"type": "CreateOnly"});
    kept.bundle.manifest_configs[0].update_strategy = Some(serde_json::from_value(strategy).unwrap());
    kept
}

pub(super) async fn ours(_: &std::path::Path) -> BrokerPart {
    BrokerPart::ours(0).await
}

async fn mosquitto(_: &std::path::Path) -> BrokerPart {
    BrokerPart::mosquitto().await
}

#[tokio::test]
async fn original_server_and_our_agent_understand_each_other() {
    if let Some(stage) = Stage::set(Role::Server, ours).await {
        stage.play().await;
    }
}

#[tokio::test]
async fn original_server_and_our_agent_understand_each_other_over_mosquitto() {
    if !BrokerPart::has_mosquitto() {
        return;
    }
    if let Some(stage) = Stage::set(Role::Server, mosquitto).await {
        stage.play().await;
    }
}

#[tokio::test]
async fn our_server_and_the_original_agent_understand_each_other() {
    if let Some(stage) = Stage::set(Role::Agent, ours).await {
        stage.play().await;
    }
}

#[tokio::test]
async fn our_server_and_the_original_agent_understand_each_other_over_mosquitto() {
    if !BrokerPart::has_mosquitto() {
        return;
    }
    if let Some(stage) = Stage::set(Role::Agent, mosquitto).await {
        stage.play().await;
    }
}

async fn dialled(_: &std::path::Path) -> BrokerPart {
    BrokerPart::dialled()
}

#[tokio::test]
async fn original_server_and_our_agent_that_dials_it_understand_each_other() {
    if let Some(stage) = Stage::set(Role::Server, dialled).await {
        stage.play().await;
    }
}

#[tokio::test]
async fn our_server_and_the_original_agent_that_dials_it_understand_each_other() {
    if let Some(stage) = Stage::set(Role::Agent, dialled).await {
        stage.play().await;
    }
}

/// The records of what was applied are one and the same, where ours is told the address that the original went by.
#[tokio::test]
async fn our_agent_takes_over_from_the_original_on_a_live_cluster() {
    let Some(mut stage) = Stage::set(Role::Agent, ours).await else { return };
    let source = stage.world.server.source.clone();
    for name in ["stays", "goes"] {
        source.work_create(&work(name, "1")).await.unwrap();
        stage.world.until_map(name, Some("1")).await;
        stage.until_status(name, 1, "1").await;
    }
    let records: kube::Api<AppliedManifestWork> = kube::Api::all(stage.world.cluster.client.clone());
    let names = async || -> Vec<String> {
        let found = records.list(&Default::default()).await.unwrap();
        found.items.iter().map(kube::ResourceExt::name_any).collect()
    };
    let before = (names().await, stage.world.until_map("stays", Some("1")).await.unwrap());

    stage.world.agent.take().unwrap().stop().await;
    source.work_delete(&work("goes", "")).await.unwrap();
    let (cluster, port) = (&stage.world.cluster, stage.world.broker.port);
    stage.world.agent = Some(start_agent_of(cluster, port, &format!("127.0.0.1:{port}")).await);
    stage.world.until_map("goes", None).await;
    stage.world.until_forgotten("goes").await;
    source.work_create(&work("new", "1")).await.unwrap();
    stage.until_status("new", 1, "1").await;
    let goes = work_uid(SOURCE, CONSUMER, "goes").to_string();
    let new = work_uid(SOURCE, CONSUMER, "new").to_string();
    let mut expected: Vec<_> = before.0.iter().map(|name| name.replace(&goes, &new)).collect();
    expected.sort();
    assert_eq!(names().await, expected, "a record beside the original's, or none");
    let after = stage.world.until_map("stays", Some("1")).await.unwrap();
    assert_eq!(after.metadata.uid, before.1.metadata.uid);
    assert_eq!(after.metadata.owner_references, before.1.metadata.owner_references);
}
