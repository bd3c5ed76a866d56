//! How a hosted cluster's API server is reached from outside.
//!
//! | strategy | the Service | clients go to |
//! |---|---|---|
//! | `Route` | `ClusterIP`, and a Route | the gateway, which tells clusters apart by the name in the TLS handshake |
//! | `LoadBalancer` | `LoadBalancer`, where the management cluster has balancers; otherwise as `Route`: the gateway is the balancer of everybody | the balancer's address, port 6443 |
//! | `NodePort` | `NodePort` | the address that the specification names, and the port that the Service was given |

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::Service;
use pilothouse_crds::{HostedCluster, PublishedService, PublishingStrategy, PublishingType};
use pilothouse_pki::AlternativeName;

use super::range::Range;
use super::refusal::{Refusal, Refusals};
use crate::Config;
use crate::names::{API_PORT, API_SERVER};

/// The ports that Services of type `NodePort` are given.
const NODE_PORTS: std::ops::RangeInclusive<i32> = 30_000..=32_767;

/// How the API server is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Publishing {
    /// By this name at the gateway.
    Route { host: String },
    /// By a balancer of its own, under this name if there is one.
    LoadBalancer { host: Option<String> },
    /// On a port of the nodes that have this address.
    NodePort { address: String, port: Option<i32> },
}

/// Where clients find the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Where a kubeconfig sends its reader.
    pub(crate) server: String,
    /// The name expected in the certificate, if it is not in `server`.
    pub(crate) server_name: Option<String>,
}

// === impl Publishing ===

impl Publishing {
    /// Reads the strategy of the API server, and adds whatever is wrong with any service to the refusals.
    pub(crate) fn read(
        cluster: &HostedCluster,
        services: Option<&Range>,
        config: &Config,
        refusals: &mut Refusals,
    ) -> Option<Self> {
        names_are_unique(cluster, refusals);
        let strategy = cluster
            .spec
            .services
            .iter()
            .find(|service| service.service == PublishedService::ApiServer)
            .map(|service| &service.service_publishing_strategy);
        let published = match strategy.map(|strategy| strategy.type_) {
            None | Some(PublishingType::Route) => {
                Ok(Self::Route { host: route_host(cluster, strategy, config) })
            }
            Some(PublishingType::LoadBalancer) if !config.load_balancers => {
                Ok(Self::Route { host: route_host(cluster, strategy, config) })
            }
            Some(PublishingType::LoadBalancer) => Ok(Self::LoadBalancer { host: asked_host(strategy) }),
            Some(PublishingType::NodePort) => node_port(strategy, services),
            Some(other @ (PublishingType::None | PublishingType::S3)) => Err(Refusal::invalid(format!(
                "spec.services: APIServer cannot be published by {other:?}; use Route, LoadBalancer or NodePort"
            ))),
        };
        let published = refusals.keep(published)?;
        if let Some(name) = published.name()
            && name.parse::<IpAddr>().is_err()
            && let Err(error) = AlternativeName::dns(name)
        {
            refusals.add(Refusal::invalid(format!("the API server cannot be published as {error}")));
        }
        Some(published)
    }

    /// The name or address that is known before anything exists.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Route { host } => Some(host),
            Self::LoadBalancer { host } => host.as_deref(),
            Self::NodePort { address, .. } => Some(address),
        }
    }

    /// The type of the Service.
    pub(crate) fn service_type(&self) -> &'static str {
        match self {
            Self::Route { .. } => "ClusterIP",
            Self::LoadBalancer { .. } => "LoadBalancer",
            Self::NodePort { .. } => "NodePort",
        }
    }

    /// The port that the Service is to have on the nodes, if one was asked for.
    pub(crate) fn node_port(&self) -> Option<i32> {
        match self {
            Self::NodePort { port, .. } => *port,
            Self::Route { .. } | Self::LoadBalancer { .. } => None,
        }
    }

    /// Where clients go, or what is missing for that.
    pub(crate) fn endpoint(&self, service: &Service, gateway: SocketAddr) -> Result<Endpoint, String> {
        let described =
            format!("Service {}/{API_SERVER}", service.metadata.namespace.as_deref().unwrap_or_default());
        match self {
            Self::Route { host } => Ok(Endpoint {
                host: host.clone(),
                port: gateway.port(),
                server: format!("https://{gateway}"),
                server_name: Some(host.clone()),
            }),
            Self::LoadBalancer { host } => {
                let given = balancer(service).ok_or_else(|| {
                    format!("{described} has no load balancer yet; is there somebody who makes them?")
                })?;
                let host = host.clone().unwrap_or(given);
                Ok(Endpoint::direct(host, API_PORT))
            }
            Self::NodePort { address, .. } => {
                let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_ref());
                let port = ports.and_then(|ports| u16::try_from(ports.first()?.node_port?).ok());
                let port = port.ok_or_else(|| format!("{described} has no port on the nodes yet"))?;
                Ok(Endpoint::direct(address.clone(), port))
            }
        }
    }
}

// === impl Endpoint ===

impl Endpoint {
    fn direct(host: String, port: u16) -> Self {
        let bracketed = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        Self { server: format!("https://{bracketed}:{port}"), host, port, server_name: None }
    }

    /// Where a kubeconfig sends its reader who comes by this name.
    pub(crate) fn by_name(&self, name: &str) -> String {
        format!("https://{name}:{}", self.port)
    }

    /// What the serving certificate must say for clients that come this way.
    pub(crate) fn name(&self) -> Option<AlternativeName> {
        match self.host.parse::<IpAddr>() {
            Ok(address) => Some(address.into()),
            Err(_) => AlternativeName::dns(&self.host).ok(),
        }
    }
}

fn balancer(service: &Service) -> Option<String> {
    let ingress = service.status.as_ref()?.load_balancer.as_ref()?.ingress.as_ref()?.first()?;
    ingress.hostname.clone().or_else(|| ingress.ip.clone()).filter(|host| !host.is_empty())
}

fn node_port(strategy: Option<&PublishingStrategy>, services: Option<&Range>) -> Result<Publishing, Refusal> {
    let asked = strategy.and_then(|strategy| strategy.node_port.as_ref());
    let Some(asked) = asked.filter(|asked| !asked.address.is_empty()) else {
        return Err(Refusal::invalid(
            "spec.services: APIServer by NodePort needs nodePort.address, the address of the nodes",
        ));
    };
    if let (Ok(address), Some(range)) = (asked.address.parse::<IpAddr>(), services)
        && range.contains(address)
    {
        return Err(Refusal::invalid(format!(
            "spec.services: nodePort.address {address} lies in serviceNetwork {range}; no node has it"
        )));
    }
    match asked.port.filter(|port| *port != 0) {
        Some(port) if !NODE_PORTS.contains(&port) => Err(Refusal::invalid(format!(
            "spec.services: nodePort.port {port} is none of {} to {}; leave it out to be given one",
            NODE_PORTS.start(),
            NODE_PORTS.end()
        ))),
        port => Ok(Publishing::NodePort { address: asked.address.clone(), port }),
    }
}

/// The name asked for, whatever the strategy.
fn asked_host(strategy: Option<&PublishingStrategy>) -> Option<String> {
    let strategy = strategy?;
    let of_route = strategy.route.as_ref().and_then(|route| route.hostname.clone());
    let of_balancer = strategy.load_balancer.as_ref().and_then(|balancer| balancer.hostname.clone());
    match strategy.type_ {
        PublishingType::Route => of_route,
        PublishingType::LoadBalancer => of_balancer,
        PublishingType::NodePort | PublishingType::None | PublishingType::S3 => None,
    }
    .filter(|host| !host.is_empty())
}

/// What is wrong with `spec.kubeAPIServerDNSName`: it has to be a name that only its owner can lead to the API server.
pub(crate) fn check_custom_name(name: &str) -> Result<(), Refusal> {
    let refused = |problem: &str| {
        Err(Refusal::invalid(format!(
            "spec.kubeAPIServerDNSName: `{name}` {problem}; use one such as api.example.com"
        )))
    };
    if name.parse::<IpAddr>().is_ok() {
        return refused("is an address, not a name");
    }
    if AlternativeName::dns(name).is_err() || name.contains('*') {
        return refused("is no DNS name");
    }
    let inside = [".svc", ".cluster.local", ".localhost"];
    if !name.contains('.') || inside.iter().any(|suffix| name.ends_with(suffix)) {
        return refused("is a name that means something else inside of clusters");
    }
    Ok(())
}

/// The name at the gateway: the one asked for, or `api.<prefix>.<base domain>`.
fn route_host(cluster: &HostedCluster, strategy: Option<&PublishingStrategy>, config: &Config) -> String {
    if let Some(host) = asked_host(strategy) {
        return host;
    }
    let spec = &cluster.spec;
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let base =
        Some(spec.dns.base_domain.as_str()).filter(|base| !base.is_empty()).unwrap_or(&config.base_domain);
    match spec.dns.base_domain_prefix.as_deref().unwrap_or(name) {
        "" => format!("api.{base}"),
        prefix => format!("api.{prefix}.{base}"),
    }
}

/// Two services cannot have one name, nor one service two strategies.
fn names_are_unique(cluster: &HostedCluster, refusals: &mut Refusals) {
    let mut by_name = BTreeMap::new();
    let mut services = Vec::new();
    for entry in &cluster.spec.services {
        if services.contains(&entry.service) {
            refusals.add(Refusal::invalid(format!("spec.services: {:?} is named twice", entry.service)));
        }
        services.push(entry.service);
        let Some(host) = asked_host(Some(&entry.service_publishing_strategy)) else { continue };
        if let Some(other) = by_name.insert(host.clone(), entry.service) {
            refusals.add(Refusal::invalid(format!(
                "spec.services: {other:?} and {:?} have the same host name `{host}`",
                entry.service
            )));
        }
    }
}
