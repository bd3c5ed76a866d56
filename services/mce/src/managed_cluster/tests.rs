use jiff::Timestamp;
use pilothouse_crds::{
    Condition, ConditionStatus, ControlPlaneEndpoint, HostedClusterSpec, HostedClusterStatus,
    ManagedClusterSpec,
};
use rstest::rstest;

use super::status::{IMPORTED, JOINED, observe};
use super::*;

fn hosted(available: Option<ConditionStatus>) -> HostedCluster {
    let mut cluster = HostedCluster::new("first", HostedClusterSpec::default());
    cluster.metadata.namespace = Some("ocm-local-1".into());
    cluster.metadata.labels = Some([(CLUSTER_ID.to_owned(), "1".to_owned())].into());
    cluster.status = available.map(|status| HostedClusterStatus {
        conditions: vec![Condition::new("Available", status, "r", "m", Timestamp::UNIX_EPOCH)],
        control_plane_endpoint: Some(ControlPlaneEndpoint { host: "api.first".to_owned(), port: 443 }),
        ..HostedClusterStatus::default()
    });
    cluster
}

fn managed(accepted: bool) -> ManagedCluster {
    ManagedCluster::new(
        "1",
        ManagedClusterSpec { hub_accepts_client: accepted, ..ManagedClusterSpec::default() },
    )
}

fn subject(hosted: Option<&HostedCluster>) -> Subject<'_> {
    hosted.map_or(Subject::Missing, |hosted| Subject::Hosted { hosted, kubernetes: None })
}

#[rstest]
#[case(true, None, "Unknown", "False")]
#[case(true, Some(hosted(None)), "Unknown", "False")]
#[case(true, Some(hosted(Some(ConditionStatus::False))), "False", "False")]
#[case(true, Some(hosted(Some(ConditionStatus::True))), "True", "True")]
#[case(false, Some(hosted(Some(ConditionStatus::True))), "Unknown", "False")]
fn a_managed_cluster_is_available_when_its_hosted_cluster_is(
    #[case] accepted: bool,
    #[case] hosted: Option<HostedCluster>,
    #[case] available: &str,
    #[case] joined: &str,
) {
    let status = observe(&managed(accepted), &subject(hosted.as_ref()), Timestamp::UNIX_EPOCH);
    let of = |type_| find_condition(&status.conditions, type_).unwrap().status.as_str();
    assert_eq!((of(AVAILABLE), of(JOINED)), (available, joined));
    assert_eq!(find_condition(&status.conditions, IMPORTED), None, "somebody else made it");
}

#[test]
fn a_cluster_that_fails_has_still_joined_and_a_second_look_changes_nothing() {
    let mut cluster = managed(true);
    let at = |second| Timestamp::from_second(second).unwrap();
    let (well, ill) = (hosted(Some(ConditionStatus::True)), hosted(Some(ConditionStatus::False)));
    cluster.status = Some(observe(&cluster, &subject(Some(&well)), at(0)));
    assert_eq!(cluster.status, Some(observe(&cluster, &subject(Some(&well)), at(9))));
    let failed = observe(&cluster, &subject(Some(&ill)), at(9));
    assert!(is_condition_true(&failed.conditions, JOINED));
    assert!(!is_condition_true(&failed.conditions, AVAILABLE));
}

#[test]
fn an_imported_cluster_knows_where_it_came_from_and_says_who_it_is() {
    let mut of = hosted(Some(ConditionStatus::True));
    of.metadata.labels = Some([("name".to_owned(), "mine".to_owned())].into());
    of.spec.cluster_id = Some("an-id".to_owned());
    let cluster = import::managed_cluster(&of);
    assert_eq!(import::source(&cluster), Some(ObjectKey::namespaced("ocm-local-1", "first")));
    assert_eq!(cluster.labels()["name"], "mine", "its own labels go before the usual ones");
    assert_eq!(cluster.spec.managed_cluster_client_configs[0].url, "https://api.first:443");
    assert_eq!(import::source(&managed(true)), None);

    let kubernetes = Some("v1.30.4".to_owned());
    let status = observe(&cluster, &Subject::Hosted { hosted: &of, kubernetes }, Timestamp::UNIX_EPOCH);
    assert!(is_condition_true(&status.conditions, IMPORTED));
    let claims: Vec<_> =
        status.cluster_claims.iter().map(|claim| (claim.name.as_str(), claim.value.as_str())).collect();
    assert_eq!(claims[0], ("id.k8s.io", "an-id"));
    assert_eq!(claims[1], ("kubeversion.open-cluster-management.io", "v1.30.4"));
    assert_eq!(status.version.kubernetes, "v1.30.4");
}

#[test]
fn hosted_clusters_are_heard_of_under_their_label_or_their_name() {
    let index = Index::default();
    let other = HostedCluster::new("other", HostedClusterSpec::default());
    let here = HostedCluster::new(LOCAL_CLUSTER, HostedClusterSpec::default());
    assert_eq!(index.hear(&other, true), Some(ObjectKey::cluster("other")));
    assert_eq!(index.hear(&hosted(None), true), Some(ObjectKey::cluster("1")));
    assert_eq!(index.hear(&here, true), None);
    let mut keys = index.keys();
    keys.sort();
    assert_eq!(keys, [ObjectKey::cluster("1"), ObjectKey::cluster("other")]);
    assert_eq!(index.hear(&other, false), Some(ObjectKey::cluster("other")));
    assert_eq!(index.keys(), [ObjectKey::cluster("1")]);
}
