use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pilothouse_crds::{
    AvailabilityPolicy, ClusterVersionStatus, HistoryEntry, HistoryState, HostedCluster, HostedClusterSpec,
    HostedClusterStatus, Platform, PlatformType,
};
use rstest::rstest;

use super::super::payload::Payload;
use super::super::refusal::Refusals;
use super::*;
use crate::Config;
use crate::names;

fn cluster(release: &str, policy: AvailabilityPolicy) -> HostedCluster {
    let mut cluster = HostedCluster::new(
        "first",
        HostedClusterSpec {
            release: pilothouse_crds::Release { image: format!("pilothouse/release:{release}") },
            platform: Platform { type_: PlatformType::None, ..Platform::default() },
            issuer_url: "https://kubernetes.default.svc".into(),
            controller_availability_policy: policy,
            ..HostedClusterSpec::default()
        },
    );
    cluster.metadata.namespace = Some("ocm-local-1".into());
    cluster.metadata.annotations = Some([(names::PAYLOAD.to_owned(), "upstream".to_owned())].into());
    cluster
}

fn draw(release: &str, policy: AvailabilityPolicy, config: &Config) -> Result<Blueprint, Refusals> {
    Blueprint::draw(&cluster(release, policy), &[], config)
}

fn programs(blueprint: &Blueprint, config: &Config) -> Vec<(StatefulSet, BTreeMap<String, String>)> {
    let images = Images::of(blueprint.control_plane_release.upstream().unwrap(), config);
    let etcd = Program {
        arguments: etcd::arguments(blueprint),
        ..managers::programs(blueprint, &images).into_iter().next().unwrap()
    };
    let etcd = Program { name: ETCD, replicas: etcd::size(blueprint), image: &images.etcd, ..etcd };
    let server = api_server::program(blueprint, &images, "172.30.0.9".parse().unwrap());
    let all = [etcd, server].into_iter().chain(managers::programs(blueprint, &images));
    let flags = |program: &Program<'_>| {
        let pairs = program.arguments.iter().map(|argument| argument[2..].split_once('=').unwrap());
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    all.map(|program| (program.stateful_set(blueprint), flags(&program))).collect()
}

#[rstest]
#[case(AvailabilityPolicy::SingleReplica, [1, 1, 1, 1])]
#[case(AvailabilityPolicy::HighlyAvailable, [3, 2, 2, 2])]
fn every_program_has_as_many_replicas_as_the_policy_says(
    #[case] policy: AvailabilityPolicy,
    #[case] expected: [i32; 4],
) {
    let config = Config::default();
    let blueprint = draw("4.21.0", policy, &config).unwrap();
    let replicas: Vec<_> = programs(&blueprint, &config)
        .into_iter()
        .map(|(set, _)| set.spec.unwrap().replicas.unwrap())
        .collect();
    assert_eq!(replicas, expected);
}

/// As many clusters as their memory allows on a machine of 24 GiB fit on two processors.
#[test]
fn twenty_clusters_fit_on_two_processors() {
    let config = Config::default();
    let blueprint = draw("4.21.0", AvailabilityPolicy::SingleReplica, &config).unwrap();
    let images = Images::of(blueprint.control_plane_release.upstream().unwrap(), &config);
    let server = api_server::program(&blueprint, &images, "172.30.0.9".parse().unwrap());
    let programs = managers::programs(&blueprint, &images).into_iter().chain([server]);
    let requests = programs.map(|program| program.requests).chain([etcd::REQUESTS]);
    let processor = |[(name, amount), _]: [(&str, &str); 2]| {
        assert_eq!(name, "cpu");
        amount.strip_suffix('m').unwrap().parse::<u32>().unwrap()
    };
    let one: u32 = requests.map(processor).sum();
    assert!(20 * one <= 2000, "one asks for {one} thousandths of a processor");
}

/// What the benchmark of the Center for Internet Security looks for in flags.
#[test]
fn settings_are_those_that_a_benchmark_of_secure_clusters_asks_for() {
    let config = Config::default();
    let blueprint = draw("4.21.0", AvailabilityPolicy::HighlyAvailable, &config).unwrap();
    let all = programs(&blueprint, &config);
    let [etcd, server, controllers, scheduler] = &all[..] else { panic!("four programs") };
    let is = |program: &(StatefulSet, BTreeMap<String, String>), flag: &str, value: &str| {
        assert_eq!(program.1.get(flag).map(String::as_str), Some(value), "{flag}");
    };
    let has = |program: &(StatefulSet, BTreeMap<String, String>), flags: &[&str]| {
        for flag in flags {
            assert!(program.1.get(*flag).is_some_and(|value| !value.is_empty()), "{flag}");
        }
    };
    is(server, "authorization-mode", "Node,RBAC");
    assert!(server.1["enable-admission-plugins"].split(',').any(|plugin| plugin == "NodeRestriction"));
    for absent in ["anonymous-auth", "token-auth-file", "disable-admission-plugins", "insecure-port"] {
        assert!(!server.1.contains_key(absent), "{absent}");
    }
    has(
        server,
        &[
            "advertise-address",
            "audit-log-path",
            "audit-policy-file",
            "authentication-config",
            "client-ca-file",
            "encryption-provider-config",
            "etcd-cafile",
            "etcd-certfile",
            "etcd-keyfile",
            "kubelet-certificate-authority",
            "kubelet-client-certificate",
            "kubelet-client-key",
            "proxy-client-cert-file",
            "requestheader-client-ca-file",
            "service-account-key-file",
            "service-account-signing-key-file",
            "tls-cert-file",
            "tls-private-key-file",
        ],
    );
    is(server, "advertise-address", "172.30.0.9");
    is(server, "audit-log-maxage", "30");
    is(server, "audit-log-maxbackup", "10");
    is(server, "audit-log-maxsize", "100");
    is(server, "service-account-lookup", "true");
    is(server, "service-account-extend-token-expiration", "false");
    for program in [server, controllers, scheduler] {
        is(program, "profiling", "false");
        is(program, "tls-min-version", "VersionTLS12");
        has(program, &["tls-cert-file", "tls-private-key-file"]);
        is(program, "tls-cipher-suites", CIPHERS);
    }
    is(controllers, "use-service-account-credentials", "true");
    has(controllers, &["root-ca-file", "service-account-private-key-file", "terminated-pod-gc-threshold"]);
    for flag in ["client-cert-auth", "peer-client-cert-auth"] {
        is(etcd, flag, "true");
    }
    for flag in ["auto-tls", "peer-auto-tls"] {
        is(etcd, flag, "false");
    }
    is(
        server,
        "etcd-servers",
        "https://etcd-0.etcd-discovery.ocm-local-1-first.svc:2379,https://etcd-1.etcd-discovery.ocm-local-1-first.svc:2379,\
         https://etcd-2.etcd-discovery.ocm-local-1-first.svc:2379",
    );
}

#[test]
fn images_are_those_of_the_catalogue_or_the_programs_on_disk() {
    let there = Config::default();
    let here = Config { upstream: Some("/somewhere".into()), ..Config::default() };
    let blueprint = draw("4.21.0", AvailabilityPolicy::SingleReplica, &there).unwrap();
    let images = |config| {
        let Images { etcd, api_server, .. } =
            Images::of(blueprint.control_plane_release.upstream().unwrap(), config);
        (etcd, api_server)
    };
    assert_eq!(
        images(&there),
        ("registry.k8s.io/etcd:3.6.4-0".into(), "registry.k8s.io/kube-apiserver:v1.34.1".into())
    );
    assert_eq!(images(&here), ("etcd:v1.34.1".into(), "kube-apiserver:v1.34.1".into()));
}

#[test]
fn a_release_whose_programs_are_missing_is_refused_with_how_to_get_them() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config { upstream: Some(folder.path().to_owned()), ..Config::default() };
    let refused = |release: &str| {
        let refusals = draw(release, AvailabilityPolicy::SingleReplica, &config).unwrap_err();
        refusals.of("ValidReleaseImage").unwrap().message.clone()
    };
    let message = refused("4.21.0");
    assert!(message.contains("lacks etcd, kube-apiserver"), "{message}");
    let remedy =
        format!("`pilothouse upstream install --version 1.34.1 --cache {}`", folder.path().display());
    assert!(message.contains("Kubernetes 1.34.1") && message.contains(&remedy), "{message}");
    assert!(refused("4.19.0").contains("4.20 and 4.21"));

    let version = folder.path().join("v1.34.1");
    fs::create_dir(&version).unwrap();
    for name in ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
        install(&version.join(name));
    }
    draw("4.21.0", AvailabilityPolicy::SingleReplica, &config).unwrap();
    draw("4.21.10", AvailabilityPolicy::SingleReplica, &config).unwrap();
    assert!(refused("4.20.0").contains("1.33.13"));
}

#[test]
fn a_cluster_that_runs_keeps_its_payload() {
    let mut cluster = cluster("4.21.0", AvailabilityPolicy::SingleReplica);
    let usual = Config { payload: Payload::Upstream, ..Config::default() };
    let payload = |cluster: &HostedCluster, config: &Config| {
        let mut complaints = Refusals::default();
        let payload = Payload::of(cluster, config, &mut complaints);
        (payload.unwrap(), complaints.of("ValidConfiguration").map(|refusal| refusal.message.clone()))
    };
    assert_eq!(payload(&cluster, &Config::default()), (Payload::Upstream, None));
    let entry = HistoryEntry {
        state: HistoryState::Completed,
        started_time: Time("2026-01-01T00:00:00Z".parse().unwrap()),
        completion_time: None,
        version: "4.21.0".to_owned(),
        image: "pilothouse/release:4.21.0".to_owned(),
        verified: false,
    };
    cluster.status = Some(HostedClusterStatus {
        payload: Some("light".to_owned()),
        version: Some(ClusterVersionStatus { history: vec![entry], ..ClusterVersionStatus::default() }),
        ..HostedClusterStatus::default()
    });
    let (kept, complaint) = payload(&cluster, &Config::default());
    assert_eq!(kept, Payload::Light);
    assert!(complaint.unwrap().contains("make another cluster"));
    cluster.metadata.annotations = None;
    assert_eq!(payload(&cluster, &usual), (Payload::Light, None));
    cluster.status = None;
    assert_eq!(payload(&cluster, &usual), (Payload::Upstream, None));
    cluster.metadata.annotations = Some([(names::PAYLOAD.to_owned(), "heavy".to_owned())].into());
    assert!(Payload::of(&cluster, &usual, &mut Refusals::default()).is_err());
}

fn install(path: &Path) {
    fs::write(path, "").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn pod(component: &str, hash: &str, ready: bool) -> Arc<Pod> {
    let mut pod = Pod::default();
    pod.metadata.labels = Some([(names::COMPONENT.to_owned(), component.to_owned())].into());
    pod.metadata.annotations = Some([(names::CONFIG_HASH.to_owned(), hash.to_owned())].into());
    pod.status = Some(PodStatus {
        conditions: Some(vec![PodCondition {
            type_: "Ready".to_owned(),
            status: if ready { "True" } else { "False" }.to_owned(),
            ..PodCondition::default()
        }]),
        ..PodStatus::default()
    });
    Arc::new(pod)
}

#[test]
fn a_new_release_reaches_programs_one_stage_after_the_other() {
    let set = |name: &str, replicas: i32| {
        let mut set = StatefulSet::default();
        set.metadata.name = Some(name.to_owned());
        set.spec = Some(StatefulSetSpec { replicas: Some(replicas), ..StatefulSetSpec::default() });
        set
    };
    let component = |name: &str, replicas: i32, needed: usize, stage: u8| Component {
        stateful_set: set(name, replicas),
        hash: "new".to_owned(),
        needed,
        stage,
    };
    let parts = Parts {
        config_maps: Vec::new(),
        components: vec![
            component("etcd", 3, 2, 0),
            component("kube-apiserver", 1, 1, 1),
            component("kube-scheduler", 1, 1, 2),
        ],
    };
    let due = |pods: &[Arc<Pod>], exist: bool| {
        let due = parts.due(pods, |_| exist).map(|component| component.stateful_set.metadata.name.clone());
        due.flatten().collect::<Vec<_>>()
    };
    let mut pods = Vec::new();
    assert_eq!(due(&pods, false).len(), 3, "what is not there is made at once");
    assert_eq!(due(&pods, true), ["etcd"]);
    pods.extend([pod("etcd", "new", true), pod("etcd", "new", true), pod("etcd", "old", true)]);
    assert_eq!(due(&pods, true), ["etcd"], "a majority is not all of them");
    assert!(parts.serves("etcd", &pods).unwrap().is_ok());
    pods.pop();
    pods.push(pod("etcd", "new", true));
    assert_eq!(due(&pods, true), ["etcd", "kube-apiserver"]);
    pods.extend([pod("kube-apiserver", "old", true), pod("kube-scheduler", "old", true)]);
    assert_eq!(parts.serve(&pods), Ok(()), "one of before serves as well");
    assert!(parts.run(&pods).unwrap_err().contains("previous release"));
    pods.truncate(3);
    pods.push(pod("kube-apiserver", "new", false));
    assert_eq!(due(&pods, true), ["etcd", "kube-apiserver"]);
    assert!(parts.serve(&pods).unwrap_err().contains("is not ready"));
    assert!(parts.run(&pods).unwrap_err().contains("is not ready"));
    pods.pop();
    pods.push(pod("kube-apiserver", "new", true));
    assert_eq!(due(&pods, true).len(), 3);
    assert!(parts.complete(&pods).unwrap_err().contains("kube-scheduler"));
    pods.push(pod("kube-scheduler", "new", true));
    assert_eq!((parts.run(&pods), parts.complete(&pods)), (Ok(()), Ok(())));
}
