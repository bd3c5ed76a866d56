//! As whom the parts of a cluster act in the customer's subscription.

use serde_json::{Map, Value, json};

use crate::cloud::{OPERATORS, directory};
use crate::record::ClusterRecord;

/// The parts of a control plane that act by themselves.
const PARTS: [&str; 8] = [
    "cloudProvider",
    "nodePoolManagement",
    "controlPlaneOperator",
    "imageRegistry",
    "ingress",
    "network",
    "disk",
    "file",
];
/// What beside the nodes knows its identity.
const BESIDE_NODES: [&str; 3] = ["imageRegistryMSIClientID", "diskMSIClientID", "fileMSIClientID"];

/// `platform.azure.azureAuthenticationConfig` of a `HostedCluster`: who they are, and under which names the cluster's vault has
/// what they prove it with.
pub(super) fn of_cluster(record: &ClusterRecord) -> Option<Value> {
    let prepared = record.prepared.as_ref()?;
    let cluster = &record.cluster;
    let [control_plane, data_plane] = OPERATORS.map(|operator| prepared.client_ids.get(operator));
    let part = json!({
        "clientID": control_plane?,
        "objectEncoding": "utf-8",
        "credentialsSecretName": format!("{}-{}", cluster.domain_prefix, OPERATORS[0]),
    });
    let mut parts: Map<_, _> = PARTS.iter().map(|name| ((*name).to_owned(), part.clone())).collect();
    let vault = json!({"name": prepared.vault, "tenantID": directory(cluster)});
    parts.insert("managedIdentitiesKeyVault".to_owned(), vault);
    let data_plane = data_plane?;
    let beside: Map<_, _> = BESIDE_NODES.iter().map(|name| ((*name).to_owned(), json!(data_plane))).collect();
    Some(json!({
        "azureAuthenticationConfigType": "ManagedIdentities",
        "managedIdentities": {"controlPlane": parts, "dataPlane": beside},
    }))
}
