//! Questions about a pod's specification.

use k8s_openapi::api::core::v1::{Container, Pod};

use crate::config::Config;
use crate::images::Images;

/// Why a pod is not run on this node, for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

pub(crate) fn init_containers(pod: &Pod) -> &[Container] {
    pod.spec.as_ref().and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default()
}

pub(crate) fn containers(pod: &Pod) -> &[Container] {
    pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default()
}

pub(crate) fn all_containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    init_containers(pod).iter().chain(containers(pod))
}

/// Whether an init container keeps running beside the others.
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

pub(crate) fn restart_policy(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("Always")
}

pub(crate) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), Some("Succeeded" | "Failed"))
}

pub(crate) fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref().and_then(|status| status.phase.as_deref())
}

pub(crate) fn container_is_privileged(container: &Container) -> bool {
    container.security_context.as_ref().and_then(|context| context.privileged).unwrap_or(false)
}

pub(crate) fn is_privileged(pod: &Pod) -> bool {
    all_containers(pod).any(container_is_privileged)
}

pub(crate) fn has_host_network(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or(false)
}

/// What this node does not do for anybody, or not for pods that are not our own.
pub(crate) fn admit(pod: &Pod, config: &Config, images: &Images) -> Result<(), Refusal> {
    let refuse = |message: String| Err(Refusal { reason: "NodeRefused", message });
    for container in all_containers(pod).filter(|container| container_is_privileged(container)) {
        let image = container.image.as_deref().unwrap_or_default();
        let is_ours = images.resolve(image).is_ok_and(|image| image.is_ours());
        if !config.allow_host_path || !is_ours {
            return refuse(format!(
                "container `{}` asks for privileges, which this node gives to nobody else's programs; remove \
                 securityContext.privileged",
                container.name
            ));
        }
    }
    if has_host_network(pod) && !config.allow_host_path {
        return refuse("hostNetwork is not available on this node; remove it".to_owned());
    }
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    for volume in volumes {
        if volume.host_path.is_some() && !config.allow_host_path {
            return refuse(format!(
                "volume `{}` is a hostPath, which this node does not give; use emptyDir or a claim",
                volume.name
            ));
        }
    }
    Ok(())
}
