//! Addresses of Services, and ports of the nodes that lead to them.
//!
//! Which are taken follows from the Services themselves: there is no second record that could disagree, only an index that is brought
//! up to date by every look. One write at a time looks and writes, so no two get the same.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::sync::PoisonError;

use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

use crate::catalogue::Resource;
use crate::error::Error;
use crate::status::{Cause, Failure};
use crate::storage::Cache;

mod taken;

use taken::{Port, Taken};

/// The ports of nodes that Services may have.
const NODE_PORTS: RangeInclusive<u16> = 30_000..=32_767;

#[derive(Debug)]
pub(crate) struct Allocator {
    base: u32,
    size: u32,
    one_at_a_time: Mutex<()>,
    taken: std::sync::Mutex<Taken>,
}

impl Allocator {
    pub(crate) fn new(cidr: &str) -> Result<Self, Error> {
        let refused = || Error::Config {
            option: "service_cidr",
            problem: format!("`{cidr}` is no range of IPv4 addresses; use one such as `10.96.0.0/16`"),
        };
        let (base, length) = cidr.split_once('/').ok_or_else(refused)?;
        let base: Ipv4Addr = base.parse().map_err(|_| refused())?;
        let length: u32 = length.parse().map_err(|_| refused())?;
        if !(8..=29).contains(&length) {
            return Err(refused());
        }
        let size = 1 << (32 - length);
        let base = u32::from(base) & !(size - 1);
        Ok(Self { base, size, one_at_a_time: Mutex::default(), taken: std::sync::Mutex::default() })
    }

    /// The address of the Service `kubernetes`.
    pub(crate) fn first(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.base + 1)
    }

    /// Held from before an address is chosen until its Service is in the cache.
    pub(crate) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.one_at_a_time.lock().await
    }

    /// Gives a Service what it asks for or leaves open: an address, and ports of the nodes where it has those. What it had
    /// before (`former`) it keeps. Headless and external ones have no address.
    pub(crate) fn assign(
        &self,
        cache: &Cache,
        resource: &Resource,
        former: Option<&Value>,
        service: &mut Value,
    ) -> Result<(), Failure> {
        let name = service["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let nothing = Value::Null;
        let former = former.map_or(&nothing, |former| &former["spec"]);
        let spec = &mut service["spec"];
        if spec["type"] == "ExternalName" {
            return Ok(());
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.catch_up(cache);
        let refused = |cause: Cause| Failure::invalid(resource, &name, vec![cause]);
        self.address(&taken, former, spec, &refused)?;
        ports(&taken, former, spec, &refused)
    }

    fn address(
        &self,
        taken: &Taken,
        former: &Value,
        spec: &mut Value,
        refused: &impl Fn(Cause) -> Failure,
    ) -> Result<(), Failure> {
        let address = match spec["clusterIP"].as_str() {
            Some("None") => {
                spec["clusterIPs"] = json!(["None"]);
                return Ok(());
            }
            Some(asked) if former["clusterIP"] == asked => return Ok(()),
            Some(asked) if !asked.is_empty() => {
                let refused = |why: String| {
                    refused(Cause::invalid(
                        "spec.clusterIPs",
                        &json!([asked]),
                        format!("failed to allocate IP {asked}: {why}"),
                    ))
                };
                let address: Ipv4Addr =
                    asked.parse().map_err(|_| refused("it is no IPv4 address".to_owned()))?;
                if !self.contains(address) {
                    return Err(refused("the provided network does not match the current range".to_owned()));
                }
                if taken.has_address(address) {
                    return Err(refused("provided IP is already allocated".to_owned()));
                }
                address
            }
            _ => self.free(|address| taken.has_address(address)).ok_or_else(|| {
                Failure::internal("failed to allocate a serviceIP: the range of Services is full")
            })?,
        };
        spec["clusterIP"] = json!(address.to_string());
        spec["clusterIPs"] = json!([address.to_string()]);
        Ok(())
    }

    fn contains(&self, address: Ipv4Addr) -> bool {
        let offset = u32::from(address).wrapping_sub(self.base);
        (1..self.size - 1).contains(&offset)
    }

    /// From a random place on, so that an address that was just given back is not the next one given out: somebody may
    /// still be talking to it. The first is never given out, and those after it, which people choose for what has to have a known
    /// address, only when there are no others.
    fn free(&self, is_taken: impl Fn(Ipv4Addr) -> bool) -> Option<Ipv4Addr> {
        let (first, end) = (2, self.size - 1);
        let band = first + self.chosen();
        let above = end - band;
        let start = rand::random_range(0..above);
        (0..above)
            .map(|step| band + (start + step) % above)
            .chain(first..band)
            .map(|place| Ipv4Addr::from(self.base + place))
            .find(|address| !is_taken(*address))
    }

    /// How many addresses are left to people's choice: as many as upstream leaves.
    fn chosen(&self) -> u32 {
        let count = (self.size / 16).clamp(16, 256);
        if count + 3 < self.size { count } else { 0 }
    }
}

/// Ports of the nodes, for those kinds of Services that have them.
fn ports(
    taken: &Taken,
    former: &Value,
    spec: &mut Value,
    refused: &impl Fn(Cause) -> Failure,
) -> Result<(), Failure> {
    let wanted = match spec["type"].as_str() {
        Some("NodePort") => true,
        Some("LoadBalancer") => spec["allocateLoadBalancerNodePorts"] != false,
        _ => false,
    };
    let own: Vec<_> = taken::ports(former).collect();
    let mut given: BTreeSet<Port> = BTreeSet::new();
    for (place, port) in spec["ports"].as_array_mut().into_iter().flatten().enumerate() {
        let protocol = taken::protocol(port);
        let is_free = |number: u16, given: &BTreeSet<Port>| {
            let one = (number, protocol.clone());
            !given.contains(&one) && (own.contains(&one) || !taken.has_port(&one))
        };
        let number = match port["nodePort"].as_i64().filter(|number| *number != 0) {
            Some(asked) => {
                let refused = |why: &str| {
                    refused(Cause::invalid(format!("spec.ports[{place}].nodePort"), &json!(asked), why))
                };
                let number = u16::try_from(asked).ok().filter(|number| NODE_PORTS.contains(number));
                let number = number.ok_or_else(|| {
                    refused(
                        "provided port is not in the valid range. The range of valid ports is 30000-32767",
                    )
                })?;
                if !is_free(number, &given) {
                    return Err(refused("provided port is already allocated"));
                }
                number
            }
            None if wanted => {
                let start = rand::random_range(NODE_PORTS);
                let rest = (start..=*NODE_PORTS.end()).chain(*NODE_PORTS.start()..start);
                rest.into_iter()
                    .find(|number| is_free(*number, &given))
                    .ok_or_else(|| Failure::internal("failed to allocate a nodePort: range is full"))?
            }
            None => continue,
        };
        port["nodePort"] = json!(number);
        given.insert((number, protocol));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_but_the_reserved_ones_can_be_had_once() {
        let allocator = Allocator::new("10.96.0.0/29").unwrap();
        assert_eq!(allocator.first().to_string(), "10.96.0.1");
        let mut taken = BTreeSet::new();
        while let Some(address) = allocator.free(|address| taken.contains(&address)) {
            assert!(allocator.contains(address), "{address}");
            assert!(taken.insert(address));
        }
        assert_eq!(taken.len(), 5);
        assert!(!taken.contains(&allocator.first()));
    }

    #[test]
    fn addresses_that_people_choose_are_given_out_last() {
        let allocator = Allocator::new("10.96.0.0/24").unwrap();
        let (mut taken, mut given) = (BTreeSet::new(), Vec::new());
        while let Some(address) = allocator.free(|address| taken.contains(&address)) {
            taken.insert(address);
            given.push(address);
        }
        let chosen = |address: &Ipv4Addr| address.octets()[3] < 18;
        assert_eq!(given.iter().position(chosen), Some(237));
        assert_eq!(given.iter().filter(|address| chosen(address)).count(), 16);
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for cidr in ["", "10.96.0.0", "10.96.0.0/33", "x/16", "fd00::/64"] {
            assert!(Allocator::new(cidr).is_err(), "{cidr}");
        }
    }
}
