//! What is remembered of a pod on disk, so that the next kubelet finds it again.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use pilothouse_informer::ObjectKey;
use serde::{Deserialize, Serialize};

use crate::files::{read_json, write_json};
use crate::process::Process;

/// Written before anything of the pod exists, removed after the last of it is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// The pod's address, and the network it means something in.
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) network: String,
    /// Whether the pod's network was finished. Nothing runs in the pod before that, so a kubelet that finds it otherwise
    /// begins again.
    pub(crate) attached: bool,
    /// A node inside a pod: stopped before the pods that serve it.
    pub(crate) privileged: bool,
    pub(crate) grace_seconds: u64,
    pub(crate) started_at: Timestamp,
}

// === impl Record ===

impl Record {
    pub(crate) fn of(pod: &Pod, network: &str, now: Timestamp) -> Self {
        let spec = pod.spec.as_ref();
        Self {
            namespace: pod.namespace().unwrap_or_default(),
            name: pod.name_any(),
            uid: pod.uid().unwrap_or_default(),
            address: None,
            network: network.to_owned(),
            attached: false,
            privileged: super::specification::is_privileged(pod),
            grace_seconds: spec
                .and_then(|spec| spec.termination_grace_period_seconds)
                .and_then(|seconds| u64::try_from(seconds).ok())
                .unwrap_or(30),
            started_at: now,
        }
    }

    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey::namespaced(&self.namespace, &self.name)
    }

    /// The pod has no place in any network.
    pub(crate) fn forget_network(&mut self) {
        self.address = None;
        self.attached = false;
    }

    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        write_json(&folder.join("record.json"), self)
    }
}

/// The folder of all pods.
pub(crate) fn folder(root: &Path) -> PathBuf {
    root.join("pods")
}

/// Every pod there is something of on disk: its folder, and its record unless the pod was hardly begun or almost gone.
pub(crate) fn all(root: &Path) -> io::Result<Vec<(PathBuf, Option<Record>)>> {
    let entries = match fs::read_dir(folder(root)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let record = read_json(&path.join("record.json")).unwrap_or_default();
        found.push((path, record));
    }
    Ok(found)
}

/// The shim of a pod, if one lives.
pub(crate) fn shim(folder: &Path) -> Option<Process> {
    let written: Option<Process> = read_json(&folder.join("shim.json")).ok().flatten();
    written.filter(|process| process.is_alive())
}
