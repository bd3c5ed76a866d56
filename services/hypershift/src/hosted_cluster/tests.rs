use jiff::Timestamp;
use pilothouse_crds::{
    ConditionStatus, HistoryState, HostedCluster, HostedClusterSpec, HostedClusterStatus, Platform, Release,
    find_condition,
};
use rstest::rstest;

use super::blueprint::{Blueprint, Refusal};
use super::status::{self, Observed};
use super::*;

fn blueprint(image: &str) -> Blueprint {
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
    Blueprint::draw(&cluster, &Config::default()).unwrap()
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
        publish_port: 9443,
        infrastructure: reached(1),
        kubeconfig: steps >= 2,
        workload: reached(3),
        answer: reached(4),
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

#[test]
fn a_refused_release_stops_the_upgrade_and_not_the_cluster() {
    let blueprint = blueprint("pilothouse/release:4.20.0");
    let running = status::observe(&HostedClusterStatus::default(), &pass(&blueprint, 4, at(0)));
    let refusal = Refusal { condition: "ValidReleaseImage", reason: "InvalidImage", message: "no".into() };
    let refused = Observed { blueprint: Err(&refusal), ..pass(&blueprint, 0, at(10)) };

    let status = status::observe(&running, &refused);
    assert_eq!(condition(&status, "ValidReleaseImage"), (ConditionStatus::False, "InvalidImage"));
    assert_eq!(condition(&status, "Progressing"), (ConditionStatus::False, "Blocked"));
    assert_eq!(condition(&status, "Available").0, ConditionStatus::True);

    let never_ran = status::observe(&HostedClusterStatus::default(), &refused);
    assert_eq!(condition(&never_ran, "Available"), (ConditionStatus::False, "InvalidImage"));
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
        serde_json::to_value(manifests::route(&blueprint)),
        serde_json::to_value(config_map),
        serde_json::to_value(manifests::stateful_set(&blueprint, "pilothouse")),
    ];
    let objects: Vec<_> = objects.into_iter().map(Result::unwrap).collect();
    insta::assert_snapshot!(serde_json::to_string_pretty(&objects).unwrap());
}
