//! kube-controller-manager and kube-scheduler: clients of the API server, who find it at the address of its Service.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::super::blueprint::Blueprint;
use super::super::payload::Images;
use super::super::pki::{self, Signers};
use super::super::{manifests, upstream};
use super::authorities::{Authorities, CONTROLLER_MANAGER_CLIENT, SCHEDULER_CLIENT};
use super::{CIPHERS, Health, Program, file, flags};
use crate::error::Error;
use crate::names::API_PORT;
use crate::secrets::{AUTHORITY_CERTIFICATE, AUTHORITY_KEY, CERTIFICATE, KEY};

pub(super) const CONTROLLER_MANAGER: &str = "kube-controller-manager";
pub(super) const SCHEDULER: &str = "kube-scheduler";
/// The ConfigMap with the files of both.
const MANAGERS: &str = "kube-managers";

const CONTROLLER_MANAGER_PORT: u16 = 10257;
const SCHEDULER_PORT: u16 = 10259;

const ROOT_AUTHORITIES: &str = "root-ca.crt";
const CLIENT_AUTHORITIES: &str = "client-ca.crt";
const AGGREGATOR_AUTHORITIES: &str = "aggregator-ca.crt";

pub(super) fn config_map(
    blueprint: &Blueprint,
    address: IpAddr,
    signers: &Signers,
    authorities: &Authorities,
) -> Result<ConfigMap, Error> {
    let files = [
        (ROOT_AUTHORITIES, signers.root().to_pem()),
        (CLIENT_AUTHORITIES, signers.clients()?.to_pem()),
        (AGGREGATOR_AUTHORITIES, authorities.aggregator().to_pem()),
        (CONTROLLER_MANAGER, kubeconfig(address, CONTROLLER_MANAGER_CLIENT)),
        (SCHEDULER, kubeconfig(address, SCHEDULER_CLIENT)),
    ];
    Ok(upstream::config_map(blueprint, MANAGERS, files))
}

/// Certificates by their files, which are read again when they change.
fn kubeconfig(address: IpAddr, client: &str) -> String {
    let host = match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "hosted", "cluster": {
            "server": format!("https://{host}:{API_PORT}"),
            "certificate-authority": file(ROOT_AUTHORITIES),
        } }],
        "users": [{ "name": client, "user": {
            "client-certificate": manifests::in_pki(client, CERTIFICATE),
            "client-key": manifests::in_pki(client, KEY),
        } }],
        "contexts": [{ "name": "hosted", "context": { "cluster": "hosted", "user": client } }],
        "current-context": "hosted",
    });
    format!("{kubeconfig:#}\n")
}

pub(super) fn programs<'a>(blueprint: &'a Blueprint, images: &'a Images) -> [Program<'a>; 2] {
    let program = |name, image, port, arguments, secrets, requests| Program {
        name,
        image,
        arguments,
        hash: blueprint.config_hash(),
        release: &blueprint.control_plane_release.image,
        replicas: if blueprint.highly_available { 2 } else { 1 },
        // Nobody asks for them by name; there has to be one.
        service: name,
        ports: port,
        health: Health { port: port[0].1, scheme: "HTTPS", ready: "/healthz", live: "/healthz" },
        requests,
        secrets,
        config_map: MANAGERS,
        scratch: Vec::new(),
        data: None,
        grace_seconds: 10,
    };
    let of_controllers = vec![CONTROLLER_MANAGER_CLIENT, pki::CLIENT_AUTHORITY, pki::SERVICE_ACCOUNT];
    [
        program(
            CONTROLLER_MANAGER,
            images.controller_manager.as_str(),
            &[("https", CONTROLLER_MANAGER_PORT)],
            controller_manager(blueprint),
            of_controllers,
            [("cpu", "15m"), ("memory", "104Mi")],
        ),
        program(
            SCHEDULER,
            images.scheduler.as_str(),
            &[("https", SCHEDULER_PORT)],
            common(blueprint, SCHEDULER, SCHEDULER_PORT, SCHEDULER_CLIENT),
            vec![SCHEDULER_CLIENT],
            [("cpu", "5m"), ("memory", "64Mi")],
        ),
    ]
}

/// What both are told.
fn common(blueprint: &Blueprint, name: &str, port: u16, certificate: &str) -> Vec<String> {
    let in_pki = manifests::in_pki;
    flags([
        ("kubeconfig", file(name)),
        ("authentication-kubeconfig", file(name)),
        ("authorization-kubeconfig", file(name)),
        ("client-ca-file", file(CLIENT_AUTHORITIES)),
        ("requestheader-client-ca-file", file(AGGREGATOR_AUTHORITIES)),
        // The pod's own address, which the kubelet asks for its health; whoever wants more is asked who they are.
        ("bind-address", "0.0.0.0".to_owned()),
        ("secure-port", port.to_string()),
        ("tls-cert-file", in_pki(certificate, CERTIFICATE)),
        ("tls-private-key-file", in_pki(certificate, KEY)),
        ("tls-min-version", "VersionTLS12".to_owned()),
        ("tls-cipher-suites", CIPHERS.to_owned()),
        // One that is alone has nobody to agree with, and writes nothing while it has nothing to do.
        ("leader-elect", blueprint.highly_available.to_string()),
        ("profiling", "false".to_owned()),
    ])
}

fn controller_manager(blueprint: &Blueprint) -> Vec<String> {
    let in_pki = manifests::in_pki;
    let mut arguments =
        common(blueprint, CONTROLLER_MANAGER, CONTROLLER_MANAGER_PORT, CONTROLLER_MANAGER_CLIENT);
    arguments.extend(flags([
        ("cluster-name", blueprint.cluster.name.clone()),
        ("controllers", "*,bootstrapsigner,tokencleaner".to_owned()),
        ("use-service-account-credentials", "true".to_owned()),
        ("service-account-private-key-file", in_pki(pki::SERVICE_ACCOUNT, pki::SERVICE_ACCOUNT_KEY)),
        ("root-ca-file", file(ROOT_AUTHORITIES)),
        ("cluster-signing-cert-file", in_pki(pki::CLIENT_AUTHORITY, AUTHORITY_CERTIFICATE)),
        ("cluster-signing-key-file", in_pki(pki::CLIENT_AUTHORITY, AUTHORITY_KEY)),
        ("allocate-node-cidrs", "true".to_owned()),
        ("cluster-cidr", blueprint.pod_range.clone()),
        ("service-cluster-ip-range", blueprint.service_range.clone()),
        ("terminated-pod-gc-threshold", "1000".to_owned()),
    ]));
    arguments
}
