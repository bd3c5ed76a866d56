//! The address ranges of a cluster, checked against each other.

use std::net::IpAddr;

use pilothouse_crds::Networking;

use super::range::Range;
use super::refusal::{Refusal, Refusals};

/// Ranges that can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Networks {
    pub(crate) pods: Range,
    pub(crate) services: Range,
}

impl Networks {
    /// Reads them, and adds whatever is wrong with them to the refusals.
    pub(crate) fn read(networking: &Networking, refusals: &mut Refusals) -> Option<Self> {
        let pods = networking.cluster_network.iter().map(|entry| entry.cidr.as_str());
        let services = networking.service_network.iter().map(|entry| entry.cidr.as_str());
        let pods = refusals.keep(only("spec.networking.clusterNetwork", pods));
        let services = refusals.keep(only("spec.networking.serviceNetwork", services));
        let mut ranges: Vec<(&str, Range)> = Vec::new();
        ranges.extend(pods.map(|range| ("clusterNetwork", range)));
        ranges.extend(services.map(|range| ("serviceNetwork", range)));
        for entry in &networking.machine_network {
            match refusals.keep(range("spec.networking.machineNetwork", &entry.cidr)) {
                Some(range) => ranges.push(("machineNetwork", range)),
                None => continue,
            }
        }
        for (index, (name, range)) in ranges.iter().enumerate() {
            for (other_name, other) in &ranges[index + 1..] {
                if range.overlaps(other) {
                    refusals.add(Refusal::invalid(format!(
                        "spec.networking: {name} {range} and {other_name} {other} share addresses; choose ranges apart"
                    )));
                }
            }
        }
        if let (Some(pods), Some(entry)) = (pods, networking.cluster_network.first())
            && let Some(prefix) = entry.host_prefix
            && u32::try_from(prefix).is_ok_and(|prefix| prefix <= pods.length() || prefix > 30)
        {
            refusals.add(Refusal::invalid(format!(
                "spec.networking.clusterNetwork: hostPrefix {prefix} is no part of {pods}; use a number between {} and 30",
                pods.length() + 1
            )));
        }
        advertised(networking, &ranges, refusals);
        Some(Self { pods: pods?, services: services? })
    }
}

/// Where nodes find the API server may be no address that something else could have.
fn advertised(networking: &Networking, ranges: &[(&str, Range)], refusals: &mut Refusals) {
    let Some(server) = &networking.api_server else { return };
    if let Some(port) = server.port
        && !(1..=65535).contains(&port)
    {
        refusals.add(Refusal::invalid(format!(
            "spec.networking.apiServer.port: {port} is no port; use 1 to 65535"
        )));
    }
    let Some(text) = server.advertise_address.as_deref().filter(|text| !text.is_empty()) else { return };
    let Ok(address) = text.parse::<IpAddr>() else {
        refusals.add(Refusal::invalid(format!(
            "spec.networking.apiServer.advertiseAddress: `{text}` is no address such as 172.20.0.1"
        )));
        return;
    };
    if address.is_ipv6() {
        refusals.add(Refusal::invalid(format!(
            "spec.networking.apiServer.advertiseAddress: {address} is IPv6 and the cluster's networks are IPv4"
        )));
    }
    for (name, range) in ranges.iter().filter(|(_, range)| range.contains(address)) {
        refusals.add(Refusal::invalid(format!(
            "spec.networking.apiServer.advertiseAddress: {address} lies in {name} {range}; choose one outside"
        )));
    }
}

/// The one range of a list.
fn only<'a>(field: &str, mut ranges: impl Iterator<Item = &'a str>) -> Result<Range, Refusal> {
    let (first, second) = (ranges.next(), ranges.next());
    let Some(text) = first else {
        return Err(Refusal::invalid(format!("{field} is empty; name one range")));
    };
    if second.is_some() {
        return Err(Refusal::invalid(format!("{field} has more than one range; payload `light` serves one")));
    }
    range(field, text)
}

fn range(field: &str, text: &str) -> Result<Range, Refusal> {
    Range::parse(text)
        .ok_or_else(|| Refusal::invalid(format!("{field}: `{text}` is no IPv4 range such as 172.31.0.0/16")))
}
