//! Addresses of Services.
//!
//! Which addresses are taken follows from the Services themselves: there is no second record that could disagree. One
//! create at a time looks and writes, so no two get the same address.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

use crate::catalogue::Resource;
use crate::error::Error;
use crate::status::{Cause, Failure};
use crate::storage::Cache;

#[derive(Debug)]
pub(crate) struct Allocator {
    base: u32,
    size: u32,
    one_at_a_time: Mutex<()>,
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
        Ok(Self { base: u32::from(base) & !(size - 1), size, one_at_a_time: Mutex::new(()) })
    }

    /// The address of the Service `kubernetes`.
    pub(crate) fn first(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.base + 1)
    }

    /// Held from before an address is chosen until its Service is in the cache.
    pub(crate) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.one_at_a_time.lock().await
    }

    /// Gives a Service the address it asks for, or a free one. Headless and external ones have none.
    pub(crate) fn assign(
        &self,
        cache: &Cache,
        resource: &Resource,
        name: &str,
        service: &mut Value,
    ) -> Result<(), Failure> {
        let spec = &mut service["spec"];
        if spec["type"] == "ExternalName" {
            return Ok(());
        }
        let taken = taken(cache);
        let address = match spec["clusterIP"].as_str() {
            Some("None") => {
                spec["clusterIPs"] = json!(["None"]);
                return Ok(());
            }
            Some(asked) if !asked.is_empty() => {
                let refused = |why: &str| {
                    let cause = Cause::invalid("spec.clusterIPs", &json!([asked]), why);
                    Failure::invalid(resource, name, vec![cause])
                };
                let address: Ipv4Addr =
                    asked.parse().map_err(|_| refused("failed to allocate IP: it is no IPv4 address"))?;
                if !self.contains(address) {
                    return Err(refused("failed to allocate IP: the provided IP is not in the valid range"));
                }
                if taken.contains(&address) {
                    return Err(refused("failed to allocate IP: provided IP is already allocated"));
                }
                address
            }
            _ => self.free(&taken).ok_or_else(|| {
                Failure::internal("failed to allocate a serviceIP: the range of Services is full")
            })?,
        };
        spec["clusterIP"] = json!(address.to_string());
        spec["clusterIPs"] = json!([address.to_string()]);
        if spec["ipFamilies"].is_null() {
            spec["ipFamilies"] = json!(["IPv4"]);
        }
        if spec["ipFamilyPolicy"].is_null() {
            spec["ipFamilyPolicy"] = json!("SingleStack");
        }
        Ok(())
    }

    fn contains(&self, address: Ipv4Addr) -> bool {
        let offset = u32::from(address).wrapping_sub(self.base);
        (1..self.size - 1).contains(&offset)
    }

    /// From a random place on, so that an address that was just given back is not the next one given out: somebody may
    /// still be talking to it. The first is never given out.
    fn free(&self, taken: &BTreeSet<Ipv4Addr>) -> Option<Ipv4Addr> {
        let usable = self.size - 3;
        let start = rand::random_range(0..usable);
        (0..usable)
            .map(|step| Ipv4Addr::from(self.base + 2 + (start + step) % usable))
            .find(|address| !taken.contains(address))
    }
}

fn taken(cache: &Cache) -> BTreeSet<Ipv4Addr> {
    let services = cache.snapshot("services/");
    services
        .objects
        .iter()
        .filter_map(|(_, bytes)| serde_json::from_slice::<Value>(bytes).ok())
        .filter_map(|service| service["spec"]["clusterIP"].as_str()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_but_the_reserved_ones_can_be_had_once() {
        let allocator = Allocator::new("10.96.0.0/29").unwrap();
        assert_eq!(allocator.first().to_string(), "10.96.0.1");
        let mut taken = BTreeSet::new();
        while let Some(address) = allocator.free(&taken) {
            assert!(allocator.contains(address), "{address}");
            assert!(taken.insert(address));
        }
        assert_eq!(taken.len(), 5);
        assert!(!taken.contains(&allocator.first()));
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for cidr in ["", "10.96.0.0", "10.96.0.0/33", "x/16", "fd00::/64"] {
            assert!(Allocator::new(cidr).is_err(), "{cidr}");
        }
    }
}
