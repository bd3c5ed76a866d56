//! Which processes belong to what: the region, a hosted control plane, a worker.

use std::fs;

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) id: i32,
    pub(crate) parent: i32,
    /// What it does: the first word after the program's name.
    pub(crate) verb: String,
}

/// All processes of a region, by what they are for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    /// The region itself, its node's kubelet, and what holds the node's namespaces.
    pub(crate) region: Vec<i32>,
    /// One each: a control plane and the shim around it.
    pub(crate) control_planes: Vec<Vec<i32>>,
    /// One each: a worker's kubelet, the shim around it, and whatever runs on it.
    pub(crate) workers: Vec<Vec<i32>>,
}

pub(crate) const SHIM: &str = "shim";
const CONTROL_PLANE: &str = "control-plane";
const KUBELET: &str = "kubelet";

impl Process {
    /// A process that runs, or was just now running.
    pub(crate) fn read(id: i32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
        let line = fs::read(format!("/proc/{id}/cmdline")).ok()?;
        let verb = line.split(|byte| *byte == 0).nth(1).unwrap_or_default();
        Some(Self { id, parent, verb: String::from_utf8_lossy(verb).into_owned() })
    }
}

impl Census {
    /// A pod is a shim and all that descends from it; what it is for is told by what the shim started. The region is
    /// whatever is in no pod.
    pub(crate) fn of(processes: &[Process]) -> Self {
        let find = |id: i32| processes.iter().find(|process| process.id == id);
        // The shim furthest up: a worker runs pods of its own.
        let pod = |process: &Process| {
            let above = std::iter::successors(Some(process), |process| find(process.parent));
            above.filter(|process| process.verb == SHIM).last().map(|shim| shim.id)
        };
        let mut census = Self {
            region: ids(processes.iter().filter(|process| pod(process).is_none())),
            ..Self::default()
        };
        for shim in processes.iter().filter(|process| pod(process) == Some(process.id)) {
            let members = ids(processes.iter().filter(|process| pod(process) == Some(shim.id)));
            let runs =
                |verb| processes.iter().any(|process| process.parent == shim.id && process.verb == verb);
            if runs(CONTROL_PLANE) {
                census.control_planes.push(members);
            } else if runs(KUBELET) {
                census.workers.push(members);
            }
        }
        census
    }

    pub(crate) fn all(&self) -> Vec<i32> {
        let pods = self.control_planes.iter().chain(&self.workers).flatten();
        self.region.iter().chain(pods).copied().collect()
    }
}

fn ids<'a>(processes: impl Iterator<Item = &'a Process>) -> Vec<i32> {
    processes.map(|process| process.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_told_apart_by_the_pod_they_are_in() {
        let process = |id, parent, verb: &str| Process { id, parent, verb: verb.to_owned() };
        let census = Census::of(&[
            process(10, 1, "up"),
            process(11, 10, "kubelet"),
            process(12, 11, "node-anchor"),
            process(20, 1, "shim"),
            process(21, 20, "control-plane"),
            process(30, 1, "shim"),
            process(31, 30, "kubelet"),
            process(32, 31, "node-anchor"),
            // A pod on the worker.
            process(40, 30, "shim"),
            process(41, 40, "control-plane"),
        ]);
        let expected = Census {
            region: vec![10, 11, 12],
            control_planes: vec![vec![20, 21]],
            workers: vec![vec![30, 31, 32, 40, 41]],
        };
        assert_eq!(census, expected);
        assert_eq!(census.all().len(), 10);
    }

    #[test]
    fn this_process_can_be_read() {
        let id = std::process::id().try_into().unwrap();
        assert_eq!(Process::read(id).unwrap().id, id);
        assert_eq!(Process::read(i32::MAX), None);
    }
}
