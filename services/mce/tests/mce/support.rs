//! A cluster with an engine.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use pilothouse_crds::{
    AppliedManifestWork, ConsoleCLIDownload, HostedCluster, ManagedCluster, ManifestWork, MultiClusterEngine,
};
use pilothouse_http::ListenerConfig;
use pilothouse_kubeapi::testing;
use pilothouse_mce::{Config, Deps, Downloads, Presence, Service};
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, Tasks};
use pilothouse_test_support::eventually;
use prometheus_client::registry::Registry;
use serde_json::json;
use tempfile::TempDir;

pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A cluster with an engine.
pub(crate) struct Region {
    pub(crate) client: Client,
    /// Where `hcp` is, and its archive will be.
    pub(crate) folder: TempDir,
    server: testing::Cluster,
    engine: Tasks,
}

impl Region {
    pub(crate) async fn start() -> Self {
        let server = testing::Cluster::start(testing::Options::default()).await.unwrap();
        let client = server.admin().await.unwrap();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in pilothouse_crds::all() {
            definitions.create(&PostParams::default(), &definition).await.unwrap();
        }
        let everything = ListParams::default();
        eventually("the definitions are served", PATIENCE, async || -> Result<(), kube::Error> {
            Api::<HostedCluster>::all(client.clone()).list(&everything).await?;
            Api::<ManagedCluster>::all(client.clone()).list(&everything).await?;
            Api::<ManifestWork>::all(client.clone()).list(&everything).await?;
            Api::<AppliedManifestWork>::all(client.clone()).list(&everything).await?;
            Api::<MultiClusterEngine>::all(client.clone()).list(&everything).await?;
            Api::<ConsoleCLIDownload>::all(client.clone()).list(&everything).await?;
            Ok(())
        })
        .await;
        let namespace = serde_json::from_value(json!({ "metadata": { "name": "local-cluster" } })).unwrap();
        Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();

        let mut registry = Registry::default();
        let deps = Deps { client: client.clone(), clock: Clock::system(), registry: &mut registry };
        let folder = tempfile::tempdir().unwrap();
        let listener = ListenerConfig::loopback(0);
        let config = Config {
            downloads: Some(Downloads {
                program: Some(folder.path().join("hcp")),
                ..Downloads::new(listener, folder.path().join("downloads"))
            }),
            ..Config::default()
        };
        let service = Service::build(config, deps).await.unwrap();
        let engine = Tasks::new("engine", Shutdown::new());
        let shutdown = engine.shutdown().clone();
        engine.spawn("mce", OnExit::StopProcess, async move { Ok(service.run(shutdown).await?) });
        Self { client, folder, server, engine }
    }

    /// Has the operator for hosted clusters say that it runs.
    pub(crate) fn announce_hypershift(&self) -> Shutdown {
        let presence = Presence::of_hypershift(self.client.clone(), Clock::system());
        let shutdown = Shutdown::new();
        let (own, all) = (shutdown.clone(), self.engine.shutdown().clone());
        self.engine.spawn("presence", OnExit::LogError, async move {
            tokio::select! {
                () = presence.keep(own) => {}
                () = all.requested() => {}
            }
            Ok(())
        });
        shutdown
    }

    /// Makes an engine that wants everything.
    pub(crate) async fn make_engine(&self, spec: serde_json::Value) {
        let engine = json!({ "metadata": { "name": "multiclusterengine" }, "spec": spec });
        let engines: Api<MultiClusterEngine> = Api::all(self.client.clone());
        engines.create(&PostParams::default(), &serde_json::from_value(engine).unwrap()).await.unwrap();
    }

    /// Stops the engine and fails if anything of it is left or went wrong.
    pub(crate) async fn stop(self) {
        let asked = Reason::Asked("the test is over".to_owned());
        self.engine.shutdown().request(asked.clone());
        self.engine.drain(PATIENCE).await.unwrap();
        assert_eq!(self.engine.shutdown().reason(), Some(asked));
        assert_eq!(self.server.shutdown().reason(), None);
    }
}
