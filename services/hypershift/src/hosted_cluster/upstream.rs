//! The payload `upstream`: etcd, kube-apiserver, kube-controller-manager and kube-scheduler, as Kubernetes releases them.
//!
//! Each is a StatefulSet. All four are written at once when a cluster is made, and find each other; a new release reaches
//! them one after the other: etcd, then the API servers, then the rest. Their settings are those that benchmarks of secure
//! clusters ask for; where they are not, a comment says why. See `docs/decisions/0014-upstream-payload.md`.

use std::net::IpAddr;

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMap, ConfigMapVolumeSource, Container, ContainerPort, EmptyDirVolumeSource, EnvVar,
    EnvVarSource, HTTPGetAction, ObjectFieldSelector, PodAffinityTerm, PodAntiAffinity, PodSpec,
    PodTemplateSpec, Probe, ResourceRequirements, SecretVolumeSource, SecurityContext, Service, Volume,
    VolumeMount, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::blueprint::Blueprint;
use super::parts::{Component, Parts};
use super::payload::Images;
use super::pki::Signers;
use super::{encryption, manifests, workload};
use crate::error::Error;

mod api_server;
pub(super) mod authorities;
mod etcd;
pub(super) mod furniture;
mod managers;
#[cfg(test)]
mod tests;

use authorities::Authorities;
pub(crate) use etcd::ETCD;

/// Where the files of a ConfigMap are.
const FILES: &str = "/etc/kubernetes/config";

/// What is strong enough for everybody: forward secrecy and authenticated encryption.
const CIPHERS: &str = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,\
                       TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,\
                       TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256";

/// One program of the payload.
struct Program<'a> {
    name: &'static str,
    image: &'a str,
    arguments: Vec<String>,
    hash: String,
    /// What the pods are said to run; they are replaced when it changes.
    release: &'a str,
    replicas: u8,
    /// The headless Service that gives its pods their names.
    service: &'static str,
    ports: &'static [(&'static str, u16)],
    health: Health,
    /// What it uses with nothing to do, measured.
    requests: [(&'static str, &'static str); 2],
    secrets: Vec<&'static str>,
    /// The ConfigMap with its files.
    config_map: &'static str,
    /// Folders it writes to that go with the pod.
    scratch: Vec<(&'static str, &'static str)>,
    /// The folder of its claim.
    data: Option<&'static str>,
    grace_seconds: i64,
}

/// How a program is asked how it is.
struct Health {
    port: u16,
    scheme: &'static str,
    /// Whether it does its work.
    ready: &'static str,
    /// Whether a restart would help.
    live: &'static str,
}

pub(super) fn services(blueprint: &Blueprint) -> Vec<Service> {
    etcd::services(blueprint)
}

/// Files and workloads.
pub(super) fn parts(
    blueprint: &Blueprint,
    images: &Images,
    address: IpAddr,
    signers: &Signers,
    authorities: &Authorities,
) -> Result<Parts, Error> {
    let config_maps = vec![
        etcd::config_map(blueprint, authorities),
        api_server::config_map(blueprint, signers, authorities)?,
        managers::config_map(blueprint, address, signers, authorities)?,
    ];
    let etcd = etcd::program(blueprint, images, authorities);
    let api_server = api_server::program(blueprint, images, address);
    let managers = managers::programs(blueprint, images);
    let staged = [(0, etcd), (1, api_server)].into_iter().chain(managers.map(|program| (2, program)));
    let components = staged.map(|(stage, program)| Component {
        stateful_set: program.stateful_set(blueprint),
        hash: program.hash.clone(),
        // Members of etcd decide by majority; of the others one is enough.
        needed: if program.name == ETCD { usize::from(program.replicas / 2 + 1) } else { 1 },
        stage,
    });
    Ok(Parts { config_maps, components: components.collect() })
}

// === impl Program ===

impl Program<'_> {
    fn stateful_set(&self, blueprint: &Blueprint) -> StatefulSet {
        let metadata = workload::template_metadata(blueprint, self.name, self.hash.clone(), self.release);
        StatefulSet {
            metadata: manifests::in_namespace(blueprint, self.name),
            spec: Some(StatefulSetSpec {
                replicas: Some(self.replicas.into()),
                service_name: Some(self.service.to_owned()),
                pod_management_policy: Some("Parallel".to_owned()),
                selector: LabelSelector {
                    match_labels: Some(manifests::selector(self.name)),
                    ..LabelSelector::default()
                },
                template: PodTemplateSpec { metadata: Some(metadata), spec: Some(self.pod(blueprint)) },
                volume_claim_templates: self.data.map(|_| vec![workload::claim(blueprint)]),
                persistent_volume_claim_retention_policy: self
                    .data
                    .map(|_| workload::claims_go_with_their_set()),
                ..StatefulSetSpec::default()
            }),
            ..StatefulSet::default()
        }
    }

    fn pod(&self, blueprint: &Blueprint) -> PodSpec {
        let mut affinity = workload::affinity(blueprint);
        // Preferred, so that a management cluster of one node hosts it, too.
        affinity.pod_anti_affinity = (self.replicas > 1).then(|| self.apart());
        PodSpec {
            containers: vec![self.container()],
            volumes: Some(self.volumes()),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            termination_grace_period_seconds: Some(self.grace_seconds),
            priority_class_name: Some(blueprint.priority_class.clone()),
            node_selector: Some(blueprint.node_selector.clone()).filter(|labels| !labels.is_empty()),
            tolerations: Some(workload::tolerations(blueprint)),
            affinity: Some(affinity),
            ..PodSpec::default()
        }
    }

    fn container(&self) -> Container {
        let secrets = self.secrets.iter().map(|name| workload::mount(name, &folder(name), true));
        let files = [workload::mount("files", FILES, true)];
        let scratch = self.scratch.iter().map(|(name, folder)| workload::mount(name, folder, false));
        let data = self.data.map(|folder| workload::mount("data", folder, false));
        let mounts: Vec<VolumeMount> = secrets.chain(files).chain(scratch).chain(data).collect();
        Container {
            name: self.name.to_owned(),
            image: Some(self.image.to_owned()),
            command: Some(vec![self.name.to_owned()]),
            args: Some(self.arguments.clone()),
            env: Some(vec![EnvVar {
                name: "POD_NAME".to_owned(),
                value_from: Some(EnvVarSource {
                    field_ref: Some(ObjectFieldSelector {
                        api_version: Some("v1".to_owned()),
                        field_path: "metadata.name".to_owned(),
                    }),
                    ..EnvVarSource::default()
                }),
                ..EnvVar::default()
            }]),
            ports: Some(self.ports.iter().map(|(name, port)| port_of(name, *port)).collect()),
            resources: Some(ResourceRequirements {
                requests: Some(workload::quantities(self.requests)),
                ..ResourceRequirements::default()
            }),
            // Asked often until it works, then seldom: two hundred of them may be on one machine.
            startup_probe: Some(self.health.probe(self.health.ready, 1, 600)),
            readiness_probe: Some(self.health.probe(self.health.ready, 10, 3)),
            liveness_probe: Some(self.health.probe(self.health.live, 60, 3)),
            security_context: Some(SecurityContext {
                allow_privilege_escalation: Some(false),
                read_only_root_filesystem: Some(true),
                capabilities: Some(Capabilities {
                    drop: Some(vec!["ALL".to_owned()]),
                    // The file of kube-apiserver's image asks for this one, and does not start without it.
                    add: Some(vec!["NET_BIND_SERVICE".to_owned()]),
                }),
                ..SecurityContext::default()
            }),
            // What a program said last is why it does not run.
            termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
            volume_mounts: Some(mounts),
            ..Container::default()
        }
    }

    fn volumes(&self) -> Vec<Volume> {
        let secrets = self.secrets.iter().map(|name| Volume {
            name: (*name).to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some((*name).to_owned()),
                default_mode: Some(workload::PRIVATE),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        });
        let files = Volume {
            name: "files".to_owned(),
            config_map: Some(ConfigMapVolumeSource {
                name: self.config_map.to_owned(),
                ..ConfigMapVolumeSource::default()
            }),
            ..Volume::default()
        };
        let scratch = self.scratch.iter().map(|(name, _)| Volume {
            name: (*name).to_owned(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Volume::default()
        });
        secrets.chain([files]).chain(scratch).collect()
    }

    fn apart(&self) -> PodAntiAffinity {
        let term = |topology: &str| WeightedPodAffinityTerm {
            weight: 100,
            pod_affinity_term: PodAffinityTerm {
                label_selector: Some(LabelSelector {
                    match_labels: Some(manifests::selector(self.name)),
                    ..LabelSelector::default()
                }),
                topology_key: topology.to_owned(),
                ..PodAffinityTerm::default()
            },
        };
        PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![
                term("kubernetes.io/hostname"),
                term("topology.kubernetes.io/zone"),
            ]),
            ..PodAntiAffinity::default()
        }
    }
}

// === impl Health ===

impl Health {
    fn probe(&self, path: &str, period: i32, failures: i32) -> Probe {
        Probe {
            http_get: Some(HTTPGetAction {
                path: Some(path.to_owned()),
                port: IntOrString::Int(self.port.into()),
                scheme: Some(self.scheme.to_owned()),
                ..HTTPGetAction::default()
            }),
            period_seconds: Some(period),
            timeout_seconds: Some(15),
            failure_threshold: Some(failures),
            ..Probe::default()
        }
    }
}

fn port_of(name: &str, port: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: port.into(),
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

/// The folder of a Secret.
fn folder(secret: &str) -> String {
    match secret {
        encryption::KEY_FILE => manifests::KEYS_FOLDER.to_owned(),
        name => format!("{}/{name}", manifests::PKI_FOLDER),
    }
}

/// A file of the program's ConfigMap.
fn file(name: &str) -> String {
    format!("{FILES}/{name}")
}

/// `--name=value` of each.
fn flags<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> Vec<String> {
    pairs.into_iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

fn config_map<'a>(
    blueprint: &Blueprint,
    name: &str,
    files: impl IntoIterator<Item = (&'a str, String)>,
) -> ConfigMap {
    ConfigMap {
        metadata: manifests::in_namespace(blueprint, name),
        data: Some(files.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ..ConfigMap::default()
    }
}
