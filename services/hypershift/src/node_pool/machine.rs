//! The objects of one worker: a machine, and what it runs on.
//!
//! The `Machine` is the record of a worker. It is made first and goes last, so that whatever else there is belongs to one. What it
//! runs on has the same name: a `VirtualMachine` on platform KubeVirt, else a pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::Resource as _;
use pilothouse_crds::{Machine, PlatformType, VirtualMachine};
use pilothouse_virt_api::NodeProcess;
use serde_json::{Value, json};

use super::template::Template;
use crate::error::Error;
use crate::names;

/// On a machine: its node goes as it is.
pub(super) const NO_DRAIN: &str = "machine.cluster.x-k8s.io/exclude-node-draining";
/// On a machine that is being changed in place: since when.
pub(super) const UPDATING: &str = "hypershift.openshift.io/nodePoolUpgradeInProgressTrue";
/// On the pod of a virtual machine: the machine's name.
pub(super) const MACHINE_NAME: &str = "vm.kubevirt.io/name";

// === impl Template ===

impl Template<'_> {
    /// The record of a worker.
    pub(super) fn machine(&self, name: &str) -> Result<Machine, Error> {
        let (api_version, kind) = match self.platform() {
            PlatformType::KubeVirt => ("kubevirt.io/v1", "VirtualMachine"),
            _ => ("v1", "Pod"),
        };
        let mut metadata = self.worker_metadata(name);
        // Until its node is empty and nothing of it runs.
        metadata.finalizers = Some(vec![names::FINALIZER.to_owned()]);
        let labels = metadata.labels.get_or_insert_default();
        labels.insert("cluster.x-k8s.io/cluster-name".to_owned(), self.infra_id.to_owned());
        let mut spec = json!({
            "clusterName": self.infra_id,
            "bootstrap": { "dataSecretName": self.user_data_name() },
            "infrastructureRef": {
                "apiVersion": api_version, "kind": kind, "name": name, "namespace": self.namespace,
            },
            "version": self.release.kubernetes,
        });
        for (key, timeout) in [
            ("nodeDrainTimeout", &self.pool.spec.node_drain_timeout),
            ("nodeVolumeDetachTimeout", &self.pool.spec.node_volume_detach_timeout),
        ] {
            if let Some(timeout) = timeout {
                spec[key] = json!(timeout);
            }
        }
        made(name, json!({ "metadata": metadata, "spec": spec }))
    }

    /// A worker as a pod. It goes with its machine, whatever becomes of us.
    pub(super) fn pod(&self, machine: &Machine) -> Pod {
        let name = machine.metadata.name.clone().unwrap_or_default();
        let mut metadata = self.worker_metadata(&name);
        metadata.owner_references = machine.controller_owner_ref(&()).map(|owner| vec![owner]);
        let process = NodeProcess {
            node: &name,
            image: self.image,
            user_data: &self.user_data_name(),
            resources: None,
            node_selector: BTreeMap::new(),
        };
        Pod { metadata, spec: Some(process.pod_spec()), ..Pod::default() }
    }

    /// A worker as a virtual machine.
    pub(super) fn virtual_machine(&self, machine: &Machine) -> Result<VirtualMachine, Error> {
        let name = machine.metadata.name.clone().unwrap_or_default();
        let mut metadata = self.worker_metadata(&name);
        metadata.owner_references = machine.controller_owner_ref(&()).map(|owner| vec![owner]);
        let spec = self.virtual_machine_spec(&name)?;
        made(&name, json!({ "metadata": metadata, "spec": spec }))
    }
}

/// An object as its type has it.
pub(super) fn made<K: serde::de::DeserializeOwned>(name: &str, value: Value) -> Result<K, Error> {
    serde_json::from_value(value).map_err(|source| Error::Manifest { name: name.to_owned(), source })
}
