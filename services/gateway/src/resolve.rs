//! From a host to the addresses of those who answer for it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pilothouse_crds::Route;
use pilothouse_informer::{Informer, ObjectKey};
use pilothouse_runtime::reconcile;

use crate::access::Access;
use crate::cluster::ClusterName;
use crate::dial::Dial;
use crate::follow::Following;
use crate::route::{Hosts, Owner};

/// Finds endpoints by host. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) following: Following,
}

/// What is known of one management cluster, and how its pods are reached.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) routes: Informer<Route>,
    pub(crate) endpoints: Informer<Endpoints>,
    pub(crate) dialer: Arc<dyn Dial>,
    /// What writes the status of its routes.
    pub(crate) statuses: reconcile::Handle<ObjectKey>,
}

/// The route that has a host.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    pub(crate) cluster: ClusterName,
    pub(crate) access: Arc<Access>,
    owner: Owner,
}

/// Everybody who answers for a host, the one whose turn it is first.
#[derive(Clone, Debug)]
pub(crate) struct Answering {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) dialer: Arc<dyn Dial>,
}

/// Why there is nobody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Nobody {
    #[error("no route has this host")]
    UnknownHost,
    #[error("service {0} has no ready endpoint")]
    NoEndpoint(ObjectKey),
}

impl Source {
    pub(crate) fn is_synced(&self) -> bool {
        self.routes.is_synced() && self.endpoints.is_synced()
    }
}

impl Resolver {
    /// Where a host leads, before it is known whether the client may go there.
    pub(crate) fn find(&self, host: &str) -> Option<Destination> {
        let owner = self.hosts.owner(host)?;
        Some(Destination { cluster: owner.key.cluster(), access: owner.access.clone(), owner })
    }

    /// Everybody who answers there.
    pub(crate) fn answering(&self, destination: &Destination) -> Result<Answering, Nobody> {
        let key = &destination.owner.key;
        let sources = self.following.sources();
        let source = sources.get(&key.management).ok_or(Nobody::UnknownHost)?;
        let route = source.routes.get(&key.route).ok_or(Nobody::UnknownHost)?;
        let service = ObjectKey { namespace: key.route.namespace.clone(), name: route.spec.to.name.clone() };
        let endpoints = source.endpoints.get(&service);
        let port = route.spec.port.as_ref().map(|port| &port.target_port);
        let mut addresses = endpoints.map(|found| addresses(&found, port)).unwrap_or_default();
        if addresses.is_empty() {
            return Err(Nobody::NoEndpoint(service));
        }
        let turn = destination.owner.turn.fetch_add(1, Ordering::Relaxed) % addresses.len();
        addresses.rotate_left(turn);
        Ok(Answering { addresses, dialer: source.dialer.clone() })
    }
}

/// The ready addresses, with the port of that name or number, or the first one.
fn addresses(endpoints: &Endpoints, port: Option<&IntOrString>) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    for subset in endpoints.subsets.iter().flatten() {
        let matching = subset.ports.iter().flatten().find(|candidate| match port {
            None => true,
            Some(IntOrString::Int(number)) => candidate.port == *number,
            Some(IntOrString::String(name)) => candidate.name.as_ref() == Some(name),
        });
        let Some(number) = matching.and_then(|port| u16::try_from(port.port).ok()) else { continue };
        let addresses =
            subset.addresses.iter().flatten().filter_map(|address| address.ip.parse::<IpAddr>().ok());
        found.extend(addresses.map(|ip| SocketAddr::new(ip, number)));
    }
    found
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset};

    use super::*;

    #[test]
    fn port_is_found_by_name_by_number_or_by_being_the_first() {
        let address = |ip: &str| EndpointAddress { ip: ip.to_owned(), ..EndpointAddress::default() };
        let port = |name: &str, port: i32| EndpointPort {
            name: Some(name.to_owned()),
            port,
            ..EndpointPort::default()
        };
        let endpoints = Endpoints {
            subsets: Some(vec![EndpointSubset {
                addresses: Some(vec![address("10.0.0.1"), address("fd00::1")]),
                not_ready_addresses: Some(vec![address("10.0.0.9")]),
                ports: Some(vec![port("api", 6443), port("metrics", 9090)]),
            }]),
            ..Endpoints::default()
        };
        let found = |port: Option<IntOrString>| {
            let found = addresses(&endpoints, port.as_ref());
            found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(found(None), "10.0.0.1:6443 [fd00::1]:6443");
        assert_eq!(found(Some(IntOrString::Int(9090))), "10.0.0.1:9090 [fd00::1]:9090");
        assert_eq!(found(Some(IntOrString::String("api".to_owned()))), "10.0.0.1:6443 [fd00::1]:6443");
        assert_eq!(found(Some(IntOrString::Int(1))), "");
    }
}
