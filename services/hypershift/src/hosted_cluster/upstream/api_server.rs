//! kube-apiserver.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::super::blueprint::Blueprint;
use super::super::payload::Images;
use super::super::pki::{self, Signers};
use super::super::{encryption, manifests, upstream};
use super::authorities::{AGGREGATOR, AGGREGATOR_USER, Authorities, ETCD_CLIENT};
use super::{CIPHERS, Health, Program, etcd, file, flags};
use crate::error::Error;
use crate::names::{API_PORT, API_SERVER};
use crate::secrets::{CERTIFICATE, KEY};

const CLIENT_AUTHORITIES: &str = "client-ca.crt";
const KUBELET_AUTHORITIES: &str = "kubelet-ca.crt";
const ETCD_AUTHORITIES: &str = "etcd-ca.crt";
const AGGREGATOR_AUTHORITIES: &str = "aggregator-ca.crt";
const TOKEN_KEY: &str = "service-account.pub";
const AUTHENTICATION: &str = "authentication.json";
const AUDIT_POLICY: &str = "audit-policy.json";
const AUDIT_FOLDER: &str = "/var/log/kube-apiserver";

/// How long a server that is told to stop goes on, while everybody hears that it is not ready: only where there is another.
const DELAY_SECONDS: i64 = 10;

/// Its files. Workers read from the same ConfigMap whom to trust.
pub(super) fn config_map(
    blueprint: &Blueprint,
    signers: &Signers,
    authorities: &Authorities,
) -> Result<ConfigMap, Error> {
    let files = [
        ("root-ca.crt", signers.root().to_pem()),
        (CLIENT_AUTHORITIES, signers.clients()?.to_pem()),
        (KUBELET_AUTHORITIES, signers.on_request().to_pem()),
        (ETCD_AUTHORITIES, authorities.etcd().to_pem()),
        (AGGREGATOR_AUTHORITIES, authorities.aggregator().to_pem()),
        (TOKEN_KEY, signers.token_key().to_owned()),
        (AUTHENTICATION, text(&authentication(blueprint))),
        (AUDIT_POLICY, text(&audit_policy())),
    ];
    Ok(upstream::config_map(blueprint, API_SERVER, files))
}

pub(super) fn program<'a>(blueprint: &'a Blueprint, images: &'a Images, address: IpAddr) -> Program<'a> {
    let secrets = [
        pki::SERVING,
        pki::KUBELET_CLIENT,
        pki::SERVICE_ACCOUNT,
        ETCD_CLIENT,
        AGGREGATOR,
        encryption::KEY_FILE,
    ];
    let highly_available = blueprint.highly_available;
    Program {
        name: API_SERVER,
        image: &images.api_server,
        arguments: arguments(blueprint, address),
        hash: blueprint.config_hash(),
        release: &blueprint.control_plane_release.image,
        replicas: if highly_available { 2 } else { 1 },
        service: API_SERVER,
        ports: &[("https", API_PORT)],
        // A restart does not bring etcd back.
        health: Health { port: API_PORT, scheme: "HTTPS", ready: "/readyz", live: "/livez?exclude=etcd" },
        requests: [("cpu", "30m"), ("memory", "288Mi")],
        secrets: secrets.to_vec(),
        config_map: API_SERVER,
        scratch: vec![("audit", AUDIT_FOLDER)],
        data: None,
        grace_seconds: if highly_available { DELAY_SECONDS + 20 } else { 15 },
    }
}

fn arguments(blueprint: &Blueprint, address: IpAddr) -> Vec<String> {
    let in_pki = manifests::in_pki;
    let yes = || "true".to_owned();
    let mut arguments = flags([
        ("bind-address", "0.0.0.0".to_owned()),
        ("secure-port", API_PORT.to_string()),
        // The Service in front of it: pods come and go.
        ("advertise-address", address.to_string()),
        ("tls-cert-file", in_pki(pki::SERVING, CERTIFICATE)),
        ("tls-private-key-file", in_pki(pki::SERVING, KEY)),
        ("tls-min-version", "VersionTLS12".to_owned()),
        ("tls-cipher-suites", CIPHERS.to_owned()),
        ("client-ca-file", file(CLIENT_AUTHORITIES)),
        ("authentication-config", file(AUTHENTICATION)),
        ("authorization-mode", "Node,RBAC".to_owned()),
        ("enable-bootstrap-token-auth", yes()),
        ("enable-admission-plugins", "NodeRestriction,DenyServiceExternalIPs".to_owned()),
        // A node that is a pod has privileges in its own namespaces; who else may is the cluster's own policy.
        ("allow-privileged", yes()),
        ("etcd-servers", etcd::urls(blueprint)),
        ("etcd-cafile", file(ETCD_AUTHORITIES)),
        ("etcd-certfile", in_pki(ETCD_CLIENT, CERTIFICATE)),
        ("etcd-keyfile", in_pki(ETCD_CLIENT, KEY)),
        ("encryption-provider-config", format!("{}/{}", manifests::KEYS_FOLDER, encryption::CONFIGURATION)),
        ("service-account-issuer", blueprint.issuer.clone()),
        ("service-account-key-file", file(TOKEN_KEY)),
        ("service-account-signing-key-file", in_pki(pki::SERVICE_ACCOUNT, pki::SERVICE_ACCOUNT_KEY)),
        ("service-account-lookup", yes()),
        // A token is good for as long as it says.
        ("service-account-extend-token-expiration", "false".to_owned()),
        ("service-cluster-ip-range", blueprint.service_range.clone()),
        ("kubelet-client-certificate", in_pki(pki::KUBELET_CLIENT, CERTIFICATE)),
        ("kubelet-client-key", in_pki(pki::KUBELET_CLIENT, KEY)),
        ("kubelet-certificate-authority", file(KUBELET_AUTHORITIES)),
        ("kubelet-preferred-address-types", "InternalIP,ExternalIP,Hostname".to_owned()),
        ("proxy-client-cert-file", in_pki(AGGREGATOR, CERTIFICATE)),
        ("proxy-client-key-file", in_pki(AGGREGATOR, KEY)),
        ("requestheader-client-ca-file", file(AGGREGATOR_AUTHORITIES)),
        ("requestheader-allowed-names", AGGREGATOR_USER.to_owned()),
        ("requestheader-username-headers", "X-Remote-User".to_owned()),
        ("requestheader-group-headers", "X-Remote-Group".to_owned()),
        ("requestheader-extra-headers-prefix", "X-Remote-Extra-".to_owned()),
        // Addresses of Services lead nowhere from here; those of pods do.
        ("enable-aggregator-routing", yes()),
        ("audit-policy-file", file(AUDIT_POLICY)),
        ("audit-log-path", format!("{AUDIT_FOLDER}/audit.log")),
        ("audit-log-maxage", "30".to_owned()),
        ("audit-log-maxbackup", "10".to_owned()),
        ("audit-log-maxsize", "100".to_owned()),
        ("profiling", "false".to_owned()),
    ]);
    if blueprint.highly_available {
        arguments.extend(flags([
            ("goaway-chance", "0.001".to_owned()),
            ("shutdown-delay-duration", format!("{DELAY_SECONDS}s")),
            ("shutdown-send-retry-after", yes()),
        ]));
    }
    arguments
}

/// Whose tokens are believed, as the cluster says. Who comes without a certificate and without a token may ask for the
/// server's health, and nothing else.
fn authentication(blueprint: &Blueprint) -> Value {
    let asked = blueprint.authentication.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let mut authentication = asked.unwrap_or_else(|| {
        json!({
            "apiVersion": "apiserver.config.k8s.io/v1beta1",
            "kind": "AuthenticationConfiguration",
        })
    });
    let health = ["/livez", "/readyz", "/healthz"].map(|path| json!({ "path": path }));
    authentication["anonymous"] = json!({ "enabled": true, "conditions": health });
    authentication
}

/// Who did what to what, of everything that changes something or is secret; nothing of what machines do all the time.
fn audit_policy() -> Value {
    let components = ["system:kube-controller-manager", "system:kube-scheduler", "system:apiserver"];
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            { "level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*", "/version"] },
            { "level": "None", "resources": [{ "group": "", "resources": ["events"] }, { "group": "events.k8s.io" }] },
            { "level": "None", "resources": [{ "group": "coordination.k8s.io", "resources": ["leases"] }] },
            { "level": "None", "users": components, "verbs": ["get", "list", "watch"],
              "resources": [{ "group": "" }, { "group": "apps" }, { "group": "batch" }, { "group": "discovery.k8s.io" }] },
            { "level": "None", "userGroups": ["system:nodes"], "verbs": ["get", "list", "watch"],
              "resources": [{ "group": "", "resources": ["nodes", "pods", "services"] }, { "group": "discovery.k8s.io" }] },
            // Their contents are nobody's business, not even the log's.
            { "level": "Metadata" },
        ],
    })
}

fn text(value: &Value) -> String {
    format!("{value:#}\n")
}
