//! What a virtual machine asks for.

use std::collections::BTreeMap;

use pilothouse_virt_api::Resources;
use serde_json::Value;

/// What KubeVirt gives a machine that does not say.
const LEAST_MEMORY: &str = "1Gi";

/// What a machine asks for, as far as a process can give it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// When it runs.
    pub(crate) strategy: Strategy,
    pub(crate) resources: Resources,
    /// The Secret that it boots with.
    pub(crate) user_data: Option<String>,
    pub(crate) node_selector: BTreeMap<String, String>,
    /// Networks that are no pod's.
    pub(crate) further_networks: Vec<String>,
}

/// When a machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// Whatever happens.
    Always,
    /// Until it ends well.
    RerunOnFailure,
    /// Until it ends.
    Once,
    /// As somebody started or stopped it.
    Manual,
    /// Not at all.
    Halted,
}

// === impl Order ===

impl Order {
    /// Reads the specification of a VirtualMachine.
    pub(crate) fn read(spec: &Value) -> Self {
        let template = &spec["template"]["spec"];
        let domain = &template["domain"];
        let text = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let (requests, limits) = (&domain["resources"]["requests"], &domain["resources"]["limits"]);
        let memory = [&domain["memory"]["guest"], &requests["memory"]].into_iter().find_map(text);
        let guaranteed = !limits["memory"].is_null() && limits == requests;
        let selector = template["nodeSelector"].as_object().into_iter().flatten();
        let networks = template["networks"].as_array().into_iter().flatten();
        Self {
            strategy: Strategy::read(spec),
            resources: Resources {
                cores: cores(&domain["cpu"]),
                memory: memory.unwrap_or_else(|| LEAST_MEMORY.to_owned()),
                guaranteed,
            },
            user_data: template["volumes"].as_array().into_iter().flatten().find_map(user_data),
            node_selector: selector
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect(),
            further_networks: networks
                .filter(|network| network["pod"].is_null())
                .filter_map(|network| Some(network["name"].as_str()?.to_owned()))
                .collect(),
        }
    }
}

// === impl Strategy ===

impl Strategy {
    fn read(spec: &Value) -> Self {
        match (spec["runStrategy"].as_str(), spec["running"].as_bool()) {
            (Some("Always"), _) | (None, Some(true)) => Self::Always,
            (Some("RerunOnFailure"), _) => Self::RerunOnFailure,
            (Some("Once"), _) => Self::Once,
            (Some("Manual"), _) => Self::Manual,
            _ => Self::Halted,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::RerunOnFailure => "RerunOnFailure",
            Self::Once => "Once",
            Self::Manual => "Manual",
            Self::Halted => "Halted",
        }
    }
}

/// Sockets, cores and threads are told apart by who buys them.
fn cores(cpu: &Value) -> u32 {
    let factor = |name: &str| u32::try_from(cpu[name].as_u64().unwrap_or(1)).unwrap_or(1).max(1);
    factor("sockets").saturating_mul(factor("cores")).saturating_mul(factor("threads"))
}

fn user_data(volume: &Value) -> Option<String> {
    let clouds = [&volume["cloudInitNoCloud"], &volume["cloudInitConfigDrive"]];
    let secrets = clouds.into_iter().flat_map(|cloud| [&cloud["secretRef"], &cloud["userDataSecretRef"]]);
    secrets.into_iter().find_map(|secret| Some(secret["name"].as_str()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({ "running": true }), Strategy::Always)]
    #[case(json!({ "running": false }), Strategy::Halted)]
    #[case(json!({ "runStrategy": "Always" }), Strategy::Always)]
    #[case(json!({ "runStrategy": "Halted" }), Strategy::Halted)]
    #[case(json!({ "runStrategy": "Manual" }), Strategy::Manual)]
    #[case(json!({}), Strategy::Halted)]
    fn a_machine_runs_when_it_says_so(#[case] spec: Value, #[case] strategy: Strategy) {
        assert_eq!(Order::read(&spec).strategy, strategy);
    }

    #[test]
    fn size_and_user_data_are_read_from_where_kubevirt_has_them() {
        let order = Order::read(&json!({ "template": { "spec": {
            "domain": {
                "cpu": { "cores": 4, "sockets": 2 }, "memory": { "guest": "10Gi" },
                "resources": { "requests": { "memory": "10Gi", "cpu": "8" }, "limits": { "memory": "10Gi", "cpu": "8" } },
            },
            "networks": [{ "name": "default", "pod": {} }, { "name": "iface1", "multus": { "networkName": "a/b" } }],
            "nodeSelector": { "disk": "fast" },
            "volumes": [
                { "name": "rhcos", "dataVolume": { "name": "a" } },
                { "name": "cloudinitvolume", "cloudInitConfigDrive": { "secretRef": { "name": "user-data-pool-1" } } },
            ],
        } } }));
        assert_eq!(order.resources, Resources { cores: 8, memory: "10Gi".to_owned(), guaranteed: true });
        assert_eq!(order.user_data.as_deref(), Some("user-data-pool-1"));
        assert_eq!(order.node_selector["disk"], "fast");
        assert_eq!(order.further_networks, ["iface1"]);
    }
}
