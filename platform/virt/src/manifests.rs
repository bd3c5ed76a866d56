//! The objects of a machine that runs.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;
use pilothouse_crds::{VirtualMachine, VirtualMachineInstance};
use pilothouse_virt_api::NodeProcess;

use crate::order::Order;

/// What pods of instances are found by.
pub(crate) const LAUNCHER: (&str, &str) = ("kubevirt.io", "virt-launcher");
/// On instances and pods: the machine's name.
pub(crate) const MACHINE_NAME: &str = "vm.kubevirt.io/name";
/// On pods: the instance that made them.
pub(crate) const CREATED_BY: &str = "kubevirt.io/created-by";
/// Keeps a machine until nothing of it runs.
pub(crate) const FINALIZER: &str = "kubevirt.io/virtualMachineControllerFinalize";

/// The instance of a machine.
pub(crate) fn instance(machine: &VirtualMachine) -> VirtualMachineInstance {
    let template = &machine.spec.template;
    let name = machine.metadata.name.clone().unwrap_or_default();
    let mut instance = VirtualMachineInstance::new(&name, template.spec.clone());
    let mut labels = template.metadata.labels.clone();
    labels.insert(MACHINE_NAME.to_owned(), name);
    instance.metadata = ObjectMeta {
        namespace: machine.metadata.namespace.clone(),
        labels: Some(labels),
        annotations: Some(template.metadata.annotations.clone()),
        owner_references: machine.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..instance.metadata
    };
    instance
}

/// The process of an instance: a node, named as the machine.
pub(crate) fn pod(instance: &VirtualMachineInstance, order: &Order, user_data: &str, image: &str) -> Pod {
    let metadata = &instance.metadata;
    let name = metadata.name.clone().unwrap_or_default();
    let uid = metadata.uid.clone().unwrap_or_default();
    let mut labels = metadata.labels.clone().unwrap_or_default();
    labels.extend([
        (LAUNCHER.0.to_owned(), LAUNCHER.1.to_owned()),
        (CREATED_BY.to_owned(), uid.clone()),
        (MACHINE_NAME.to_owned(), name.clone()),
    ]);
    let mut annotations: BTreeMap<_, _> = metadata.annotations.clone().unwrap_or_default();
    annotations.insert("kubevirt.io/domain".to_owned(), name.clone());
    let process = NodeProcess {
        node: &name,
        image,
        user_data,
        resources: Some(order.resources.clone()),
        node_selector: order.node_selector.clone(),
    };
    Pod {
        metadata: ObjectMeta {
            // By the instance, so that a pass over a cache that is behind makes the same one again, which is refused.
            name: Some(format!("virt-launcher-{name}-{}", uid.get(..5).unwrap_or(&uid))),
            namespace: metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: instance.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(process.pod_spec()),
        ..Pod::default()
    }
}
