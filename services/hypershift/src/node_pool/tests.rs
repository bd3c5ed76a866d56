use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pilothouse_crds::{
    AutoScaling, Condition, ConditionStatus, ControlPlaneVersionStatus, HistoryEntry, HistoryState,
    HostedClusterSpec, HostedClusterStatus, NodePoolPlatform, NodePoolSpec,
};
use rstest::rstest;

use super::fingerprint::Fingerprint;
use super::*;

fn pool(image: &str) -> NodePool {
    let spec = NodePoolSpec {
        cluster_name: "first".into(),
        release: pilothouse_crds::Release { image: image.into() },
        replicas: Some(2),
        ..NodePoolSpec::default()
    };
    NodePool::new("workers", spec)
}

fn cluster(image: &str, available: bool) -> HostedCluster {
    let spec = HostedClusterSpec {
        release: pilothouse_crds::Release { image: image.into() },
        ..HostedClusterSpec::default()
    };
    let status = ConditionStatus::from(available);
    let condition = Condition::new("Available", status, "r", "m", Timestamp::UNIX_EPOCH);
    let mut cluster = HostedCluster::new("first", spec);
    cluster.status =
        Some(HostedClusterStatus { conditions: vec![condition], ..HostedClusterStatus::default() });
    cluster
}

#[rstest]
#[case("4.20.0", "4.20.0", true, None)]
#[case("4.17.0", "4.20.0", true, None)]
#[case("4.17.0", "4.21.0", true, Some("SupportedVersionSkew"))]
#[case("4.21.0", "4.20.0", true, Some("SupportedVersionSkew"))]
#[case("4.20.8", "4.20.0", true, None)]
#[case("4.20.0", "4.20.0", false, Some("Ready"))]
fn workers_wait_for_a_cluster_that_suits_them(
    #[case] of_pool: &str,
    #[case] of_cluster: &str,
    #[case] available: bool,
    #[case] expected: Option<&str>,
) {
    let image = |version: &str| format!("pilothouse/release:{version}");
    let pool = pool(&image(of_pool));
    let found = obstacle(&pool, &cluster(&image(of_cluster), available), release_of(&pool).ok().as_ref());
    assert_eq!(found.map(|obstacle| obstacle.condition), expected);
}

#[rstest]
#[case("4.20.0", "4.21.0", Some("WaitingForControlPlane"))]
#[case("4.20.0", "4.20.8", None)]
#[case("4.21.0", "4.21.0", None)]
fn nodes_follow_their_control_plane(
    #[case] running: &str,
    #[case] of_pool: &str,
    #[case] expected: Option<&str>,
) {
    let image = |version: &str| format!("pilothouse/release:{version}");
    let pool = pool(&image(of_pool));
    let mut cluster = cluster(&image("4.21.0"), true);
    let entry = HistoryEntry {
        state: HistoryState::Completed,
        started_time: Time(Timestamp::UNIX_EPOCH),
        completion_time: None,
        version: running.to_owned(),
        image: image(running),
        verified: false,
    };
    let version = ControlPlaneVersionStatus { history: vec![entry], ..ControlPlaneVersionStatus::default() };
    cluster.status.as_mut().unwrap().control_plane_version = Some(version);
    let found = obstacle(&pool, &cluster, release_of(&pool).ok().as_ref());
    assert_eq!(found.map(|obstacle| obstacle.reason), expected);
}

#[rstest]
#[case(PlatformType::None, PlatformType::KubeVirt, "amd64", "", Some("ValidPlatformConfig"))]
#[case(PlatformType::KubeVirt, PlatformType::KubeVirt, "arm64", "", Some("ValidArchPlatform"))]
#[case(PlatformType::KubeVirt, PlatformType::KubeVirt, "amd64", "{", Some("ValidMachineTemplate"))]
#[case(PlatformType::KubeVirt, PlatformType::KubeVirt, "amd64", "[]", None)]
#[case(PlatformType::Azure, PlatformType::Azure, "arm64", "{", None)] // no virtual machine, nothing to patch
fn a_pool_whose_machines_cannot_be_made_is_refused_by_the_right_condition(
    #[case] of_cluster: PlatformType,
    #[case] of_pool: PlatformType,
    #[case] arch: &str,
    #[case] patch: &str,
    #[case] expected: Option<&str>,
) {
    let mut pool = pool("pilothouse/release:4.20.0");
    pool.spec.platform = NodePoolPlatform { type_: of_pool, ..NodePoolPlatform::default() };
    pool.spec.arch = arch.into();
    if !patch.is_empty() {
        pool.metadata.annotations = Some([(virtual_machine::PATCH.to_owned(), patch.to_owned())].into());
    }
    let mut cluster = cluster("pilothouse/release:4.20.0", true);
    cluster.spec.platform.type_ = of_cluster;
    assert_eq!(obstacle(&pool, &cluster, None).map(|obstacle| obstacle.condition), expected);
}

#[test]
fn a_pool_that_follows_the_load_keeps_its_bounds() {
    let mut pool = pool("pilothouse/release:4.20.0");
    assert_eq!(desired(&pool), 2);
    pool.spec.auto_scaling = Some(AutoScaling { min: 1, max: 5 });
    assert_eq!(desired(&pool), 1);
    let found = |number: &str| Some([(observation::AUTOSCALED.to_owned(), number.to_owned())].into());
    pool.metadata.annotations = found("3");
    assert_eq!(desired(&pool), 3);
    pool.metadata.annotations = found("9");
    assert_eq!(desired(&pool), 5);
}

#[test]
fn nodes_are_replaced_for_a_new_release_machine_or_configuration_and_for_nothing_else() {
    let made_of = |change: &dyn Fn(&mut NodePool), config: &str| {
        let mut pool = pool("pilothouse/release:4.20.0");
        pool.spec.platform.kubevirt = Some(Default::default());
        change(&mut pool);
        let release = release_of(&pool).unwrap();
        let config = NodeConfig { text: config.to_owned(), ..NodeConfig::default() };
        Template::fingerprint(&pool, &release, &config, &[])
    };
    let before = made_of(&|_| {}, "");
    let differ = |after: Fingerprint| {
        (before.version != after.version, before.config != after.config, before.template != after.template)
    };
    let release = |pool: &mut NodePool| pool.spec.release.image = "pilothouse/release:4.20.8".into();
    assert_eq!(differ(made_of(&release, "")), (true, false, false));
    assert_eq!(differ(made_of(&|_| {}, "maxPods")), (false, true, false));
    let cores = |pool: &mut NodePool| pool.spec.platform.kubevirt.as_mut().unwrap().compute.cores = 8;
    assert_eq!(differ(made_of(&cores, "")), (false, false, true));
    let harmless = |pool: &mut NodePool| {
        pool.spec.replicas = Some(9);
        pool.spec.management.auto_repair = true;
        pool.spec.node_drain_timeout = Some("1m".into());
        pool.spec.node_labels = [("a".to_owned(), "b".to_owned())].into();
    };
    assert_eq!(differ(made_of(&harmless, "")), (false, false, false));
}

fn observed<'a>(
    release: &'a Release,
    made_of: &'a Fingerprint,
    workers: &'a [Worker],
    desired: usize,
) -> Observed<'a> {
    Observed {
        generation: Some(1),
        now: Timestamp::UNIX_EPOCH,
        release: Ok(release),
        obstacle: None,
        desired,
        made_of: Some(made_of),
        workers,
        facts: None,
        user_data: None,
        join: None,
        versions: BTreeMap::new(),
        auto_scaling: None,
        auto_repair: false,
        too_many_sick: 0,
        paused: None,
        error: None,
    }
}

fn worker(index: usize, ready: Option<bool>) -> Worker {
    Worker {
        name: format!("workers-{index}"),
        created: None,
        made_of: Fingerprint::default(),
        going: false,
        updating: false,
        ended: false,
        sick: false,
        running: true,
        ready,
        state: "late".into(),
    }
}

#[rstest]
#[case(&[Some(true), Some(true)], 2, 2, "True", "4.20.0")]
#[case(&[Some(true), Some(false)], 2, 1, "False", "")]
#[case(&[Some(true), None], 2, 1, "False", "")]
#[case(&[Some(true)], 2, 1, "False", "")]
#[case(&[Some(true), Some(true)], 1, 2, "False", "")] // one is still to go
#[case(&[], 0, 0, "True", "4.20.0")]
fn a_pool_is_ready_when_exactly_its_nodes_are(
    #[case] nodes: &[Option<bool>],
    #[case] desired: usize,
    #[case] replicas: i32,
    #[case] ready: &str,
    #[case] version: &str,
) {
    let release = Release::of_image("pilothouse/release:4.20.0").unwrap();
    let made_of = Fingerprint::default();
    let workers: Vec<_> = nodes.iter().enumerate().map(|(index, ready)| worker(index, *ready)).collect();
    let observed = observed(&release, &made_of, &workers, desired);
    let status = status::observe(&NodePoolStatus::default(), &observed);
    assert_eq!(condition(&status, "Ready").0, ready);
    assert_eq!(status.replicas, replicas);
    assert_eq!(status.version, version);
    assert_eq!(status::observe(&status, &observed), status);
}

#[test]
fn conditions_tell_a_new_release_from_a_new_configuration() {
    let release = Release::of_image("pilothouse/release:4.20.0").unwrap();
    let made_of = Fingerprint { config: "new".into(), ..Fingerprint::default() };
    let workers = [worker(0, Some(true))];
    let status = status::observe(&NodePoolStatus::default(), &observed(&release, &made_of, &workers, 1));
    assert_eq!(condition(&status, "UpdatingVersion").0, "False");
    assert_eq!(condition(&status, "UpdatingConfig").0, "True");
    assert_eq!(condition(&status, "Ready").0, "False");
    assert_eq!(status.version, "", "not before all are changed");
}

#[test]
fn many_sick_nodes_are_told_and_none_is_replaced() {
    let release = Release::of_image("pilothouse/release:4.20.0").unwrap();
    let made_of = Fingerprint::default();
    let workers = [worker(0, Some(false)), worker(1, Some(false)), worker(2, Some(false))];
    let observed =
        Observed { auto_repair: true, too_many_sick: 3, ..observed(&release, &made_of, &workers, 3) };
    let status = status::observe(&NodePoolStatus::default(), &observed);
    assert_eq!(condition(&status, "Ready"), ("False".to_owned(), "TooManyUnhealthy".to_owned()));
    assert_eq!(condition(&status, "AutorepairEnabled").0, "True");
}

fn condition(status: &NodePoolStatus, type_: &str) -> (String, String) {
    let condition = status.conditions.iter().find(|condition| condition.type_ == type_).unwrap();
    (condition.status.as_str().to_owned(), condition.reason.clone())
}
