//! One control group, in whichever folders it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::amounts::Amounts;

/// What a group can limit or count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Controller {
    Memory,
    Cpu,
    Pids,
    /// Counts processor time, in the first version only.
    Cpuacct,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Version {
    One,
    Two,
}

/// A group: the folder of each controller that it has. In the second version all of them are the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Group {
    version: Version,
    folders: BTreeMap<Controller, PathBuf>,
}

/// What the processes of a group have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Processor time since the group was made, in nanoseconds.
    pub(crate) processor: u64,
    pub(crate) memory: Memory,
    pub(crate) processes: u64,
}

/// Bytes of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) usage: u64,
    /// Without what could be dropped at once.
    pub(crate) working_set: u64,
    pub(crate) resident: u64,
}

/// The length of the periods in which a share of processor time is given.
const PERIOD: u64 = 100_000;

/// What the kernel gives whoever does not say, in the first version and in the second, and the most in the second.
const USUAL_SHARES: u64 = 1024;
const USUAL_WEIGHT: u64 = 100;
const LARGEST_WEIGHT: u64 = 10_000;

// === impl Controller ===

impl Controller {
    pub(crate) const ALL: [Self; 4] = [Self::Memory, Self::Cpu, Self::Pids, Self::Cpuacct];
    /// Those a limit needs.
    pub(crate) const LIMITING: [Self; 3] = [Self::Memory, Self::Cpu, Self::Pids];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Pids => "pids",
            Self::Cpuacct => "cpuacct",
        }
    }
}

// === impl Group ===

impl Group {
    pub(super) fn of_first_version() -> Self {
        Self { version: Version::One, folders: BTreeMap::new() }
    }

    /// With the controllers that the folder says it has.
    pub(super) fn of_second_version(folder: PathBuf) -> Self {
        let listed = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
        let listed: BTreeSet<_> = listed.split_ascii_whitespace().collect();
        let has = Controller::LIMITING.into_iter().filter(|one| listed.contains(one.name()));
        Self { version: Version::Two, folders: has.map(|one| (one, folder.clone())).collect() }
    }

    pub(super) fn add(&mut self, controller: Controller, folder: PathBuf) {
        self.folders.insert(controller, folder);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }

    pub(crate) fn has(&self, controller: Controller) -> bool {
        self.folders.contains_key(&controller)
    }

    /// Every folder once.
    pub(super) fn folders(&self) -> BTreeSet<&Path> {
        self.folders.values().map(PathBuf::as_path).collect()
    }

    pub(super) fn describe(&self) -> String {
        let folders: Vec<_> = self.folders().into_iter().map(|folder| folder.display().to_string()).collect();
        folders.join(", ")
    }

    pub(crate) fn exists(&self) -> bool {
        !self.folders.is_empty() && self.folders().iter().all(|folder| folder.is_dir())
    }

    pub(crate) fn child(&self, name: &str) -> Self {
        let folders = self.folders.iter().map(|(controller, folder)| (*controller, folder.join(name)));
        Self { version: self.version, folders: folders.collect() }
    }

    /// The names of the groups inside.
    pub(super) fn children(&self) -> BTreeSet<String> {
        self.folders().into_iter().flat_map(names_in).collect()
    }

    pub(crate) fn make(&self) -> io::Result<()> {
        self.folders().into_iter().try_for_each(make)
    }

    /// Makes it where that is possible, and leaves out the controllers where it is not.
    pub(super) fn make_what_can_be(mut self) -> io::Result<Self> {
        let mut refused = None;
        self.folders.retain(|_, folder| match make(folder) {
            Ok(()) => true,
            Err(error) => {
                refused = Some(error);
                false
            }
        });
        match refused {
            Some(error) if self.folders.is_empty() => Err(error),
            _ => Ok(self),
        }
    }

    /// Lets the groups inside have limits of their own, which the second version has to be told.
    pub(super) fn delegate(&self) -> io::Result<()> {
        if self.version == Version::One {
            return Ok(());
        }
        let wanted: Vec<_> =
            self.folders.keys().map(|controller| format!("+{}", controller.name())).collect();
        for folder in self.folders() {
            fs::write(folder.join("cgroup.subtree_control"), wanted.join(" "))?;
        }
        Ok(())
    }

    /// Sets its limits; what is not limited gets whatever the groups above leave.
    pub(crate) fn limit(&self, amounts: &Amounts) -> io::Result<()> {
        let two = self.version == Version::Two;
        if let Some(folder) = self.folders.get(&Controller::Memory) {
            let write = |name: &str, value: &str| fs::write(folder.join(name), value);
            let set = |name: &str, value: &str| match write(name, value) {
                // Not every kernel counts swap.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                written => written,
            };
            let limit = amounts.memory.map(|bytes| bytes.to_string());
            match (two, limit) {
                (true, limit) => {
                    write("memory.max", limit.as_deref().unwrap_or("max"))?;
                    set("memory.swap.max", if limit.is_some() { "0" } else { "max" })?;
                    // What shares a limit dies together, so that nothing goes on with a part missing.
                    set("memory.oom.group", if amounts.whole { "1" } else { "0" })?;
                }
                (false, Some(limit)) => {
                    write("memory.limit_in_bytes", &limit)?;
                    set("memory.memsw.limit_in_bytes", &limit)?;
                }
                (false, None) => {}
            }
        }
        if let Some(folder) = self.folders.get(&Controller::Cpu) {
            let quota = amounts.quota(PERIOD);
            if two {
                fs::write(folder.join("cpu.weight"), amounts.weight().to_string())?;
                let quota = quota.map_or_else(|| "max".to_owned(), |quota| quota.to_string());
                fs::write(folder.join("cpu.max"), format!("{quota} {PERIOD}"))?;
            } else {
                fs::write(folder.join("cpu.shares"), amounts.shares.to_string())?;
                fs::write(folder.join("cpu.cfs_period_us"), PERIOD.to_string())?;
                let quota = quota.map_or_else(|| "-1".to_owned(), |quota| quota.to_string());
                fs::write(folder.join("cpu.cfs_quota_us"), quota)?;
            }
        }
        if let Some(folder) = self.folders.get(&Controller::Pids) {
            let most = amounts.processes.map_or_else(|| "max".to_owned(), |most| most.to_string());
            fs::write(folder.join("pids.max"), most)?;
        }
        Ok(())
    }

    /// Gives it so many times what a process, or another group, has of the processors when there is not enough for all.
    pub(crate) fn weigh(&self, times: u64) -> io::Result<()> {
        let Some(folder) = self.folders.get(&Controller::Cpu) else { return Ok(()) };
        match self.version {
            Version::One => fs::write(folder.join("cpu.shares"), (times * USUAL_SHARES).to_string()),
            Version::Two => {
                let weight = (times * USUAL_WEIGHT).min(LARGEST_WEIGHT);
                fs::write(folder.join("cpu.weight"), weight.to_string())
            }
        }
    }

    /// Moves the calling process into the group.
    pub(crate) fn join(&self) -> io::Result<()> {
        self.folders().into_iter().try_for_each(|folder| fs::write(folder.join("cgroup.procs"), "0"))
    }

    /// How many processes were ended because there was no memory left for them.
    pub(crate) fn kills(&self) -> u64 {
        let read = |file: &str| self.read(Controller::Memory, file);
        let text = match self.version {
            Version::One => read("memory.oom_control"),
            // Not those in groups inside, of a node in a pod.
            Version::Two => read("memory.events.local").or_else(|| read("memory.events")),
        };
        text.and_then(|text| entry(&text, "oom_kill")).unwrap_or_default()
    }

    /// What it has used, with that of all groups inside.
    pub(crate) fn usage(&self) -> Option<Usage> {
        let number = |controller, file: &str| self.read(controller, file)?.trim().parse().ok();
        let stat = self.read(Controller::Memory, "memory.stat")?;
        let (usage, inactive, resident, processor) = match self.version {
            Version::One => (
                number(Controller::Memory, "memory.usage_in_bytes")?,
                entry(&stat, "total_inactive_file"),
                entry(&stat, "total_rss"),
                number(Controller::Cpuacct, "cpuacct.usage")?,
            ),
            Version::Two => (
                number(Controller::Memory, "memory.current")?,
                entry(&stat, "inactive_file"),
                entry(&stat, "anon"),
                entry(&self.read(Controller::Memory, "cpu.stat")?, "usage_usec")? * 1000,
            ),
        };
        let memory = Memory {
            usage,
            working_set: usage.saturating_sub(inactive.unwrap_or_default()),
            resident: resident.unwrap_or_default(),
        };
        Some(Usage {
            processor,
            memory,
            processes: number(Controller::Pids, "pids.current").unwrap_or_default(),
        })
    }

    fn read(&self, controller: Controller, file: &str) -> Option<String> {
        fs::read_to_string(self.folders.get(&controller)?.join(file)).ok()
    }

    /// The processes in it and in all groups inside, as far as they can be seen from here.
    pub(crate) fn processes(&self) -> BTreeSet<i32> {
        let mut found = BTreeSet::new();
        self.folders().into_iter().for_each(|folder| processes_below(folder, &mut found));
        found
    }

    /// Removes it with all groups inside, whose processes must be gone.
    pub(crate) fn remove(&self) -> io::Result<()> {
        self.folders().into_iter().try_for_each(remove)
    }

    /// Its folders, each with the name it has below the place where control groups usually are.
    pub(super) fn shown(&self) -> Vec<(PathBuf, String)> {
        match self.version {
            Version::Two => {
                self.folders().into_iter().map(|folder| (folder.to_owned(), String::new())).collect()
            }
            Version::One => {
                let named = |(controller, folder): (&Controller, &PathBuf)| {
                    (folder.clone(), format!("/{}", controller.name()))
                };
                self.folders.iter().map(named).collect()
            }
        }
    }
}

fn make(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn processes_below(folder: &Path, found: &mut BTreeSet<i32>) {
    let listed = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    // Zero stands for those of other namespaces.
    found.extend(listed.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 0));
    for name in names_in(folder) {
        processes_below(&folder.join(name), found);
    }
}

fn remove(folder: &Path) -> io::Result<()> {
    for name in names_in(folder) {
        remove(&folder.join(name))?;
    }
    match fs::remove_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// A number in lines of `name number`.
fn entry(text: &str, name: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(value)
}

#[cfg(test)]
mod tests;
