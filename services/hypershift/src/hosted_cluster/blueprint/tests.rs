use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pilothouse_crds::{
    AdvertisedAddress, ControlPlaneVersionStatus, HistoryEntry, HistoryState, HostedClusterSpec,
    HostedClusterStatus, NodePortPublishing, Platform, PublishedService, PublishingStrategy, PublishingType,
    Reference, RoutePublishing, ServiceNetworkEntry, ServicePublishing,
};
use rstest::rstest;
use serde_json::json;

use super::*;

fn cluster() -> HostedCluster {
    let mut cluster = HostedCluster::new(
        "first",
        HostedClusterSpec {
            release: pilothouse_crds::Release { image: "pilothouse/release:4.20.0".into() },
            platform: Platform { type_: PlatformType::None, ..Platform::default() },
            issuer_url: "https://kubernetes.default.svc".into(),
            ..HostedClusterSpec::default()
        },
    );
    cluster.metadata.namespace = Some("ocm-local-1".into());
    cluster
}

fn changed(change: impl FnOnce(&mut HostedCluster)) -> HostedCluster {
    let mut cluster = cluster();
    change(&mut cluster);
    cluster
}

fn draw(cluster: &HostedCluster) -> Result<Blueprint, Refusals> {
    Blueprint::draw(cluster, &[], &Config::default())
}

fn annotated(key: &str, value: &str) -> HostedCluster {
    changed(|cluster| cluster.metadata.annotations = Some([(key.to_owned(), value.to_owned())].into()))
}

/// The API server has this name, too.
fn named(name: &str) -> HostedCluster {
    changed(|cluster| cluster.spec.kube_api_server_dns_name = Some(name.to_owned()))
}

/// The API server by this strategy and nothing else.
fn published(strategy: PublishingStrategy) -> HostedCluster {
    changed(|cluster| {
        cluster.spec.services = vec![ServicePublishing {
            service: PublishedService::ApiServer,
            service_publishing_strategy: strategy,
        }];
    })
}

fn by_node_port(address: &str, port: Option<i32>) -> HostedCluster {
    published(PublishingStrategy {
        node_port: Some(NodePortPublishing { address: address.into(), port }),
        ..PublishingStrategy::of(PublishingType::NodePort)
    })
}

/// The cluster has run this release and is asked for another.
fn upgrading(from: &str, to: &str) -> HostedCluster {
    changed(|cluster| {
        cluster.spec.release.image = format!("pilothouse/release:{to}");
        let entry = HistoryEntry {
            state: HistoryState::Completed,
            started_time: Time(jiff::Timestamp::UNIX_EPOCH),
            completion_time: None,
            version: from.to_owned(),
            image: format!("pilothouse/release:{from}"),
            verified: false,
        };
        let version =
            ControlPlaneVersionStatus { history: vec![entry], ..ControlPlaneVersionStatus::default() };
        cluster.status = Some(HostedClusterStatus {
            control_plane_version: Some(version),
            ..HostedClusterStatus::default()
        });
    })
}

#[test]
fn a_plain_cluster_gets_the_usual_names_and_ranges() {
    let blueprint = draw(&cluster()).unwrap();
    assert_eq!(blueprint.namespace, "ocm-local-1-first");
    assert_eq!(blueprint.publishing.name(), Some("api.first.pilothouse.test"));
    assert_eq!(blueprint.first_service_address.to_string(), "172.31.0.1");
    assert_eq!(blueprint.pod_range, "10.132.0.0/14");
    assert_eq!(blueprint.storage_size, "8Gi");
    assert_eq!(blueprint.encrypts_with.as_deref(), Some("first-etcd-encryption-key"));
}

#[rstest]
#[case(|c: &mut HostedCluster| c.spec.dns.base_domain = "example.test".into(), "api.first.example.test")]
#[case(|c: &mut HostedCluster| c.spec.dns.base_domain_prefix = Some("other".into()), "api.other.pilothouse.test")]
#[case(|c: &mut HostedCluster| c.spec.dns.base_domain_prefix = Some(String::new()), "api.pilothouse.test")]
#[case(|c: &mut HostedCluster| c.spec.services[0].service_publishing_strategy.route =
    Some(RoutePublishing { hostname: Some("my.example.test".into()) }), "my.example.test")]
// Without balancers, the gateway is the balancer.
#[case(|c: &mut HostedCluster| c.spec.services[0].service_publishing_strategy =
    PublishingStrategy::of(PublishingType::LoadBalancer), "api.first.pilothouse.test")]
fn the_host_is_the_one_asked_for(#[case] change: fn(&mut HostedCluster), #[case] host: &str) {
    let blueprint = draw(&changed(change)).unwrap();
    assert_eq!(blueprint.publishing, Publishing::Route { host: host.to_owned() });
}

#[rstest]
#[case(changed(|c| c.spec.platform.type_ = PlatformType::Aws), "SupportedHostedCluster", "platform Aws")]
#[case(changed(|c| c.spec.release.image = "pilothouse/release:4.99.0".into()), "ValidReleaseImage", "`4.99.0`")]
#[case(changed(|c| c.spec.networking.service_network[0].cidr = "nonsense".into()), "ValidConfiguration",
    "spec.networking.serviceNetwork: `nonsense`")]
#[case(changed(|c| c.spec.networking.service_network[0].cidr = "172.31.0.1/16".into()), "ValidConfiguration",
    "`172.31.0.1/16` is no IPv4 range")]
#[case(changed(|c| c.spec.networking.service_network[0].cidr = "10.133.0.0/16".into()), "ValidConfiguration",
    "clusterNetwork 10.132.0.0/14 and serviceNetwork 10.133.0.0/16 share addresses")]
#[case(changed(|c| c.spec.networking.machine_network = vec![ServiceNetworkEntry { cidr: "172.31.128.0/24".into() }]),
    "ValidConfiguration", "serviceNetwork 172.31.0.0/16 and machineNetwork 172.31.128.0/24 share addresses")]
#[case(changed(|c| c.spec.networking.cluster_network.clear()), "ValidConfiguration", "clusterNetwork is empty")]
#[case(changed(|c| c.spec.networking.cluster_network[0].host_prefix = Some(14)), "ValidConfiguration", "hostPrefix 14")]
#[case(changed(|c| c.spec.networking.api_server = Some(AdvertisedAddress {
    advertise_address: Some("172.31.4.4".into()), ..AdvertisedAddress::default()
})), "ValidConfiguration", "advertiseAddress: 172.31.4.4 lies in serviceNetwork")]
#[case(changed(|c| c.spec.networking.api_server = Some(AdvertisedAddress {
    advertise_address: Some("here".into()), port: Some(0), ..AdvertisedAddress::default()
})), "ValidConfiguration", "0 is no port; use 1 to 65535; spec.networking.apiServer.advertiseAddress: `here`")]
#[case(changed(|c| c.spec.etcd.management_type = EtcdManagementType::Unmanaged), "ValidConfiguration", "Unmanaged")]
#[case(changed(|c| c.spec.dns.base_domain = "a b".into()), "ValidConfiguration", "cannot be published")]
#[case(changed(|c| c.spec.issuer_url = "http://plain".into()), "ValidConfiguration", "spec.issuerURL: `http://plain`")]
#[case(changed(|c| c.spec.cluster_id = Some("mine".into())), "ValidConfiguration", "spec.clusterID: `mine`")]
#[case(changed(|c| c.metadata.name = Some("x".repeat(60))), "ValidConfiguration", "longer than 63 characters")]
#[case(changed(|c| c.spec.etcd.managed.as_mut().unwrap().storage.persistent_volume.as_mut().unwrap().size = "big".into()),
    "ValidConfiguration", "`big` is no amount")]
#[case(changed(|c| c.spec.secret_encryption = serde_json::from_value(json!({
    "type": "aescbc", "aescbc": { "activeKey": { "name": "a" }, "backupKey": { "name": "a" } }
})).unwrap()), "ValidConfiguration", "both the active and the backup key")]
#[case(changed(|c| {
    let twice = c.spec.services[0].clone();
    c.spec.services.push(twice);
}), "ValidConfiguration", "ApiServer is named twice")]
#[case(changed(|c| for service in &mut c.spec.services[..2] {
    service.service_publishing_strategy.route = Some(RoutePublishing { hostname: Some("one.test".into()) });
}), "ValidConfiguration", "have the same host name `one.test`")]
#[case(published(PublishingStrategy::of(PublishingType::S3)), "ValidConfiguration", "by S3")]
#[case(by_node_port("", None), "ValidConfiguration", "needs nodePort.address")]
#[case(
    by_node_port("10.0.0.1", Some(80)),
    "ValidConfiguration",
    "nodePort.port 80 is none of 30000 to 32767"
)]
#[case(by_node_port("172.31.0.9", None), "ValidConfiguration", "172.31.0.9 lies in serviceNetwork")]
#[case(annotated(names::CERTIFICATE_VALIDITY, "soon"), "ValidConfiguration", "`soon` is no duration")]
#[case(annotated(names::CERTIFICATE_RENEWAL, "2"), "ValidConfiguration", "`2` is no share")]
#[case(annotated(names::DESTROY_GRACE_PERIOD, "-1s"), "ValidConfiguration", "`-1s` is no duration")]
#[case(annotated(names::RESOURCE_REQUESTS, "memory=lots"), "ValidConfiguration", "`memory=lots` is no list")]
#[case(annotated(names::RESOURCE_REQUESTS, "disk=1Gi"), "ValidConfiguration", "`disk=1Gi` is no list")]
#[case(named("10.0.0.1"), "ValidConfiguration", "spec.kubeAPIServerDNSName: `10.0.0.1` is an address")]
#[case(named("a b.test"), "ValidConfiguration", "spec.kubeAPIServerDNSName: `a b.test` is no DNS name")]
#[case(named("kubernetes"), "ValidConfiguration", "`kubernetes` is a name that means something else")]
#[case(
    named("a.cluster.local"),
    "ValidConfiguration",
    "`a.cluster.local` is a name that means something else"
)]
#[case(changed(|c| c.spec.configuration = serde_json::from_value(json!({
    "authentication": { "type": "OIDC", "oidcProviders": [] }
})).unwrap()), "ValidConfiguration", "spec.configuration.authentication.oidcProviders: type OIDC needs")]
fn what_cannot_be_made_is_refused_with_the_field_and_the_rule(
    #[case] cluster: HostedCluster,
    #[case] condition: &str,
    #[case] message: &str,
) {
    let refusals = draw(&cluster).unwrap_err();
    let refusal = refusals.of(condition).unwrap_or_else(|| panic!("{refusals:?}"));
    assert!(refusal.message.contains(message), "{}", refusal.message);
    assert_eq!(refusals.first(), Some(refusal));
}

#[test]
fn the_priority_that_counts_most_is_that_of_the_one_pod() {
    let [api, etcd, all] = names::PRIORITY_CLASSES;
    let priority = |annotations: &[(&str, &str)]| {
        let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let cluster = changed(|cluster| cluster.metadata.annotations = Some(annotations.collect()));
        draw(&cluster).unwrap().priority_class
    };
    assert_eq!(priority(&[]), names::API_CRITICAL);
    assert_eq!(priority(&[(all, "low")]), "low");
    assert_eq!(priority(&[(all, "low"), (etcd, "middle")]), "middle");
    assert_eq!(priority(&[(etcd, "middle"), (api, "high")]), "high");
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let wrong = changed(|cluster| {
        cluster.spec.platform.type_ = PlatformType::Gcp;
        cluster.spec.release.image = "pilothouse/release".into();
        cluster.spec.issuer_url = String::new();
        cluster.spec.networking.service_network[0].cidr = "x".into();
    });
    let refusals = draw(&wrong).unwrap_err();
    for condition in ["SupportedHostedCluster", "ValidReleaseImage", "ValidConfiguration"] {
        assert!(refusals.of(condition).is_some(), "{refusals:?}");
    }
    let both = &refusals.of("ValidConfiguration").unwrap().message;
    assert!(both.contains("serviceNetwork") && both.contains("spec.issuerURL"), "{both}");
}

#[rstest]
#[case("4.20.0", "4.20.8", None)]
#[case("4.20.8", "4.21.0", None)]
#[case("4.20.8", "4.20.0", Some("does not go back to an earlier version"))]
#[case("4.20.0", "4.19.4", Some("does not go back to an earlier version"))]
#[case("4.18.0", "4.20.0", Some("go to 4.19 first"))]
#[case("4.20.0", "4.99.0", Some("cannot be served"))]
fn a_release_follows_another_or_the_cluster_keeps_what_it_runs(
    #[case] from: &str,
    #[case] to: &str,
    #[case] refused: Option<&str>,
) {
    let blueprint = draw(&upgrading(from, to)).unwrap();
    let complaint = blueprint.complaints.of("ValidReleaseImage");
    match refused {
        None => assert_eq!((blueprint.release.version.as_str(), complaint), (to, None)),
        Some(rule) => {
            assert_eq!(blueprint.release.version, from);
            assert!(complaint.unwrap().message.contains(rule), "{complaint:?}");
        }
    }
}

/// What etcd has changed on the way to a minor version, the one before cannot read.
#[rstest]
#[case("light", "4.20.0", "4.20.0", false)]
#[case("light", "nonsense", "4.20.0", true)]
#[case("upstream", "4.20.0", "4.21.0", true)]
#[case("upstream", "nonsense", "4.21.0", true)]
#[case("upstream", "4.21.4", "4.21.4", false)]
fn an_upgrade_that_has_begun_is_not_taken_back_where_that_would_lose_the_store(
    #[case] payload: &str,
    #[case] asked: &str,
    #[case] expected: &str,
    #[case] refused: bool,
) {
    let mut cluster = upgrading("4.20.0", asked);
    cluster.metadata.annotations = Some([(names::PAYLOAD.to_owned(), payload.to_owned())].into());
    let status = cluster.status.as_mut().unwrap();
    let history = &mut status.control_plane_version.as_mut().unwrap().history;
    let begun = HistoryEntry {
        state: HistoryState::Partial,
        version: "4.21.0".to_owned(),
        image: "pilothouse/release:4.21.0".to_owned(),
        ..history[0].clone()
    };
    history.insert(0, begun);
    let blueprint = draw(&cluster).unwrap();
    assert_eq!(blueprint.control_plane_release.version, expected);
    let complaint = blueprint.complaints.of("ValidReleaseImage");
    assert_eq!(complaint.is_some(), refused, "{complaint:?}");
}

#[test]
fn nodes_that_would_be_too_far_behind_hold_an_upgrade_unless_it_is_forced() {
    let pools = [Pool { name: "old".into(), version: "4.17.3".into() }];
    let cluster = upgrading("4.20.0", "4.21.0");
    let blueprint = Blueprint::draw(&cluster, &pools, &Config::default()).unwrap();
    let complaint = &blueprint.complaints.of("ValidReleaseImage").unwrap().message;
    assert!(complaint.contains("old (4.17.3)") && complaint.contains(names::FORCE_UPGRADE_TO), "{complaint}");
    assert_eq!(blueprint.release.version, "4.20.0");
    assert!(upgrade::obstacle(&blueprint.release, &pools).is_some());

    let mut forced = cluster;
    let image = forced.spec.release.image.clone();
    forced.metadata.annotations = Some([(names::FORCE_UPGRADE_TO.to_owned(), image)].into());
    let blueprint = Blueprint::draw(&forced, &pools, &Config::default()).unwrap();
    assert_eq!(blueprint.release.version, "4.21.0");
    // A patch of the same minor version needs no force.
    let patch = Blueprint::draw(&upgrading("4.20.0", "4.20.8"), &pools, &Config::default()).unwrap();
    assert_eq!(patch.release.version, "4.20.8");
}

#[test]
fn pods_are_replaced_for_a_new_release_or_restart_and_for_nothing_else() {
    let hash = |cluster: &HostedCluster| draw(cluster).unwrap().config_hash();
    let before = hash(&cluster());
    assert_ne!(hash(&changed(|c| c.spec.release.image = "pilothouse/release:4.20.8".into())), before);
    assert_ne!(hash(&annotated(names::RESTART_DATE, "now")), before);
    let key = json!({ "type": "aescbc", "aescbc": { "activeKey": { "name": "mine" } } });
    assert_ne!(hash(&changed(|c| c.spec.secret_encryption = serde_json::from_value(key).unwrap())), before);
    assert_eq!(hash(&changed(|c| c.spec.pull_secret = Reference::to("other"))), before);
    assert_eq!(hash(&changed(|c| c.spec.dns.base_domain_prefix = Some("x".into()))), before);
}
