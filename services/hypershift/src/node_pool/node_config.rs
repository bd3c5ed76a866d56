//! The configuration that a pool names in ConfigMaps, as far as its nodes can be configured.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use pilothouse_crds::NodePool;
use serde_json::Value;

use super::status::Obstacle;
use crate::error::Error;

/// The key of a ConfigMap that holds a configuration.
const KEY: &str = "config";
const CONDITION: &str = "ValidMachineConfig";

/// What nodes are configured with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeConfig {
    /// All of it, in the order of the documents' texts. Nodes change when this does.
    pub(super) text: String,
    pub(super) max_pods: Option<u32>,
    pub(super) pod_processes: Option<u32>,
}

// === impl NodeConfig ===

impl NodeConfig {
    /// Reads what a pool names.
    pub(super) async fn load(pool: &NodePool, api: &Api<ConfigMap>) -> Result<Result<Self, Obstacle>, Error> {
        let mut texts = Vec::new();
        for reference in &pool.spec.config {
            let name = &reference.name;
            let found = api.get_opt(name).await;
            let found =
                found.map_err(|error| Error::management("show", format!("ConfigMap {name}"), error))?;
            let text = found.and_then(|found| found.data?.remove(KEY));
            match text {
                Some(text) => texts.push(text),
                None => {
                    let message = format!("spec.config: there is no ConfigMap {name} with a key `{KEY}`");
                    return Ok(Err(Obstacle { condition: CONDITION, reason: "NotFound", message }));
                }
            }
        }
        Ok(Self::read(texts))
    }

    fn read(mut texts: Vec<String>) -> Result<Self, Obstacle> {
        texts.sort();
        let mut config = Self { text: texts.join("\n---\n"), ..Self::default() };
        for text in &texts {
            config.add(text).map_err(|message| Obstacle {
                condition: CONDITION,
                reason: "ValidationFailed",
                message,
            })?;
        }
        Ok(config)
    }

    fn add(&mut self, text: &str) -> Result<(), String> {
        let document: Value =
            serde_saphyr::from_str(text).map_err(|error| format!("spec.config: this is no YAML: {error}"))?;
        let kind = document["kind"].as_str().unwrap_or_default();
        if kind != "KubeletConfig" {
            return Err(format!(
                "spec.config: nodes of payload `light` cannot be given a {kind}; of a KubeletConfig they understand maxPods and \
                 podPidsLimit"
            ));
        }
        for (key, value) in document["spec"]["kubeletConfig"].as_object().into_iter().flatten() {
            let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
            let field = match key.as_str() {
                "maxPods" => &mut self.max_pods,
                "podPidsLimit" => &mut self.pod_processes,
                other => {
                    return Err(format!(
                        "spec.config: {other} of a KubeletConfig cannot be set on nodes of payload `light`; they understand \
                         maxPods and podPidsLimit"
                    ));
                }
            };
            *field =
                Some(number.ok_or_else(|| format!("spec.config: {key} is no number of pods or processes"))?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn what_nodes_understand_is_read_in_whatever_order_it_is_named() {
        let pods = "kind: KubeletConfig\nspec:\n  kubeletConfig:\n    maxPods: 40\n".to_owned();
        let processes = "kind: KubeletConfig\nspec:\n  kubeletConfig:\n    podPidsLimit: 64\n".to_owned();
        let config = NodeConfig::read(vec![pods.clone(), processes.clone()]).unwrap();
        assert_eq!((config.max_pods, config.pod_processes), (Some(40), Some(64)));
        assert_eq!(NodeConfig::read(vec![processes, pods]).unwrap(), config);
        assert_eq!(NodeConfig::read(Vec::new()).unwrap(), NodeConfig::default());
    }

    #[rstest]
    #[case("kind: MachineConfig", "MachineConfig")]
    #[case("kind: [", "no YAML")]
    #[case("kind: KubeletConfig\nspec: {kubeletConfig: {maxPods: many}}", "maxPods")]
    #[case("kind: KubeletConfig\nspec: {kubeletConfig: {cgroupDriver: systemd}}", "cgroupDriver")]
    fn what_they_do_not_is_refused_by_name(#[case] text: &str, #[case] named: &str) {
        let obstacle = NodeConfig::read(vec![text.to_owned()]).unwrap_err();
        assert_eq!(obstacle.condition, "ValidMachineConfig");
        assert!(obstacle.message.contains(named), "{}", obstacle.message);
    }
}
