//! What there is to say about a question.

use std::net::IpAddr;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::rdata::{A, AAAA};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use pilothouse_arm::dns::RecordKind;
use pilothouse_nameserver::Answer;

use crate::directory::Directory;
use crate::zone::Zone;

#[cfg(test)]
mod tests;

/// How often one name may stand for another.
const CHAIN: usize = 8;
/// How long the addresses of name servers may be kept.
const SERVERS: u32 = 60;

/// Who knows about a name.
enum Place<'a> {
    /// A zone of ours.
    Ours(&'a Zone),
    /// Whom a zone of ours names.
    Elsewhere(Vec<Record>),
    /// Nobody whom we know.
    Unknown,
}

/// What a zone has at a name.
enum Found {
    /// These are all records of it.
    Records(Vec<Record>),
    /// It stands for another.
    Alias(Box<Record>, Name),
    Nothing,
}

impl Directory {
    /// What there is to say about a question.
    pub(crate) fn answer(&self, asked: &Name, kind: RecordType) -> Answer {
        let mut answers = Vec::new();
        let mut name = asked.clone();
        loop {
            let zone = match self.place(&name, kind) {
                Place::Ours(zone) => zone,
                // Where another name leads is the client's to follow.
                Place::Unknown | Place::Elsewhere(_) if !answers.is_empty() => {
                    return Answer::found(answers, Vec::new());
                }
                Place::Elsewhere(servers) => {
                    let addresses = self.addresses_of(&servers);
                    return Answer::referral(servers, addresses);
                }
                Place::Unknown => return Answer::only(ResponseCode::Refused),
            };
            let ended =
                |code, answers| Answer { answers, ..Answer::none(code, zone.soa().into_iter().collect()) };
            match self.find(zone, &name) {
                Found::Nothing => return ended(ResponseCode::NXDomain, answers),
                Found::Alias(record, target) if !matches!(kind, RecordType::CNAME | RecordType::ANY) => {
                    answers.push(*record);
                    if answers.len() >= CHAIN {
                        return Answer::found(answers, Vec::new());
                    }
                    name = target;
                }
                Found::Alias(record, _) => return Answer::found(vec![*record], Vec::new()),
                Found::Records(records) => {
                    let is_asked = |record: &Record| kind == record.record_type() || kind == RecordType::ANY;
                    let found: Vec<_> = records.into_iter().filter(is_asked).collect();
                    if found.is_empty() {
                        return ended(ResponseCode::NoError, answers);
                    }
                    let addresses = self.addresses_of(&found);
                    answers.extend(found);
                    return Answer::found(answers, addresses);
                }
            }
        }
    }

    /// Who knows about a name: from the region's own zone down, as far as zones delegate.
    fn place(&self, name: &Name, kind: RecordType) -> Place<'_> {
        let Some(mut zone) = self.base().filter(|zone| zone.name.zone_of(name)) else {
            return Place::Unknown;
        };
        let depth = name.iter().count();
        'zones: loop {
            for length in zone.depth() + 1..=depth {
                // What guards a delegation is kept above it.
                if length == depth && kind == RecordType::DS {
                    break;
                }
                let cut = name.trim_to(length);
                let Some(servers) = zone.node(&cut).and_then(|node| node.get(&RecordKind::Ns)) else {
                    continue;
                };
                match self.delegated(&cut, servers.iter().filter_map(server)) {
                    Some(below) => {
                        zone = below;
                        continue 'zones;
                    }
                    None => return Place::Elsewhere(servers.clone()),
                }
            }
            return Place::Ours(zone);
        }
    }

    fn find(&self, zone: &Zone, name: &Name) -> Found {
        if self.is_server(name) {
            return Found::Records(self.addresses(name));
        }
        let node = if zone.has(name) {
            zone.node(name)
        } else {
            // The nearest name there is above it has a word for all others, or nobody has.
            let mut above = name.base_name();
            while !zone.has(&above) {
                above = above.base_name();
            }
            match above.prepend_label(b"*".as_slice()).ok().and_then(|any| zone.node(&any)) {
                Some(node) => Some(node),
                None => return Found::Nothing,
            }
        };
        // As it was asked for: a word for many names has none of its own, and capitals are the client's.
        let named = |record: &Record| {
            let mut record = record.clone();
            record.name = name.clone();
            record
        };
        let mut records = Vec::new();
        for (kind, set) in node.into_iter().flatten() {
            if let (RecordKind::Cname, [alias, ..]) = (kind, set.as_slice())
                && let RData::CNAME(target) = &alias.data
            {
                return Found::Alias(Box::new(named(alias)), target.0.clone());
            }
            records.extend(set.iter().map(named));
        }
        if *name == zone.name {
            records.extend(zone.soa().into_iter().chain(zone.name_servers()).map(|record| named(&record)));
        }
        Found::Records(records)
    }

    /// Where the servers are that these records name, as far as that is known here.
    fn addresses_of(&self, records: &[Record]) -> Vec<Record> {
        let mut found = Vec::new();
        for name in records.iter().filter_map(server) {
            if self.is_server(name) {
                found.extend(self.addresses(name));
            } else if let Some(zone) = self.base().filter(|zone| zone.name.zone_of(name)) {
                // Also what lies below a delegation: without it nobody could get there.
                let kinds = [RecordKind::A, RecordKind::Aaaa];
                let node = zone.node(name);
                found.extend(kinds.iter().filter_map(|kind| node?.get(kind)).flatten().cloned());
            }
        }
        found
    }

    /// The addresses of a name server of ours.
    fn addresses(&self, name: &Name) -> Vec<Record> {
        let data = self.addresses.iter().map(|address| match address {
            IpAddr::V4(address) => RData::A(A(*address)),
            IpAddr::V6(address) => RData::AAAA(AAAA(*address)),
        });
        data.map(|data| Record::from_rdata(name.clone(), SERVERS, data)).collect()
    }
}

fn server(record: &Record) -> Option<&Name> {
    match &record.data {
        RData::NS(server) => Some(&server.0),
        _ => None,
    }
}
