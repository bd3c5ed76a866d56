//! The objects of a hosted cluster, in the order in which they are made.

use std::collections::BTreeMap;

use anyhow::anyhow;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use serde_json::{Map, Value, json};

use super::OfPlatform;
use super::settings::SettingsArgs;
use crate::hcp::version::Supported;
use crate::hcp::{client, objects, values};
use crate::{Failure, Hint};

/// Bytes of a key for AES-CBC.
const KEY_LENGTH: usize = 32;

/// The authorities that the user adds.
const TRUST_BUNDLE: &str = "user-ca-bundle";

/// What is to be made.
pub(super) struct Plan {
    pub(super) infra_id: String,
    pub(super) objects: Vec<Value>,
}

impl Plan {
    pub(super) fn draw(
        settings: &SettingsArgs,
        platform: OfPlatform,
        image: String,
    ) -> Result<Self, Failure> {
        let SettingsArgs { name, namespace, .. } = settings;
        let files = settings.files()?;
        let infra_id = match &settings.infra_id {
            Some(id) => id.clone(),
            None => values::infra_id(name)?,
        };
        let mut key = [0; KEY_LENGTH];
        values::random(&mut key)?;

        let mut made = vec![objects::namespace(namespace)];
        if let Some(bundle) = &files.trust_bundle {
            made.push(objects::config_map(namespace, TRUST_BUNDLE, "ca-bundle.crt", bundle));
        }
        let pull_secret = format!("{name}-pull-secret");
        made.push(objects::secret(
            namespace,
            &pull_secret,
            None,
            &[(".dockerconfigjson", &files.pull_secret)],
        ));
        let ssh_key = format!("{name}-ssh-key");
        if let Some(public) = &files.ssh_key {
            made.push(objects::secret(namespace, &ssh_key, None, &[("id_rsa.pub", public)]));
        }
        made.extend(platform.objects);
        let encryption_key = format!("{name}-etcd-encryption-key");
        made.push(objects::secret(namespace, &encryption_key, Some("Opaque"), &[("key", &key)]));

        let mut spec = json!({
            "autoscaling": {},
            "capabilities": capabilities(settings),
            "configuration": configuration(settings),
            "controllerAvailabilityPolicy": settings.control_plane_availability_policy,
            "dns": dns(settings),
            "etcd": etcd(settings),
            "fips": settings.fips,
            "infraID": infra_id,
            "networking": networking(settings),
            "olmCatalogPlacement": settings.olm_catalog_placement,
            "platform": platform.cluster,
            "pullSecret": { "name": pull_secret },
            "release": { "image": image },
            "secretEncryption": { "type": "aescbc", "aescbc": { "activeKey": { "name": encryption_key } } },
            "services": platform.publishing.services(),
            "sshKey": files.ssh_key.as_ref().map_or_else(|| json!({}), |_| json!({ "name": ssh_key })),
        });
        let mut set = |member: &str, value: Option<Value>| {
            if let Some(value) = value {
                spec[member] = value;
            }
        };
        set(
            "infrastructureAvailabilityPolicy",
            settings.infra_availability_policy.as_ref().map(|it| json!(it)),
        );
        set("additionalTrustBundle", files.trust_bundle.as_ref().map(|_| json!({ "name": TRUST_BUNDLE })));
        set("imageContentSources", files.image_content_sources);
        set("nodeSelector", pairs(&settings.node_selector));
        set("labels", pairs(&settings.pods_labels));
        set("tolerations", (!settings.toleration.is_empty()).then(|| json!(settings.toleration)));
        set("pausedUntil", settings.paused_until.as_ref().map(|it| json!(it)));
        set("kubeAPIServerDNSName", settings.kas_dns_name.as_ref().map(|it| json!(it)));
        set("operatorConfiguration", operators(settings));

        let mut metadata = json!({ "name": name, "namespace": namespace });
        if let Some(annotations) = pairs(&settings.annotations) {
            metadata["annotations"] = annotations;
        }
        if let Some(labels) = pairs(&settings.labels) {
            metadata["labels"] = labels;
        }
        made.push(objects::hosted_cluster(metadata, spec));
        if settings.node_pool_replicas >= 0 {
            let upgrade_type = settings.node_upgrade_type.as_deref().unwrap_or(platform.upgrade_type);
            let pool = json!({
                "arch": settings.arch,
                "clusterName": name,
                "management": { "autoRepair": settings.auto_repair, "upgradeType": upgrade_type },
                "nodeDrainTimeout": values::write_duration(settings.node_drain_timeout),
                "nodeVolumeDetachTimeout": values::write_duration(settings.node_volume_detach_timeout),
                "platform": platform.pool,
                "release": { "image": image },
                "replicas": settings.node_pool_replicas,
            });
            made.push(objects::node_pool(namespace, name, pool));
        }
        Ok(Self { infra_id, objects: made })
    }
}

/// The release to take if nobody says which: the newest that the operator says it supports.
pub(super) async fn newest_release(client: &Client) -> Result<String, Failure> {
    const HINT: &str =
        "name one with --release-image, for example quay.io/openshift-release-dev/ocp-release:4.20.0-multi";
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), Supported::NAMESPACE);
    let found = client::explain(maps.get_opt(Supported::NAME).await, "the question for supported versions")?;
    let supported = found.as_ref().map(Supported::read).unwrap_or_default();
    let number = |version: &&String| -> Vec<u32> {
        version.split('.').map(|part| part.parse().unwrap_or_default()).collect()
    };
    supported
        .versions
        .iter()
        .max_by_key(number)
        .map(|version| format!("quay.io/openshift-release-dev/ocp-release:{version}.0-multi"))
        .ok_or_else(|| anyhow!("the management cluster does not say which releases it supports"))
        .hint(HINT)
}

fn capabilities(settings: &SettingsArgs) -> Value {
    let mut capabilities = json!({});
    if !settings.enable_cluster_capabilities.is_empty() {
        capabilities["enabled"] = json!(settings.enable_cluster_capabilities);
    }
    if !settings.disable_cluster_capabilities.is_empty() {
        capabilities["disabled"] = json!(settings.disable_cluster_capabilities);
    }
    capabilities
}

fn configuration(settings: &SettingsArgs) -> Value {
    let mut configuration = json!({});
    if let Some(set) = &settings.feature_set {
        configuration["featureGate"] = json!({ "featureSet": set });
    }
    if settings.olm_disable_default_sources {
        configuration["operatorhub"] = json!({ "disableAllDefaultSources": true });
    }
    configuration
}

fn dns(settings: &SettingsArgs) -> Value {
    let mut dns = json!({ "baseDomain": settings.base_domain.as_deref().unwrap_or_default() });
    if let Some(prefix) = &settings.base_domain_prefix {
        dns["baseDomainPrefix"] = json!(if prefix == "none" { "" } else { prefix });
    }
    dns
}

fn etcd(settings: &SettingsArgs) -> Value {
    let mut volume = json!({ "size": settings.etcd_storage_size });
    if let Some(class) = &settings.etcd_storage_class {
        volume["storageClassName"] = json!(class);
    }
    let storage = json!({ "persistentVolume": volume, "type": "PersistentVolume" });
    json!({ "managed": { "storage": storage }, "managementType": "Managed" })
}

fn networking(settings: &SettingsArgs) -> Value {
    let ranges = |ranges: &[String]| -> Value { ranges.iter().map(|cidr| json!({ "cidr": cidr })).collect() };
    let mut networking = json!({
        "clusterNetwork": ranges(&settings.cluster_cidr),
        "networkType": settings.network_type,
        "serviceNetwork": ranges(&settings.service_cidr),
    });
    if !settings.machine_cidr.is_empty() {
        networking["machineNetwork"] = ranges(&settings.machine_cidr);
    }
    if settings.allocate_node_cidrs {
        networking["allocateNodeCIDRs"] = json!("Enabled");
    }
    networking
}

fn operators(settings: &SettingsArgs) -> Option<Value> {
    let mut network = Map::new();
    if settings.disable_multi_network {
        network.insert("disableMultiNetwork".to_owned(), json!(true));
    }
    if settings.ovn_kubernetes_mtu > 0 {
        network.insert("ovnKubernetesConfig".to_owned(), json!({ "mtu": settings.ovn_kubernetes_mtu }));
    }
    (!network.is_empty()).then(|| json!({ "clusterNetworkOperator": network }))
}

fn pairs(pairs: &[(String, String)]) -> Option<Value> {
    let pairs: BTreeMap<_, _> = pairs.iter().cloned().collect();
    (!pairs.is_empty()).then(|| json!(pairs))
}
