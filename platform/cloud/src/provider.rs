//! The types of resources there are, and what each adds to what was put.

use serde_json::{Map, Value, json};
use uuid::Uuid;

/// What a resource of this type has beside what was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    DnsZone,
    LoadBalancer,
    Identity,
}

const KINDS: [(&str, Kind); 3] = [
    ("Microsoft.Network/dnsZones", Kind::DnsZone),
    ("Microsoft.Network/loadBalancers", Kind::LoadBalancer),
    ("Microsoft.ManagedIdentity/userAssignedIdentities", Kind::Identity),
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

    /// Fills in what the cloud decides, and keeps what it decided before.
    pub(crate) fn complete(self, body: &mut Map<String, Value>, former: Option<&Map<String, Value>>) {
        let decided = match self {
            Self::DnsZone | Self::LoadBalancer => Map::new(),
            Self::Identity => identity(former),
        };
        let properties = body.entry("properties").or_insert_with(|| json!({}));
        if let Value::Object(properties) = properties {
            properties.extend(decided);
            properties.insert("provisioningState".to_owned(), json!("Succeeded"));
        }
    }
}

/// An identity keeps its ids for as long as it exists.
fn identity(former: Option<&Map<String, Value>>) -> Map<String, Value> {
    let kept = |name: &str| former.and_then(|former| former.get("properties")?.get(name)).cloned();
    ["clientId", "principalId"]
        .into_iter()
        .map(|name| (name.to_owned(), kept(name).unwrap_or_else(|| json!(Uuid::new_v4()))))
        .collect()
}
