//! Where a cluster may go.
//!
//! | written | means |
//! |---|---|
//! | `registry.example.com` | that host, port 443 |
//! | `registry.example.com:5000` | the same on another port |
//! | `*.blob.example.com` | every name below that one, and not that one |
//! | `10.1.0.0/16`, `10.1.2.3:8443` | that address or range: asked for as such, or what an allowed name resolves to |

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::range::Range;

/// The port of what does not say otherwise.
const HTTPS: u16 = 443;

/// One host, family of hosts or range of addresses, with a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Permission {
    to: To,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum To {
    Host(String),
    /// With its leading dot.
    Below(String),
    Range(Range),
}

/// What is no permission.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no host and no range of addresses; write it as registry.example.com, *.example.com, example.com:8443 or 10.0.0.0/8"
)]
pub struct NoPermission(String);

// === impl Permission ===

impl Permission {
    /// Whether this host may be asked for on this port.
    pub(super) fn names(&self, host: &str, port: u16) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.port == port
            && match &self.to {
                To::Host(name) => *name == host,
                To::Below(suffix) => host.len() > suffix.len() && host.ends_with(suffix),
                To::Range(range) => host.parse::<IpAddr>().is_ok_and(|address| range.contains(address)),
            }
    }

    /// Whether this very address is listed with this port.
    pub(super) fn lists(&self, address: IpAddr, port: u16) -> bool {
        self.port == port && matches!(&self.to, To::Range(range) if range.contains(address))
    }
}

impl FromStr for Permission {
    type Err = NoPermission;

    fn from_str(text: &str) -> Result<Self, NoPermission> {
        let (to, port) = match text.parse() {
            Ok(range) => (To::Range(range), HTTPS),
            Err(_) => {
                let (host, port) = match text.rsplit_once(':') {
                    Some((host, port)) => (host, port.parse().ok().filter(|port| *port != 0)),
                    None => (text, Some(HTTPS)),
                };
                let port = port.ok_or_else(|| NoPermission(text.to_owned()))?;
                let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
                (destination(host).ok_or_else(|| NoPermission(text.to_owned()))?, port)
            }
        };
        Ok(Self { to, port })
    }
}

fn destination(host: &str) -> Option<To> {
    if let Ok(range) = host.parse() {
        return Some(To::Range(range));
    }
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let (below, name) = match host.strip_prefix("*.") {
        Some(name) => (true, name),
        None => (false, host.as_str()),
    };
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    if !name.split('.').all(is_label) {
        return None;
    }
    Some(if below { To::Below(format!(".{name}")) } else { To::Host(host) })
}

impl TryFrom<String> for Permission {
    type Error = NoPermission;

    fn try_from(text: String) -> Result<Self, NoPermission> {
        text.parse()
    }
}

impl From<Permission> for String {
    fn from(permission: Permission) -> Self {
        permission.to_string()
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.port;
        match &self.to {
            To::Host(host) => write!(formatter, "{host}:{port}"),
            To::Below(suffix) => write!(formatter, "*{suffix}:{port}"),
            To::Range(range) if range.to_string().contains(':') => write!(formatter, "[{range}]:{port}"),
            To::Range(range) => write!(formatter, "{range}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission(text: &str) -> Permission {
        text.parse().unwrap()
    }

    #[test]
    fn hosts_are_named_whole_or_by_what_they_are_below_and_with_their_port() {
        for (text, host, port, named) in [
            ("registry.example.com", "Registry.Example.com.", 443, true),
            ("registry.example.com", "registry.example.com", 80, false),
            ("registry.example.com", "evil-registry.example.com", 443, false),
            ("registry.example.com:5000", "registry.example.com", 5000, true),
            ("*.example.com", "a.b.example.com", 443, true),
            ("*.example.com", "example.com", 443, false),
            ("*.example.com", "badexample.com", 443, false),
            ("10.0.0.0/8", "10.1.2.3", 443, true),
            ("10.0.0.0/8:8443", "10.1.2.3", 8443, true),
            ("10.0.0.0/8", "ten.example.com", 443, false),
            ("[fd00::/8]:8443", "fd00::1", 8443, true),
        ] {
            assert_eq!(permission(text).names(host, port), named, "{text} {host}:{port}");
        }
    }

    #[test]
    fn what_is_written_is_read_again_and_nonsense_is_not() {
        for text in
            ["registry.example.com", "*.example.com:8443", "10.0.0.0/8", "fd00::/8", "[::1]:80", "::1"]
        {
            let read = permission(text);
            assert_eq!(permission(&read.to_string()), read, "{text}");
        }
        for text in
            ["", "*", "a..b", "a.*.b", "example.com:", "example.com:99999", "https://example.com", "a b"]
        {
            assert!(text.parse::<Permission>().is_err(), "{text}");
        }
    }
}
