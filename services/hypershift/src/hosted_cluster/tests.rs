use jiff::Timestamp;
use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Service, ServiceStatus};
use pilothouse_crds::{
    AdvertisedAddress, ConditionStatus, HistoryState, HostedCluster, HostedClusterSpec, HostedClusterStatus,
    Platform, PublishingStrategy, PublishingType, Release, find_condition,
};
use rstest::rstest;

use super::publishing::Endpoint;
use super::refusal::Refusal;
use super::status::{self, Observed};
use super::*;

static NO_COMPLAINTS: std::sync::LazyLock<Refusals> = std::sync::LazyLock::new(Refusals::default);

fn cluster(image: &str) -> HostedCluster {
    let mut cluster = HostedCluster::new(
        "first",
        HostedClusterSpec {
            release: Release { image: image.to_owned() },
            platform: Platform::default(),
            issuer_url: "https://kubernetes.default.svc".to_owned(),
            ..HostedClusterSpec::default()
        },
    );
    cluster.metadata.namespace = Some("ocm-local-1".to_owned());
    cluster
}

fn blueprint(image: &str) -> Blueprint {
    Blueprint::draw(&cluster(image), &[], &Config::default()).unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A pass that came as far as `steps` says: 0 nothing, 1 infrastructure, 2 kubeconfig, 3 a running pod, 4 an answer.
fn pass(blueprint: &Blueprint, steps: usize, now: Timestamp) -> Observed<'_> {
    let reached = |step: usize| if steps >= step { Ok(()) } else { Err("not there".to_owned()) };
    Observed {
        generation: Some(1),
        now,
        blueprint: Ok(blueprint),
        complaints: &NO_COMPLAINTS,
        pause: None,
        not_upgradeable: None,
        endpoint: None,
        infrastructure: reached(1),
        kubeconfig: steps >= 2,
        workload: reached(3),
        current: reached(3),
        answer: reached(4),
        etcd: None,
        complete: reached(4),
        encrypted: Ok(()),
        error: None,
    }
}

fn condition<'a>(status: &'a HostedClusterStatus, type_: &str) -> (ConditionStatus, &'a str) {
    let condition = find_condition(&status.conditions, type_).unwrap();
    (condition.status, condition.reason.as_str())
}

#[rstest]
#[case(0, ConditionStatus::False, "WaitingOnInfrastructureReady")]
#[case(1, ConditionStatus::False, "KubeconfigWaitingForCreate")]
#[case(2, ConditionStatus::False, "WaitingForAvailable")]
#[case(3, ConditionStatus::False, "KASLoadBalancerNotReachable")]
#[case(4, ConditionStatus::True, "AsExpected")]
fn available_names_the_first_thing_missing(
    #[case] steps: usize,
    #[case] holds: ConditionStatus,
    #[case] reason: &str,
) {
    let blueprint = blueprint("pilothouse/release:4.20.0");
    let status = status::observe(&HostedClusterStatus::default(), &pass(&blueprint, steps, at(0)));
    assert_eq!(condition(&status, "Available"), (holds, reason));
    let history = &status.version.unwrap().history;
    let complete = history[0].state == HistoryState::Completed;
    assert_eq!(complete, steps == 4);
}

#[test]
fn the_same_observation_later_changes_nothing() {
    let blueprint = blueprint("pilothouse/release:4.20.0");
    let first = status::observe(&HostedClusterStatus::default(), &pass(&blueprint, 4, at(0)));
    assert_eq!(status::observe(&first, &pass(&blueprint, 4, at(60))), first);
}

#[test]
fn what_the_payload_lacks_is_unknown_and_never_true() {
    let blueprint = blueprint("pilothouse/release:4.20.0");
    let status = status::observe(&HostedClusterStatus::default(), &pass(&blueprint, 4, at(0)));
    for type_ in ["EtcdAvailable", "IgnitionEndpointAvailable", "ClusterVersionAvailable"] {
        assert_eq!(condition(&status, type_), (ConditionStatus::Unknown, "NotApplicable"));
    }
    assert_eq!(condition(&status, "ControlPlaneHighlyAvailable"), (ConditionStatus::False, "EmbeddedStore"));
}

#[test]
fn an_upgrade_begins_a_new_entry_and_completes_it_when_it_answers() {
    let (old, new) = (blueprint("pilothouse/release:4.20.0"), blueprint("pilothouse/release:4.20.8"));
    let running = status::observe(&HostedClusterStatus::default(), &pass(&old, 4, at(0)));
    let upgrading = status::observe(&running, &pass(&new, 2, at(10)));
    assert_eq!(condition(&upgrading, "Progressing"), (ConditionStatus::True, "Progressing"));
    assert_eq!(condition(&upgrading, "Degraded"), (ConditionStatus::True, "UnavailableReplicas"));

    let upgraded = status::observe(&upgrading, &pass(&new, 4, at(20)));
    let history = upgraded.version.clone().unwrap().history;
    let summary: Vec<_> = history.iter().map(|entry| (entry.version.as_str(), entry.state)).collect();
    assert_eq!(summary, [("4.20.8", HistoryState::Completed), ("4.20.0", HistoryState::Completed)]);
    assert_eq!(history[0].started_time.0, at(10));
    assert_eq!(history[0].completion_time.as_ref().unwrap().0, at(20));
    assert_eq!(condition(&upgraded, "Degraded").0, ConditionStatus::False);
}

/// A replica of before answers as well as one of now, and says nothing about how far an upgrade is.
#[test]
fn a_cluster_is_available_while_it_is_upgraded_and_upgraded_when_nothing_of_before_is_left() {
    let (old, new) = (blueprint("pilothouse/release:4.20.0"), blueprint("pilothouse/release:4.21.0"));
    let running = status::observe(&HostedClusterStatus::default(), &pass(&old, 4, at(0)));
    let waits = || Err("pod etcd-0 is not ready: CrashLoopBackOff".to_owned());
    let begun = Observed { current: waits(), complete: waits(), ..pass(&new, 4, at(10)) };
    let halfway = Observed { complete: waits(), ..pass(&new, 4, at(20)) };
    let mut status = running;
    for observed in [begun, halfway] {
        status = status::observe(&status, &observed);
        assert_eq!(condition(&status, "Available").0, ConditionStatus::True);
        assert_eq!(condition(&status, "Degraded").0, ConditionStatus::False);
        let progressing = find_condition(&status.conditions, "Progressing").unwrap();
        assert_eq!(progressing.status, ConditionStatus::True);
        assert!(progressing.message.ends_with("CrashLoopBackOff"), "{}", progressing.message);
        assert_eq!(status.version.as_ref().unwrap().history[0].state, HistoryState::Partial);
    }
    let upgraded = status::observe(&status, &pass(&new, 4, at(30)));
    assert_eq!(upgraded.version.unwrap().history[0].state, HistoryState::Completed);
}

#[test]
fn what_was_refused_before_the_first_run_is_all_there_is_to_say() {
    let blueprint = blueprint("pilothouse/release:4.20.0");
    let refusals = Refusals::from(Refusal::release("no"));
    let refused = Observed { blueprint: Err(&refusals), ..pass(&blueprint, 0, at(10)) };
    let status = status::observe(&HostedClusterStatus::default(), &refused);
    assert_eq!(condition(&status, "ValidReleaseImage"), (ConditionStatus::False, "InvalidImage"));
    assert_eq!(condition(&status, "SupportedHostedCluster").0, ConditionStatus::True);
    assert_eq!(condition(&status, "ValidConfiguration").0, ConditionStatus::Unknown);
    assert_eq!(condition(&status, "Progressing"), (ConditionStatus::False, "Blocked"));
    assert_eq!(condition(&status, "Available"), (ConditionStatus::False, "InvalidImage"));
    assert_eq!(status.version, None);
}

#[test]
fn a_pass_that_failed_says_so_and_takes_nothing_back() {
    let blueprint = blueprint("pilothouse/release:4.20.0");
    let running = status::observe(&HostedClusterStatus::default(), &pass(&blueprint, 4, at(0)));
    let failed = Observed { error: Some("it was refused".to_owned()), ..pass(&blueprint, 0, at(10)) };
    let status = status::observe(&running, &failed);
    assert_eq!(
        condition(&status, "ReconciliationSucceeded"),
        (ConditionStatus::False, "ReconciliationError")
    );
    assert_eq!(condition(&status, "Available").0, ConditionStatus::True);
    assert_eq!(condition(&status, "Degraded").0, ConditionStatus::False);
}

/// What the conditions say in the life of a cluster, each time as far as something changed.
#[test]
fn conditions_over_the_life_of_a_cluster_are_those_on_file() {
    let (old, new) = (blueprint("pilothouse/release:4.20.0"), blueprint("pilothouse/release:4.20.8"));
    let (refused, complaint) =
        (Refusals::from(Refusal::invalid("no range")), Refusal::release("no way back"));
    let complaints = Refusals::from(complaint);
    let chapters = [
        ("a range that is none", Observed { blueprint: Err(&refused), ..pass(&old, 0, at(0)) }),
        ("corrected", pass(&old, 0, at(1))),
        ("service and route are there", pass(&old, 1, at(2))),
        ("the kubeconfig is written", pass(&old, 2, at(3))),
        ("the pod runs", pass(&old, 3, at(4))),
        ("it answers", pass(&old, 4, at(5))),
        ("pausedUntil: soon", Observed { pause: Some("soon is no time".to_owned()), ..pass(&old, 4, at(6)) }),
        ("a secret cannot be used", Observed { error: Some("broken".to_owned()), ..pass(&old, 0, at(7)) }),
        ("repaired", pass(&old, 4, at(8))),
        ("the pod crashes", pass(&old, 2, at(9))),
        ("it is back", pass(&old, 4, at(10))),
        ("an earlier release", Observed { complaints: &complaints, ..pass(&old, 4, at(11)) }),
        ("a later release", pass(&new, 2, at(12))),
        ("it answers", pass(&new, 4, at(13))),
        ("nodes fall behind", Observed { not_upgradeable: Some("old pool".into()), ..pass(&new, 4, at(14)) }),
    ];
    let mut story = String::new();
    let mut status = HostedClusterStatus::default();
    for (title, observed) in chapters {
        let next = status::observe(&status, &observed);
        story.push_str(&format!("# {title}\n"));
        for condition in &next.conditions {
            let before = find_condition(&status.conditions, &condition.type_);
            let words =
                |one: &pilothouse_crds::Condition| (one.status, one.reason.clone(), one.message.clone());
            if before.map(words) != Some(words(condition)) {
                let (holds, reason) = (condition.status.as_str(), &condition.reason);
                story.push_str(&format!("{}: {holds} {reason}: {}\n", condition.type_, condition.message));
            }
        }
        status = next;
    }
    insta::assert_snapshot!(story);
}

#[test]
fn clients_go_where_the_api_server_is_published() {
    let gateway = "127.0.0.1:9443".parse().unwrap();
    let config = Config { load_balancers: true, ..Config::default() };
    let mut cluster = cluster("pilothouse/release:4.20.0");
    cluster.spec.services[0].service_publishing_strategy =
        PublishingStrategy::of(PublishingType::LoadBalancer);
    let balanced = Blueprint::draw(&cluster, &[], &config).unwrap();
    assert!(manifests::routes(&balanced).iter().all(|(_, route)| route.is_none()));
    let mut service = manifests::service(&balanced);
    assert_eq!(service.spec.as_ref().unwrap().type_.as_deref(), Some("LoadBalancer"));
    let missing = balanced.publishing.endpoint(&service, gateway).unwrap_err();
    assert!(missing.contains("has no load balancer yet"), "{missing}");
    give_balancer(&mut service, "203.0.113.9");
    let endpoint = balanced.publishing.endpoint(&service, gateway).unwrap();
    assert_eq!((endpoint.server.as_str(), endpoint.port), ("https://203.0.113.9:6443", 6443));
    assert_eq!(endpoint.name(), Some("203.0.113.9".parse().unwrap()));

    cluster.spec.services[0].service_publishing_strategy = serde_json::from_value(serde_json::json!({
        "type": "NodePort", "nodePort": { "address": "node.test", "port": 30443 },
    }))
    .unwrap();
    let on_nodes = Blueprint::draw(&cluster, &[], &config).unwrap();
    let service = manifests::service(&on_nodes);
    let Endpoint { server, server_name, .. } = on_nodes.publishing.endpoint(&service, gateway).unwrap();
    assert_eq!((server.as_str(), server_name), ("https://node.test:30443", None));
}

fn give_balancer(service: &mut Service, address: &str) {
    let ingress = LoadBalancerIngress { ip: Some(address.to_owned()), ..LoadBalancerIngress::default() };
    let load_balancer = LoadBalancerStatus { ingress: Some(vec![ingress]) };
    service.status = Some(ServiceStatus { load_balancer: Some(load_balancer), ..ServiceStatus::default() });
}

#[rstest]
#[case("first", "first-")]
#[case("My_Long..Cluster-Name-Of-Today", "my-long-cluster-name-")]
fn made_up_infra_ids_are_names(#[case] name: &str, #[case] start: &str) {
    let id = made_up_infra_id(name);
    assert!(id.starts_with(start) && id.len() <= 27, "{id}");
    assert!(
        id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'),
        "{id}"
    );
}

#[test]
fn the_objects_of_a_control_plane_are_those_on_file() {
    let blueprint = blueprint("pilothouse/release:4.20.0");
    let config_map = manifests::config_map(&blueprint, [10, 96, 0, 7].into(), "root", "clients").unwrap();
    let objects = [
        serde_json::to_value(manifests::namespace(&blueprint)),
        serde_json::to_value(manifests::service(&blueprint)),
        serde_json::to_value(manifests::routes(&blueprint)[0].1.as_ref()),
        serde_json::to_value(config_map),
        serde_json::to_value(workload::stateful_set(&blueprint, "pilothouse")),
        serde_json::to_value(workload::priority_class()),
    ];
    let objects: Vec<_> = objects.into_iter().map(Result::unwrap).collect();
    insta::assert_snapshot!(serde_json::to_string_pretty(&objects).unwrap());
}

#[test]
fn where_an_api_server_may_be_reached_from_is_written_on_its_routes() {
    let mut cluster = cluster("pilothouse/release:4.20.0");
    cluster.spec.kube_api_server_dns_name = Some("api.first.example.com".to_owned());
    cluster.spec.networking.api_server = Some(AdvertisedAddress {
        allowed_cidr_blocks: vec!["203.0.113.0/24".to_owned(), "198.51.100.7".to_owned()],
        ..AdvertisedAddress::default()
    });
    cluster.spec.platform.azure = Some(serde_json::json!({"topology": "Private"}));
    let way_out = [("pilothouse.dev/egress-link", "42"), ("pilothouse.dev/egress-allow", "example.com")];
    cluster.annotations_mut().extend(way_out.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let draw = |cluster: &HostedCluster| Blueprint::draw(cluster, &[], &Config::default());
    let restricted = draw(&cluster).unwrap();
    for route in manifests::routes(&restricted).into_iter().filter_map(|(_, route)| route) {
        assert_eq!(route.annotations()[access::ALLOW_LIST], "203.0.113.0/24 198.51.100.7");
        assert_eq!(route.labels()[access::INTERNAL_ROUTE], "true");
        for (name, value) in way_out {
            assert_eq!(route.annotations()[name], value);
        }
    }
    let pods_stay = |other: &Blueprint| assert_eq!(restricted.config_hash(), other.config_hash());

    cluster.spec.platform.azure = Some(serde_json::json!({"topology": "PublicAndPrivate"}));
    cluster.spec.networking.api_server = None;
    cluster.annotations_mut().clear();
    let open = draw(&cluster).unwrap();
    pods_stay(&open);
    let route = manifests::routes(&open)[0].1.clone().unwrap();
    assert!(!route.annotations().contains_key(access::ALLOW_LIST));
    assert!(!route.labels().contains_key(access::INTERNAL_ROUTE));
    assert!(access::WAY_OUT.iter().all(|name| !route.annotations().contains_key(*name)));

    cluster.spec.networking.api_server = Some(AdvertisedAddress {
        allowed_cidr_blocks: vec!["everywhere".to_owned()],
        ..AdvertisedAddress::default()
    });
    let refused = draw(&cluster).unwrap_err();
    assert!(format!("{refused:?}").contains("`everywhere` is no address"), "{refused:?}");
}
