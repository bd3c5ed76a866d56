//! Machines of KubeVirt, as the command line describes them.

use clap::ValueEnum;
use serde_json::{Value, json};

use super::values;

/// What the machines of a pool are.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct MachineArgs {
    /// How much memory a machine has
    #[arg(long, value_name = "AMOUNT", default_value = "4Gi", value_parser = values::quantity)]
    memory: String,
    /// How many cores a machine has
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    cores: u32,
    /// How large a machine's root volume is, in Gi
    #[arg(long, value_name = "GI", default_value_t = 32, value_parser = clap::value_parser!(u32).range(16..))]
    root_volume_size: u32,
    /// The storage class of root volumes; the management cluster's default if absent
    #[arg(long, value_name = "CLASS")]
    root_volume_storage_class: Option<String>,
    /// How root volumes may be mounted
    #[arg(long, value_name = "MODES", value_delimiter = ',')]
    root_volume_access_modes: Vec<String>,
    /// Whether root volumes are devices or hold files
    #[arg(long, value_name = "MODE", value_parser = ["Block", "Filesystem"])]
    root_volume_volume_mode: Option<String>,
    /// Whether the image on root volumes is kept for the next machine
    #[arg(long, value_name = "STRATEGY", value_parser = ["None", "PVC"])]
    root_volume_cache_strategy: Option<String>,
    /// Whether network interfaces have a queue for each core
    #[arg(long, value_name = "STATE", default_value = "Enable", value_parser = ["Enable", "Disable"])]
    network_multiqueue: String,
    /// Whether a machine has its resources for itself
    #[arg(long, value_name = "CLASS", default_value = "Burstable")]
    qos_class: QosClass,
    /// A further network: name:<namespace>/<name>
    #[arg(long, value_name = "NETWORK", value_parser = network)]
    additional_network: Vec<String>,
    /// Whether machines are in the network of pods
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    attach_default_network: bool,
    /// Labels of the nodes that the machines may run on
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = values::pair)]
    vm_node_selector: Vec<(String, String)>,
    /// A device of the host that machines are given: <device>,count:<number>
    #[arg(long, value_name = "DEVICE", value_parser = host_device)]
    host_device_name: Vec<(String, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum QosClass {
    /// It shares them
    Burstable,
    /// It has them for itself
    Guaranteed,
}

impl MachineArgs {
    /// `platform` of a pool.
    pub(super) fn platform(&self) -> Value {
        let mut persistent = json!({ "size": format!("{}Gi", self.root_volume_size) });
        if let Some(class) = &self.root_volume_storage_class {
            persistent["storageClass"] = json!(class);
        }
        if !self.root_volume_access_modes.is_empty() {
            persistent["accessModes"] = json!(self.root_volume_access_modes);
        }
        if let Some(mode) = &self.root_volume_volume_mode {
            persistent["volumeMode"] = json!(mode);
        }
        let mut volume = json!({ "persistent": persistent, "type": "Persistent" });
        if let Some(strategy) = &self.root_volume_cache_strategy {
            volume["cacheStrategy"] = json!({ "type": strategy });
        }
        let mut compute = json!({ "cores": self.cores, "memory": self.memory });
        if self.qos_class == QosClass::Guaranteed {
            compute["qosClass"] = json!("Guaranteed");
        }
        let mut machines = json!({
            "attachDefaultNetwork": self.attach_default_network,
            "compute": compute,
            "networkInterfaceMultiqueue": self.network_multiqueue,
            "rootVolume": volume,
        });
        if !self.additional_network.is_empty() {
            let named = self.additional_network.iter().map(|name| json!({ "name": name }));
            machines["additionalNetworks"] = named.collect();
        }
        if !self.vm_node_selector.is_empty() {
            machines["nodeSelector"] =
                self.vm_node_selector.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        }
        if !self.host_device_name.is_empty() {
            let devices = self.host_device_name.iter();
            machines["hostDevices"] =
                devices.map(|(name, count)| json!({ "deviceName": name, "count": count })).collect();
        }
        json!({ "kubevirt": machines, "type": "KubeVirt" })
    }
}

fn network(text: &str) -> Result<String, String> {
    match text.strip_prefix("name:") {
        Some(name) if name.split('/').filter(|part| !part.is_empty()).count() == 2 => Ok(name.to_owned()),
        _ => Err("a network is written name:<namespace>/<name>".to_owned()),
    }
}

fn host_device(text: &str) -> Result<(String, u32), String> {
    let wrong = || "a device is written <device>,count:<number>".to_owned();
    let (name, count) = text.split_once(",count:").unwrap_or((text, "1"));
    let count: u32 = count.parse().map_err(|_| wrong())?;
    if name.is_empty() || count == 0 { Err(wrong()) } else { Ok((name.to_owned(), count)) }
}
