//! Which records there are for a name.
//!
//! ```text
//!   web.shop.svc.cluster.local                  a Service: its address; headless, those of its pods
//!   db-0.db.shop.svc.cluster.local              a pod of a headless Service
//!   _http._tcp.web.shop.svc.cluster.local       a port of a Service
//!   10-200-0-7.shop.pod.cluster.local           an address, as a name
//! ```

use std::net::Ipv4Addr;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::rdata::{A, CNAME, NS, PTR, SOA, SRV, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use pilothouse_nameserver::Answer;

use super::directory::{Directory, Entry, Member};
use crate::config::OutsideNames;
use crate::network::Range;

#[cfg(test)]
mod tests;

/// How long an answer may be kept.
const SECONDS: u32 = 5;
/// How often one name may stand for another.
const CHAIN: usize = 8;
/// The version of the specification of these names.
const VERSION: &str = "1.1.0";

/// The names of a cluster.
#[derive(Debug)]
pub(super) struct Zone {
    /// The cluster's own domain, part by part.
    domain: Vec<String>,
    /// Addresses whose names are ours, or nobody's.
    ranges: Vec<Range>,
    outside: OutsideNames,
}

/// What there is at a name of ours.
enum Found {
    /// These records; among them none of a type that is not asked for.
    Records(Vec<Record>, Vec<Record>),
    /// Something, of which these are all records.
    Something(Vec<Record>),
    Nothing,
}

/// Who asks about what.
struct Lookup<'a> {
    zone: &'a Zone,
    directory: &'a Directory,
    /// The only namespace that exists for the one who asks.
    view: Option<&'a str>,
    kind: RecordType,
    /// Whose turn it is among several.
    turn: usize,
}

// === impl Zone ===

impl Zone {
    pub(super) fn new(domain: &str, ranges: Vec<Range>, outside: OutsideNames) -> Self {
        let domain = domain.trim_end_matches('.').split('.').map(str::to_ascii_lowercase).collect();
        Self { domain, ranges, outside }
    }

    pub(super) fn answer(
        &self,
        directory: &Directory,
        (name, kind): (&Name, RecordType),
        view: Option<&str>,
        turn: usize,
    ) -> Answer {
        let Some(labels) = lowercase(name) else { return self.outside() };
        let lookup = Lookup { zone: self, directory, view, kind, turn };
        if let Some(inside) = self.inside(&labels) {
            return lookup.inside(name, inside);
        }
        match reverse(&labels) {
            Some(address) => lookup.reverse(name, address),
            None => self.outside(),
        }
    }

    /// What stands before our domain in a name.
    fn inside<'a>(&self, labels: &'a [String]) -> Option<&'a [String]> {
        let length = labels.len().checked_sub(self.domain.len())?;
        let (inside, domain) = labels.split_at(length);
        (domain == self.domain).then_some(inside)
    }

    /// The answer to what nobody can know in here: there is no way out of a node.
    fn outside(&self) -> Answer {
        Answer::only(match self.outside {
            OutsideNames::Refused => ResponseCode::Refused,
            OutsideNames::Unknown => ResponseCode::NXDomain,
        })
    }

    /// A name within our domain.
    fn name(&self, parts: &[&str]) -> Option<Name> {
        name_of(parts.iter().copied().chain(self.domain.iter().map(String::as_str)))
    }

    fn soa(&self) -> Vec<Record> {
        let (Some(name), Some(server), Some(contact)) =
            (self.name(&[]), self.name(&["ns", "dns"]), self.name(&["hostmaster"]))
        else {
            return Vec::new();
        };
        let soa = SOA::new(server, contact, 1, 7200, 1800, 86_400, SECONDS);
        vec![record(&name, RData::SOA(soa))]
    }

    fn none(&self, code: ResponseCode) -> Answer {
        Answer::none(code, self.soa())
    }
}

// === impl Lookup ===

impl Lookup<'_> {
    fn inside(&self, name: &Name, parts: &[String]) -> Answer {
        let parts: Vec<_> = parts.iter().map(String::as_str).collect();
        let found = match parts.as_slice() {
            [] => Found::Something(self.apex(name)),
            [before @ .., "svc"] => self.service_name(name, before),
            [before @ .., "pod"] => self.pod_name(name, before),
            ["dns-version"] => {
                Found::Something(vec![record(name, RData::TXT(TXT::new(vec![VERSION.to_owned()])))])
            }
            ["ns", "dns"] | ["dns"] => Found::Something(Vec::new()),
            _ => Found::Nothing,
        };
        match found {
            Found::Nothing => self.zone.none(ResponseCode::NXDomain),
            Found::Something(records) => {
                let asked =
                    |record: &Record| self.kind == record.record_type() || self.kind == RecordType::ANY;
                let answers: Vec<_> = records.into_iter().filter(asked).collect();
                self.with(answers, Vec::new())
            }
            Found::Records(answers, additional) => self.with(answers, additional),
        }
    }

    fn with(&self, answers: Vec<Record>, additional: Vec<Record>) -> Answer {
        if answers.is_empty() {
            return self.zone.none(ResponseCode::NoError);
        }
        Answer::found(answers, additional)
    }

    fn apex(&self, name: &Name) -> Vec<Record> {
        let server = self.zone.name(&["ns", "dns"]).map(|server| record(name, RData::NS(NS(server))));
        self.zone.soa().into_iter().chain(server).collect()
    }

    fn sees(&self, namespace: &str) -> bool {
        self.view.is_none_or(|view| view == namespace) && self.directory.has_namespace(namespace)
    }

    fn entry(&self, namespace: &str, service: &str) -> Option<&Entry> {
        self.directory.get(namespace, service).filter(|_| self.sees(namespace))
    }

    fn service_name(&self, name: &Name, parts: &[&str]) -> Found {
        match *parts {
            [] => Found::Something(Vec::new()),
            [namespace] if self.sees(namespace) => Found::Something(Vec::new()),
            [service, namespace] => match self.entry(namespace, service) {
                Some(entry) => self.service(name, entry, [service, namespace]),
                None => Found::Nothing,
            },
            [protocol, service, namespace] if protocol.starts_with('_') => {
                let is_used = |entry: &&Entry| entry.uses(protocol);
                match self.entry(namespace, service).filter(is_used) {
                    Some(_) => Found::Something(Vec::new()),
                    None => Found::Nothing,
                }
            }
            [member, service, namespace] => match self.entry(namespace, service) {
                Some(entry) => member_records(name, entry, member),
                None => Found::Nothing,
            },
            [port, protocol, service, namespace] => match self.entry(namespace, service) {
                Some(entry) => {
                    let ports = self.ports(name, entry, [service, namespace], Some((port, protocol)));
                    if ports.0.is_empty() {
                        return Found::Nothing;
                    }
                    match self.kind {
                        RecordType::SRV | RecordType::ANY => Found::Records(ports.0, ports.1),
                        _ => Found::Something(Vec::new()),
                    }
                }
                None => Found::Nothing,
            },
            _ => Found::Nothing,
        }
    }

    fn service(&self, name: &Name, entry: &Entry, key: [&str; 2]) -> Found {
        if let Some(target) = entry.external_name() {
            return self.alias(name, target);
        }
        if self.kind == RecordType::SRV {
            let (answers, additional) = self.ports(name, entry, key, None);
            return Found::Records(answers, additional);
        }
        if !entry.is_headless() {
            let addresses = entry.cluster_addresses().into_iter();
            return Found::Something(addresses.map(|address| record(name, RData::A(A(address)))).collect());
        }
        let mut addresses: Vec<_> = entry.members().iter().map(|member| member.address).collect();
        if addresses.is_empty() {
            return Found::Nothing;
        }
        addresses.sort_unstable();
        addresses.dedup();
        // Many clients take the first.
        let turn = self.turn % addresses.len();
        addresses.rotate_left(turn);
        Found::Something(addresses.into_iter().map(|address| record(name, RData::A(A(address)))).collect())
    }

    /// A name that stands for another; where that is ours, too, with what there is at the other.
    fn alias(&self, name: &Name, target: &str) -> Found {
        let (mut answers, mut owner, mut target) = (Vec::new(), name.clone(), target.to_owned());
        for _ in 0..CHAIN {
            let Some(next) = parse(&target) else { break };
            answers.push(record(&owner, RData::CNAME(CNAME(next.clone()))));
            if self.kind == RecordType::CNAME {
                break;
            }
            owner = next;
            let labels = lowercase(&owner).unwrap_or_default();
            let Some([service, namespace, "svc"]) = self.zone.inside(&labels).and_then(|inside| {
                let parts: Vec<_> = inside.iter().map(String::as_str).collect();
                <[&str; 3]>::try_from(parts).ok()
            }) else {
                break;
            };
            let Some(entry) = self.entry(namespace, service) else { break };
            match entry.external_name() {
                Some(further) => target = further.to_owned(),
                None => {
                    if let Found::Something(records) | Found::Records(records, _) =
                        self.service(&owner, entry, [service, namespace])
                    {
                        let asked = |record: &Record| {
                            record.record_type() == self.kind || self.kind == RecordType::ANY
                        };
                        answers.extend(records.into_iter().filter(asked));
                    }
                    break;
                }
            }
        }
        Found::Records(answers, Vec::new())
    }

    /// The ports of a Service, or one of them, and the addresses of whom they name.
    fn ports(
        &self,
        name: &Name,
        entry: &Entry,
        [service, namespace]: [&str; 2],
        wanted: Option<(&str, &str)>,
    ) -> (Vec<Record>, Vec<Record>) {
        let is_wanted = |port: &str, protocol: &str| match wanted {
            None => true,
            Some((wanted_port, wanted_protocol)) => {
                let port_matches = wanted_port.strip_prefix('_') == Some(port) && !port.is_empty();
                port_matches
                    && wanted_protocol.strip_prefix('_').is_some_and(|it| it.eq_ignore_ascii_case(protocol))
            }
        };
        let mut found = Vec::new();
        if entry.is_headless() {
            for member in entry.members() {
                let target = self.zone.name(&[&member.hostname(), service, namespace, "svc"]);
                let ports = member.ports().filter(|(port, protocol, _)| is_wanted(port, protocol));
                found.extend(
                    ports.filter_map(|(_, _, number)| Some((target.clone()?, number, member.address))),
                );
            }
        } else {
            let ports = entry.service().spec.iter().flat_map(|spec| spec.ports.iter().flatten());
            let ports = ports.filter(|port| {
                let protocol = port.protocol.as_deref().unwrap_or("TCP");
                is_wanted(port.name.as_deref().unwrap_or_default(), protocol)
            });
            let target = self.zone.name(&[service, namespace, "svc"]);
            for number in ports.filter_map(|port| u16::try_from(port.port).ok()) {
                let addresses = entry.cluster_addresses().into_iter();
                found.extend(addresses.filter_map(|address| Some((target.clone()?, number, address))));
            }
        }
        let weight = u16::try_from(100 / found.len().max(1)).unwrap_or_default().max(1);
        let (mut answers, mut additional) = (Vec::new(), Vec::new());
        for (target, port, address) in found {
            let at = record(&target, RData::A(A(address)));
            if !additional.contains(&at) {
                additional.push(at);
            }
            answers.push(record(name, RData::SRV(SRV::new(0, weight, port, target))));
        }
        (answers, additional)
    }

    fn pod_name(&self, name: &Name, parts: &[&str]) -> Found {
        match *parts {
            [] => Found::Something(Vec::new()),
            [namespace] if self.sees(namespace) => Found::Something(Vec::new()),
            // Whether there is such a pod is not looked up: the name says all there is to know.
            [address, namespace] if self.view.is_none_or(|view| view == namespace) => {
                match address.replace('-', ".").parse() {
                    Ok(address) => Found::Something(vec![record(name, RData::A(A(address)))]),
                    Err(_) => Found::Nothing,
                }
            }
            _ => Found::Nothing,
        }
    }

    /// The names of an address.
    fn reverse(&self, name: &Name, address: Ipv4Addr) -> Answer {
        let mut names = Vec::new();
        for (key, entry) in self.directory.at(address) {
            let (service, namespace) = (key.name.as_str(), key.namespace_or_empty());
            if !self.sees(namespace) {
                continue;
            }
            if entry.cluster_addresses().contains(&address) {
                names.extend(self.zone.name(&[service, namespace, "svc"]));
                continue;
            }
            let members = entry.members();
            let Some(member) = members.iter().find(|member| member.address == address) else { continue };
            if entry.is_headless() {
                names.extend(self.zone.name(&[&member.hostname(), service, namespace, "svc"]));
            } else if member.is_pod() {
                let dashed = address.to_string().replace('.', "-");
                names.extend(self.zone.name(&[&dashed, namespace, "pod"]));
            }
        }
        let mut unique: Vec<Name> = Vec::new();
        for name in names {
            if !unique.contains(&name) {
                unique.push(name);
            }
        }
        if unique.is_empty() {
            let is_ours = self.zone.ranges.iter().any(|range| range.place(address).is_some());
            return if is_ours { self.zone.none(ResponseCode::NXDomain) } else { self.zone.outside() };
        }
        if !matches!(self.kind, RecordType::PTR | RecordType::ANY) {
            return self.zone.none(ResponseCode::NoError);
        }
        self.with(unique.into_iter().map(|one| record(name, RData::PTR(PTR(one)))).collect(), Vec::new())
    }
}

impl Entry {
    /// Whether a port of this protocol, written as in names, leads there.
    fn uses(&self, protocol: &str) -> bool {
        let ports = self.service().spec.iter().flat_map(|spec| spec.ports.iter().flatten());
        let mut protocols = ports.map(|port| port.protocol.as_deref().unwrap_or("TCP"));
        protocols.any(|used| protocol.strip_prefix('_').is_some_and(|it| it.eq_ignore_ascii_case(used)))
    }
}

fn member_records(name: &Name, entry: &Entry, wanted: &str) -> Found {
    let is_wanted = |member: &Member<'_>| {
        member.hostname() == wanted || member.address.to_string().replace('.', "-") == wanted
    };
    let mut addresses: Vec<_> =
        entry.members().into_iter().filter(is_wanted).map(|member| member.address).collect();
    addresses.dedup();
    if addresses.is_empty() {
        return Found::Nothing;
    }
    Found::Something(addresses.into_iter().map(|address| record(name, RData::A(A(address)))).collect())
}

fn record(name: &Name, data: RData) -> Record {
    Record::from_rdata(name.clone(), SECONDS, data)
}

/// The name with these parts, unless one is empty or too long. They are taken as they are: nothing in them is quoted.
fn name_of<'a>(labels: impl IntoIterator<Item = &'a str>) -> Option<Name> {
    Name::from_labels(labels.into_iter().map(str::as_bytes)).ok()
}

/// A name as it is written, with or without the dot at the end.
fn parse(text: &str) -> Option<Name> {
    let text = text.strip_suffix('.').unwrap_or(text);
    name_of(text.split('.').filter(|_| !text.is_empty()))
}

/// The parts of a name, without capitals. What is no text is no name of ours.
fn lowercase(name: &Name) -> Option<Vec<String>> {
    name.iter().map(|label| std::str::from_utf8(label).ok().map(str::to_ascii_lowercase)).collect()
}

/// The address that such a name is about: `7.0.200.10.in-addr.arpa`.
fn reverse(labels: &[String]) -> Option<Ipv4Addr> {
    let [d, c, b, a, zone, top] = labels else { return None };
    if (zone.as_str(), top.as_str()) != ("in-addr", "arpa") {
        return None;
    }
    format!("{a}.{b}.{c}.{d}").parse().ok()
}
