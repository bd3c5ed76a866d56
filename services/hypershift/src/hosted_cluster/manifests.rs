//! The objects of a control plane.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::apps::v1::{
    StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetSpec,
};
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, ContainerPort, Namespace, PersistentVolumeClaim,
    PersistentVolumeClaimSpec, PodSpec, PodTemplateSpec, ResourceRequirements, Secret, SecretVolumeSource,
    Service, ServicePort, ServiceSpec, Volume, VolumeMount, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pilothouse_crds::{Route, RoutePort, RouteSpec, RouteTargetReference, RouteTermination, RouteTls};
use serde::Serialize;

use super::blueprint::Blueprint;
use super::pki;
use crate::error::Error;
use crate::names::{self, API_PORT, API_SERVER};
use crate::secrets;

const SETTINGS: &str = "control-plane.toml";
const SETTINGS_FOLDER: &str = "/etc/pilothouse";
const PKI_FOLDER: &str = "/etc/kubernetes/pki";
const DATA_FOLDER: &str = "/var/lib/pilothouse";

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
            selector: Some(selector()),
            ports: Some(vec![ServicePort {
                name: Some("https".to_owned()),
                port: API_PORT.into(),
                target_port: Some(IntOrString::Int(API_PORT.into())),
                protocol: Some("TCP".to_owned()),
                ..ServicePort::default()
            }]),
            type_: Some("ClusterIP".to_owned()),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

pub(crate) fn route(blueprint: &Blueprint) -> Route {
    let mut route = Route::new(
        API_SERVER,
        RouteSpec {
            host: blueprint.host.clone(),
            to: RouteTargetReference::service(API_SERVER),
            port: Some(RoutePort { target_port: IntOrString::Int(API_PORT.into()) }),
            tls: Some(RouteTls { termination: RouteTermination::Passthrough, other: BTreeMap::new() }),
            other: BTreeMap::new(),
        },
    );
    route.metadata = in_namespace(blueprint, API_SERVER);
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
        version: &blueprint.release.kubernetes,
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

/// The one workload of payload `light`.
///
/// It has no readiness probe: that would cost up to a second, and the operator asks the server itself, through the gateway,
/// as soon as the process runs.
pub(crate) fn stateful_set(blueprint: &Blueprint, image: &str) -> StatefulSet {
    let mut template = metadata(blueprint, None, "");
    template.name = None;
    label(&mut template, "app", API_SERVER);
    label(&mut template, names::COMPONENT, API_SERVER);
    label(&mut template, names::HOSTED_CONTROL_PLANE, &blueprint.namespace);
    // Not the correlation id: a later operation on the cluster must not restart it.
    template.annotations = Some(BTreeMap::from([
        (names::CLUSTER.to_owned(), blueprint.cluster.to_string()),
        (names::RELEASE_IMAGE.to_owned(), blueprint.release.image.clone()),
        (names::CONFIG_HASH.to_owned(), blueprint.config_hash()),
    ]));
    let mounted = [pki::SERVING, pki::KUBELET_CLIENT, pki::SERVICE_ACCOUNT];
    let volume_mounts = mounted
        .iter()
        .map(|name| mount(name, &format!("{PKI_FOLDER}/{name}"), true))
        .chain([mount("config", SETTINGS_FOLDER, true), mount("data", DATA_FOLDER, false)])
        .collect();
    let volumes = mounted
        .iter()
        .map(|name| Volume {
            name: (*name).to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some((*name).to_owned()),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        })
        .chain([Volume {
            name: "config".to_owned(),
            config_map: Some(ConfigMapVolumeSource {
                name: API_SERVER.to_owned(),
                ..ConfigMapVolumeSource::default()
            }),
            ..Volume::default()
        }])
        .collect();
    let container = Container {
        name: API_SERVER.to_owned(),
        image: Some(image.to_owned()),
        command: Some(
            ["pilothouse", "control-plane", "--config", &format!("{SETTINGS_FOLDER}/{SETTINGS}")]
                .map(str::to_owned)
                .to_vec(),
        ),
        ports: Some(vec![ContainerPort {
            name: Some("https".to_owned()),
            container_port: API_PORT.into(),
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        resources: Some(ResourceRequirements {
            requests: Some(quantities([("cpu", "10m"), ("memory", "16Mi")])),
            ..ResourceRequirements::default()
        }),
        volume_mounts: Some(volume_mounts),
        ..Container::default()
    };
    StatefulSet {
        metadata: in_namespace(blueprint, API_SERVER),
        spec: Some(StatefulSetSpec {
            replicas: Some(1),
            service_name: Some(API_SERVER.to_owned()),
            pod_management_policy: Some("Parallel".to_owned()),
            selector: LabelSelector { match_labels: Some(selector()), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(template),
                spec: Some(PodSpec {
                    containers: vec![container],
                    volumes: Some(volumes),
                    automount_service_account_token: Some(false),
                    termination_grace_period_seconds: Some(10),
                    ..PodSpec::default()
                }),
            },
            volume_claim_templates: Some(vec![claim(blueprint)]),
            persistent_volume_claim_retention_policy: Some(StatefulSetPersistentVolumeClaimRetentionPolicy {
                when_deleted: Some("Delete".to_owned()),
                when_scaled: Some("Retain".to_owned()),
            }),
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    }
}

/// The administrator's kubeconfig, beside the cluster and going with it.
pub(crate) fn admin_kubeconfig(blueprint: &Blueprint, kubeconfig: &str) -> Secret {
    let name = names::admin_kubeconfig(&blueprint.cluster.name);
    let mut metadata = metadata(blueprint, blueprint.cluster.namespace.as_deref(), &name);
    metadata.owner_references = blueprint.owner.clone().map(|owner| vec![owner]);
    secrets::secret(metadata, "Opaque", [("kubeconfig", kubeconfig.as_bytes().to_vec())])
}

/// Metadata of an object in the control plane's namespace.
pub(crate) fn in_namespace(blueprint: &Blueprint, name: &str) -> ObjectMeta {
    metadata(blueprint, Some(&blueprint.namespace), name)
}

fn metadata(blueprint: &Blueprint, namespace: Option<&str>, name: &str) -> ObjectMeta {
    names::owned_metadata(&blueprint.cluster, namespace, name, blueprint.correlation.as_deref())
}

fn label(metadata: &mut ObjectMeta, key: &str, value: &str) {
    metadata.labels.get_or_insert_default().insert(key.to_owned(), value.to_owned());
}

fn selector() -> BTreeMap<String, String> {
    BTreeMap::from([("app".to_owned(), API_SERVER.to_owned())])
}

fn claim(blueprint: &Blueprint) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        metadata: ObjectMeta { name: Some("data".to_owned()), ..ObjectMeta::default() },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            storage_class_name: blueprint.storage_class.clone(),
            resources: Some(VolumeResourceRequirements {
                requests: Some(quantities([("storage", blueprint.storage_size.as_str())])),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    }
}

fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

fn quantities<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> BTreeMap<String, Quantity> {
    entries.into_iter().map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned()))).collect()
}

fn in_pki(secret: &str, key: &str) -> String {
    format!("{PKI_FOLDER}/{secret}/{key}")
}
