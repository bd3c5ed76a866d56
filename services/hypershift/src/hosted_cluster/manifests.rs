//! The objects of a control plane.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pilothouse_crds::{Route, RoutePort, RouteSpec, RouteTargetReference, RouteTermination, RouteTls};
use serde::Serialize;

use super::blueprint::Blueprint;
use super::publishing::Publishing;
use super::{authentication, encryption, pki};
use crate::error::Error;
use crate::names::{self, API_PORT, API_SERVER};
use crate::secrets;

pub(super) const SETTINGS: &str = "control-plane.toml";
pub(super) const SETTINGS_FOLDER: &str = "/etc/pilothouse";
pub(super) const PKI_FOLDER: &str = "/etc/kubernetes/pki";
pub(super) const AUTHENTICATION_FOLDER: &str = "/etc/kubernetes/auth";
pub(super) const KEYS_FOLDER: &str = "/etc/kubernetes/encryption";
pub(super) const DATA_FOLDER: &str = "/var/lib/pilothouse";

/// What `pilothouse control-plane` reads.
#[derive(Serialize)]
struct Settings<'a> {
    listen: String,
    store: String,
    version: &'a str,
    service_cidr: &'a str,
    cluster_cidr: &'a str,
    advertise: String,
    issuer: &'a str,
    tls_certificate: String,
    tls_key: String,
    client_authorities: String,
    root_authority: String,
    service_account_key: String,
    kubelet_client_certificate: String,
    kubelet_client_key: String,
    signing_certificate: String,
    signing_key: String,
    public_server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication_config: Option<String>,
}

pub(crate) fn namespace(blueprint: &Blueprint) -> Namespace {
    let mut metadata = metadata(blueprint, None, &blueprint.namespace);
    label(&mut metadata, names::HOSTED_CONTROL_PLANE, "true");
    Namespace { metadata, ..Namespace::default() }
}

pub(crate) fn service(blueprint: &Blueprint) -> Service {
    Service {
        metadata: in_namespace(blueprint, API_SERVER),
        spec: Some(ServiceSpec {
            selector: Some(selector(API_SERVER)),
            ports: Some(vec![ServicePort {
                name: Some("https".to_owned()),
                port: API_PORT.into(),
                target_port: Some(IntOrString::Int(API_PORT.into())),
                protocol: Some("TCP".to_owned()),
                node_port: blueprint.publishing.node_port(),
                ..ServicePort::default()
            }]),
            load_balancer_source_ranges: match blueprint.publishing {
                Publishing::LoadBalancer { .. } => blueprint.access.source_ranges(),
                Publishing::Route { .. } | Publishing::NodePort { .. } => None,
            },
            type_: Some(blueprint.publishing.service_type().to_owned()),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// The names at the gateway, if that is how the API server is published: each Route that there may be, and its host.
pub(crate) fn routes(blueprint: &Blueprint) -> [(&'static str, Option<Route>); 2] {
    let host = match &blueprint.publishing {
        Publishing::Route { host } => Some(host),
        Publishing::LoadBalancer { .. } | Publishing::NodePort { .. } => None,
    };
    let custom = blueprint.custom_name.as_ref().filter(|name| host.is_some_and(|host| host != *name));
    let route = |name, host: Option<&String>| (name, host.map(|host| route(blueprint, name, host)));
    [route(API_SERVER, host), route(names::CUSTOM_ROUTE, custom)]
}

fn route(blueprint: &Blueprint, name: &str, host: &str) -> Route {
    let mut route = Route::new(
        name,
        RouteSpec {
            host: host.to_owned(),
            to: RouteTargetReference::service(API_SERVER),
            port: Some(RoutePort { target_port: IntOrString::Int(API_PORT.into()) }),
            tls: Some(RouteTls { termination: RouteTermination::Passthrough, other: BTreeMap::new() }),
            other: BTreeMap::new(),
        },
    );
    route.metadata = in_namespace(blueprint, name);
    route.metadata.annotations.get_or_insert_default().extend(blueprint.access.annotations());
    route.metadata.labels.get_or_insert_default().extend(blueprint.access.labels());
    route
}

pub(crate) fn config_map(
    blueprint: &Blueprint,
    service_address: IpAddr,
    root_authority: &str,
    client_authority: &str,
) -> Result<ConfigMap, Error> {
    let settings = Settings {
        listen: format!("0.0.0.0:{API_PORT}"),
        store: format!("{DATA_FOLDER}/kubeapi.db"),
        version: &blueprint.control_plane_release.kubernetes,
        service_cidr: &blueprint.service_range,
        cluster_cidr: &blueprint.pod_range,
        advertise: format!("{service_address}:{API_PORT}"),
        issuer: &blueprint.issuer,
        tls_certificate: in_pki(pki::SERVING, secrets::CERTIFICATE),
        tls_key: in_pki(pki::SERVING, secrets::KEY),
        client_authorities: format!("{SETTINGS_FOLDER}/client-ca.crt"),
        root_authority: format!("{SETTINGS_FOLDER}/root-ca.crt"),
        service_account_key: in_pki(pki::SERVICE_ACCOUNT, pki::SERVICE_ACCOUNT_KEY),
        kubelet_client_certificate: in_pki(pki::KUBELET_CLIENT, secrets::CERTIFICATE),
        kubelet_client_key: in_pki(pki::KUBELET_CLIENT, secrets::KEY),
        // Nodes join by a token and ask for their certificates.
        signing_certificate: in_pki(pki::CLIENT_AUTHORITY, secrets::AUTHORITY_CERTIFICATE),
        signing_key: in_pki(pki::CLIENT_AUTHORITY, secrets::AUTHORITY_KEY),
        public_server: format!("https://{service_address}:{API_PORT}"),
        key_file: blueprint.encryption.active().map(|_| format!("{KEYS_FOLDER}/{}", encryption::KEYS)),
        authentication_config: blueprint
            .authentication
            .as_ref()
            .map(|_| format!("{AUTHENTICATION_FOLDER}/{}", authentication::FILE)),
    };
    let settings =
        toml::to_string(&settings).map_err(|source| Error::Settings(API_SERVER.to_owned(), source))?;
    let data = [
        (SETTINGS, settings),
        ("root-ca.crt", root_authority.to_owned()),
        ("client-ca.crt", client_authority.to_owned()),
    ];
    Ok(ConfigMap {
        metadata: in_namespace(blueprint, API_SERVER),
        data: Some(data.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ..ConfigMap::default()
    })
}

/// Whose tokens the API server believes.
pub(crate) fn authentication(blueprint: &Blueprint, file: String) -> ConfigMap {
    ConfigMap {
        metadata: in_namespace(blueprint, authentication::CONFIG_MAP),
        data: Some(BTreeMap::from([(authentication::FILE.to_owned(), file)])),
        ..ConfigMap::default()
    }
}

/// Metadata of an object in the control plane's namespace.
pub(crate) fn in_namespace(blueprint: &Blueprint, name: &str) -> ObjectMeta {
    metadata(blueprint, Some(&blueprint.namespace), name)
}

/// Metadata of an object beside the cluster, going with it.
pub(crate) fn beside(blueprint: &Blueprint, name: &str) -> ObjectMeta {
    let mut metadata = metadata(blueprint, blueprint.cluster.namespace.as_deref(), name);
    metadata.owner_references = blueprint.owner.clone().map(|owner| vec![owner]);
    metadata
}

pub(super) fn metadata(blueprint: &Blueprint, namespace: Option<&str>, name: &str) -> ObjectMeta {
    names::owned_metadata(&blueprint.cluster, namespace, name, blueprint.correlation.as_deref())
}

pub(super) fn label(metadata: &mut ObjectMeta, key: &str, value: &str) {
    metadata.labels.get_or_insert_default().insert(key.to_owned(), value.to_owned());
}

pub(super) fn selector(component: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("app".to_owned(), component.to_owned())])
}

pub(super) fn in_pki(secret: &str, key: &str) -> String {
    format!("{PKI_FOLDER}/{secret}/{key}")
}
