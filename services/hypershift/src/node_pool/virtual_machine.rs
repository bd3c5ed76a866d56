//! The manifest of a worker's virtual machine.

use pilothouse_crds::{KubeVirtNodePoolPlatform, Multiqueue, QosClass};
use serde_json::{Value, json};

use super::status::Obstacle;
use super::template::Template;
use crate::error::Error;

#[cfg(test)]
mod tests;

/// On a pool or a hosted cluster: a JSON patch of this manifest.
pub(super) const PATCH: &str = "hypershift.openshift.io/kubevirt-vm-jsonpatch";
/// On a pool: machines are spread by constraints rather than by affinity.
const SPREAD: &str = "hypershift.openshift.io/nodepool-supports-kubevirt-topology-spread-constraints";
/// Where the disk of a machine comes from that names no image. On a cluster where machines are processes nobody looks.
const ROOT_IMAGE: &str = "pilothouse/node-disk";

impl Template<'_> {
    /// `spec` of a VirtualMachine.
    pub(super) fn virtual_machine_spec(&self, name: &str) -> Result<Value, Error> {
        let usual = KubeVirtNodePoolPlatform::default();
        let platform = self.pool.spec.platform.kubevirt.as_ref().unwrap_or(&usual);
        let metadata = self.worker_metadata(name);
        let mut annotations = metadata.annotations.unwrap_or_default();
        annotations.insert("kubevirt.io/allow-pod-bridge-network-live-migration".to_owned(), String::new());
        let (interfaces, networks) = networks(platform);
        let mut template = json!({
            "domain": {
                "cpu": { "cores": platform.compute.cores },
                "memory": { "guest": platform.compute.memory },
                "devices": {
                    "disks": [
                        { "name": "rhcos", "disk": { "bus": "virtio" } },
                        { "name": "cloudinitvolume", "disk": { "bus": "virtio" } },
                    ],
                    "interfaces": interfaces,
                    "hostDevices": host_devices(platform),
                    "networkInterfaceMultiqueue": platform.network_interface_multiqueue == Multiqueue::Enable,
                },
            },
            "evictionStrategy": "External",
            "hostname": name,
            "networks": networks,
            "nodeSelector": platform.node_selector,
            "volumes": [
                { "name": "rhcos", "dataVolume": { "name": format!("{name}-rhcos") } },
                {
                    "name": "cloudinitvolume",
                    "cloudInitConfigDrive": { "secretRef": { "name": self.user_data_name() } },
                },
            ],
        });
        if platform.compute.qos_class == Some(QosClass::Guaranteed) {
            let all = json!({ "cpu": platform.compute.cores.to_string(), "memory": platform.compute.memory });
            template["domain"]["resources"] = json!({ "requests": all, "limits": all });
        }
        self.spread(&mut template);
        let mut spec = json!({
            "runStrategy": "Always",
            "dataVolumeTemplates": [data_volume(name, platform)],
            "template": {
                "metadata": { "labels": metadata.labels, "annotations": annotations },
                "spec": template,
            },
        });
        for patch in &self.patches {
            apply(&mut spec, patch)
                .map_err(|message| Error::Patch { pool: self.key.to_string(), message })?;
        }
        Ok(spec)
    }

    /// Not all on one host, if there are others.
    fn spread(&self, template: &mut Value) {
        let selector = json!({ "matchLabels": { "hypershift.openshift.io/nodepool-name": self.key.name } });
        let by_constraints = self
            .pool
            .metadata
            .annotations
            .as_ref()
            .is_some_and(|annotations| annotations.contains_key(SPREAD));
        if by_constraints {
            template["topologySpreadConstraints"] = json!([{
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": selector,
            }]);
        } else {
            template["affinity"] = json!({ "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{
                    "weight": 100,
                    "podAffinityTerm": { "topologyKey": "kubernetes.io/hostname", "labelSelector": selector },
                }],
            } });
        }
    }
}

/// What is wrong with these patches, if anything is.
pub(super) fn obstacle(patches: &[&str]) -> Option<Obstacle> {
    let wrong = patches.iter().find_map(|patch| parse(patch).err())?;
    Some(Obstacle {
        condition: "ValidMachineTemplate",
        reason: "InvalidKubevirtMachineTemplate",
        message: format!("annotation {PATCH}: {wrong}"),
    })
}

fn parse(patch: &str) -> Result<json_patch::Patch, String> {
    serde_json::from_str(patch).map_err(|error| format!("this is no JSON patch: {error}"))
}

/// Patches are of the whole object, and so are their paths.
fn apply(spec: &mut Value, patch: &str) -> Result<(), String> {
    let mut whole = json!({ "spec": spec.take() });
    json_patch::patch(&mut whole, &parse(patch)?).map_err(|error| error.to_string())?;
    *spec = whole["spec"].take();
    Ok(())
}

fn networks(platform: &KubeVirtNodePoolPlatform) -> (Vec<Value>, Vec<Value>) {
    let mut interfaces = Vec::new();
    let mut networks = Vec::new();
    if platform.attach_default_network {
        interfaces.push(json!({ "name": "default", "bridge": {} }));
        networks.push(json!({ "name": "default", "pod": {} }));
    }
    for (index, network) in platform.additional_networks.iter().enumerate() {
        let name = format!("iface{}_{}", index + 1, network.name.replace('/', "-"));
        interfaces.push(json!({ "name": name, "bridge": {} }));
        networks.push(json!({ "name": name, "multus": { "networkName": network.name } }));
    }
    (interfaces, networks)
}

fn host_devices(platform: &KubeVirtNodePoolPlatform) -> Vec<Value> {
    let devices = platform.host_devices.iter().flat_map(|device| {
        let count = usize::try_from(device.count.unwrap_or(1)).unwrap_or(1);
        std::iter::repeat_n(device.device_name.as_str(), count)
    });
    devices
        .enumerate()
        .map(|(index, device)| json!({ "name": format!("hostdevice-{}", index + 1), "deviceName": device }))
        .collect()
}

fn data_volume(name: &str, platform: &KubeVirtNodePoolPlatform) -> Value {
    let volume = platform.root_volume.persistent.clone().unwrap_or_default();
    let image =
        platform.root_volume.disk_image.as_ref().and_then(|image| image.container_disk_image.as_deref());
    let mut storage = json!({ "resources": { "requests": { "storage": volume.size } } });
    if let Some(class) = &volume.storage_class {
        storage["storageClassName"] = json!(class);
    }
    if !volume.access_modes.is_empty() {
        storage["accessModes"] = json!(volume.access_modes);
    }
    if let Some(mode) = &volume.volume_mode {
        storage["volumeMode"] = json!(mode);
    }
    json!({
        "metadata": {
            "name": format!("{name}-rhcos"),
            "labels": { "hypershift.openshift.io/is-kubevirt-rhcos": "true" },
        },
        "spec": {
            "source": { "registry": { "url": format!("docker://{}", image.unwrap_or(ROOT_IMAGE)) } },
            "storage": storage,
        },
    })
}
