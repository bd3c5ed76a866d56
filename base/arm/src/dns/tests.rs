use serde_json::json;

use super::*;

#[test]
fn record_sets_are_read_as_they_are_written() {
    for (kind, properties) in [
        (RecordKind::A, json!({"TTL": 60, "ARecords": [{"ipv4Address": "127.0.0.1"}]})),
        (RecordKind::Aaaa, json!({"TTL": 60, "AAAARecords": [{"ipv6Address": "::1"}]})),
        (
            RecordKind::Cname,
            json!({"TTL": 5, "CNAMERecord": {"cname": "a.example."}, "metadata": {"a": "b"}}),
        ),
        (
            RecordKind::Ns,
            json!({"TTL": 5, "NSRecords": [{"nsdname": "ns.example"}, {"nsdname": "b.example"}]}),
        ),
        (RecordKind::Txt, json!({"TTL": 5, "TXTRecords": [{"value": ["one", "two"]}]})),
    ] {
        let read = RecordSet::read(kind, &properties).unwrap();
        assert_eq!((read.data.kind(), read.properties()), (kind, properties));
    }
    // What the cloud added is no part of it.
    let shown =
        json!({"TTL": 5, "ARecords": [{"ipv4Address": "1.2.3.4"}], "fqdn": "a.", "provisioningState": "S"});
    assert!(RecordSet::read(RecordKind::A, &shown).is_ok());
}

#[test]
fn what_is_no_record_set_is_refused_with_its_place() {
    let address = json!([{"ipv4Address": "127.0.0.1"}]);
    for (kind, properties, target) in [
        (RecordKind::A, json!({"ARecords": address}), "properties.TTL"),
        (RecordKind::A, json!({"TTL": 0, "ARecords": address}), "properties.TTL"),
        (RecordKind::A, json!({"TTL": 5}), "properties.ARecords"),
        (RecordKind::Txt, json!({"TTL": 5, "ARecords": address}), "properties.ARecords"),
        (RecordKind::A, json!({"TTL": 5, "ARecords": [{"ipv4Address": "::1"}]}), "properties"),
        (RecordKind::Ns, json!({"TTL": 5, "NSRecords": [{"nsdname": "-.example"}]}), "properties.NSRecords"),
        (RecordKind::Cname, json!({"TTL": 5, "CNAMERecord": {"cname": "a..b"}}), "properties.CNAMERecord"),
        (RecordKind::Txt, json!({"TTL": 5, "TXTRecords": [{"value": []}]}), "properties.TXTRecords"),
        (
            RecordKind::Txt,
            json!({"TTL": 5, "TXTRecords": [{"value": ["x".repeat(256)]}]}),
            "properties.TXTRecords",
        ),
    ] {
        let refused = RecordSet::read(kind, &properties).unwrap_err();
        assert!(refused.to_string().starts_with(&format!("`{target}`")), "{refused}");
    }
}

#[test]
fn names_are_told_from_what_is_none() {
    for name in ["a", "a.b", "a.b.", "_http.a-b.c9"] {
        assert!(is_name(name), "{name}");
    }
    let long = "a".repeat(64);
    for other in ["", ".", "a..b", "-a", "a-", "a b", "*.a", long.as_str(), "ä.b"] {
        assert!(!is_name(other), "{other}");
    }
}

#[test]
fn names_in_a_zone_are_those_that_can_be_asked_for() {
    let is_name = |name: &str| is_relative_name(name, "first.pilothouse.test");
    for name in ["@", "*", "*.apps", "api", "_http.a"] {
        assert!(is_name(name), "{name}");
    }
    for other in ["", "a.*", "*.", "api.", "*.apps.", "@.a", "a..b"] {
        assert!(!is_name(other), "{other}");
    }
    // With the zone's own name behind them they are too long, or just not.
    let [zone, name] = [50, 63].map(|length| "x".repeat(length));
    let zone = [zone.as_str(); 4].join(".");
    assert_eq!(zone.len() + 1 + 49, 253);
    assert!(is_relative_name(&name[..49], &zone) && is_relative_name(&name[..49], &format!("{zone}.")));
    assert!(!is_relative_name(&name[..50], &zone) && is_relative_name("@", &zone));
    assert!(is_relative_name(&format!("*.{}", &name[..47]), &zone));
    assert!(!is_relative_name(&format!("*.{}", &name[..48]), &zone));
}

#[test]
fn ids_of_record_sets_name_their_zone_and_kind() {
    let zone: ResourceId =
        "/subscriptions/s/resourceGroups/g/providers/microsoft.network/dnszones/a.b".parse().unwrap();
    let set = zone.child("aaaa", "api");
    assert_eq!(RecordKind::of_id(&set), Some((zone.clone(), RecordKind::Aaaa)));
    assert_eq!(RecordKind::of_id(&zone), None);
    assert_eq!(RecordKind::of_id(&zone.child("MX", "api")), None);
    let other: ResourceId =
        "/subscriptions/s/resourceGroups/g/providers/Other/dnsZones/a.b/A/api".parse().unwrap();
    assert_eq!(RecordKind::of_id(&other), None);
}

#[test]
fn the_zone_of_a_region_is_a_zone() {
    let zone = region_zone("pilothouse.test");
    assert_eq!((zone.is_a(ZONES), zone.name()), (true, "pilothouse.test"));
    assert_eq!(zone.as_str().parse(), Ok(zone));
}
