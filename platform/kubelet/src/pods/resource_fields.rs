//! What a pod may be told of the limits and requests of its containers.

use k8s_openapi::api::core::v1::{Pod, ResourceFieldSelector};

use super::objects::Unresolved;
use super::specification::all_containers;
use crate::cgroups::amounts::{limit_of, request_of};
use crate::quantity;

/// What the node has for containers without a limit, as quantities.
#[derive(Clone, Debug)]
pub(crate) struct Allocatable {
    pub(crate) processors: String,
    pub(crate) memory: String,
}

/// The value of a field like `limits.memory` in units of its divisor, rounded up. Without a name, of this container.
pub(crate) fn resource_field(
    pod: &Pod,
    own: Option<&str>,
    selector: &ResourceFieldSelector,
    allocatable: &Allocatable,
) -> Result<String, Unresolved> {
    let unknown = || Unresolved::Field(selector.resource.clone());
    let name = selector.container_name.as_deref().filter(|name| !name.is_empty()).or(own);
    let container = all_containers(pod).find(|container| Some(container.name.as_str()) == name);
    let container = container.ok_or_else(|| {
        Unresolved::Other(format!(
            "`{}` is of container `{}`, which the pod does not have",
            selector.resource,
            name.unwrap_or_default()
        ))
    })?;
    let (kind, resource) = selector.resource.split_once('.').ok_or_else(unknown)?;
    let value = match (kind, resource) {
        ("limits", "cpu") => {
            limit_of(container, resource).or_else(|| quantity::parse(&allocatable.processors))
        }
        ("limits", "memory") => {
            limit_of(container, resource).or_else(|| quantity::parse(&allocatable.memory))
        }
        ("limits", _) => limit_of(container, resource),
        ("requests", _) => request_of(container, resource),
        _ => return Err(unknown()),
    };
    let divisor = selector.divisor.as_ref().and_then(|divisor| quantity::parse(&divisor.0));
    let divisor = divisor.filter(|divisor| *divisor > 0).unwrap_or(1000);
    Ok(value.unwrap_or(0).div_ceil(divisor).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_are_told_in_the_units_asked_for_and_rounded_up() {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"containers": [
            {"name": "main", "resources": {"limits": {"memory": "64Mi", "cpu": "1500m"}, "requests": {"cpu": "250m"}}},
            {"name": "open"}]}}))
        .unwrap();
        let allocatable = Allocatable { processors: "4".to_owned(), memory: "1Gi".to_owned() };
        let told = |resource: &str, container: Option<&str>, divisor: Option<&str>| {
            let selector = json!({"resource": resource, "containerName": container, "divisor": divisor});
            let selector = serde_json::from_value(selector).unwrap();
            resource_field(&pod, Some("main"), &selector, &allocatable).map_err(|error| error.to_string())
        };
        for (resource, container, divisor, expected) in [
            ("limits.cpu", None, None, "2"),
            ("limits.cpu", None, Some("1m"), "1500"),
            ("requests.cpu", None, Some("1m"), "250"),
            ("limits.memory", None, Some("1Mi"), "64"),
            ("limits.memory", None, Some("1M"), "68"),
            ("requests.memory", None, None, "67108864"),
            ("limits.memory", Some("open"), Some("1Mi"), "1024"),
            ("limits.cpu", Some("open"), None, "4"),
            ("requests.cpu", Some("open"), None, "0"),
        ] {
            assert_eq!(told(resource, container, divisor).as_deref(), Ok(expected), "{resource} {divisor:?}");
        }
        assert!(told("limits.cpu", Some("other"), None).unwrap_err().contains("`other`"));
        assert!(told("weight.cpu", None, None).is_err());
    }
}
