use std::net::Ipv4Addr;

use serde_json::json;

use super::*;

pub(crate) const BASE: &str =
    "/subscriptions/0/resourceGroups/region/providers/Microsoft.Network/dnsZones/pilothouse.test";
pub(crate) const FIRST: &str =
    "/subscriptions/1/resourceGroups/managed/providers/Microsoft.Network/dnsZones/first.pilothouse.test";

pub(crate) fn id(text: &str) -> ResourceId {
    text.parse().unwrap()
}

pub(crate) fn zone(zone: &str, server: &str) -> (ResourceId, Value) {
    (id(zone), json!({"properties": {"nameServers": [format!("{server}.pilothouse.test.")]}}))
}

pub(crate) fn set(zone: &str, kind: &str, name: &str, mut properties: Value) -> (ResourceId, Value) {
    properties["TTL"] = json!(60);
    (id(zone).child(kind, name), json!({"properties": properties}))
}

pub(crate) fn address(zone: &str, name: &str, address: &str) -> (ResourceId, Value) {
    set(zone, "A", name, json!({"ARecords": [{"ipv4Address": address}]}))
}

pub(crate) fn delegation(name: &str, server: &str) -> (ResourceId, Value) {
    set(BASE, "NS", name, json!({"NSRecords": [{"nsdname": server}]}))
}

pub(crate) fn directory(resources: Vec<(ResourceId, Value)>) -> Directory {
    let mut directory = Directory::new(&id(BASE), vec![Ipv4Addr::LOCALHOST.into()]);
    directory.take(&News::Everything { resources, serial: 7 });
    directory
}

pub(crate) fn change(directory: &mut Directory, (id, resource): (ResourceId, Value), is_there: bool) {
    let changes = vec![Change { id, resource: is_there.then_some(resource) }];
    directory.take(&News::Changes { changes, serial: 8 });
}

#[test]
fn what_goes_leaves_no_trace() {
    let zones = vec![zone(BASE, "ns-0"), zone(FIRST, "ns-1"), address(FIRST, "api", "127.0.0.1")];
    let mut directory = directory(zones);
    assert_eq!((directory.zones.len(), directory.by_name.len(), directory.by_server.len()), (2, 2, 2));
    // Zone and records are gone in one transaction, in any order.
    change(&mut directory, zone(FIRST, "ns-1"), false);
    change(&mut directory, address(FIRST, "api", "127.0.0.1"), false);
    assert_eq!((directory.zones.len(), directory.by_name.len(), directory.by_server.len()), (1, 1, 1));
    // A zone that is put again keeps its records; its servers may be others.
    change(&mut directory, address(BASE, "www", "127.0.0.1"), true);
    change(&mut directory, zone(BASE, "ns-2"), true);
    assert!(directory.is_server(&crate::zone::parse("ns-2.pilothouse.test").unwrap()));
    assert!(!directory.is_server(&crate::zone::parse("ns-0.pilothouse.test").unwrap()));
    assert!(directory.base().unwrap().node(&crate::zone::parse("www.pilothouse.test").unwrap()).is_some());
    // What cannot be read is as good as gone.
    change(&mut directory, set(BASE, "A", "www", json!({})), true);
    assert!(directory.base().unwrap().node(&crate::zone::parse("www.pilothouse.test").unwrap()).is_none());
}
