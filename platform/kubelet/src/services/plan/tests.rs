use serde_json::{Value, json};

use super::*;

const HERE: Here<'_> = Here { node: "here", address: Ipv4Addr::new(10, 200, 0, 1) };

fn planned(service: Value, slices: &[Value]) -> Vec<String> {
    let service: Service = serde_json::from_value(service).unwrap();
    let slices: Vec<EndpointSlice> =
        slices.iter().map(|slice| serde_json::from_value(slice.clone()).unwrap()).collect();
    shown(&plan(&service, &slices.iter().collect::<Vec<_>>(), None, HERE))
}

fn shown(plan: &BTreeMap<Front, Target>) -> Vec<String> {
    let line = |(front, target): (&Front, &Target)| {
        let backends: Vec<_> = target.backends.iter().map(ToString::to_string).collect();
        format!("{:?} {} -> {}", front.protocol, front.address, backends.join(" "))
    };
    plan.iter().map(line).collect()
}

fn slice(endpoints: Value) -> Value {
    json!({"addressType": "IPv4", "ports": [{"name": "api", "port": 6443}], "endpoints": endpoints})
}

fn service(more: Value) -> Value {
    let mut spec =
        json!({"clusterIP": "10.96.0.9", "ports": [{"name": "api", "port": 443, "nodePort": 30001}]});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"spec": spec})
}

#[test]
fn ports_are_matched_by_name_and_protocol() {
    let service = json!({"spec": {"clusterIP": "10.96.0.9", "ports": [
        {"name": "api", "port": 443}, {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53}, {"name": "odd", "port": 9, "protocol": "SCTP"}]}});
    let slice = json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.200.0.7"]}], "ports": [
        {"name": "api", "port": 6443}, {"name": "dns", "port": 5353, "protocol": "UDP"},
        {"name": "dns", "port": 1, "protocol": "TCP"}, {"name": "dns-tcp", "port": 5354},
        {"name": "odd", "port": 10, "protocol": "SCTP"}]});
    assert_eq!(
        planned(service, &[slice]),
        [
            "Tcp 10.96.0.9:53 -> 10.200.0.7:5354",
            "Tcp 10.96.0.9:443 -> 10.200.0.7:6443",
            "Udp 10.96.0.9:53 -> 10.200.0.7:5353"
        ]
    );
}

#[test]
fn ending_endpoints_are_used_only_while_none_is_ready() {
    let ready = json!({"addresses": ["10.200.0.7"], "conditions": {"ready": true}});
    let unready = json!({"addresses": ["10.200.0.8"], "conditions": {"ready": false, "serving": false}});
    let ending = json!({"addresses": ["10.200.0.9"],
        "conditions": {"ready": false, "serving": true, "terminating": true}});
    let gone = json!({"addresses": ["10.200.0.10"],
        "conditions": {"ready": false, "serving": false, "terminating": true}});
    let plain = || service(json!({"ports": [{"name": "api", "port": 443}]}));

    let all = json!([ready, unready, ending, gone]);
    assert_eq!(planned(plain(), &[slice(all)]), ["Tcp 10.96.0.9:443 -> 10.200.0.7:6443"]);
    let rest = json!([unready, ending, gone]);
    assert_eq!(planned(plain(), &[slice(rest)]), ["Tcp 10.96.0.9:443 -> 10.200.0.9:6443"]);
    let nobody = json!([unready, gone]);
    assert!(planned(plain(), &[slice(nobody)]).is_empty(), "where nobody is, nobody listens");
}

#[test]
fn endpoints_of_this_node_alone_where_the_service_says_so() {
    let endpoints = json!([{"addresses": ["10.200.0.7"], "nodeName": "here"},
        {"addresses": ["10.200.1.7"], "nodeName": "there"}]);
    let both = "10.200.0.7:6443 10.200.1.7:6443";
    let everywhere = |inside: &str, outside: &str| {
        [
            format!("Tcp 10.96.0.9:443 -> {inside}"),
            format!("Tcp 10.200.0.1:30001 -> {outside}"),
            format!("Tcp 127.0.0.1:30001 -> {outside}"),
        ]
    };
    let found = planned(service(json!({})), &[slice(endpoints.clone())]);
    assert_eq!(found, everywhere(both, both));
    let found = planned(service(json!({"internalTrafficPolicy": "Local"})), &[slice(endpoints.clone())]);
    assert_eq!(found, everywhere("10.200.0.7:6443", both));
    let found = planned(service(json!({"externalTrafficPolicy": "Local"})), &[slice(endpoints)]);
    assert_eq!(found, everywhere(both, "10.200.0.7:6443"));
}

#[test]
fn older_endpoints_are_used_where_there_is_no_slice() {
    let service: Service =
        serde_json::from_value(service(json!({"ports": [{"name": "api", "port": 443}]}))).unwrap();
    let older: Endpoints = serde_json::from_value(json!({"subsets": [
        {"addresses": [{"ip": "10.1.1.1"}], "ports": [{"name": "api", "port": 7443}]}]}))
    .unwrap();
    let empty: EndpointSlice = serde_json::from_value(slice(json!([]))).unwrap();
    let found = plan(&service, &[], Some(&older), HERE);
    assert_eq!(shown(&found), ["Tcp 10.96.0.9:443 -> 10.1.1.1:7443"]);
    assert!(plan(&service, &[&empty], Some(&older), HERE).is_empty());
}

#[test]
fn affinity_has_the_time_that_is_asked_for() {
    let endpoints = json!([{"addresses": ["10.200.0.7"]}]);
    let affinity = |spec: Value| {
        let service: Service = serde_json::from_value(service(spec)).unwrap();
        let slice: EndpointSlice = serde_json::from_value(slice(endpoints.clone())).unwrap();
        plan(&service, &[&slice], None, HERE).into_values().next().unwrap().affinity
    };
    assert_eq!(affinity(json!({})), None);
    assert_eq!(affinity(json!({"sessionAffinity": "ClientIP"})), Some(Duration::from_secs(10_800)));
    let short =
        json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}});
    assert_eq!(affinity(short), Some(Duration::from_secs(5)));

    let headless: Service =
        serde_json::from_value(json!({"spec": {"clusterIP": "None", "ports": [{"port": 80}]}})).unwrap();
    assert!(plan(&headless, &[], None, HERE).is_empty());
}
