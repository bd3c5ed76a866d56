use jiff::Timestamp;
use pilothouse_crds::{
    AutoScaling, Condition, ConditionStatus, HostedClusterSpec, HostedClusterStatus, NodePoolPlatform,
    NodePoolSpec, PlatformType,
};
use rstest::rstest;

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

#[test]
fn a_pool_of_another_platform_is_refused() {
    let mut pool = pool("pilothouse/release:4.20.0");
    pool.spec.platform = NodePoolPlatform { type_: PlatformType::KubeVirt, ..NodePoolPlatform::default() };
    let found = obstacle(&pool, &cluster("pilothouse/release:4.20.0", true), None).unwrap();
    assert_eq!(found.condition, "ValidPlatformConfig");
}

#[test]
fn a_pool_that_should_scale_by_itself_keeps_its_minimum() {
    let mut pool = pool("pilothouse/release:4.20.0");
    assert_eq!(desired(&pool), 2);
    pool.spec.auto_scaling = Some(AutoScaling { min: 1, max: 5 });
    assert_eq!(desired(&pool), 1);
}

fn observed<'a>(release: &'a Release, workers: &'a [Worker], desired: usize) -> Observed<'a> {
    Observed {
        generation: Some(1),
        now: Timestamp::UNIX_EPOCH,
        release: Ok(release),
        obstacle: None,
        desired,
        config_hash: "new".into(),
        workers,
        versions: BTreeMap::new(),
        auto_scaling: false,
        auto_repair: false,
        paused: None,
        error: None,
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
    let workers: Vec<_> = nodes
        .iter()
        .enumerate()
        .map(|(index, ready)| Worker {
            name: format!("workers-{index}"),
            created: None,
            config_hash: "new".into(),
            going: false,
            ended: false,
            ready: *ready,
            state: "late".into(),
        })
        .collect();
    let status = status::observe(&NodePoolStatus::default(), &observed(&release, &workers, desired));
    let condition = status.conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
    assert_eq!(condition.status.as_str(), ready);
    assert_eq!(status.replicas, replicas);
    assert_eq!(status.version, version);
    assert_eq!(status::observe(&status, &observed(&release, &workers, desired)), status);
}
