//! Addresses that are nobody's on the internet: machines' own, neighbours', a cloud's own services, and those that are another
//! address in disguise.
//!
//! An allowed name says where somebody wants to go; who answers for that name decides where that is. Without this list,
//! whoever has an allowed name has the region's own network.

use std::net::IpAddr;
use std::sync::LazyLock;

use crate::range::Range;

static RESERVED: LazyLock<Vec<Range>> = LazyLock::new(|| {
    let ranges = [
        // This network, loopback, link-local (where clouds keep the credentials of machines).
        "0.0.0.0/8",
        "127.0.0.0/8",
        "169.254.0.0/16",
        // Private networks, and what carriers share.
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",
        // Protocols, documentation, benchmarks, relays, multicast, and what was never given to anybody.
        "192.0.0.0/24",
        "192.0.2.0/24",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "198.18.0.0/15",
        "192.88.99.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        // What Azure's machines ask about themselves.
        "168.63.129.16/32",
        // The same of IPv6.
        "::/128",
        "::1/128",
        "fe80::/10",
        "fec0::/10",
        "fc00::/7",
        "ff00::/8",
        "100::/64",
        "2001:db8::/32",
        "3fff::/20",
        // IPv4 in disguise: compatible, translated (twice), 6to4 and Teredo. What is merely mapped is looked at as what it is.
        "::/96",
        "::ffff:0:0:0/96",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "2002::/16",
        "2001::/32",
    ];
    ranges.iter().flat_map(|range| range.parse()).collect()
});

/// Whether nobody on the internet has this address.
pub(super) fn is_reserved(address: IpAddr) -> bool {
    Range::any(&RESERVED, address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_and_neighbouring_addresses_are_reserved_in_every_disguise() {
        for address in [
            "127.0.0.1",
            "0.0.0.0",
            "10.1.2.3",
            "172.31.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "168.63.129.16",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd12::1",
            "ff02::1",
            "::ffff:10.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:0:a00:1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "2001:0:a00:1::",
            "::7f00:1",
        ] {
            assert!(is_reserved(address.parse().unwrap()), "{address}");
        }
        for address in ["8.8.8.8", "20.50.2.1", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8"] {
            assert!(!is_reserved(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn every_range_of_the_list_was_read() {
        assert_eq!(RESERVED.len(), 31);
    }
}
