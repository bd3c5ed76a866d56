//! How a control plane's services are reached from outside.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::schema;

/// How one service is published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServicePublishing {
    /// Which service.
    pub service: PublishedService,
    /// In which way.
    pub service_publishing_strategy: PublishingStrategy,
}

/// The services that can be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PublishedService {
    /// The API server.
    #[serde(rename = "APIServer")]
    ApiServer,
    /// The OAuth server.
    OAuthServer,
    /// Accepted and ignored.
    #[serde(rename = "OIDC")]
    Oidc,
    /// The tunnel from control plane to nodes.
    Konnectivity,
    /// What nodes are configured by.
    Ignition,
    /// Accepted and ignored.
    #[serde(rename = "OVNSbDb")]
    OvnSbDb,
}

/// A way to publish a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublishingStrategy {
    /// Which way.
    #[serde(rename = "type")]
    pub type_: PublishingType,
    /// For `Route`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<RoutePublishing>,
    /// For `LoadBalancer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancerPublishing>,
    /// For `NodePort`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_port: Option<NodePortPublishing>,
}

/// The ways to publish a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PublishingType {
    /// A load balancer of its own.
    LoadBalancer,
    /// A port of every node.
    NodePort,
    /// A host name at the shared gateway.
    Route,
    /// Not at all.
    None,
    /// A bucket.
    S3,
}

/// Published by host name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoutePublishing {
    /// The host name; made up if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub hostname: Option<String>,
}

/// Published by a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadBalancerPublishing {
    /// A host name that leads to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub hostname: Option<String>,
}

/// Published on a port of every node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodePortPublishing {
    /// The address of the nodes.
    #[schemars(length(min = 1, max = 253))]
    pub address: String,
    /// The port; zero for any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub port: Option<i32>,
}

// === impl ServicePublishing ===

impl ServicePublishing {
    /// The services every control plane has, each by a host name at the shared gateway.
    pub fn by_routes() -> Vec<Self> {
        [
            PublishedService::ApiServer,
            PublishedService::Ignition,
            PublishedService::Konnectivity,
            PublishedService::OAuthServer,
        ]
        .into_iter()
        .map(|service| Self {
            service,
            service_publishing_strategy: PublishingStrategy::of(PublishingType::Route),
        })
        .collect()
    }
}

// === impl PublishingStrategy ===

impl PublishingStrategy {
    /// This way, with nothing said about it.
    pub fn of(type_: PublishingType) -> Self {
        Self { type_, route: None, load_balancer: None, node_port: None }
    }
}

/// A rule for all services together: no two of them have the same host name.
pub(crate) fn distinct_hosts() -> Value {
    let distinct = |member: &str| {
        let host = |item: &str| format!("{item}.servicePublishingStrategy.{member}");
        let said = |item: &str| format!("has({0}) && has({0}.hostname)", host(item));
        schema::rule(
            &format!(
                "self.all(a, !({}) || {}.hostname == '' || self.exists_one(b, {} && {1}.hostname == {}.hostname))",
                said("a"),
                host("a"),
                said("b"),
                host("b"),
            ),
            "services have host names of their own",
        )
    };
    json!([distinct("route"), distinct("loadBalancer")])
}
