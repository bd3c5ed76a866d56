//! The types of resources there are, and what each adds to what was put.

use std::net::IpAddr;

use pilothouse_arm::ResourceId;
use pilothouse_arm::dns::{APEX, RecordKind, RecordSet, is_name, is_relative_name};
use pilothouse_runtime::Clock;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::refusal::Refusal;
use crate::vault;

/// What a resource of this type has beside what was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    DnsZone,
    RecordSet(RecordKind),
    LoadBalancer,
    PublicAddress,
    Identity,
    Vault,
    Secret,
}

/// What the cloud gives away.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    /// Where whatever is behind a load balancer is reached: at the gateway.
    pub(crate) gateway: IpAddr,
    /// The domain that name servers are in.
    pub(crate) domain: String,
    /// Since when there is something.
    pub(crate) clock: Clock,
}

const KINDS: [(&str, Kind); 11] = [
    ("Microsoft.Network/dnsZones", Kind::DnsZone),
    ("Microsoft.Network/dnsZones/A", Kind::RecordSet(RecordKind::A)),
    ("Microsoft.Network/dnsZones/AAAA", Kind::RecordSet(RecordKind::Aaaa)),
    ("Microsoft.Network/dnsZones/CNAME", Kind::RecordSet(RecordKind::Cname)),
    ("Microsoft.Network/dnsZones/NS", Kind::RecordSet(RecordKind::Ns)),
    ("Microsoft.Network/dnsZones/TXT", Kind::RecordSet(RecordKind::Txt)),
    ("Microsoft.Network/loadBalancers", Kind::LoadBalancer),
    ("Microsoft.Network/publicIPAddresses", Kind::PublicAddress),
    ("Microsoft.ManagedIdentity/userAssignedIdentities", Kind::Identity),
    (vault::VAULTS, Kind::Vault),
    (vault::SECRETS, Kind::Secret),
];

impl Kind {
    /// The type of this name, in any case.
    pub(crate) fn of(name: &str) -> Option<Self> {
        KINDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, kind)| *kind)
    }

    /// The type's name, as ARM spells it.
    pub(crate) fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// For messages: every type one may name.
    pub(crate) fn names() -> String {
        KINDS.map(|(name, _)| name).join(", ")
    }

    /// Whether such a resource is somewhere; others are wherever what they belong to is.
    pub(crate) fn has_location(self) -> bool {
        !matches!(self, Self::RecordSet(_) | Self::Secret)
    }

    /// Whether one may be deleted by itself. Others go with what they are in.
    pub(crate) fn can_be_deleted(self) -> bool {
        self != Self::Secret
    }

    /// Refuses what cannot be one.
    pub(crate) fn check(self, id: &ResourceId, body: &Map<String, Value>) -> Result<(), Refusal> {
        match self {
            Self::DnsZone if !is_name(id.name()) => Err(Refusal::Name(id.name().to_owned())),
            Self::RecordSet(_) if !is_relative_name(id.name(), &zone_name(id)) => {
                Err(Refusal::Name(id.name().to_owned()))
            }
            // Who answers for a zone is the cloud's to say; and a zone's own name always stands for itself.
            Self::RecordSet(RecordKind::Ns | RecordKind::Cname) if id.name() == APEX => {
                Err(Refusal::Apex(id.clone()))
            }
            Self::RecordSet(kind) => {
                let properties = body.get("properties").unwrap_or(&Value::Null);
                RecordSet::read(kind, properties)?;
                Ok(())
            }
            Self::Vault => vault::check_vault(id, body),
            Self::Secret => vault::check_secret(id, body),
            Self::DnsZone | Self::LoadBalancer | Self::PublicAddress | Self::Identity => Ok(()),
        }
    }

    /// Fills in what the cloud decides, and keeps what it decided before.
    pub(crate) fn complete(
        self,
        id: &ResourceId,
        body: &mut Map<String, Value>,
        former: Option<&Map<String, Value>>,
        surroundings: &Surroundings,
    ) {
        let kept = |name: &str| former.and_then(|former| former.get("properties")?.get(name)).cloned();
        let decided = match self {
            Self::LoadBalancer | Self::Vault => Vec::new(),
            // A zone keeps its name server for as long as it exists, and shares it with none: another zone of the same name
            // is another zone, which only a delegation that names this server leads to.
            Self::DnsZone => {
                let server = || {
                    let (number, ..) = Uuid::new_v4().as_fields();
                    json!([format!("ns-{number:08x}.{}.", surroundings.domain)])
                };
                vec![("nameServers", kept("nameServers").unwrap_or_else(server))]
            }
            Self::RecordSet(_) => vec![("fqdn", json!(host(id)))],
            Self::PublicAddress => vec![("ipAddress", json!(surroundings.gateway))],
            // An identity keeps its ids for as long as it exists.
            Self::Identity => ["clientId", "principalId"]
                .map(|name| (name, kept(name).unwrap_or_else(|| json!(Uuid::new_v4()))))
                .into(),
            Self::Secret => vault::decided(id, kept("attributes").as_ref(), surroundings.clock.now()).into(),
        };
        let properties = body.entry("properties").or_insert_with(|| json!({}));
        if let Value::Object(properties) = properties {
            properties.extend(decided.into_iter().map(|(name, value)| (name.to_owned(), value)));
            properties.insert("provisioningState".to_owned(), json!("Succeeded"));
        }
    }
}

/// The name of the zone that a record set is in.
fn zone_name(id: &ResourceId) -> String {
    id.parent().as_ref().map(ResourceId::name).unwrap_or_default().to_owned()
}

/// The whole name that a record set is of.
fn host(id: &ResourceId) -> String {
    let zone = zone_name(id);
    if id.name() == APEX { format!("{zone}.") } else { format!("{}.{zone}.", id.name()) }
}
