//! What a path names.

use pilothouse_arm::ResourceId;
use pilothouse_store::{DocumentId, Partition};

use crate::refusal::Refusal;
use crate::vault;

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// All groups of a subscription.
    Groups { subscription: String },
    /// Everything in the groups of a subscription, or everything of one type.
    Content { subscription: String, kind: Option<String> },
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
    /// What a secret says, of one version or of the newest.
    Secret { vault: ResourceId, name: String, version: Option<String> },
}

/// The longest key of a group: things are found by it.
const LONGEST_GROUP: usize = 512;

impl Target {
    pub(crate) fn of(path: &str) -> Result<Self, Refusal> {
        match path.strip_prefix(vault::ADDRESSES) {
            Some(path) if path.starts_with('/') => Self::of_secret(&segments(path)?),
            _ => Self::of_resource(&segments(path)?),
        }
    }

    fn of_resource(segments: &[String]) -> Result<Self, Refusal> {
        let is = |index: usize, word: &str| {
            segments.get(index).is_some_and(|segment| segment.eq_ignore_ascii_case(word))
        };
        if !is(0, "subscriptions") {
            return Err(Refusal::NoSuchPath);
        }
        if let [_, subscription, rest @ ..] = segments {
            let subscription = subscription.to_lowercase();
            check_subscription(&subscription)?;
            match rest {
                [_] if is(2, "resourceGroups") => return Ok(Self::Groups { subscription }),
                [_] if is(2, "resources") => return Ok(Self::Content { subscription, kind: None }),
                [_, provider, kind] if is(2, "providers") => {
                    return Ok(Self::Content { subscription, kind: Some(format!("{provider}/{kind}")) });
                }
                _ => {}
            }
        }
        if !is(2, "resourceGroups") {
            return Err(Refusal::NoSuchPath);
        }
        let id = |count: usize| id(&segments[..count]);
        let group = id(4)?;
        if group.key().len() > LONGEST_GROUP {
            return Err(Refusal::Path(format!("an id of a group has at most {LONGEST_GROUP} bytes")));
        }
        match segments.len() {
            4 => Ok(Self::Group(group)),
            5 if is(4, "resources") => Ok(Self::GroupContent(group)),
            7 if is(4, "providers") => {
                Ok(Self::OfType { group, kind: format!("{}/{}", segments[5], segments[6]) })
            }
            count if is(4, "providers") && count > 7 && count % 2 == 1 => {
                Ok(Self::Below { parent: id(count - 1)?, kind: segments[count - 1].clone() })
            }
            count if is(4, "providers") => Ok(Self::Resource { group, id: id(count)? }),
            _ => Err(Refusal::NoSuchPath),
        }
    }

    fn of_secret(segments: &[String]) -> Result<Self, Refusal> {
        let Some((vault, secret)) = segments.split_at_checked(8) else { return Err(Refusal::NoSuchPath) };
        let vault = id(vault)?;
        match secret {
            [word, name, version @ ..]
                if word == "secrets" && version.len() <= 1 && vault.is_a(vault::VAULTS) =>
            {
                Ok(Self::Secret { vault, name: name.clone(), version: version.first().cloned() })
            }
            _ => Err(Refusal::NoSuchPath),
        }
    }
}

/// The parts of a path, as they are called and not as they are written in an address.
fn segments(path: &str) -> Result<Vec<String>, Refusal> {
    let segments = path.split('/').filter(|segment| !segment.is_empty());
    segments.map(|segment| decoded(segment).ok_or(Refusal::NoSuchPath)).collect()
}

/// A part of a path without its percent signs; none if that is no text, or no part of a path.
fn decoded(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            bytes.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('/'))
}

/// An id that can be kept.
fn id(segments: &[String]) -> Result<ResourceId, Refusal> {
    let id: ResourceId = format!("/{}", segments.join("/")).parse().map_err(|_| Refusal::NoSuchPath)?;
    check_subscription(&id.subscription_name().to_lowercase())?;
    DocumentId::try_new(id.key()).map_err(|error| Refusal::Path(error.to_string()))?;
    Ok(id)
}

fn check_subscription(name: &str) -> Result<(), Refusal> {
    Partition::try_new(name).map(drop).map_err(|error| Refusal::Path(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_groups_and_what_is_in_them_in_any_case() {
        let group: ResourceId = "/subscriptions/s/resourceGroups/g".parse().unwrap();
        let zone: ResourceId = format!("{group}/providers/Microsoft.Network/dnsZones/a.b").parse().unwrap();
        let vault: ResourceId = format!("{group}/providers/Microsoft.KeyVault/vaults/v").parse().unwrap();
        for (path, expected) in [
            ("/Subscriptions/S/resourcegroups", Some(Target::Groups { subscription: "s".into() })),
            ("/subscriptions/S/resources", Some(Target::Content { subscription: "s".into(), kind: None })),
            (
                "/subscriptions/s/providers/Microsoft.Network/dnsZones",
                Some(Target::Content {
                    subscription: "s".into(),
                    kind: Some("Microsoft.Network/dnsZones".into()),
                }),
            ),
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
            (
                "/keyvault/subscriptions/s/resourceGroups/g/providers/microsoft.keyvault/Vaults/v/secrets/a/1",
                Some(Target::Secret { vault, name: "a".into(), version: Some("1".into()) }),
            ),
            ("/keyvault/subscriptions/s/resourceGroups/g/providers/Microsoft.KeyVault/vaults/v", None),
            (
                "/keyvault/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/dnsZones/v/secrets/a",
                None,
            ),
            ("/keyvaults", None),
            ("/", None),
            ("/subscriptions/s", None),
            ("/subscriptions/s/resourceGroups/g/providers/Microsoft.Network", None),
            ("/subscriptions/s/resourceGroups/g/providers", None),
            ("/subscriptions/s/resourceGroups/g/other", None),
        ] {
            assert_eq!(Target::of(path).ok(), expected, "{path}");
        }
    }

    #[test]
    fn names_are_what_they_are_called_and_not_how_they_are_written() {
        let group = |name: &str| Target::of(&format!("/subscriptions/s/resourceGroups/{name}"));
        let called: ResourceId = "/subscriptions/s/resourceGroups/Größe (1)".parse().unwrap();
        assert_eq!(group("Gr%C3%B6%c3%9Fe%20(1)").ok(), Some(Target::Group(called)));
        for odd in ["%", "%4", "%zz", "%ff", "a%2Fb", "a%25", "%00", "%3F"] {
            assert!(matches!(group(odd), Err(Refusal::NoSuchPath)), "{odd}");
        }
    }

    #[test]
    fn what_is_too_long_to_be_kept_is_said_to_be_so() {
        let [subscription, group, name] = [257, 512, 1024].map(|length| "x".repeat(length));
        for path in [
            format!("/subscriptions/{subscription}/resources"),
            format!("/subscriptions/{subscription}/resourceGroups/g"),
            format!("/subscriptions/s/resourceGroups/{group}"),
            format!("/subscriptions/s/resourceGroups/g/providers/N/types/{name}"),
            format!("/keyvault/subscriptions/s/resourceGroups/g/providers/N/types/{name}/secrets/a"),
        ] {
            assert!(matches!(Target::of(&path), Err(Refusal::Path(_))), "{path}");
        }
    }
}
