//! What is listened on for a Service, and where that leads.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Endpoints, Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

#[cfg(test)]
mod tests;

/// How long a client stays with its endpoint where its Service does not say.
const AFFINITY_SECONDS: i32 = 10_800;

/// What datagrams and connections are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

/// An address that is listened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Front {
    pub(crate) protocol: Protocol,
    pub(crate) address: SocketAddr,
}

/// Where it leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) backends: Vec<SocketAddr>,
    /// For how long a client stays with its endpoint.
    pub(crate) affinity: Option<Duration>,
}

/// The node the plan is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here<'a> {
    pub(crate) node: &'a str,
    pub(crate) address: Ipv4Addr,
}

/// An endpoint of one port, with what decides whether it is used.
struct Candidate {
    address: SocketAddr,
    ready: bool,
    /// Ends, but answers until then.
    lingering: bool,
    local: bool,
}

// === impl Protocol ===

impl Protocol {
    /// By its name in an object, where nothing means TCP. What we do not pass on is nothing.
    pub(crate) fn named(name: Option<&str>) -> Option<Self> {
        match name.unwrap_or("TCP") {
            "TCP" => Some(Self::Tcp),
            "UDP" => Some(Self::Udp),
            _ => None,
        }
    }
}

/// Every address of a Service that leads somewhere. Where nobody is, nobody listens, so that a client is refused at once.
///
/// Slices are the newer form of endpoints; a Service without any may still have the older.
pub(crate) fn plan(
    service: &Service,
    slices: &[&EndpointSlice],
    endpoints: Option<&Endpoints>,
    here: Here<'_>,
) -> BTreeMap<Front, Target> {
    let Some(spec) = &service.spec else { return BTreeMap::new() };
    let inside = addresses(spec);
    let affinity = affinity(spec);
    let mut plan = BTreeMap::new();
    for port in spec.ports.iter().flatten() {
        let Some(protocol) = Protocol::named(port.protocol.as_deref()) else { continue };
        let name = port.name.as_deref().unwrap_or_default();
        let candidates = if slices.is_empty() {
            of_endpoints(endpoints, name, protocol)
        } else {
            of_slices(slices, name, protocol, here.node)
        };
        let mut lead = |address: IpAddr, number: u16, only_local: bool| {
            let backends = usable(&candidates, only_local);
            if !backends.is_empty() {
                let front = Front { protocol, address: SocketAddr::new(address, number) };
                plan.insert(front, Target { backends, affinity });
            }
        };
        if let Ok(number) = u16::try_from(port.port) {
            let only_local = spec.internal_traffic_policy.as_deref() == Some("Local");
            for address in &inside {
                lead(*address, number, only_local);
            }
        }
        if let Some(number) = node_port(port) {
            let only_local = spec.external_traffic_policy.as_deref() == Some("Local");
            for address in [here.address, Ipv4Addr::LOCALHOST] {
                lead(address.into(), number, only_local);
            }
        }
    }
    plan
}

/// The addresses of a Service inside the cluster; none if it is headless.
pub(crate) fn addresses(spec: &ServiceSpec) -> Vec<IpAddr> {
    let addresses = spec.cluster_ips.clone().or_else(|| spec.cluster_ip.clone().map(|address| vec![address]));
    let addresses = addresses.unwrap_or_default();
    addresses.iter().filter_map(|address| address.parse().ok()).filter(IpAddr::is_ipv4).collect()
}

fn node_port(port: &ServicePort) -> Option<u16> {
    port.node_port.and_then(|number| u16::try_from(number).ok()).filter(|number| *number != 0)
}

fn affinity(spec: &ServiceSpec) -> Option<Duration> {
    if spec.session_affinity.as_deref() != Some("ClientIP") {
        return None;
    }
    let configured = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
    let seconds = configured.and_then(|client| client.timeout_seconds).unwrap_or(AFFINITY_SECONDS);
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
}

/// Those that are ready; without any, those that still answer while they end.
fn usable(candidates: &[Candidate], only_local: bool) -> Vec<SocketAddr> {
    let eligible = || candidates.iter().filter(|one| one.local || !only_local);
    let mut chosen: Vec<_> = eligible().filter(|one| one.ready).map(|one| one.address).collect();
    if chosen.is_empty() {
        chosen = eligible().filter(|one| one.lingering).map(|one| one.address).collect();
    }
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

fn of_slices(slices: &[&EndpointSlice], name: &str, protocol: Protocol, node: &str) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for slice in slices {
        let ports = slice.ports.iter().flatten().filter(|port| {
            port.name.as_deref().unwrap_or_default() == name
                && Protocol::named(port.protocol.as_deref()) == Some(protocol)
        });
        for number in ports.filter_map(|port| port.port.and_then(|number| u16::try_from(number).ok())) {
            candidates.extend(slice.endpoints.iter().filter_map(|one| candidate(one, number, node)));
        }
    }
    candidates
}

fn candidate(endpoint: &Endpoint, port: u16, node: &str) -> Option<Candidate> {
    // All addresses of an endpoint are the same pod.
    let address = endpoint.addresses.iter().find_map(|address| address.parse::<Ipv4Addr>().ok())?;
    let conditions = endpoint.conditions.as_ref();
    let says = |pick: fn(&k8s_openapi::api::discovery::v1::EndpointConditions) -> Option<bool>| {
        conditions.and_then(pick)
    };
    let ready = says(|one| one.ready).unwrap_or(true);
    Some(Candidate {
        address: SocketAddr::new(address.into(), port),
        ready,
        lingering: says(|one| one.terminating) == Some(true) && says(|one| one.serving).unwrap_or(ready),
        local: endpoint.node_name.as_deref() == Some(node),
    })
}

fn of_endpoints(endpoints: Option<&Endpoints>, name: &str, protocol: Protocol) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for subset in endpoints.and_then(|endpoints| endpoints.subsets.as_deref()).unwrap_or_default() {
        let ports = subset.ports.iter().flatten().filter(|port| {
            port.name.as_deref().unwrap_or_default() == name
                && Protocol::named(port.protocol.as_deref()) == Some(protocol)
        });
        for number in ports.filter_map(|port| u16::try_from(port.port).ok()) {
            let addresses = subset.addresses.iter().flatten();
            candidates.extend(addresses.filter_map(|address| {
                let address: Ipv4Addr = address.ip.parse().ok()?;
                let address = SocketAddr::new(address.into(), number);
                // The older form does not say where an endpoint is.
                Some(Candidate { address, ready: true, lingering: false, local: false })
            }));
        }
    }
    candidates
}
