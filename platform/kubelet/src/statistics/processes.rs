//! Adding up what processes use, where no control group does.
//!
//! What a process used that has ended counts with whoever waited for it, and is forgotten if nobody did.

use std::collections::BTreeMap;
use std::fs;

use nix::unistd::{SysconfVar, sysconf};

use crate::cgroups::group::{Memory, Usage};

/// The processes of a pod, by the process that started them.
#[derive(Debug)]
pub(super) struct Family {
    first: i32,
    children: BTreeMap<i32, Vec<i32>>,
    /// By the numbers that processes have inside the pod, those the first one has started.
    inside: BTreeMap<i32, i32>,
}

impl Family {
    /// Everything in a pod descends from its first process: it adopts what others leave.
    pub(super) fn of(first: i32) -> Self {
        let mut family = Self { first, children: BTreeMap::new(), inside: BTreeMap::new() };
        let mut open = vec![first];
        while let Some(pid) = open.pop() {
            let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            let children: Vec<i32> =
                text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect();
            if pid == first {
                let inside = children.iter().filter_map(|child| Some((number_inside(*child)?, *child)));
                family.inside = inside.collect();
            }
            open.extend(&children);
            family.children.insert(pid, children);
        }
        family
    }

    pub(super) fn all(&self) -> Option<Usage> {
        of(&self.below(self.first))
    }

    /// What a container uses, by the number its process has inside the pod.
    pub(super) fn container(&self, pid: i32) -> Option<Usage> {
        of(&self.below(*self.inside.get(&pid)?))
    }

    fn below(&self, pid: i32) -> Vec<i32> {
        let mut found = vec![pid];
        let mut next = 0;
        while let Some(pid) = found.get(next) {
            found.extend(self.children.get(pid).into_iter().flatten());
            next += 1;
        }
        found
    }
}

/// The number of a process in the innermost namespace it is in.
fn number_inside(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_ascii_whitespace().next_back()?.parse().ok()
}

/// The sum of some processes; nothing if none of them is there.
pub(super) fn of(pids: &[i32]) -> Option<Usage> {
    let setting = |name, usual: u64| {
        sysconf(name).ok().flatten().and_then(|value| u64::try_from(value).ok()).unwrap_or(usual)
    };
    let (ticks, page) = (setting(SysconfVar::CLK_TCK, 100), setting(SysconfVar::PAGE_SIZE, 4096));
    let mut sum = Usage::default();
    for pid in pids {
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let Some((time, pages)) = parse(&stat) else { continue };
        sum.processor += time.saturating_mul(1_000_000_000 / ticks.max(1));
        let bytes = pages.saturating_mul(page);
        let memory = Memory { usage: bytes, working_set: bytes, resident: bytes };
        sum.memory.usage += memory.usage;
        sum.memory.working_set += memory.working_set;
        sum.memory.resident += memory.resident;
        sum.processes += 1;
    }
    (sum.processes > 0).then_some(sum)
}

/// Processor time in ticks, with that of children that were waited for, and resident pages.
fn parse(stat: &str) -> Option<(u64, u64)> {
    // The name in between may contain anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let time = fields.get(11..15)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    Some((time, fields.get(21)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_children_counts_and_names_may_be_anything() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194560 107 0 0 0 3 4 5 6 20 0 1 0 100 1000000 250 18446744073709551615";
        assert_eq!(parse(stat), Some((18, 250)));
        assert_eq!(parse("42 (a"), None);
    }

    #[test]
    fn a_family_is_everything_below_its_first_process() {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "sleep 600 & wait"]);
        let child = pilothouse_test_support::process::Running::spawn(command).unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let family = || Family::of(pid);
        while family().children.len() < 2 {
            std::thread::yield_now();
        }
        let all = family().all().unwrap();
        assert_eq!(all.processes, 2);
        assert!(all.memory.resident > 0);
        let (inside, _) = family().inside.into_iter().next().unwrap();
        assert_eq!(family().container(inside).unwrap().processes, 1);
        // The shell alone is killed below; its child goes with the pipe it does not have.
        for pid in family().children.into_keys() {
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
        }
    }
}
