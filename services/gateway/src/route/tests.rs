use kube::api::ObjectMeta;
use pilothouse_crds::{RouteSpec, RouteStatus, RouteTargetReference, RouteTls};

use super::*;

fn route(host: &str, created: &str) -> Route {
    Route {
        metadata: ObjectMeta {
            creation_timestamp: Some(Time(created.parse().unwrap())),
            ..ObjectMeta::default()
        },
        spec: RouteSpec {
            host: host.to_owned(),
            to: RouteTargetReference::service("kube-apiserver"),
            tls: Some(RouteTls { termination: RouteTermination::Passthrough, other: Default::default() }),
            ..RouteSpec::default()
        },
        status: None,
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("clusters", name)
}

const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-01-02T00:00:00Z";

#[test]
fn older_route_keeps_the_host_and_the_younger_gets_it_when_it_goes() {
    let hosts = Hosts::default();
    hosts.update(&key("a-young"), Some(&route("api.first.test", LATE)));
    assert_eq!(hosts.owner("api.first.test"), Some(key("a-young")));
    let affected = hosts.update(&key("z-old"), Some(&route("API.first.test.", EARLY)));
    assert_eq!(affected, [key("a-young"), key("z-old")]);
    assert_eq!(hosts.owner("api.first.test"), Some(key("z-old")));
    let young = route("api.first.test", LATE);
    assert_eq!(hosts.admission(&key("a-young"), &young), Admission::Claimed(key("z-old")));

    assert_eq!(hosts.update(&key("z-old"), None), [key("a-young"), key("z-old")]);
    assert_eq!(hosts.owner("api.first.test"), Some(key("a-young")));
    hosts.update(&key("a-young"), Some(&route("api.second.test", LATE)));
    assert_eq!(hosts.owner("api.first.test"), None);
    assert_eq!(hosts.all(), [("api.second.test".to_owned(), key("a-young"))]);
}

#[test]
fn only_passthrough_is_served() {
    let hosts = Hosts::default();
    let mut edge = route("api.first.test", EARLY);
    edge.spec.tls.as_mut().unwrap().termination = RouteTermination::Edge;
    hosts.update(&key("edge"), Some(&edge));
    assert_eq!(hosts.owner("api.first.test"), None);
    assert_eq!(hosts.admission(&key("edge"), &edge), Admission::NotPassthrough);
    assert_eq!(hosts.admission(&key("none"), &route("", EARLY)), Admission::NoHost);
}

#[test]
fn status_is_written_once_and_leaves_other_gateways_alone() {
    let (early, late) = (Time(EARLY.parse().unwrap()), Time(LATE.parse().unwrap()));
    let mut served = route("api.first.test", EARLY);
    let other = RouteIngress { router_name: "other".to_owned(), ..RouteIngress::default() };
    served.status = Some(RouteStatus { ingress: vec![other.clone()] });
    let first = status(&served, &Admission::Admitted, "pilothouse", early).unwrap();
    assert_eq!((first.len(), &first[0]), (2, &other));
    served.status = Some(RouteStatus { ingress: first });
    assert_eq!(status(&served, &Admission::Admitted, "pilothouse", late.clone()), None);
    let refused = status(&served, &Admission::Claimed(key("z-old")), "pilothouse", late).unwrap();
    assert_eq!(refused[1].conditions[0].reason, "HostAlreadyClaimed");
    assert!(refused[1].conditions[0].message.contains("clusters/z-old"));
}
