//! `/stats/summary`, in the form that metrics collectors know.

use std::path::Path;

use nix::sys::statvfs::statvfs;
use serde_json::{Value, json};

use super::{ContainerSample, Measured, PodSample};
use crate::cgroups::group::Usage;
use crate::config::Config;
use crate::quantity;

pub(super) fn document(config: &Config, measured: &Measured) -> Value {
    let (before, after) = (&measured.before, &measured.after);
    let capacity = quantity::parse(&crate::node::memory(config)).unwrap_or_default() / 1000;
    let mut node = json!({
        "nodeName": config.node_name,
        "cpu": processor(measured, Some(before.node), after.node),
        "memory": memory(measured, after.node),
        "runtime": {},
    });
    let available = u64::try_from(capacity).unwrap_or_default().saturating_sub(after.node.memory.working_set);
    node["memory"]["availableBytes"] = json!(available);
    node["rlimit"] = json!({"time": after.at, "curproc": after.node.processes});
    if let Some(disk) = disk(&config.root) {
        node["fs"] = disk;
    }
    let pods: Vec<_> = after.pods.iter().map(|pod| of_pod(measured, pod)).collect();
    json!({"node": node, "pods": pods})
}

fn of_pod(measured: &Measured, pod: &PodSample) -> Value {
    let before = measured.before.pods.iter().find(|one| one.uid == pod.uid);
    let containers: Vec<_> = pod
        .containers
        .iter()
        .map(|container| {
            let same = |one: &&ContainerSample| one.name == container.name;
            let before = before.and_then(|pod| pod.containers.iter().find(same));
            json!({
                "name": container.name,
                "startTime": container.started_at,
                "cpu": processor(measured, before.map(|one| one.usage), container.usage),
                "memory": memory(measured, container.usage),
            })
        })
        .collect();
    json!({
        "podRef": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "startTime": pod.started_at,
        "containers": containers,
        "cpu": processor(measured, before.map(|one| one.usage), pod.usage),
        "memory": memory(measured, pod.usage),
        "process_stats": {"process_count": pod.usage.processes},
    })
}

fn processor(measured: &Measured, before: Option<Usage>, after: Usage) -> Value {
    json!({
        "time": measured.after.at,
        "usageNanoCores": measured.rate(before, after),
        "usageCoreNanoSeconds": after.processor,
    })
}

fn memory(measured: &Measured, usage: Usage) -> Value {
    json!({
        "time": measured.after.at,
        "usageBytes": usage.memory.usage,
        "workingSetBytes": usage.memory.working_set,
        "rssBytes": usage.memory.resident,
    })
}

fn disk(root: &Path) -> Option<Value> {
    let found = statvfs(root).ok()?;
    let block = found.fragment_size();
    let bytes = |blocks: u64| blocks.saturating_mul(block);
    Some(json!({
        "availableBytes": bytes(found.blocks_available()),
        "capacityBytes": bytes(found.blocks()),
        "usedBytes": bytes(found.blocks().saturating_sub(found.blocks_free())),
        "inodesFree": found.files_free(),
        "inodes": found.files(),
        "inodesUsed": found.files().saturating_sub(found.files_free()),
    }))
}
