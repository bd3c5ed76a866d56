//! Looking once at everything that runs.

use tokio::time::Instant;

use super::{ContainerSample, PodSample, Sample, processes};
use crate::cgroups::container_name;
use crate::cgroups::group::Usage;
use crate::pods::{Local, Pods, record};

/// Blocks for as long as the kernel takes.
pub(super) fn sample(pods: &Pods) -> Sample {
    let taken = Instant::now();
    let mut found: Vec<_> = pods.all_locals().iter().filter_map(|local| look_at(pods, local)).collect();
    found.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    // What the node is there for, and what it takes itself.
    let own = i32::try_from(std::process::id()).ok().and_then(|pid| processes::of(&[pid]));
    let node = found.iter().map(|pod| pod.usage).chain(own).fold(Usage::default(), add);
    Sample { taken, at: pods.now(), node, pods: found }
}

/// Nothing of a pod that does not run.
fn look_at(pods: &Pods, local: &Local) -> Option<PodSample> {
    let record = local.record();
    let state = local.sandbox()?.state()?;
    let shim = record::shim(&local.folder)?;
    let group = pods.cgroups().pod(&record.uid).filter(|group| group.exists());
    let family = match group {
        Some(_) => None,
        None => Some(processes::Family::of(shim.pid)),
    };
    let mut containers = Vec::new();
    for (name, container) in state.containers.iter().filter(|(_, container)| container.is_running()) {
        let counted = group.as_ref().and_then(|group| group.child(&container_name(name)).usage());
        let summed = || family.as_ref().and_then(|family| family.container(container.run.pid));
        if let Some(usage) = counted.or_else(summed) {
            containers.push(ContainerSample {
                name: name.clone(),
                started_at: container.run.started_at,
                usage,
            });
        }
    }
    let counted = group.as_ref().and_then(|group| group.usage());
    let usage = counted.or_else(|| family.as_ref().and_then(processes::Family::all))?;
    let (namespace, name, uid) = (record.namespace, record.name, record.uid);
    Some(PodSample { namespace, name, uid, started_at: record.started_at, usage, containers })
}

fn add(one: Usage, other: Usage) -> Usage {
    let mut sum = one;
    sum.processor += other.processor;
    sum.processes += other.processes;
    sum.memory.usage += other.memory.usage;
    sum.memory.working_set += other.memory.working_set;
    sum.memory.resident += other.memory.resident;
    sum
}
