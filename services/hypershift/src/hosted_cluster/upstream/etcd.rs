//! Where the cluster keeps its state: one member, or three.

use k8s_openapi::api::core::v1::{ConfigMap, Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::super::blueprint::Blueprint;
use super::super::payload::Images;
use super::super::{manifests, upstream};
use super::authorities::{Authorities, PEER, SERVER};
use super::{Health, Program, file, flags};
use crate::names;
use crate::secrets::{CERTIFICATE, KEY};

/// Its StatefulSet and the ConfigMap with its files.
pub(crate) const ETCD: &str = "etcd";
/// The Service that gives members their names.
pub(super) const DISCOVERY: &str = "etcd-discovery";
const CLIENTS: &str = "etcd-client";

const CLIENT_PORT: u16 = 2379;
const PEER_PORT: u16 = 2380;
/// Health and metrics, which no certificate is asked for.
const HEALTH_PORT: u16 = 2381;

const AUTHORITY: &str = "etcd-ca.crt";
const DATA: &str = "/var/lib/etcd";
/// What a member uses with nothing to do, measured.
pub(super) const REQUESTS: [(&str, &str); 2] = [("cpu", "20m"), ("memory", "48Mi")];
/// The largest that etcd's authors suggest.
const QUOTA: &str = "8589934592";

/// The name of a member, as everybody knows it.
pub(super) fn host(blueprint: &Blueprint, member: &str) -> String {
    format!("{member}.{DISCOVERY}.{}.svc", blueprint.namespace)
}

/// The members.
pub(super) fn members(blueprint: &Blueprint) -> impl Iterator<Item = String> {
    (0..size(blueprint)).map(|number| format!("{ETCD}-{number}"))
}

/// Where the API server finds them.
pub(super) fn urls(blueprint: &Blueprint) -> String {
    let urls = members(blueprint).map(|member| format!("https://{}:{CLIENT_PORT}", host(blueprint, &member)));
    urls.collect::<Vec<_>>().join(",")
}

pub(super) fn size(blueprint: &Blueprint) -> u8 {
    if blueprint.highly_available { 3 } else { 1 }
}

pub(super) fn services(blueprint: &Blueprint) -> Vec<Service> {
    let port = |name: &str, port: u16| ServicePort {
        name: Some(name.to_owned()),
        port: port.into(),
        target_port: Some(IntOrString::Int(port.into())),
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    };
    let service = |name: &str, spec: ServiceSpec| Service {
        metadata: manifests::in_namespace(blueprint, name),
        spec: Some(ServiceSpec { selector: Some(manifests::selector(ETCD)), ..spec }),
        ..Service::default()
    };
    vec![
        service(
            DISCOVERY,
            ServiceSpec {
                cluster_ip: Some("None".to_owned()),
                // Members have to find each other before any of them is ready.
                publish_not_ready_addresses: Some(true),
                ports: Some(vec![port("peer", PEER_PORT), port("client", CLIENT_PORT)]),
                ..ServiceSpec::default()
            },
        ),
        service(
            CLIENTS,
            ServiceSpec {
                ports: Some(vec![port("client", CLIENT_PORT), port("metrics", HEALTH_PORT)]),
                ..ServiceSpec::default()
            },
        ),
    ]
}

pub(super) fn config_map(blueprint: &Blueprint, authorities: &Authorities) -> ConfigMap {
    upstream::config_map(blueprint, ETCD, [(AUTHORITY, authorities.etcd().to_pem())])
}

pub(super) fn program<'a>(
    blueprint: &Blueprint,
    images: &'a Images,
    authorities: &Authorities,
) -> Program<'a> {
    // Not with everything else: who changes a setting of the API server does not want its store restarted.
    let trusted = authorities.etcd_fingerprint();
    let restart = blueprint.restart_date.as_deref().unwrap_or_default();
    Program {
        name: ETCD,
        image: &images.etcd,
        arguments: arguments(blueprint),
        hash: names::stable_hash([images.etcd.as_str(), trusted.as_str(), restart]),
        release: &images.etcd,
        replicas: size(blueprint),
        service: DISCOVERY,
        ports: &[("client", CLIENT_PORT), ("peer", PEER_PORT), ("health", HEALTH_PORT)],
        health: Health { port: HEALTH_PORT, scheme: "HTTP", ready: "/readyz", live: "/livez" },
        requests: REQUESTS,
        secrets: vec![SERVER, PEER],
        config_map: ETCD,
        scratch: Vec::new(),
        data: Some(DATA),
        grace_seconds: 30,
    }
}

pub(super) fn arguments(blueprint: &Blueprint) -> Vec<String> {
    let everywhere = |port: u16| format!("https://0.0.0.0:{port}");
    let own = |port: u16| format!("https://{}:{port}", host(blueprint, "$(POD_NAME)"));
    let cluster = members(blueprint).map(|member| {
        let host = host(blueprint, &member);
        format!("{member}=https://{host}:{PEER_PORT}")
    });
    let progress = match blueprint.control_plane_release.minor {
        ..=20 => "experimental-watch-progress-notify-interval",
        _ => "watch-progress-notify-interval",
    };
    let in_pki = manifests::in_pki;
    flags([
        ("name", "$(POD_NAME)".to_owned()),
        // Below the volume, whose own folder may be readable for others.
        ("data-dir", format!("{DATA}/data")),
        ("listen-client-urls", everywhere(CLIENT_PORT)),
        ("advertise-client-urls", own(CLIENT_PORT)),
        ("listen-peer-urls", everywhere(PEER_PORT)),
        ("initial-advertise-peer-urls", own(PEER_PORT)),
        ("initial-cluster", cluster.collect::<Vec<_>>().join(",")),
        ("initial-cluster-token", blueprint.namespace.clone()),
        ("initial-cluster-state", "new".to_owned()),
        ("listen-metrics-urls", format!("http://0.0.0.0:{HEALTH_PORT}")),
        ("cert-file", in_pki(SERVER, CERTIFICATE)),
        ("key-file", in_pki(SERVER, KEY)),
        ("client-cert-auth", "true".to_owned()),
        ("trusted-ca-file", file(AUTHORITY)),
        ("auto-tls", "false".to_owned()),
        ("peer-cert-file", in_pki(PEER, CERTIFICATE)),
        ("peer-key-file", in_pki(PEER, KEY)),
        ("peer-client-cert-auth", "true".to_owned()),
        ("peer-trusted-ca-file", file(AUTHORITY)),
        ("peer-auto-tls", "false".to_owned()),
        ("tls-min-version", "TLS1.2".to_owned()),
        ("cipher-suites", super::CIPHERS.to_owned()),
        ("quota-backend-bytes", QUOTA.to_owned()),
        ("snapshot-count", "10000".to_owned()),
        // So that lists are served from the API server's cache.
        (progress, "5s".to_owned()),
    ])
}
