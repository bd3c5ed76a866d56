//! The processes of hosted control planes: what runs in the pods of a region, and the shims around it.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::harness::{Memory, Process, Program, SHIM, resident};

/// What one control plane consists of, if there is one of each.
const PROGRAMS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// All processes in the pods of a region whose clusters are Kubernetes itself, and what they had in memory.
#[derive(Debug)]
pub(super) struct Planes {
    /// By their names, with their memory in MiB.
    programs: Vec<Member>,
    shim_ids: Vec<i32>,
    /// The memory of all shims, in MiB. Their program is the region's, so of what they share with it they count their part.
    pub(super) shims: f64,
}

#[derive(Clone, Debug, PartialEq)]
struct Member {
    id: i32,
    name: String,
    resident: f64,
}

impl Planes {
    /// Those of all pods of this program.
    pub(super) fn of(program: &Program) -> anyhow::Result<Self> {
        let ours = program.processes()?;
        let shim_ids: Vec<_> =
            ours.iter().filter(|process| process.verb == SHIM).map(|process| process.id).collect();
        let entries = fs::read_dir("/proc").context("cannot look for processes")?;
        let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let all: Vec<_> = ids.filter_map(Process::read).collect();
        let programs = inside(&all, &shim_ids)
            .into_iter()
            .filter_map(|id| Some(Member { id, name: name(id)?, resident: resident(&[id]) }));
        let shims = Memory::of(&shim_ids)?.total;
        Ok(Self { programs: programs.collect(), shims, shim_ids })
    }

    /// How many clusters these are; none if some program is missing somewhere.
    pub(super) fn clusters(&self) -> usize {
        let count = |name: &str| self.programs.iter().filter(|member| member.name == name).count();
        let counts = PROGRAMS.map(count);
        if counts.iter().all(|other| *other == counts[0]) { counts[0] } else { 0 }
    }

    /// Everything together, in MiB.
    pub(super) fn resident(&self) -> f64 {
        self.programs.iter().map(|member| member.resident).sum::<f64>() + self.shims
    }

    /// For a note: what each program has.
    pub(super) fn parts(&self) -> String {
        let parts = self.programs.iter().map(|member| format!("{} {:.0}", member.name, member.resident));
        parts.collect::<Vec<_>>().join(", ")
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<i32> {
        self.with(&self.shim_ids)
    }

    /// The programs and these others, each once.
    pub(super) fn with(&self, others: &[i32]) -> Vec<i32> {
        self.programs.iter().map(|member| member.id).chain(others.iter().copied()).collect()
    }
}

/// Who descends from one of the shims and is none.
fn inside(all: &[Process], shims: &[i32]) -> Vec<i32> {
    let find = |id: i32| all.iter().find(|process| process.id == id);
    let in_a_pod = |process: &&Process| {
        let mut above = std::iter::successors(find(process.parent), |process| find(process.parent));
        !shims.contains(&process.id) && above.any(|process| shims.contains(&process.id))
    };
    all.iter().filter(in_a_pod).map(|process| process.id).collect()
}

/// What a process was started as, without its folder.
fn name(id: i32) -> Option<String> {
    let line = fs::read(format!("/proc/{id}/cmdline")).ok()?;
    let first = String::from_utf8_lossy(line.split(|byte| *byte == 0).next()?).into_owned();
    Some(Path::new(&first).file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_pods_descend_from_their_shims() {
        let process = |id, parent| Process { id, parent, verb: String::new() };
        let all = [process(1, 0), process(10, 1), process(11, 10), process(12, 11), process(20, 1)];
        assert_eq!(inside(&all, &[10]), [11, 12]);
        assert_eq!(inside(&all, &[20]), [0; 0]);
    }

    #[test]
    fn a_cluster_counts_if_it_is_complete() {
        let of = |names: &[&str]| {
            let member = |name: &&str| Member { id: 1, name: (*name).to_owned(), resident: 2.0 };
            Planes { programs: names.iter().map(member).collect(), shim_ids: vec![2], shims: 1.0 }
        };
        let one = of(&PROGRAMS);
        assert_eq!(one.clusters(), 1);
        assert!((one.resident() - 9.0).abs() < f64::EPSILON);
        assert_eq!(one.all(), [1, 1, 1, 1, 2]);
        assert_eq!(of(&PROGRAMS[1..]).clusters(), 0);
        assert_eq!(of(&[PROGRAMS, PROGRAMS].concat()).clusters(), 2);
    }

    #[test]
    fn this_process_has_a_name() {
        assert!(name(std::process::id().try_into().unwrap()).is_some());
        assert_eq!(name(i32::MAX), None);
    }
}
