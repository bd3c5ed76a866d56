use std::sync::Arc;

use pilothouse_informer::ObjectKey;
use serde_json::{Value, json};

use super::*;

fn directory() -> Directory {
    let mut directory = Directory::default();
    let mut put = |namespace: &str, name: &str, spec: Value, slices: &[Value]| {
        let service = serde_json::from_value(json!({"spec": spec})).unwrap();
        let slices = slices.iter().map(|slice| Arc::new(serde_json::from_value(slice.clone()).unwrap()));
        let found = (Arc::new(service), slices.collect());
        directory.put(&ObjectKey::namespaced(namespace, name), Some(found));
    };
    let ports = json!([{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]);
    let pod = |name: &str| json!({"kind": "Pod", "namespace": "shop", "name": name});
    put(
        "shop",
        "web",
        json!({"type": "ClusterIP", "clusterIP": "10.96.0.20", "ports": ports}),
        &[
            json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.200.0.9"], "targetRef": pod("w")}]}),
        ],
    );
    let slice = json!({"addressType": "IPv4", "ports": [{"name": "sql", "port": 5432}], "endpoints": [
        {"addresses": ["10.200.0.5"], "hostname": "db-0", "conditions": {"ready": true}},
        {"addresses": ["10.200.0.6"], "hostname": "db-1", "conditions": {"ready": false}},
        {"addresses": ["10.200.0.7"]}]});
    put(
        "shop",
        "db",
        json!({"clusterIP": "None", "ports": [{"name": "sql", "port": 5432}]}),
        std::slice::from_ref(&slice),
    );
    put("shop", "all", json!({"clusterIP": "None", "publishNotReadyAddresses": true}), &[slice]);
    put("shop", "empty", json!({"clusterIP": "None"}), &[]);
    let alias = |target: &str| json!({"type": "ExternalName", "externalName": target});
    put("shop", "away", alias("www.example.org"), &[]);
    put("shop", "near", alias("web.shop.svc.cluster.local"), &[]);
    put("shop", "round", alias("round.shop.svc.cluster.local"), &[]);
    put("other", "web", json!({"clusterIP": "10.96.0.30", "ports": ports}), &[]);
    directory
}

fn zone() -> Zone {
    let ranges = ["10.96.0.0/16", "10.200.0.0/16"].map(|range| range.parse().unwrap()).to_vec();
    Zone::new("cluster.local", ranges, OutsideNames::Refused)
}

fn shown(answer: &Answer) -> Vec<String> {
    let data = |record: &Record| match &record.data {
        RData::NS(name) => format!("NS {name}"),
        RData::CNAME(name) => format!("CNAME {name}"),
        RData::SRV(SRV { weight, port, target, .. }) => format!("SRV {weight} {port} {target}"),
        RData::SOA(_) => "SOA".to_owned(),
        other => other.to_string(),
    };
    answer.answers.iter().map(data).collect()
}

fn ask(name: &str, kind: RecordType) -> Answer {
    zone().answer(&directory(), (&parse(name).unwrap(), kind), None, 0)
}

fn asked(name: &str, kind: RecordType) -> Vec<String> {
    let answer = ask(name, kind);
    assert_eq!(answer.code, ResponseCode::NoError, "{name}");
    assert_ne!(answer.answers.is_empty(), answer.authority.is_empty(), "nothing comes with its authority");
    shown(&answer)
}

#[test]
fn services_have_addresses_and_headless_ones_those_of_their_pods() {
    assert_eq!(asked("web.shop.svc.cluster.local", RecordType::A), ["10.96.0.20"]);
    assert_eq!(asked("WEB.Shop.Svc.Cluster.Local", RecordType::A), ["10.96.0.20"]);
    assert!(asked("web.shop.svc.cluster.local", RecordType::AAAA).is_empty(), "no addresses of version 6");
    assert_eq!(asked("db.shop.svc.cluster.local", RecordType::A), ["10.200.0.5", "10.200.0.7"]);
    assert_eq!(
        asked("all.shop.svc.cluster.local", RecordType::A),
        ["10.200.0.5", "10.200.0.6", "10.200.0.7"]
    );
    assert_eq!(asked("db-0.db.shop.svc.cluster.local", RecordType::A), ["10.200.0.5"]);
    assert_eq!(asked("10-200-0-7.db.shop.svc.cluster.local", RecordType::A), ["10.200.0.7"]);
    assert_eq!(asked("10-1-2-3.shop.pod.cluster.local", RecordType::A), ["10.1.2.3"]);
    assert_eq!(asked("dns-version.cluster.local", RecordType::TXT), ["1.1.0"]);

    let name = parse("db.shop.svc.cluster.local").unwrap();
    let second = zone().answer(&directory(), (&name, RecordType::A), None, 1);
    assert_eq!(shown(&second), ["10.200.0.7", "10.200.0.5"], "they take turns");
}

#[test]
fn ports_are_found_by_name() {
    let answer = ask("_http._tcp.web.shop.svc.cluster.local", RecordType::SRV);
    assert_eq!(shown(&answer), ["SRV 100 80 web.shop.svc.cluster.local."]);
    assert_eq!(answer.additional[0].data, RData::A(A::new(10, 96, 0, 20)));
    assert_eq!(
        asked("_sql._tcp.db.shop.svc.cluster.local", RecordType::SRV),
        ["SRV 50 5432 db-0.db.shop.svc.cluster.local.", "SRV 50 5432 10-200-0-7.db.shop.svc.cluster.local."]
    );
    assert_eq!(asked("web.shop.svc.cluster.local", RecordType::SRV).len(), 2, "all ports");
    assert!(asked("_http._tcp.web.shop.svc.cluster.local", RecordType::A).is_empty());
    for nothing in ["_http._udp.web.shop", "_ftp._tcp.web.shop", "http._tcp.web.shop", "_._tcp.web.shop"] {
        assert_eq!(
            ask(&format!("{nothing}.svc.cluster.local"), RecordType::SRV).code,
            ResponseCode::NXDomain,
            "{nothing}"
        );
    }
}

#[test]
fn names_for_other_names_are_followed_inside() {
    assert_eq!(asked("away.shop.svc.cluster.local", RecordType::A), ["CNAME www.example.org."]);
    let near = "CNAME web.shop.svc.cluster.local.";
    assert_eq!(asked("near.shop.svc.cluster.local", RecordType::A), [near, "10.96.0.20"]);
    assert_eq!(asked("near.shop.svc.cluster.local", RecordType::AAAA), [near]);
    assert_eq!(asked("round.shop.svc.cluster.local", RecordType::A).len(), CHAIN);
}

#[test]
fn addresses_have_names() {
    assert_eq!(asked("20.0.96.10.in-addr.arpa", RecordType::PTR), ["web.shop.svc.cluster.local."]);
    assert_eq!(asked("9.0.200.10.in-addr.arpa", RecordType::PTR), ["10-200-0-9.shop.pod.cluster.local."]);
    assert_eq!(
        asked("5.0.200.10.in-addr.arpa", RecordType::PTR),
        ["db-0.all.shop.svc.cluster.local.", "db-0.db.shop.svc.cluster.local."]
    );
    assert!(asked("20.0.96.10.in-addr.arpa", RecordType::A).is_empty());
    assert_eq!(ask("21.0.96.10.in-addr.arpa", RecordType::PTR).code, ResponseCode::NXDomain);
    assert_eq!(ask("1.1.168.192.in-addr.arpa", RecordType::PTR).code, ResponseCode::Refused);
}

#[test]
fn what_does_not_exist_is_told_from_what_has_no_such_record() {
    for empty in
        ["cluster.local", "svc.cluster.local", "shop.svc.cluster.local", "_tcp.web.shop.svc.cluster.local"]
    {
        assert!(asked(empty, RecordType::A).is_empty(), "{empty}");
    }
    for nothing in
        ["no", "no.shop.svc", "web.no.svc", "no.svc", "x.db.shop.svc", "empty.shop.svc", "x.shop.pod"]
    {
        let answer = ask(&format!("{nothing}.cluster.local"), RecordType::A);
        assert_eq!((answer.code, answer.authority.len()), (ResponseCode::NXDomain, 1), "{nothing}");
    }
    assert_eq!(asked("cluster.local", RecordType::SOA), ["SOA"]);
    for outside in ["example.org", "local", "xcluster.local", "."] {
        assert_eq!(ask(outside, RecordType::A).code, ResponseCode::Refused);
    }
    let unknown = Zone { outside: OutsideNames::Unknown, ..zone() };
    let answer = unknown.answer(&directory(), (&parse("example.org").unwrap(), RecordType::A), None, 0);
    assert_eq!(answer.code, ResponseCode::NXDomain);
}

#[test]
fn who_sees_one_namespace_sees_no_other() {
    let seen = |name: &str, kind: RecordType| {
        zone().answer(&directory(), (&parse(name).unwrap(), kind), Some("other"), 0)
    };
    assert_eq!(shown(&seen("web.other.svc.cluster.local", RecordType::A)), ["10.96.0.30"]);
    for (hidden, kind) in [
        ("web.shop.svc.cluster.local", RecordType::A),
        ("shop.svc.cluster.local", RecordType::A),
        ("_http._tcp.web.shop.svc.cluster.local", RecordType::SRV),
        ("10-1-2-3.shop.pod.cluster.local", RecordType::A),
        ("20.0.96.10.in-addr.arpa", RecordType::PTR),
    ] {
        assert_eq!(seen(hidden, kind).code, ResponseCode::NXDomain, "{hidden}");
    }
}

#[test]
fn what_changes_and_goes_is_forgotten_at_every_name() {
    let mut directory = directory();
    let key = ObjectKey::namespaced("other", "web");
    let answer = |directory: &Directory, name: &str, kind: RecordType| {
        shown(&zone().answer(directory, (&parse(name).unwrap(), kind), None, 0))
    };
    let moved = serde_json::from_value(json!({"spec": {"clusterIP": "10.96.0.31"}})).unwrap();
    directory.put(&key, Some((Arc::new(moved), Vec::new())));
    assert_eq!(answer(&directory, "web.other.svc.cluster.local", RecordType::A), ["10.96.0.31"]);
    assert!(answer(&directory, "30.0.96.10.in-addr.arpa", RecordType::PTR).is_empty());
    assert_eq!(
        answer(&directory, "31.0.96.10.in-addr.arpa", RecordType::PTR),
        ["web.other.svc.cluster.local."]
    );
    directory.put(&key, None);
    assert!(answer(&directory, "31.0.96.10.in-addr.arpa", RecordType::PTR).is_empty());
    assert!(!directory.has_namespace("other"));
}
