//! All zones, by what they are asked for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use hickory_proto::rr::Name;
use pilothouse_arm::ResourceId;
use pilothouse_arm::dns::{RecordKind, RecordSet, ZONES};
use serde_json::Value;
use tracing::warn;

use crate::source::{Change, News};
use crate::zone::Zone;

#[cfg(test)]
pub(crate) mod tests;

/// What is known. Every change touches one zone, and one name in it.
#[derive(Debug)]
pub(crate) struct Directory {
    /// The key of the region's own zone.
    base: String,
    /// Where name servers are: here.
    pub(crate) addresses: Vec<IpAddr>,
    /// By the key of their id.
    zones: HashMap<String, Zone>,
    /// Which zones there are of a name: those of different groups are different zones.
    by_name: BTreeMap<Name, BTreeSet<String>>,
    /// Which zones name this name server.
    by_server: BTreeMap<Name, BTreeSet<String>>,
}

impl Directory {
    pub(crate) fn new(base: &ResourceId, addresses: Vec<IpAddr>) -> Self {
        Self {
            base: base.key(),
            addresses,
            zones: HashMap::new(),
            by_name: BTreeMap::new(),
            by_server: BTreeMap::new(),
        }
    }

    /// Takes in what became known.
    pub(crate) fn take(&mut self, news: &News) {
        match news {
            News::Everything { resources, serial } => {
                self.zones.clear();
                self.by_name.clear();
                self.by_server.clear();
                for (id, resource) in resources {
                    self.put(id, Some(resource), *serial);
                }
            }
            News::Changes { changes, serial } => {
                for Change { id, resource } in changes {
                    self.put(id, resource.as_ref(), *serial);
                }
            }
        }
    }

    /// The region's own zone.
    pub(crate) fn base(&self) -> Option<&Zone> {
        self.zones.get(&self.base)
    }

    /// The zone of this name that is delegated to by naming one of these servers.
    pub(crate) fn delegated<'a>(
        &self,
        name: &Name,
        mut servers: impl Iterator<Item = &'a Name>,
    ) -> Option<&Zone> {
        let candidates = self.by_name.get(name)?;
        let found = servers.find_map(|server| self.by_server.get(server)?.intersection(candidates).next())?;
        self.zones.get(found)
    }

    /// Whether this is the name of a server of ours.
    pub(crate) fn is_server(&self, name: &Name) -> bool {
        self.by_server.contains_key(name)
    }

    fn put(&mut self, id: &ResourceId, resource: Option<&Value>, serial: u64) {
        if id.is_a(ZONES) {
            return self.put_zone(id, resource, serial);
        }
        let Some((zone, kind)) = RecordKind::of_id(id) else { return };
        // Records go with their zone, which may be told first.
        let Some(zone) = self.zones.get_mut(&zone.key()) else { return };
        let set = resource.and_then(|shown| match RecordSet::read(kind, &shown["properties"]) {
            Ok(set) => Some(set),
            Err(error) => {
                warn!(record_set = %id, %error, "a record set cannot be read, and is not answered for");
                None
            }
        });
        zone.put(id.name(), kind, set.as_ref());
        zone.serial = serial;
    }

    fn put_zone(&mut self, id: &ResourceId, resource: Option<&Value>, serial: u64) {
        let key = id.key();
        let former = self.zones.remove(&key);
        if let Some(former) = &former {
            unlist(&mut self.by_name, &former.name, &key);
            for server in &former.servers {
                unlist(&mut self.by_server, server, &key);
            }
        }
        let Some(shown) = resource else { return };
        let Some(mut zone) = former.or_else(|| Zone::new(id.name())) else {
            warn!(zone = %id, "a zone has no name that can be asked for, and is not answered for");
            return;
        };
        zone.servers = Zone::read_servers(shown);
        zone.serial = serial;
        self.by_name.entry(zone.name.clone()).or_default().insert(key.clone());
        for server in &zone.servers {
            self.by_server.entry(server.clone()).or_default().insert(key.clone());
        }
        self.zones.insert(key, zone);
    }
}

fn unlist(index: &mut BTreeMap<Name, BTreeSet<String>>, name: &Name, key: &str) {
    if let Some(keys) = index.get_mut(name) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(name);
        }
    }
}
