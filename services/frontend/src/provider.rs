//! What the provider can do, for those who write roles: the list of its operations.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use pilothouse_arm::{PROVIDER, Page};
use serde_json::{Value, json};

/// Resource, operation behind the namespace, its name, and what it does.
const OPERATIONS: [(&str, &str, &str, &str); 17] = [
    ("Provider", "register/action", "Register", "Registers a subscription with the provider"),
    ("Clusters", "hcpOpenShiftClusters/read", "Read clusters", "Reads clusters"),
    ("Clusters", "hcpOpenShiftClusters/write", "Write clusters", "Makes and changes clusters"),
    ("Clusters", "hcpOpenShiftClusters/delete", "Delete clusters", "Deletes clusters"),
    (
        "Clusters",
        "hcpOpenShiftClusters/requestadmincredential/action",
        "Request a credential",
        "Requests a credential for a cluster's administrators",
    ),
    (
        "Clusters",
        "hcpOpenShiftClusters/revokecredentials/action",
        "Revoke credentials",
        "Revokes all credentials of a cluster's administrators",
    ),
    ("Node pools", "hcpOpenShiftClusters/nodePools/read", "Read node pools", "Reads node pools"),
    (
        "Node pools",
        "hcpOpenShiftClusters/nodePools/write",
        "Write node pools",
        "Makes and changes node pools",
    ),
    ("Node pools", "hcpOpenShiftClusters/nodePools/delete", "Delete node pools", "Deletes node pools"),
    (
        "External auths",
        "hcpOpenShiftClusters/externalAuths/read",
        "Read external auths",
        "Reads external auths",
    ),
    (
        "External auths",
        "hcpOpenShiftClusters/externalAuths/write",
        "Write external auths",
        "Makes and changes external auths",
    ),
    (
        "External auths",
        "hcpOpenShiftClusters/externalAuths/delete",
        "Delete external auths",
        "Deletes external auths",
    ),
    (
        "Versions",
        "locations/hcpOpenShiftVersions/read",
        "Read versions",
        "Reads the versions that are offered",
    ),
    (
        "Role sets",
        "locations/hcpOperatorIdentityRoleSets/read",
        "Read role sets",
        "Reads the roles that the operators of a version need",
    ),
    ("Operations", "locations/hcpOperationResults/read", "Read results", "Reads the results of operations"),
    ("Operations", "locations/hcpOperationStatuses/read", "Read statuses", "Reads the states of operations"),
    ("Operations", "operations/read", "Read operations", "Reads this list"),
];

pub(crate) async fn operations() -> Response {
    let value: Vec<Value> = OPERATIONS
        .iter()
        .map(|(resource, operation, name, description)| {
            json!({
                "name": format!("{PROVIDER}/{operation}"),
                "isDataAction": false,
                "display": {
                    "provider": "Azure Red Hat OpenShift",
                    "resource": resource,
                    "operation": name,
                    "description": description,
                },
            })
        })
        .collect();
    Json(Page { value, next_link: None }).into_response()
}
