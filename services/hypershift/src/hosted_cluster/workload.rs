//! What runs of a control plane.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{
    StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetSpec,
};
use k8s_openapi::api::core::v1::{
    Affinity, ConfigMapVolumeSource, Container, ContainerPort, HTTPGetAction, NodeAffinity,
    NodeSelectorRequirement, NodeSelectorTerm, PersistentVolumeClaim, PersistentVolumeClaimSpec, PodSpec,
    PodTemplateSpec, PreferredSchedulingTerm, Probe, ResourceRequirements, SecretVolumeSource, Toleration,
    Volume, VolumeMount, VolumeResourceRequirements,
};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::blueprint::Blueprint;
use super::manifests::{
    AUTHENTICATION_FOLDER, DATA_FOLDER, KEYS_FOLDER, PKI_FOLDER, SETTINGS, SETTINGS_FOLDER,
};
use super::{authentication, encryption, manifests, pki};
use crate::names::{self, API_PORT, API_SERVER};

/// Files that nobody but the control plane reads; it refuses a file of keys that others can read.
pub(super) const PRIVATE: i32 = 0o400;

/// Where nobody but us writes into the StatefulSet: what a specification no longer asks for goes.
pub(super) const OURS: [&str; 2] = ["/spec/template/spec/nodeSelector", "/spec/template/metadata/labels"];

/// What a process uses that has nothing to do, with room for ten times that. A thousand of them fit on a machine with two processors,
/// and leave one.
const PROCESSOR: &str = "1m";
const MEMORY: &str = "16Mi";

/// The one workload of payload `light`.
///
/// It has no readiness probe: that would cost up to a second, and the operator asks the server itself, the way its
/// clients go, as soon as the process runs. A server that runs and no longer answers is restarted.
pub(crate) fn stateful_set(blueprint: &Blueprint, image: &str) -> StatefulSet {
    StatefulSet {
        metadata: manifests::in_namespace(blueprint, API_SERVER),
        spec: Some(StatefulSetSpec {
            replicas: Some(1),
            service_name: Some(API_SERVER.to_owned()),
            pod_management_policy: Some("Parallel".to_owned()),
            selector: LabelSelector {
                match_labels: Some(manifests::selector(API_SERVER)),
                ..LabelSelector::default()
            },
            template: PodTemplateSpec {
                metadata: Some(template_metadata(
                    blueprint,
                    API_SERVER,
                    blueprint.config_hash(),
                    &blueprint.control_plane_release.image,
                )),
                spec: Some(PodSpec {
                    containers: vec![container(blueprint, image)],
                    volumes: Some(volumes(blueprint)),
                    automount_service_account_token: Some(false),
                    termination_grace_period_seconds: Some(10),
                    priority_class_name: Some(blueprint.priority_class.clone()),
                    node_selector: Some(blueprint.node_selector.clone()).filter(|labels| !labels.is_empty()),
                    tolerations: Some(tolerations(blueprint)),
                    affinity: Some(affinity(blueprint)),
                    ..PodSpec::default()
                }),
            },
            volume_claim_templates: Some(vec![claim(blueprint)]),
            persistent_volume_claim_retention_policy: Some(claims_go_with_their_set()),
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    }
}

/// The priority of what answers requests, among all pods of the management cluster.
pub(crate) fn priority_class() -> PriorityClass {
    PriorityClass {
        metadata: ObjectMeta { name: Some(names::API_CRITICAL.to_owned()), ..ObjectMeta::default() },
        value: 100_001_000,
        global_default: Some(false),
        description: Some("API servers of hosted clusters".to_owned()),
        ..PriorityClass::default()
    }
}

/// Metadata of a component's pods. What changes with `hash` or `release` replaces them.
pub(super) fn template_metadata(
    blueprint: &Blueprint,
    component: &str,
    hash: String,
    release: &str,
) -> ObjectMeta {
    let mut template = manifests::metadata(blueprint, None, "");
    template.name = None;
    // Ours win: the Service finds the pods by them.
    let ours = template.labels.take().unwrap_or_default();
    template.labels = Some(blueprint.labels.clone().into_iter().chain(ours).collect());
    manifests::label(&mut template, "app", component);
    manifests::label(&mut template, names::COMPONENT, component);
    manifests::label(&mut template, names::HOSTED_CONTROL_PLANE, &blueprint.namespace);
    // Not the correlation id: a later operation on the cluster must not restart it.
    let mut annotations = BTreeMap::from([
        (names::CLUSTER.to_owned(), blueprint.cluster.to_string()),
        (names::RELEASE_IMAGE.to_owned(), release.to_owned()),
        (names::CONFIG_HASH.to_owned(), hash),
    ]);
    if let Some(date) = &blueprint.restart_date {
        annotations.insert(names::RESTART_DATE.to_owned(), date.clone());
    }
    template.annotations = Some(annotations);
    template
}

/// The Secrets that the process reads, by the folder below which each has its own.
fn mounted(blueprint: &Blueprint) -> Vec<(&'static str, String)> {
    let of_pki = [pki::SERVING, pki::KUBELET_CLIENT, pki::SERVICE_ACCOUNT, pki::CLIENT_AUTHORITY];
    let mut mounted: Vec<_> = of_pki.into_iter().map(|name| (name, format!("{PKI_FOLDER}/{name}"))).collect();
    if blueprint.encryption.active().is_some() {
        mounted.push((encryption::KEY_FILE, KEYS_FOLDER.to_owned()));
    }
    mounted
}

fn container(blueprint: &Blueprint, image: &str) -> Container {
    let command = ["pilothouse", "control-plane", "--config", &format!("{SETTINGS_FOLDER}/{SETTINGS}")];
    let volume_mounts = mounted(blueprint)
        .iter()
        .map(|(name, folder)| mount(name, folder, true))
        .chain(config_maps(blueprint).map(|(volume, _, folder)| mount(volume, folder, true)))
        .chain([mount("data", DATA_FOLDER, false)])
        .collect();
    Container {
        name: API_SERVER.to_owned(),
        image: Some(image.to_owned()),
        command: Some(command.map(str::to_owned).to_vec()),
        ports: Some(vec![ContainerPort {
            name: Some("https".to_owned()),
            container_port: API_PORT.into(),
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        // What it said at its end is shown in the cluster's conditions.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        resources: Some(ResourceRequirements {
            requests: Some(requests(blueprint)),
            ..ResourceRequirements::default()
        }),
        liveness_probe: Some(Probe {
            http_get: Some(HTTPGetAction {
                path: Some("/livez".to_owned()),
                port: IntOrString::Int(API_PORT.into()),
                scheme: Some("HTTPS".to_owned()),
                ..HTTPGetAction::default()
            }),
            initial_delay_seconds: Some(60),
            // Two hundred of them are asked on one machine.
            period_seconds: Some(60),
            timeout_seconds: Some(20),
            failure_threshold: Some(3),
            ..Probe::default()
        }),
        volume_mounts: Some(volume_mounts),
        ..Container::default()
    }
}

/// What is usual, unless the cluster says otherwise.
fn requests(blueprint: &Blueprint) -> BTreeMap<String, Quantity> {
    let asked = blueprint.requests.iter().map(|(name, amount)| (name.as_str(), amount.as_str()));
    quantities([("cpu", PROCESSOR), ("memory", MEMORY)].into_iter().chain(asked))
}

fn volumes(blueprint: &Blueprint) -> Vec<Volume> {
    let secrets = mounted(blueprint).into_iter().map(|(name, _)| Volume {
        name: name.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(name.to_owned()),
            default_mode: (name == encryption::KEY_FILE).then_some(PRIVATE),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    });
    let config_maps = config_maps(blueprint).map(|(volume, name, _)| Volume {
        name: volume.to_owned(),
        config_map: Some(ConfigMapVolumeSource { name: name.to_owned(), ..ConfigMapVolumeSource::default() }),
        ..Volume::default()
    });
    secrets.chain(config_maps).collect()
}

/// The ConfigMaps that the process reads: the volume, the object and the folder.
fn config_maps(blueprint: &Blueprint) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let authentication = (authentication::CONFIG_MAP, authentication::CONFIG_MAP, AUTHENTICATION_FOLDER);
    let authentication = blueprint.authentication.is_some().then_some(authentication);
    [("config", API_SERVER, SETTINGS_FOLDER)].into_iter().chain(authentication)
}

/// The nodes that are meant for control planes, or even for this one.
fn dedicated(blueprint: &Blueprint) -> [(&'static str, String, i32); 2] {
    [(names::CONTROL_PLANE_NODE, "true".to_owned(), 50), (names::CLUSTER, blueprint.namespace.clone(), 100)]
}

pub(super) fn tolerations(blueprint: &Blueprint) -> Vec<Toleration> {
    let dedicated = dedicated(blueprint).into_iter().map(|(key, value, _)| Toleration {
        key: Some(key.to_owned()),
        operator: Some("Equal".to_owned()),
        value: Some(value),
        effect: Some("NoSchedule".to_owned()),
        ..Toleration::default()
    });
    dedicated.chain(blueprint.tolerations.clone()).collect()
}

/// One replica keeps out of nobody's way, so there is nothing about other pods in it.
pub(super) fn affinity(blueprint: &Blueprint) -> Affinity {
    let preferred = dedicated(blueprint).into_iter().map(|(key, value, weight)| PreferredSchedulingTerm {
        weight,
        preference: NodeSelectorTerm {
            match_expressions: Some(vec![NodeSelectorRequirement {
                key: key.to_owned(),
                operator: "In".to_owned(),
                values: Some(vec![value]),
            }]),
            ..NodeSelectorTerm::default()
        },
    });
    Affinity {
        node_affinity: Some(NodeAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(preferred.collect()),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    }
}

pub(super) fn claims_go_with_their_set() -> StatefulSetPersistentVolumeClaimRetentionPolicy {
    StatefulSetPersistentVolumeClaimRetentionPolicy {
        when_deleted: Some("Delete".to_owned()),
        when_scaled: Some("Retain".to_owned()),
    }
}

pub(super) fn claim(blueprint: &Blueprint) -> PersistentVolumeClaim {
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

pub(super) fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

pub(super) fn quantities<'a>(
    entries: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> BTreeMap<String, Quantity> {
    entries.into_iter().map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned()))).collect()
}
