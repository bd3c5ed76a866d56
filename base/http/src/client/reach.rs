//! Where a client may go that is told addresses by strangers.
//!
//! A name is looked at after it was resolved, and connected to at the very addresses that were looked at, so that an
//! answer that changes between the two is of no use to anybody.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// Resolves names to addresses on the internet, and to no others.
#[derive(Clone, Copy, Debug)]
pub(super) struct PublicResolver;

/// A name that leads nowhere on the internet.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` leads to no address outside of this network, and no other may be called")]
struct Inside(String);

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            // The port is put in by whoever connects.
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|address| is_public(address.ip())).collect();
            if public.is_empty() {
                return Err(Inside(name.as_str().to_owned()).into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

/// Addresses that are written as such are not resolved, so they are looked at here.
pub(super) fn check(url: &Url) -> Result<(), io::Error> {
    let inside = match url.host() {
        Some(Host::Ipv4(address)) => !is_public(address.into()),
        Some(Host::Ipv6(address)) => !is_public(address.into()),
        Some(Host::Domain(_)) | None => false,
    };
    if inside { Err(io::Error::other(Inside(url.host_str().unwrap_or_default().to_owned()))) } else { Ok(()) }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let shared = a == 100 && (64..128).contains(&b);
    let protocols = (a, b, c) == (192, 0, 0);
    let benchmarks = a == 198 && (18..20).contains(&b);
    !(a == 0
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_multicast()
        || shared
        || protocols
        || benchmarks
        // Reserved, and the broadcast address.
        || a >= 240)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let [.., high, low] = segments;
    let last = || Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match segments {
        // An address of the old kind in the new one's clothes: mapped, compatible, translated, 6to4.
        [0, 0, 0, 0, 0, 0xffff | 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => is_public_v4(last()),
        [0x2002, high, low, ..] => is_public_v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))),
        // Tunnels whose end is not to be seen, and what is only for documents.
        [0x2001, 0 | 0xdb8, ..] => false,
        // Only this part is given out; the rest is unique-local, link-local, site-local, multicast or reserved.
        [first, ..] => (0x2000..0x4000).contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        for address in
            ["8.8.8.8", "100.63.0.1", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
        {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.168.1.1",
            "198.18.0.1",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2001:db8::1",
            "2001:0:1::",
            "2002:a00:1::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn an_address_is_looked_at_however_it_is_written() {
        for host in ["127.1", "0x7f000001", "2130706433", "0177.0.0.1", "[::1]", "[::ffff:7f00:1]"] {
            let url: Url = format!("https://{host}/").parse().unwrap();
            assert!(check(&url).is_err(), "{host}");
        }
        for host in ["8.8.8.8", "[2606:4700::1111]", "a-name.test"] {
            let url: Url = format!("https://{host}/").parse().unwrap();
            assert!(check(&url).is_ok(), "{host}");
        }
    }
}
