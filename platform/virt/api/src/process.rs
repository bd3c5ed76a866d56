//! The pod whose program is a node.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EmptyDirVolumeSource, EnvVar, PodSpec, ResourceRequirements,
    SecretVolumeSource, SecurityContext, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::user_data::{BOOTSTRAP_KUBECONFIG, CLIENT_AUTHORITIES, FOLDER, ROOT, SETTINGS};

/// What a node that does nothing yet needs. A process takes no more than it uses, so more of them fit than their sizes add up to.
const IDLE_PROCESSOR: &str = "10m";
const IDLE_MEMORY: &str = "32Mi";

/// A node that runs as a process.
#[derive(Clone, Debug)]
pub struct NodeProcess<'a> {
    /// The name of the Node.
    pub node: &'a str,
    /// The image that is `pilothouse`.
    pub image: &'a str,
    /// The Secret it reads, in the namespace of its pod.
    pub user_data: &'a str,
    /// How large the node is. Without it, as large as the machine.
    pub resources: Option<Resources>,
    /// The nodes that it may run on.
    pub node_selector: BTreeMap<String, String>,
}

/// The size of a node: what it offers to pods, and the most that it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Processors.
    pub cores: u32,
    /// Memory, as a Kubernetes quantity.
    pub memory: String,
    /// All of it is set aside for the node.
    pub guaranteed: bool,
}

// === impl NodeProcess ===

impl NodeProcess<'_> {
    /// What the pod runs. Its program makes namespaces and mounts of its own, hence the privilege, which on a node without root is
    /// no more than its user's.
    pub fn pod_spec(&self) -> PodSpec {
        let mount = |name: &str, path: &str, read_only: Option<bool>| VolumeMount {
            name: name.to_owned(),
            mount_path: path.to_owned(),
            read_only,
            ..VolumeMount::default()
        };
        let container = Container {
            name: "kubelet".to_owned(),
            image: Some(self.image.to_owned()),
            command: Some(self.command()),
            env: Some(self.environment()),
            ports: Some(vec![ContainerPort {
                name: Some("kubelet".to_owned()),
                container_port: 10250,
                ..ContainerPort::default()
            }]),
            resources: self.resources.as_ref().map(Resources::requirements),
            security_context: Some(SecurityContext { privileged: Some(true), ..SecurityContext::default() }),
            volume_mounts: Some(vec![mount("user-data", FOLDER, Some(true)), mount("root", ROOT, None)]),
            ..Container::default()
        };
        let user_data = SecretVolumeSource {
            secret_name: Some(self.user_data.to_owned()),
            ..SecretVolumeSource::default()
        };
        let volumes = vec![
            Volume { name: "user-data".to_owned(), secret: Some(user_data), ..Volume::default() },
            Volume {
                name: "root".to_owned(),
                empty_dir: Some(EmptyDirVolumeSource::default()),
                ..Volume::default()
            },
        ];
        PodSpec {
            containers: vec![container],
            volumes: Some(volumes),
            node_selector: Some(self.node_selector.clone()).filter(|selector| !selector.is_empty()),
            restart_policy: Some("Always".to_owned()),
            automount_service_account_token: Some(false),
            termination_grace_period_seconds: Some(10),
            ..PodSpec::default()
        }
    }

    fn command(&self) -> Vec<String> {
        let file = |name: &str| format!("{FOLDER}/{name}");
        let (settings, bootstrap) = (file(SETTINGS), file(BOOTSTRAP_KUBECONFIG));
        [
            "pilothouse",
            "kubelet",
            "--config",
            &settings,
            "--node-name",
            self.node,
            "--root",
            ROOT,
            "--bootstrap-kubeconfig",
            &bootstrap,
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn environment(&self) -> Vec<EnvVar> {
        let variable = |name: &str, value: String| EnvVar {
            name: name.to_owned(),
            value: Some(value),
            ..EnvVar::default()
        };
        let authorities = variable("PILOTHOUSE_CLIENT_AUTHORITIES", format!("{FOLDER}/{CLIENT_AUTHORITIES}"));
        let size = self.resources.iter().flat_map(|resources| {
            [
                variable("PILOTHOUSE_CAPACITY__CPU", resources.cores.to_string()),
                variable("PILOTHOUSE_CAPACITY__MEMORY", resources.memory.clone()),
            ]
        });
        std::iter::once(authorities).chain(size).collect()
    }
}

// === impl Resources ===

impl Resources {
    fn requirements(&self) -> ResourceRequirements {
        let quantities = |processors: &str, memory: &str| {
            [("cpu", processors), ("memory", memory)]
                .into_iter()
                .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())))
                .collect()
        };
        let limits: BTreeMap<_, _> = quantities(&self.cores.to_string(), &self.memory);
        let requests = match self.guaranteed {
            true => limits.clone(),
            false => quantities(IDLE_PROCESSOR, IDLE_MEMORY),
        };
        ResourceRequirements {
            limits: Some(limits),
            requests: Some(requests),
            ..ResourceRequirements::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(false, "32Mi")]
    #[case(true, "10Gi")]
    fn a_node_is_as_large_as_asked_and_takes_what_it_uses_unless_all_is_to_be_set_aside(
        #[case] guaranteed: bool,
        #[case] requested: &str,
    ) {
        let process = NodeProcess {
            node: "one",
            image: "pilothouse",
            user_data: "user-data-pool-1",
            resources: Some(Resources { cores: 8, memory: "10Gi".to_owned(), guaranteed }),
            node_selector: BTreeMap::new(),
        };
        let container = process.pod_spec().containers.remove(0);
        let resources = container.resources.unwrap();
        assert_eq!(resources.requests.unwrap()["memory"].0, requested);
        assert_eq!(resources.limits.unwrap()["cpu"].0, "8");
        let told = container.env.unwrap();
        assert!(told.iter().any(|variable| variable.name == "PILOTHOUSE_CAPACITY__MEMORY"
            && variable.value.as_deref() == Some("10Gi")));
    }
}
