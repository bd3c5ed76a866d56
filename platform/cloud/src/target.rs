//! What a path names.

use pilothouse_arm::ResourceId;

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// All groups of a subscription.
    Groups { subscription: String },
    /// One group.
    Group(ResourceId),
    /// Everything in a group.
    GroupContent(ResourceId),
    /// Everything of one type in a group.
    OfType { group: ResourceId, kind: String },
    /// One resource in a group.
    Resource { group: ResourceId, id: ResourceId },
    /// Everything of one type below a resource: `…/dnsZones/first.pilothouse.test/A`.
    Below { parent: ResourceId, kind: String },
}

impl Target {
    /// `None` for what is no path of the resource manager.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let is = |index: usize, word: &str| {
            segments.get(index).is_some_and(|segment| segment.eq_ignore_ascii_case(word))
        };
        if !is(0, "subscriptions") || !is(2, "resourceGroups") {
            return None;
        }
        if segments.len() == 3 {
            return Some(Self::Groups { subscription: segments[1].to_lowercase() });
        }
        let joined = |count: usize| format!("/{}", segments[..count].join("/")).parse::<ResourceId>().ok();
        let group = joined(4)?;
        match segments.len() {
            4 => Some(Self::Group(group)),
            5 if is(4, "resources") => Some(Self::GroupContent(group)),
            7 if is(4, "providers") => {
                Some(Self::OfType { group, kind: format!("{}/{}", segments[5], segments[6]) })
            }
            count if is(4, "providers") && count > 7 && count % 2 == 1 => {
                Some(Self::Below { parent: joined(count - 1)?, kind: segments[count - 1].to_owned() })
            }
            count if is(4, "providers") => Some(Self::Resource { group, id: joined(count)? }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_groups_and_what_is_in_them_in_any_case() {
        let group: ResourceId = "/subscriptions/s/resourceGroups/g".parse().unwrap();
        let zone: ResourceId = format!("{group}/providers/Microsoft.Network/dnsZones/a.b").parse().unwrap();
        for (path, expected) in [
            ("/Subscriptions/S/resourcegroups", Some(Target::Groups { subscription: "s".into() })),
            ("/subscriptions/S/resourcegroups/G/", Some(Target::Group(group.clone()))),
            ("/subscriptions/s/resourceGroups/g/resources", Some(Target::GroupContent(group.clone()))),
            (
                "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/dnsZones",
                Some(Target::OfType { group: group.clone(), kind: "Microsoft.Network/dnsZones".into() }),
            ),
            (
                "/subscriptions/s/resourceGroups/g/providers/microsoft.network/dnszones/a.b",
                Some(Target::Resource { group: group.clone(), id: zone.clone() }),
            ),
            (
                "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/dnsZones/a.b/A/api",
                Some(Target::Resource { group, id: zone.child("A", "api") }),
            ),
            (
                "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/dnsZones/a.b/recordsets",
                Some(Target::Below { parent: zone, kind: "recordsets".into() }),
            ),
            ("/", None),
            ("/subscriptions/s", None),
            ("/subscriptions/s/resourceGroups/g/providers/Microsoft.Network", None),
            ("/subscriptions/s/resourceGroups/g/providers", None),
            ("/subscriptions/s/resourceGroups/g/other", None),
        ] {
            assert_eq!(Target::of(path), expected, "{path}");
        }
    }
}
