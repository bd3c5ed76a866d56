use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use rcgen::SanType;
use x509_parser::extensions::GeneralName;

/// A name under which a certificate's holder may be reached or recognised.
///
/// Ordered, so that a set of them reads the same in every log line. DNS names are lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AlternativeName {
    /// A host name; the first label may be `*`.
    Dns(String),
    /// An address.
    Ip(IpAddr),
    /// An identifier such as `spiffe://region/service/frontend`.
    Uri(String),
}

/// A text that may not stand in a certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not usable: {reason}", .name.escape_debug())]
pub struct InvalidName {
    /// The text.
    pub name: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl AlternativeName {
    /// A host name, in any case; `*.` is allowed in front.
    pub fn dns(name: impl AsRef<str>) -> Result<Self, InvalidName> {
        let name = name.as_ref();
        let invalid = |reason| InvalidName { name: name.to_owned(), reason };
        let host = name.strip_prefix("*.").unwrap_or(name);
        if host.is_empty() || name.len() > 253 {
            return Err(invalid("a DNS name has 1 to 253 characters"));
        }
        for label in host.split('.') {
            if label.is_empty() || label.len() > 63 {
                return Err(invalid("every label of a DNS name has 1 to 63 characters"));
            }
            if label.starts_with('-') || label.ends_with('-') {
                return Err(invalid("no label of a DNS name starts or ends with a hyphen"));
            }
            if !label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
                return Err(invalid("labels of a DNS name consist of letters, digits and hyphens"));
            }
        }
        // Verifiers read such a name as a mistyped address and refuse the whole certificate.
        if host.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit())) {
            return Err(invalid("the last label of a DNS name is not a number"));
        }
        Ok(Self::Dns(name.to_ascii_lowercase()))
    }

    /// An identifier with a scheme.
    pub fn uri(uri: impl Into<String>) -> Result<Self, InvalidName> {
        let name = uri.into();
        let scheme = name.split_once(':').map_or("", |(scheme, _)| scheme);
        let reason = if !scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            || !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        {
            "a URI starts with a scheme and a colon"
        } else if name.len() > 2048 || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            "a URI has at most 2048 printable ASCII characters and no spaces"
        } else {
            return Ok(Self::Uri(name));
        };
        Err(InvalidName { name, reason })
    }

    pub(crate) fn to_rcgen(&self) -> Result<SanType, InvalidName> {
        let invalid = |name: &str| InvalidName { name: name.to_owned(), reason: "it is not ASCII" };
        Ok(match self {
            Self::Dns(name) => SanType::DnsName(name.as_str().try_into().map_err(|_| invalid(name))?),
            Self::Ip(address) => SanType::IpAddress(*address),
            Self::Uri(uri) => SanType::URI(uri.as_str().try_into().map_err(|_| invalid(uri))?),
        })
    }

    /// What a certificate or request carries; `None` for kinds of names that mean nothing here (mail, directory).
    pub(crate) fn read(name: &GeneralName<'_>) -> Option<Self> {
        match name {
            GeneralName::DNSName(name) => Some(Self::Dns(name.to_ascii_lowercase())),
            GeneralName::URI(uri) => Some(Self::Uri((*uri).to_owned())),
            GeneralName::IPAddress(octets) => match *octets {
                [a, b, c, d] => Some(Self::Ip([*a, *b, *c, *d].into())),
                octets => <[u8; 16]>::try_from(octets).ok().map(|octets| Self::Ip(octets.into())),
            },
            _ => None,
        }
    }

    /// Whether the name could also have been asked for; what a peer sends may hold anything.
    pub(crate) fn validated(self) -> Result<Self, InvalidName> {
        match self {
            Self::Dns(name) => Self::dns(name),
            Self::Uri(uri) => Self::uri(uri),
            Self::Ip(_) => Ok(self),
        }
    }
}

impl From<IpAddr> for AlternativeName {
    fn from(address: IpAddr) -> Self {
        Self::Ip(address)
    }
}

/// An address if it is one, a URI if it contains `:`, a host name otherwise.
impl FromStr for AlternativeName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        match text.parse::<IpAddr>() {
            Ok(address) => Ok(Self::Ip(address)),
            Err(_) if text.contains(':') => Self::uri(text),
            Err(_) => Self::dns(text),
        }
    }
}

impl fmt::Display for AlternativeName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) => formatter.write_str(name),
            Self::Ip(address) => address.fmt(formatter),
            Self::Uri(uri) => formatter.write_str(uri),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_the_kind_of_name_they_look_like() {
        for (text, expected) in [
            ("API.first.Pilothouse.test", AlternativeName::Dns("api.first.pilothouse.test".into())),
            ("*.apps.pilothouse.test", AlternativeName::Dns("*.apps.pilothouse.test".into())),
            ("127.0.0.1", AlternativeName::Ip([127, 0, 0, 1].into())),
            ("::1", AlternativeName::Ip("::1".parse().unwrap())),
            ("spiffe://region/frontend", AlternativeName::Uri("spiffe://region/frontend".into())),
        ] {
            assert_eq!(text.parse::<AlternativeName>().unwrap(), expected);
        }
    }

    #[test]
    fn names_a_verifier_would_stumble_over_are_refused() {
        for text in [
            "",
            ".",
            "*.",
            "a..b",
            "-a.b",
            "a-.b",
            "a_b",
            "a b",
            "a.*.b",
            "*",
            "ä.test",
            "1.2.3",
            "a.test.",
            "256.1.1.1",
            ":x",
            "1x://a",
            "spiffe://a b",
            "a\0.test",
        ] {
            assert!(text.parse::<AlternativeName>().is_err(), "`{text}` was accepted");
        }
        assert!(AlternativeName::dns("a".repeat(64)).is_err());
        assert!(AlternativeName::dns(format!("{}a", "abcd.".repeat(51))).is_err());
    }
}
