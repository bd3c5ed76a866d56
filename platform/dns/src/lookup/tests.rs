use serde_json::json;

use super::*;
use crate::directory::tests::{BASE, FIRST, address, change, delegation, directory, set, zone};
use crate::zone::parse;

/// A zone of the same name, of somebody else.
const FALSE: &str =
    "/subscriptions/2/resourceGroups/evil/providers/Microsoft.Network/dnsZones/first.pilothouse.test";

fn region() -> Directory {
    directory(vec![
        zone(BASE, "ns-0"),
        delegation("first", "ns-1.pilothouse.test."),
        delegation("away", "ns.away"),
        delegation("far", "ns.far.pilothouse.test"),
        address(BASE, "ns.far", "192.0.2.1"),
        address(BASE, "deep.below", "127.0.0.2"),
        address(BASE, "*.many", "127.0.0.3"),
        zone(FIRST, "ns-1"),
        address(FIRST, "api", "127.0.0.1"),
        set(FIRST, "AAAA", "api", json!({"AAAARecords": [{"ipv6Address": "::1"}]})),
        set(FIRST, "TXT", "@", json!({"TXTRecords": [{"value": ["hello"]}]})),
        set(FIRST, "CNAME", "console", json!({"CNAMERecord": {"cname": "API.first.pilothouse.test"}})),
        set(FIRST, "CNAME", "outside", json!({"CNAMERecord": {"cname": "www.example.org."}})),
        set(FIRST, "CNAME", "nowhere", json!({"CNAMERecord": {"cname": "no.first.pilothouse.test"}})),
        set(FIRST, "CNAME", "round", json!({"CNAMERecord": {"cname": "round.first.pilothouse.test"}})),
        zone(FALSE, "ns-9"),
        address(FALSE, "api", "203.0.113.6"),
        address(FALSE, "only-here", "203.0.113.6"),
    ])
}

fn ask(name: &str, kind: RecordType) -> Answer {
    region().answer(&parse(name).unwrap(), kind)
}

fn shown(records: &[Record]) -> Vec<String> {
    records.iter().map(|record| format!("{} {} {}", record.name, record.record_type(), record.data)).collect()
}

fn found(name: &str, kind: RecordType) -> Vec<String> {
    let answer = ask(name, kind);
    assert_eq!((answer.code, answer.authoritative), (ResponseCode::NoError, true), "{name}");
    shown(&answer.answers)
}

#[test]
fn names_of_clusters_are_found_in_the_zone_that_is_delegated_to() {
    let name = "api.first.pilothouse.test";
    assert_eq!(found(name, RecordType::A), [format!("{name}. A 127.0.0.1")]);
    assert_eq!(found(name, RecordType::AAAA), [format!("{name}. AAAA ::1")]);
    assert_eq!(found(name, RecordType::ANY).len(), 2);
    let capital = "API.First.Pilothouse.Test";
    assert_eq!(found(capital, RecordType::A), [format!("{capital}. A 127.0.0.1")], "as it was asked for");
    let servers = ask("first.pilothouse.test", RecordType::NS);
    assert_eq!(shown(&servers.answers), ["first.pilothouse.test. NS ns-1.pilothouse.test."]);
    assert_eq!(shown(&servers.additional), ["ns-1.pilothouse.test. A 127.0.0.1"]);
    assert!(servers.authoritative, "the cluster's zone answers for itself");
    assert_eq!(found("ns-1.pilothouse.test", RecordType::A), ["ns-1.pilothouse.test. A 127.0.0.1"]);
    assert_eq!(found("first.pilothouse.test", RecordType::SOA).len(), 1);
    assert_eq!(found("x.y.many.pilothouse.test", RecordType::A), ["x.y.many.pilothouse.test. A 127.0.0.3"]);
    assert_eq!(ask("only-here.first.pilothouse.test", RecordType::A).code, ResponseCode::NXDomain);
}

#[test]
fn what_does_not_exist_is_told_from_what_has_no_such_record() {
    for (name, kind) in [
        ("api.first.pilothouse.test", RecordType::TXT),
        ("first.pilothouse.test", RecordType::A),
        ("pilothouse.test", RecordType::A),
        ("below.pilothouse.test", RecordType::A),
        ("first.pilothouse.test", RecordType::DS),
        ("ns-1.pilothouse.test", RecordType::AAAA),
    ] {
        let answer = ask(name, kind);
        assert_eq!((answer.code, answer.answers.len()), (ResponseCode::NoError, 0), "{name}");
        assert_eq!(answer.authority[0].record_type(), RecordType::SOA, "{name}");
    }
    let above = ask("first.pilothouse.test", RecordType::DS);
    assert_eq!(
        above.authority[0].name,
        parse("pilothouse.test").unwrap(),
        "a delegation is guarded above it"
    );
    for (name, zone) in [
        ("no.first.pilothouse.test", "first.pilothouse.test"),
        ("x.api.first.pilothouse.test", "first.pilothouse.test"),
        ("second.pilothouse.test", "pilothouse.test"),
        ("api.second.pilothouse.test", "pilothouse.test"),
    ] {
        let answer = ask(name, RecordType::A);
        assert_eq!((answer.code, answer.authoritative), (ResponseCode::NXDomain, true), "{name}");
        assert_eq!(answer.authority[0].name, parse(zone).unwrap(), "{name}");
    }
    for other in ["example.org", "test", "xpilothouse.test"] {
        let answer = ask(other, RecordType::A);
        assert_eq!((answer.code, answer.authority.len()), (ResponseCode::Refused, 0), "{other}");
    }
    assert_eq!(region().answer(&Name::root(), RecordType::NS).code, ResponseCode::Refused);
}

#[test]
fn names_that_others_answer_for_lead_to_them() {
    let answer = ask("www.far.pilothouse.test", RecordType::A);
    assert_eq!((answer.code, answer.authoritative, answer.answers.len()), (ResponseCode::NoError, false, 0));
    assert_eq!(shown(&answer.authority), ["far.pilothouse.test. NS ns.far.pilothouse.test."]);
    assert_eq!(shown(&answer.additional), ["ns.far.pilothouse.test. A 192.0.2.1"]);
    // Below a delegation nothing is said by who delegates.
    assert!(!ask("ns.far.pilothouse.test", RecordType::A).authoritative);
    assert_eq!(
        shown(&ask("away.pilothouse.test", RecordType::A).authority),
        ["away.pilothouse.test. NS ns.away."]
    );
}

#[test]
fn names_for_other_names_are_followed_as_far_as_they_are_ours() {
    let alias = |name: &str, target: &str| format!("{name}.first.pilothouse.test. CNAME {target}.");
    let console = alias("console", "API.first.pilothouse.test");
    assert_eq!(
        found("console.first.pilothouse.test", RecordType::A),
        [console.clone(), "API.first.pilothouse.test. A 127.0.0.1".to_owned()]
    );
    assert_eq!(found("console.first.pilothouse.test", RecordType::CNAME), std::slice::from_ref(&console));
    assert_eq!(found("console.first.pilothouse.test", RecordType::TXT), [console]);
    assert_eq!(found("outside.first.pilothouse.test", RecordType::A), [alias("outside", "www.example.org")]);
    let nowhere = ask("nowhere.first.pilothouse.test", RecordType::A);
    assert_eq!((nowhere.code, nowhere.answers.len()), (ResponseCode::NXDomain, 1));
    assert_eq!(found("round.first.pilothouse.test", RecordType::A).len(), CHAIN);
}

#[test]
fn a_cluster_that_goes_takes_its_names_along() {
    let mut region = region();
    let name = parse("api.first.pilothouse.test").unwrap();
    let serial = |region: &Directory| region.base().unwrap().serial;
    assert_eq!(serial(&region), 7);
    change(&mut region, delegation("first", "ns-1.pilothouse.test."), false);
    let gone = region.answer(&name, RecordType::A);
    assert_eq!((gone.code, serial(&region)), (ResponseCode::NXDomain, 8));
    // And whoever is delegated to next is the one that is asked.
    change(&mut region, delegation("first", "ns-9.pilothouse.test."), true);
    let other = region.answer(&name, RecordType::A);
    assert_eq!(shown(&other.answers), ["api.first.pilothouse.test. A 203.0.113.6"]);
}
