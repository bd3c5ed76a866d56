//! One zone and its records, as they are sent.

use std::collections::BTreeMap;

use hickory_proto::rr::rdata::{A, AAAA, CNAME, NS, SOA, TXT};
use hickory_proto::rr::{Name, RData, Record};
use pilothouse_arm::dns::{APEX, RecordData, RecordKind, RecordSet};
use serde_json::Value;

/// How long it may be remembered that there is no such name. Short: clusters come quickly, and are asked for early.
const NOTHING: u32 = 5;
/// How long it may be remembered who answers for a zone.
const SERVERS: u32 = 60;
/// For secondary servers, of which there are none.
const REFRESH: i32 = 3600;
const RETRY: i32 = 300;
const EXPIRE: i32 = 1_209_600;

/// The records of one name, by kind.
pub(crate) type Node = BTreeMap<RecordKind, Vec<Record>>;

/// One zone.
#[derive(Debug)]
pub(crate) struct Zone {
    pub(crate) name: Name,
    /// Its name servers, which the zone above names to delegate to it.
    pub(crate) servers: Vec<Name>,
    /// Grows with every change.
    pub(crate) serial: u64,
    nodes: BTreeMap<Name, Node>,
}

// === impl Zone ===

impl Zone {
    /// A zone of this name without any records; `None` for what is no name.
    pub(crate) fn new(name: &str) -> Option<Self> {
        Some(Self { name: parse(name)?, servers: Vec::new(), serial: 0, nodes: BTreeMap::new() })
    }

    /// What a zone as ARM shows it calls its name servers.
    pub(crate) fn read_servers(shown: &Value) -> Vec<Name> {
        let servers = shown["properties"]["nameServers"].as_array().into_iter().flatten();
        servers.filter_map(|server| parse(server.as_str()?)).collect()
    }

    /// Takes what is known of a record set now.
    pub(crate) fn put(&mut self, relative: &str, kind: RecordKind, set: Option<&RecordSet>) {
        let Some(name) = self.absolute(relative) else { return };
        let records = set.map(|set| records(&name, set));
        match records {
            Some(records) => {
                self.nodes.entry(name).or_default().insert(kind, records);
            }
            None => {
                if let Some(node) = self.nodes.get_mut(&name) {
                    node.remove(&kind);
                    if node.is_empty() {
                        self.nodes.remove(&name);
                    }
                }
            }
        }
    }

    /// The records of a name, if it has any.
    pub(crate) fn node(&self, name: &Name) -> Option<&Node> {
        self.nodes.get(name)
    }

    /// Whether there is a name, or one below it.
    pub(crate) fn has(&self, name: &Name) -> bool {
        // Names are in the order of their parts from the end, so those below a name follow it.
        let next = self.nodes.range(name.clone()..).next();
        *name == self.name || next.is_some_and(|(found, _)| name.zone_of(found))
    }

    /// The parts of a name, counted.
    pub(crate) fn depth(&self) -> usize {
        self.name.iter().count()
    }

    pub(crate) fn soa(&self) -> Option<Record> {
        let contact = self.name.prepend_label("hostmaster").ok()?;
        let server = self.servers.first().unwrap_or(&self.name).clone();
        // Serial numbers go round.
        let serial = u32::try_from(self.serial & u64::from(u32::MAX)).unwrap_or_default();
        let soa = SOA::new(server, contact, serial, REFRESH, RETRY, EXPIRE, NOTHING);
        Some(Record::from_rdata(self.name.clone(), NOTHING, RData::SOA(soa)))
    }

    pub(crate) fn name_servers(&self) -> Vec<Record> {
        let record =
            |server: &Name| Record::from_rdata(self.name.clone(), SERVERS, RData::NS(NS(server.clone())));
        self.servers.iter().map(record).collect()
    }

    fn absolute(&self, relative: &str) -> Option<Name> {
        if relative == APEX {
            return Some(self.name.clone());
        }
        let labels = relative.split('.').map(str::as_bytes).chain(self.name.iter());
        Name::from_labels(labels).ok()
    }
}

/// A name as it is written, with or without the dot at the end.
pub(crate) fn parse(text: &str) -> Option<Name> {
    let text = text.strip_suffix('.').unwrap_or(text);
    Name::from_labels(text.split('.').map(str::as_bytes)).ok()
}

fn records(name: &Name, set: &RecordSet) -> Vec<Record> {
    let data: Vec<RData> = match &set.data {
        RecordData::A(addresses) => addresses.iter().map(|address| RData::A(A(*address))).collect(),
        RecordData::Aaaa(addresses) => addresses.iter().map(|address| RData::AAAA(AAAA(*address))).collect(),
        RecordData::Cname(target) => {
            parse(target).map(|target| RData::CNAME(CNAME(target))).into_iter().collect()
        }
        RecordData::Ns(servers) => {
            servers.iter().filter_map(|server| parse(server)).map(|server| RData::NS(NS(server))).collect()
        }
        RecordData::Txt(texts) => texts.iter().map(|text| RData::TXT(TXT::new(text.clone()))).collect(),
    };
    data.into_iter().map(|data| Record::from_rdata(name.clone(), set.seconds, data)).collect()
}
