//! Zones and record sets, as ARM writes them.
//!
//! A zone is a resource `Microsoft.Network/dnsZones/first.pilothouse.test`. The records of one name and type in it are one
//! resource below it, `…/A/api`; `@` is the zone's own name. Whoever keeps them, answers from them or asks for them takes
//! the words from here.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::resource_id::ResourceId;
use crate::subscription::SubscriptionId;

#[cfg(test)]
mod tests;

/// The type of zones.
pub const ZONES: &str = "Microsoft.Network/dnsZones";
/// The record set of the zone's own name.
pub const APEX: &str = "@";
/// A name has at most so many characters, and each part of it.
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;
/// One string of a text has at most so many bytes.
const LONGEST_TEXT: usize = 255;
/// How long an answer may be kept at most; the protocol has a sign bit there.
const LONGEST_LIFE: u32 = 0x7fff_ffff;

/// Which records a set is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKind {
    /// Addresses.
    A,
    /// Addresses of version 6.
    Aaaa,
    /// Another name for the same thing.
    Cname,
    /// Who else to ask about names from here on down.
    Ns,
    /// Texts.
    Txt,
}

/// The records of one name and kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSet {
    /// How long an answer may be kept, in seconds.
    pub seconds: u32,
    /// What they say.
    pub data: RecordData,
    /// What whoever made it noted about it.
    pub metadata: BTreeMap<String, String>,
}

/// What records say, by their kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordData {
    /// Addresses.
    A(Vec<Ipv4Addr>),
    /// Addresses of version 6.
    Aaaa(Vec<Ipv6Addr>),
    /// The real name.
    Cname(String),
    /// Name servers.
    Ns(Vec<String>),
    /// Texts, each in pieces.
    Txt(Vec<Vec<String>>),
}

/// Why something is no record set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{target}` {problem}")]
pub struct MalformedRecordSet {
    target: String,
    problem: String,
}

/// The members of a record set's `properties`.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Properties {
    #[serde(rename = "TTL", alias = "ttl", default)]
    seconds: Option<u32>,
    #[serde(rename = "ARecords", alias = "aRecords", default, skip_serializing_if = "Vec::is_empty")]
    a: Vec<ARecord>,
    #[serde(rename = "AAAARecords", alias = "aaaaRecords", default, skip_serializing_if = "Vec::is_empty")]
    aaaa: Vec<AaaaRecord>,
    #[serde(rename = "CNAMERecord", alias = "cnameRecord", default, skip_serializing_if = "Option::is_none")]
    cname: Option<CnameRecord>,
    #[serde(rename = "NSRecords", alias = "nsRecords", default, skip_serializing_if = "Vec::is_empty")]
    ns: Vec<NsRecord>,
    #[serde(rename = "TXTRecords", alias = "txtRecords", default, skip_serializing_if = "Vec::is_empty")]
    txt: Vec<TxtRecord>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ARecord {
    ipv4_address: Ipv4Addr,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AaaaRecord {
    ipv6_address: Ipv6Addr,
}

#[derive(Debug, Serialize, Deserialize)]
struct CnameRecord {
    cname: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct NsRecord {
    nsdname: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct TxtRecord {
    value: Vec<String>,
}

/// The id of a region's own zone where nobody says otherwise: in a group and a subscription that are no customer's.
pub fn region_zone(domain: &str) -> ResourceId {
    let subscription = ResourceId::subscription(SubscriptionId::new(Uuid::nil()));
    subscription.resource_group("region").provider("Microsoft.Network", "dnsZones", domain)
}

/// Whether this is a name of a host or a zone, with or without the dot at its end.
pub fn is_name(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    text.len() <= LONGEST_NAME && text.split('.').all(is_label)
}

/// Whether a record set of this zone may be called so: `@`, or names relative to the zone, of which the first part may be `*`.
/// Together with the zone's they are a name that can be asked for.
pub fn is_relative_name(text: &str, zone: &str) -> bool {
    if text == APEX {
        return true;
    }
    let zone = zone.strip_suffix('.').unwrap_or(zone);
    let labels = text.strip_prefix("*.").unwrap_or(text);
    let is_written = text == "*" || (is_name(labels) && !labels.ends_with('.'));
    is_written && text.len() + 1 + zone.len() <= LONGEST_NAME
}

fn is_label(label: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=LONGEST_LABEL).contains(&label.len())
        && label.bytes().all(plain)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

// === impl RecordKind ===

impl RecordKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::A, Self::Aaaa, Self::Cname, Self::Ns, Self::Txt];

    /// As the protocol, and the last part of the resource type, call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::Aaaa => "AAAA",
            Self::Cname => "CNAME",
            Self::Ns => "NS",
            Self::Txt => "TXT",
        }
    }

    /// The kind of this name, in any case.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    /// The zone of a record set, and its kind; `None` for what is no record set.
    pub fn of_id(id: &ResourceId) -> Option<(ResourceId, Self)> {
        let kind = id.resource_type();
        let kind = Self::of_name(kind.as_str().rsplit_once('/')?.1)?;
        let zone = id.parent().filter(|zone| zone.is_a(ZONES))?;
        Some((zone, kind))
    }
}

// === impl RecordSet ===

impl RecordSet {
    /// Reads the `properties` of a record set of this kind.
    ///
    /// # Errors
    ///
    /// If they are none.
    pub fn read(kind: RecordKind, properties: &Value) -> Result<Self, MalformedRecordSet> {
        let refused = |target: &str, problem: &str| MalformedRecordSet {
            target: format!("properties.{target}"),
            problem: problem.to_owned(),
        };
        let read: Properties =
            serde_json::from_value(properties.clone()).map_err(|error| MalformedRecordSet {
                target: "properties".to_owned(),
                problem: format!("cannot be read: {error}"),
            })?;
        let Properties { seconds, a, aaaa, cname, ns, txt, metadata } = read;
        let seconds = seconds.ok_or_else(|| refused("TTL", "is required"))?;
        if !(1..=LONGEST_LIFE).contains(&seconds) {
            return Err(refused("TTL", "must be between 1 and 2147483647 seconds"));
        }
        let given = [
            (RecordKind::A, !a.is_empty()),
            (RecordKind::Aaaa, !aaaa.is_empty()),
            (RecordKind::Cname, cname.is_some()),
            (RecordKind::Ns, !ns.is_empty()),
            (RecordKind::Txt, !txt.is_empty()),
        ];
        for (other, is_given) in given {
            if (other == kind) != is_given {
                let problem = if is_given { "belongs into a record set of its own" } else { "is required" };
                return Err(refused(other.member(), problem));
            }
        }
        let name = |text: String| {
            let problem = || refused(kind.member(), &format!("has `{text}`, which is no name of a host"));
            if is_name(&text) { Ok(text.clone()) } else { Err(problem()) }
        };
        let data = match kind {
            RecordKind::A => RecordData::A(a.into_iter().map(|record| record.ipv4_address).collect()),
            RecordKind::Aaaa => {
                RecordData::Aaaa(aaaa.into_iter().map(|record| record.ipv6_address).collect())
            }
            RecordKind::Cname => {
                RecordData::Cname(name(cname.map(|record| record.cname).unwrap_or_default())?)
            }
            RecordKind::Ns => {
                RecordData::Ns(ns.into_iter().map(|record| name(record.nsdname)).collect::<Result<_, _>>()?)
            }
            RecordKind::Txt => {
                let texts: Vec<_> = txt.into_iter().map(|record| record.value).collect();
                let fits = |pieces: &Vec<String>| {
                    !pieces.is_empty() && pieces.iter().all(|piece| piece.len() <= LONGEST_TEXT)
                };
                if !texts.iter().all(fits) {
                    let problem = "must have values, each of strings of at most 255 bytes";
                    return Err(refused(kind.member(), problem));
                }
                RecordData::Txt(texts)
            }
        };
        Ok(Self { seconds, data, metadata })
    }

    /// As it is written.
    pub fn properties(&self) -> Value {
        let mut written = Properties {
            seconds: Some(self.seconds),
            metadata: self.metadata.clone(),
            ..Properties::default()
        };
        match &self.data {
            RecordData::A(addresses) => {
                written.a = addresses.iter().map(|address| ARecord { ipv4_address: *address }).collect();
            }
            RecordData::Aaaa(addresses) => {
                written.aaaa =
                    addresses.iter().map(|address| AaaaRecord { ipv6_address: *address }).collect();
            }
            RecordData::Cname(name) => written.cname = Some(CnameRecord { cname: name.clone() }),
            RecordData::Ns(names) => {
                written.ns = names.iter().map(|name| NsRecord { nsdname: name.clone() }).collect();
            }
            RecordData::Txt(texts) => {
                written.txt = texts.iter().map(|text| TxtRecord { value: text.clone() }).collect();
            }
        }
        // Numbers, strings, addresses: there is nothing that JSON could refuse.
        serde_json::to_value(written).unwrap_or_else(|_| Value::Object(Map::new()))
    }
}

impl RecordKind {
    /// Where in `properties` its records are.
    const fn member(self) -> &'static str {
        match self {
            Self::A => "ARecords",
            Self::Aaaa => "AAAARecords",
            Self::Cname => "CNAMERecord",
            Self::Ns => "NSRecords",
            Self::Txt => "TXTRecords",
        }
    }
}

// === impl RecordData ===

impl RecordData {
    /// Of which kind they are.
    pub const fn kind(&self) -> RecordKind {
        match self {
            Self::A(_) => RecordKind::A,
            Self::Aaaa(_) => RecordKind::Aaaa,
            Self::Cname(_) => RecordKind::Cname,
            Self::Ns(_) => RecordKind::Ns,
            Self::Txt(_) => RecordKind::Txt,
        }
    }
}
