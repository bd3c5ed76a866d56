//! What all workers of a pool have in common, and the Secrets that it is in.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilothouse_crds::{NodePool, PlatformType};
use pilothouse_informer::ObjectKey;
use pilothouse_pki::{Credential, Kubeconfig};
use pilothouse_virt_api::UserData;
use serde::Serialize;

use super::bootstrap_token::{EXPIRATION, TOKEN, Token};
use super::credentials;
use super::fingerprint::Fingerprint;
use super::node_config::NodeConfig;
use super::server::Server;
use crate::error::Error;
use crate::names;
use crate::secrets;
use crate::versions::Release;

/// How many pods a node takes, unless its pool says otherwise.
const PODS: u32 = 250;

/// What all workers of a pool have in common.
pub(super) struct Template<'a> {
    pub(super) pool: &'a NodePool,
    pub(super) key: &'a ObjectKey,
    pub(super) cluster: &'a ObjectKey,
    /// The name that the cluster's machines are grouped by.
    pub(super) infra_id: &'a str,
    pub(super) namespace: &'a str,
    pub(super) release: &'a Release,
    pub(super) image: &'a str,
    pub(super) service_range: &'a str,
    pub(super) server: Server,
    pub(super) config: &'a NodeConfig,
    /// What is changed in the manifest of a virtual machine, by annotation.
    pub(super) patches: Vec<&'a str>,
    pub(super) made_of: Fingerprint,
    /// Whether the API server lets nodes have only some labels of their own choice.
    pub(super) restricted: bool,
}

/// What `pilothouse kubelet` reads. What differs from node to node it is told otherwise.
#[derive(Serialize)]
struct Settings<'a> {
    namespaces: &'a str,
    service_range: &'a str,
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod_processes: Option<u32>,
    capacity: Capacity,
    labels: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    taints: Vec<Taint<'a>>,
}

#[derive(Serialize)]
struct Capacity {
    pods: u32,
}

#[derive(Serialize)]
struct Taint<'a> {
    key: &'a str,
    value: &'a str,
    effect: &'a str,
}

// === impl Template ===

impl Template<'_> {
    pub(super) fn platform(&self) -> PlatformType {
        self.pool.spec.platform.type_
    }

    /// What workers are made of, apart from their release and configuration.
    pub(super) fn fingerprint(
        pool: &NodePool,
        release: &Release,
        config: &NodeConfig,
        patches: &[&str],
    ) -> Fingerprint {
        let platform = &pool.spec.platform;
        let mut template: Vec<String> = Vec::new();
        if let Some(kubevirt) = &platform.kubevirt {
            let compute = &kubevirt.compute;
            let volume = kubevirt.root_volume.persistent.clone().unwrap_or_default();
            let image = kubevirt.root_volume.disk_image.clone().unwrap_or_default();
            template.extend([
                compute.cores.to_string(),
                compute.memory.clone(),
                format!("{:?}", compute.qos_class.unwrap_or_default()),
                volume.size,
                volume.storage_class.unwrap_or_default(),
                volume.access_modes.join(","),
                volume.volume_mode.unwrap_or_default(),
                image.container_disk_image.unwrap_or_default(),
                kubevirt.attach_default_network.to_string(),
                format!("{:?}", kubevirt.network_interface_multiqueue),
            ]);
            template.extend(kubevirt.additional_networks.iter().map(|network| network.name.clone()));
            template.extend(kubevirt.node_selector.iter().map(|(key, value)| format!("{key}={value}")));
            template.extend(
                kubevirt
                    .host_devices
                    .iter()
                    .map(|device| format!("{}*{}", device.device_name, device.count.unwrap_or(1))),
            );
        }
        let size = platform.azure.as_ref().and_then(|azure| azure["vmSize"].as_str());
        template.extend(size.map(str::to_owned));
        template.extend(patches.iter().map(|patch| (*patch).to_owned()));
        Fingerprint::new(release, &config.text, &template)
    }

    /// Everything a worker reads, in one Secret.
    pub(super) fn user_data(&self, token: &Token) -> Result<Secret, Error> {
        let kubeconfig = Kubeconfig {
            cluster: &self.cluster.name,
            user: "bootstrap",
            context: "bootstrap",
            server: &self.server.url,
            tls_server_name: self.server.tls_name.as_deref(),
            authorities: &self.server.authorities,
            namespace: None,
            credential: Credential::Token(&token.text()),
        };
        let shared_machine = self.platform() == PlatformType::None;
        let user_data = UserData {
            of: &format!("hosted cluster {}", self.cluster),
            settings: self.settings(shared_machine)?,
            bootstrap_kubeconfig: kubeconfig.to_yaml().map_err(Error::Kubeconfig)?.to_string(),
            client_authorities: self.server.clients.clone(),
            shared_machine,
        };
        let data = user_data.data().into_iter().map(|(key, text)| (key, text.into_bytes()));
        Ok(secrets::secret(self.metadata(&self.user_data_name()), "Opaque", data))
    }

    /// The token by which workers join, and what they join with.
    pub(super) fn token(&self, token: &Token) -> Secret {
        let data = [
            (TOKEN, token.text().into_bytes()),
            (EXPIRATION, token.expiration().into_bytes()),
            ("release", self.release.image.clone().into_bytes()),
            ("release-version", self.release.version.clone().into_bytes()),
            ("config", self.config.text.clone().into_bytes()),
        ];
        secrets::secret(self.metadata(&self.token_name()), "Opaque", data)
    }

    pub(super) fn user_data_name(&self) -> String {
        format!("user-data-{}-{}", self.key.name, self.made_of.short())
    }

    pub(super) fn token_name(&self) -> String {
        format!("token-{}-{}", self.key.name, self.made_of.short())
    }

    /// What nodes say that they run: nothing newer than their API server.
    fn kubernetes(&self) -> &str {
        match self.release.upstream().filter(|_| self.restricted) {
            Some(programs) => programs.kubernetes,
            None => &self.release.kubernetes,
        }
    }

    /// The labels that nodes give themselves, and those that they have to be given.
    pub(super) fn labels(&self) -> (BTreeMap<&str, &str>, BTreeMap<&str, &str>) {
        let spec = &self.pool.spec;
        let mut labels: BTreeMap<_, _> =
            spec.node_labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        labels.insert(names::NODE_POOL, &self.key.name);
        labels.insert("node-role.kubernetes.io/worker", "");
        // Payload `light` lets nodes choose.
        labels.into_iter().partition(|(key, _)| !self.restricted || !credentials::is_reserved(key))
    }

    fn settings(&self, shared_machine: bool) -> Result<String, Error> {
        let spec = &self.pool.spec;
        let (labels, _) = self.labels();
        let settings = Settings {
            // A pod, or a machine, that is the node: its namespaces are the node's.
            namespaces: if shared_machine { "own" } else { "inherit" },
            service_range: self.service_range,
            version: self.kubernetes(),
            pod_processes: self.config.pod_processes,
            capacity: Capacity { pods: self.config.max_pods.unwrap_or(PODS) },
            labels,
            taints: spec
                .taints
                .iter()
                .map(|taint| Taint { key: &taint.key, value: &taint.value, effect: &taint.effect })
                .collect(),
        };
        toml::to_string(&settings).map_err(|source| Error::Settings(self.key.to_string(), source))
    }

    /// Metadata of an object that the pool makes.
    pub(super) fn metadata(&self, name: &str) -> ObjectMeta {
        let correlation = names::annotation(&self.pool.metadata, names::CORRELATION);
        let mut metadata = names::owned_metadata(self.cluster, Some(self.namespace), name, correlation);
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(names::NODE_POOL.to_owned(), self.key.to_string());
        metadata
    }

    /// The same, of an object that is what a worker is made of.
    pub(super) fn worker_metadata(&self, name: &str) -> ObjectMeta {
        let mut metadata = self.metadata(name);
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.extend(self.made_of.annotations());
        annotations.insert(names::RELEASE_IMAGE.to_owned(), self.release.image.clone());
        let labels = metadata.labels.get_or_insert_default();
        for (key, value) in [
            ("app", "worker"),
            (names::HOSTED_CONTROL_PLANE, self.namespace),
            ("hypershift.openshift.io/nodepool-name", &self.key.name),
            ("hypershift.openshift.io/infra-id", self.infra_id),
        ] {
            labels.insert(key.to_owned(), value.to_owned());
        }
        metadata
    }
}
