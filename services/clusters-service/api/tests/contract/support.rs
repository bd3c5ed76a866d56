use std::time::Duration;

use pilothouse_clusters_service_api::simulated::{Mode, Simulated};
use pilothouse_clusters_service_api::{Azure, Client, Cluster, NewCluster, Version, properties};
use pilothouse_http::Context;

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn context() -> Context {
    Context::new(PATIENCE)
}

/// What belongs to an operation.
pub(crate) fn asked_by(operation: &str) -> std::collections::BTreeMap<String, String> {
    [(properties::OPERATION_ID.to_owned(), operation.to_owned())].into()
}

pub(crate) fn new_cluster(name: &str) -> NewCluster {
    NewCluster {
        name: name.into(),
        version: Version::of_number("4.20.8"),
        properties: asked_by(&format!("create-{name}")),
        azure: Azure {
            subscription_id: "subscription".into(),
            resource_group_name: "group".into(),
            resource_name: name.into(),
            managed_resource_group_name: format!("managed-{name}"),
            ..Azure::default()
        },
        ..NewCluster::default()
    }
}

/// A service with a cluster that is ready.
pub(crate) async fn with_cluster() -> (Simulated, Client, Cluster) {
    let service = Simulated::start(Mode::Automatic).await;
    let client = service.client();
    let cluster = client.cluster_create(&context(), &new_cluster("first")).await.unwrap();
    (service, client, cluster)
}
