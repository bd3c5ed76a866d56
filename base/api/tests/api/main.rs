//! What goes in comes out, and what must not go in is refused with its exact place.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod conversions;
mod credentials;
mod external_auths;
mod identities;
mod node_pools;
mod openapi;
mod strategies;
mod updates;
mod validation;
mod versions;

use pilothouse_api::{Invalid, Rules, Target, Version, hub};
use pilothouse_arm::ResourceId;
use serde_json::{Value, json};

pub(crate) const SUBSCRIPTION: &str = "/subscriptions/0b1f6471-1bf0-4dda-aec3-cb9272f09590";

pub(crate) fn cluster_id(name: &str) -> ResourceId {
    format!(
        "{SUBSCRIPTION}/resourceGroups/Team/providers/Microsoft.RedHatOpenShift/hcpOpenShiftClusters/{name}"
    )
    .parse()
    .unwrap()
}

pub(crate) fn identity(name: &str) -> String {
    format!(
        "{SUBSCRIPTION}/resourceGroups/team/providers/Microsoft.ManagedIdentity/userAssignedIdentities/{name}"
    )
}

pub(crate) fn network(kind: &str, name: &str) -> String {
    format!("{SUBSCRIPTION}/resourceGroups/team/providers/Microsoft.Network/{kind}/{name}")
}

/// The least that makes a cluster in the newest version.
pub(crate) fn cluster_body() -> Value {
    json!({
        "location": "anywhere",
        "identity": {"type": "UserAssigned", "userAssignedIdentities": {(identity("service")): {}}},
        "properties": {
            "version": {"id": "4.20"},
            "platform": {
                "subnetId": network("virtualNetworks", "net/subnets/nodes"),
                "vnetIntegrationSubnetId": network("virtualNetworks", "net/subnets/control"),
                "networkSecurityGroupId": network("networkSecurityGroups", "rules"),
                "operatorsAuthentication": {"userAssignedIdentities": {
                    "controlPlaneOperators": {}, "dataPlaneOperators": {},
                    "serviceManagedIdentity": identity("service"),
                }},
            },
        },
    })
}

pub(crate) fn node_pool_body() -> Value {
    json!({"properties": {"version": {"id": "4.20.8"}, "platform": {"vmSize": "Standard_D8s_v3"}, "replicas": 2}})
}

pub(crate) fn external_auth_body() -> Value {
    json!({"properties": {
        "issuer": {"url": "https://login.test/tenant", "audiences": ["web", "cli"]},
        "clients": [
            {"component": {"name": "console", "authClientNamespace": "openshift-console"},
             "clientId": "web", "type": "Confidential"},
            {"component": {"name": "cli", "authClientNamespace": "openshift-console"},
             "clientId": "cli", "type": "Public", "extraScopes": ["email"]},
        ],
        "claim": {
            "mappings": {"username": {"claim": "email"}, "groups": {"claim": "groups", "prefix": "sso:"}},
            "validationRules": [{"requiredClaim": {"claim": "tenant", "requiredValue": "ours"}}],
        },
    }})
}

pub(crate) fn target(name: &str) -> Target<'static, hub::Cluster> {
    Target { id: cluster_id(name), location: "here".to_owned(), existing: None, rules: Rules::default() }
}

pub(crate) fn cluster() -> hub::Cluster {
    Version::V20261001.cluster_put(cluster_body().to_string().as_bytes(), &target("First")).unwrap()
}

pub(crate) fn node_pool_target(name: &str) -> Target<'static, hub::NodePool> {
    let id = cluster_id("First").child("nodePools", name);
    Target { id, location: "here".to_owned(), existing: None, rules: Rules::default() }
}

pub(crate) fn node_pool() -> hub::NodePool {
    let body = node_pool_body().to_string();
    Version::V20261001.node_pool_put(body.as_bytes(), &node_pool_target("workers"), &cluster()).unwrap()
}

pub(crate) fn external_auth_target(name: &str) -> Target<'static, hub::ExternalAuth> {
    let id = cluster_id("First").child("externalAuths", name);
    Target { id, location: "here".to_owned(), existing: None, rules: Rules::default() }
}

pub(crate) fn external_auth() -> hub::ExternalAuth {
    let body = external_auth_body().to_string();
    Version::V20261001.external_auth_put(body.as_bytes(), &external_auth_target("sso")).unwrap()
}

/// Sets the value at a JSON pointer, making objects on the way.
pub(crate) fn set(body: &mut Value, pointer: &str, value: Value) {
    let mut place = body;
    for part in pointer.trim_start_matches('/').split('/') {
        place = match (part.parse::<usize>(), place.is_array()) {
            (Ok(index), true) => &mut place[index],
            _ => &mut place[part],
        };
    }
    *place = value;
}

/// Everything that is wrong: where, and why.
pub(crate) fn problems<T: std::fmt::Debug>(result: Result<T, Invalid>) -> Vec<(String, String)> {
    result.unwrap_err().0.into_iter().map(|problem| (problem.target, problem.message)).collect()
}

/// A change to a good body: where, what, and the one problem that follows, or none.
pub(crate) type Row<'a> = (&'a str, Value, Option<(&'a str, &'a str)>);

/// Makes each change to a good body and compares what is found wrong with what should be.
#[track_caller]
pub(crate) fn check<T: std::fmt::Debug>(
    body: impl Fn() -> Value,
    rows: &[Row<'_>],
    put: impl Fn(&[u8]) -> Result<T, Invalid>,
) {
    for (pointer, value, expected) in rows {
        let mut body = body();
        set(&mut body, pointer, value.clone());
        let found = match put(body.to_string().as_bytes()) {
            Ok(_) => Vec::new(),
            Err(Invalid(problems)) => {
                problems.into_iter().map(|problem| (problem.target, problem.message)).collect()
            }
        };
        let expected: Vec<_> =
            expected.iter().map(|(target, message)| ((*target).to_owned(), (*message).to_owned())).collect();
        assert_eq!(found, expected, "{pointer} = {value}");
    }
}
