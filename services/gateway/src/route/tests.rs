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

fn key(name: &str) -> RouteKey {
    RouteKey { management: "management".into(), route: ObjectKey::namespaced("clusters", name) }
}

impl Hosts {
    fn owning_key(&self, host: &str) -> Option<RouteKey> {
        self.owner(host).map(|owner| owner.key)
    }
}

const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-01-02T00:00:00Z";

#[test]
fn older_route_keeps_the_host_and_the_younger_gets_it_when_it_goes() {
    let hosts = Hosts::default();
    hosts.update(&key("a-young"), Some(&route("api.first.test", LATE)));
    assert_eq!(hosts.owning_key("api.first.test"), Some(key("a-young")));
    let affected = hosts.update(&key("z-old"), Some(&route("API.first.test.", EARLY))).affected;
    assert_eq!(affected, [key("a-young"), key("z-old")]);
    assert_eq!(hosts.owning_key("api.first.test"), Some(key("z-old")));
    let young = route("api.first.test", LATE);
    assert_eq!(hosts.admission(&key("a-young"), &young), Admission::Claimed(key("z-old")));

    assert_eq!(hosts.update(&key("z-old"), None).affected, [key("a-young"), key("z-old")]);
    assert_eq!(hosts.owning_key("api.first.test"), Some(key("a-young")));
    hosts.update(&key("a-young"), Some(&route("api.second.test", LATE)));
    assert_eq!(hosts.owning_key("api.first.test"), None);
    assert_eq!(hosts.all(), [("api.second.test".to_owned(), key("a-young"))]);
}

#[test]
fn only_passthrough_is_served() {
    let hosts = Hosts::default();
    let mut edge = route("api.first.test", EARLY);
    edge.spec.tls.as_mut().unwrap().termination = RouteTermination::Edge;
    hosts.update(&key("edge"), Some(&edge));
    assert_eq!(hosts.owning_key("api.first.test"), None);
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

/// Nothing that happens to one route may cost more because there are others.
#[test]
fn a_change_concerns_those_who_want_the_same_host_and_nobody_else() {
    let hosts = Hosts::default();
    for number in 0..10_000 {
        hosts.update(&key(&format!("other-{number}")), Some(&route(&format!("api.{number}.test"), EARLY)));
    }
    let young = route("api.7.test", LATE);
    assert_eq!(hosts.update(&key("young"), Some(&young)).affected, [key("other-7"), key("young")]);
    let alone = route("api.alone.test", LATE);
    assert_eq!(hosts.update(&key("young"), Some(&alone)).affected, [key("other-7"), key("young")]);
    assert_eq!(hosts.update(&key("young"), Some(&alone)).affected, [key("young")]);
}

#[test]
fn host_in_two_management_clusters_belongs_to_the_older_route_and_the_other_is_told_where_that_is() {
    let hosts = Hosts::default();
    let mut elsewhere = key("old");
    elsewhere.management = "second".into();
    hosts.update(&key("old"), Some(&route("api.first.test", LATE)));
    hosts.update(&elsewhere, Some(&route("api.first.test", EARLY)));
    assert_eq!(hosts.owning_key("api.first.test"), Some(elsewhere.clone()));
    let refused = hosts.admission(&key("old"), &route("api.first.test", LATE));
    assert_eq!(refused, Admission::Claimed(elsewhere.clone()));
    assert_eq!(elsewhere.to_string(), "clusters/old of second");
}

#[test]
fn cluster_is_gone_with_its_last_route() {
    let hosts = Hosts::default();
    hosts.update(&key("one"), Some(&route("api.one.test", EARLY)));
    hosts.update(&key("two"), Some(&route("api.two.test", EARLY)));
    hosts.update(&key("two"), Some(&route("api.three.test", EARLY)));
    assert_eq!(hosts.update(&key("one"), None).gone, None);
    assert_eq!(hosts.update(&key("two"), None).gone, Some(key("two").cluster()));
    assert_eq!(hosts.update(&key("two"), None).gone, None);
}

#[test]
fn route_that_nobody_can_come_through_says_why() {
    let hosts = Hosts::default();
    let mut unclear = route("api.first.test", EARLY);
    let list = ("haproxy.router.openshift.io/ip_allowlist".to_owned(), "everybody".to_owned());
    unclear.metadata.annotations = Some([list].into());
    hosts.update(&key("unclear"), Some(&unclear));
    let admission = hosts.admission(&key("unclear"), &unclear);
    let written = status(&unclear, &admission, "pilothouse", Time(EARLY.parse().unwrap())).unwrap();
    assert_eq!(written[0].conditions[0].reason, "AccessNotUnderstood");
    assert!(written[0].conditions[0].message.contains("`everybody` is no address"));
}
