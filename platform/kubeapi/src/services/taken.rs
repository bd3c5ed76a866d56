//! What Services have, kept up with the changes since the last look.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::Ipv4Addr;
use std::sync::Arc;

use serde_json::Value;

use crate::storage::Cache;

/// The keys of all Services start with it.
const SERVICES: &str = "services/";

#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Everything up to this version is in here.
    through: Option<u64>,
    by_service: HashMap<Arc<str>, Holding>,
    addresses: Counted<Ipv4Addr>,
    ports: Counted<Port>,
}

/// A port of the nodes: its number and protocol.
pub(super) type Port = (u16, String);

/// What one Service has.
#[derive(Debug, PartialEq, Eq)]
struct Holding {
    address: Option<Ipv4Addr>,
    ports: Vec<Port>,
}

/// By how many something is had. More than one have the same only where somebody has written past the server.
#[derive(Debug)]
struct Counted<T>(HashMap<T, usize>);

impl Taken {
    pub(super) fn has_address(&self, address: Ipv4Addr) -> bool {
        self.addresses.0.contains_key(&address)
    }

    pub(super) fn has_port(&self, port: &Port) -> bool {
        self.ports.0.contains_key(port)
    }

    /// Takes over what has happened since.
    pub(super) fn catch_up(&mut self, cache: &Cache) {
        if let Some((events, through)) = self.through.and_then(|through| cache.events(through, SERVICES)) {
            for event in events {
                self.take(&event.key, event.after.as_deref());
            }
            self.through = Some(through);
            return;
        }
        let snapshot = cache.snapshot(SERVICES);
        *self = Self { through: Some(snapshot.revision), ..Self::default() };
        for (key, service) in &snapshot.objects {
            self.take(key, Some(service));
        }
    }

    /// What a Service is now; nothing, if it is no more.
    fn take(&mut self, key: &Arc<str>, service: Option<&[u8]>) {
        if let Some(former) = self.by_service.remove(key) {
            former.address.iter().for_each(|address| self.addresses.remove(address));
            former.ports.iter().for_each(|port| self.ports.remove(port));
        }
        let service = service.and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
        let Some(holding) = service.map(|service| Holding::of(&service["spec"])) else { return };
        holding.address.iter().for_each(|address| self.addresses.add(address));
        holding.ports.iter().for_each(|port| self.ports.add(port));
        self.by_service.insert(Arc::clone(key), holding);
    }
}

impl Holding {
    fn of(spec: &Value) -> Self {
        Self {
            address: spec["clusterIP"].as_str().and_then(|address| address.parse().ok()),
            ports: ports(spec).collect(),
        }
    }
}

/// The ports of the nodes that a Service has.
pub(super) fn ports(spec: &Value) -> impl Iterator<Item = Port> {
    let ports = spec["ports"].as_array().into_iter().flatten();
    ports.filter_map(|port| {
        let number = port["nodePort"].as_u64().and_then(|number| u16::try_from(number).ok())?;
        (number > 0).then(|| (number, protocol(port)))
    })
}

pub(super) fn protocol(port: &Value) -> String {
    port["protocol"].as_str().unwrap_or("TCP").to_owned()
}

impl<T: Clone + Eq + Hash> Counted<T> {
    fn add(&mut self, one: &T) {
        *self.0.entry(one.clone()).or_default() += 1;
    }

    fn remove(&mut self, one: &T) {
        if let Some(count) = self.0.get_mut(one) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(one);
            }
        }
    }
}

impl<T> Default for Counted<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_taken_follows_the_services() {
        let mut taken = Taken::default();
        let (one, other): (Arc<str>, Arc<str>) = ("services/a/one".into(), "services/a/other".into());
        let service = |address: &str, port: u16| {
            let spec = json!({ "clusterIP": address, "ports": [{ "nodePort": port }, { "port": 80 }] });
            json!({ "spec": spec }).to_string().into_bytes()
        };
        let address = |last: u8| Ipv4Addr::new(10, 96, 0, last);
        let port = |number: u16| (number, "TCP".to_owned());
        taken.take(&one, Some(&service("10.96.0.9", 30_000)));
        taken.take(&other, Some(&service("10.96.0.9", 30_001)));
        assert!(taken.has_address(address(9)) && taken.has_port(&port(30_000)));
        taken.take(&one, Some(&service("10.96.0.8", 30_002)));
        assert!(taken.has_address(address(9)), "the other one still has it");
        assert!(taken.has_address(address(8)) && !taken.has_port(&port(30_000)));
        taken.take(&other, None);
        taken.take(&one, Some(&service("None", 0)));
        assert!(taken.addresses.0.is_empty() && taken.ports.0.is_empty(), "{taken:?}");
    }
}
