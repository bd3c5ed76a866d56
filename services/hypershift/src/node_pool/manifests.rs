//! The objects of a worker.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EmptyDirVolumeSource, Pod, PodSpec, Secret, SecretVolumeSource,
    SecurityContext, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilothouse_crds::NodePool;
use pilothouse_informer::ObjectKey;
use pilothouse_pki::{Authority, Credential, Identity, Kubeconfig};
use serde::Serialize;

use crate::error::Error;
use crate::hosted_cluster::pki;
use crate::names::{self, API_PORT, API_SERVER};
use crate::secrets;
use crate::versions::Release;

const SETTINGS: &str = "kubelet.toml";
const SETTINGS_FOLDER: &str = "/etc/pilothouse";
const ROOT: &str = "/var/lib/pilothouse";
const CLIENT_AUTHORITY: &str = "client-ca.crt";
pub(super) const CLIENT_CERTIFICATE: &str = "client.crt";
pub(super) const CLIENT_KEY: &str = "client.key";

/// What all workers of a pool have in common.
pub(super) struct Template<'a> {
    pub(super) pool: &'a NodePool,
    pub(super) key: &'a ObjectKey,
    pub(super) cluster: &'a ObjectKey,
    pub(super) namespace: &'a str,
    pub(super) release: &'a Release,
    pub(super) image: &'a str,
    pub(super) service_range: &'a str,
    pub(super) api_address: IpAddr,
    pub(super) root: &'a Authority,
    pub(super) clients: &'a Authority,
}

/// What `pilothouse kubelet` reads.
#[derive(Serialize)]
struct Settings<'a> {
    node_name: &'a str,
    root: &'a str,
    kubeconfig: String,
    namespaces: &'a str,
    service_range: &'a str,
    version: &'a str,
    capacity: Capacity,
    labels: BTreeMap<&'a str, &'a str>,
    tls: Tls,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    taints: Vec<Taint<'a>>,
}

#[derive(Serialize)]
struct Capacity {
    pods: u32,
}

#[derive(Serialize)]
struct Tls {
    certificate: String,
    key: String,
    client_authorities: String,
}

#[derive(Serialize)]
struct Taint<'a> {
    key: &'a str,
    value: &'a str,
    effect: &'a str,
}

// === impl Template ===

impl Template<'_> {
    /// Changes when workers must be replaced. Labels and taints are for new nodes only.
    pub(super) fn config_hash(&self) -> String {
        config_hash(self.release)
    }

    /// Everything a worker reads.
    pub(super) fn secret(
        &self,
        worker: &str,
        client: &Identity,
        serving: &Identity,
    ) -> Result<Secret, Error> {
        let kubeconfig = Kubeconfig {
            cluster: &self.cluster.name,
            user: worker,
            context: worker,
            server: &format!("https://{}:{API_PORT}", self.api_address),
            tls_server_name: Some(API_SERVER),
            authorities: &pki::trust(self.root)?,
            namespace: None,
            credential: Credential::Certificate(client),
        };
        let kubeconfig = kubeconfig.to_yaml().map_err(Error::Kubeconfig)?;
        let data = [
            (SETTINGS, self.settings(worker)?.into_bytes()),
            ("kubeconfig", kubeconfig.as_bytes().to_vec()),
            (CLIENT_CERTIFICATE, client.chain_pem().into_bytes()),
            (CLIENT_KEY, client.key().to_pem().as_bytes().to_vec()),
            (secrets::CERTIFICATE, serving.chain_pem().into_bytes()),
            (secrets::KEY, serving.key().to_pem().as_bytes().to_vec()),
            (CLIENT_AUTHORITY, self.clients.identity().chain_pem().into_bytes()),
        ];
        Ok(secrets::secret(self.metadata(&secret_name(worker)), "Opaque", data))
    }

    /// The worker itself. Its program makes namespaces and mounts of its own, hence the privilege, which on a node without
    /// root is no more than its user's.
    pub(super) fn pod(&self, worker: &str) -> Pod {
        let mut metadata = self.metadata(worker);
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(names::CONFIG_HASH.to_owned(), self.config_hash());
        annotations.insert(names::RELEASE_IMAGE.to_owned(), self.release.image.clone());
        let labels = metadata.labels.get_or_insert_default();
        labels.insert("app".to_owned(), "worker".to_owned());
        labels.insert(names::HOSTED_CONTROL_PLANE.to_owned(), self.namespace.to_owned());
        let mount = |name: &str, path: &str, read_only: Option<bool>| VolumeMount {
            name: name.to_owned(),
            mount_path: path.to_owned(),
            read_only,
            ..VolumeMount::default()
        };
        let container = Container {
            name: "kubelet".to_owned(),
            image: Some(self.image.to_owned()),
            command: Some(
                ["pilothouse", "kubelet", "--config", &in_settings(SETTINGS)].map(str::to_owned).to_vec(),
            ),
            ports: Some(vec![ContainerPort {
                name: Some("kubelet".to_owned()),
                container_port: 10250,
                ..ContainerPort::default()
            }]),
            security_context: Some(SecurityContext { privileged: Some(true), ..SecurityContext::default() }),
            volume_mounts: Some(vec![
                mount("config", SETTINGS_FOLDER, Some(true)),
                mount("root", ROOT, None),
            ]),
            ..Container::default()
        };
        let volumes = vec![
            Volume {
                name: "config".to_owned(),
                secret: Some(SecretVolumeSource {
                    secret_name: Some(secret_name(worker)),
                    ..SecretVolumeSource::default()
                }),
                ..Volume::default()
            },
            Volume {
                name: "root".to_owned(),
                empty_dir: Some(EmptyDirVolumeSource::default()),
                ..Volume::default()
            },
        ];
        Pod {
            metadata,
            spec: Some(PodSpec {
                containers: vec![container],
                volumes: Some(volumes),
                restart_policy: Some("Always".to_owned()),
                automount_service_account_token: Some(false),
                termination_grace_period_seconds: Some(10),
                ..PodSpec::default()
            }),
            ..Pod::default()
        }
    }

    fn settings(&self, worker: &str) -> Result<String, Error> {
        let mut labels: BTreeMap<_, _> =
            self.pool.spec.node_labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        labels.insert(names::NODE_POOL, &self.key.name);
        labels.insert("node-role.kubernetes.io/worker", "");
        let taints = self.pool.spec.taints.iter();
        let settings = Settings {
            node_name: worker,
            root: ROOT,
            kubeconfig: in_settings("kubeconfig"),
            // The pod is the node: its namespaces are the node's.
            namespaces: "inherit",
            service_range: self.service_range,
            version: &self.release.kubernetes,
            capacity: Capacity { pods: 250 },
            labels,
            tls: Tls {
                certificate: in_settings(secrets::CERTIFICATE),
                key: in_settings(secrets::KEY),
                client_authorities: in_settings(CLIENT_AUTHORITY),
            },
            taints: taints
                .map(|taint| Taint { key: &taint.key, value: &taint.value, effect: &taint.effect })
                .collect(),
        };
        toml::to_string(&settings).map_err(|source| Error::Settings(worker.to_owned(), source))
    }

    fn metadata(&self, name: &str) -> ObjectMeta {
        let correlation = names::annotation(&self.pool.metadata, names::CORRELATION);
        let mut metadata = names::owned_metadata(self.cluster, Some(self.namespace), name, correlation);
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(names::NODE_POOL.to_owned(), self.key.to_string());
        metadata
    }
}

/// The Secret of a worker.
pub(super) fn secret_name(worker: &str) -> String {
    format!("{worker}-kubelet")
}

/// What workers of this release are told apart by.
pub(super) fn config_hash(release: &Release) -> String {
    names::stable_hash([release.version.as_str(), release.kubernetes.as_str()])
}

fn in_settings(file: &str) -> String {
    format!("{SETTINGS_FOLDER}/{file}")
}
