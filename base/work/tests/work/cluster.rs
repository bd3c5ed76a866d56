//! A Kubernetes API in one line.

use std::time::Duration;

use kube::api::PostParams;
use kube::{Api, CustomResourceExt};
use pilothouse_crds::{AppliedManifestWork, ManagedCluster, ManifestWork};
use pilothouse_kubeapi::testing;
use pilothouse_test_support::eventually;

/// Far beyond anything that works; a test that reaches it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A server with the custom resources of a management cluster; stops when dropped.
pub(crate) struct Cluster {
    pub(crate) client: kube::Client,
    _server: testing::Cluster,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let server = testing::Cluster::start(testing::Options::default()).await.unwrap();
        let client = server.admin().await.unwrap();
        for definition in [AppliedManifestWork::crd(), ManagedCluster::crd(), ManifestWork::crd()] {
            Api::all(client.clone()).create(&PostParams::default(), &definition).await.unwrap();
        }
        let works: Api<AppliedManifestWork> = Api::all(client.clone());
        eventually("custom resources are served", PATIENCE, || async {
            works.list(&Default::default()).await.map(drop)
        })
        .await;
        Self { client, _server: server }
    }
}
