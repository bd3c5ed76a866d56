//! Whether the machine runs short of something: what the conditions of a node say, and schedulers go by.
//!
//! A handful of files, looked at whenever the node is reported.

use std::fs;
use std::path::Path;

use nix::sys::statvfs::statvfs;

/// Less memory than this is too little, as everywhere.
const LEAST_MEMORY: u64 = 100 << 20;
/// Less space than this part of the disk, if it is also less than so much: a tenth of a large disk is plenty.
const LEAST_DISK_PART: u64 = 20;
const LEAST_DISK: u64 = 2 << 30;
/// Fewer files than this part of those the disk can hold, and fewer processes than that of those the machine can run.
const LEAST_PART: u64 = 20;

/// A condition of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pressure {
    pub(crate) kind: &'static str,
    /// Nothing where it could not be found out.
    pub(crate) is_on: Option<bool>,
    reasons: [&'static str; 2],
    messages: [&'static str; 2],
}

impl Pressure {
    /// Status, reason and message.
    pub(crate) fn in_words(&self) -> (&'static str, &'static str, &'static str) {
        match self.is_on {
            None => ("Unknown", "NotMeasured", "this machine does not tell"),
            Some(on) => {
                let index = usize::from(on);
                (["False", "True"][index], self.reasons[index], self.messages[index])
            }
        }
    }
}

/// All of them, as they are now.
pub(crate) fn measure(root: &Path) -> [Pressure; 3] {
    [
        Pressure {
            kind: "MemoryPressure",
            is_on: read("/proc/meminfo").and_then(|text| available(&text)).map(|bytes| bytes < LEAST_MEMORY),
            reasons: ["KubeletHasSufficientMemory", "KubeletHasInsufficientMemory"],
            messages: [
                "kubelet has sufficient memory available",
                "less than 100 MiB of the machine's memory are available",
            ],
        },
        Pressure {
            kind: "DiskPressure",
            is_on: statvfs(root).ok().map(|found| {
                let bytes = |blocks: u64| blocks.saturating_mul(found.fragment_size());
                is_full(
                    (bytes(found.blocks_available()), bytes(found.blocks())),
                    (found.files_available(), found.files()),
                )
            }),
            reasons: ["KubeletHasNoDiskPressure", "KubeletHasDiskPressure"],
            messages: [
                "kubelet has no disk pressure",
                "less than 5 % and 2 GiB of the disk with the node's folder are free, or less than 5 % of its files",
            ],
        },
        Pressure {
            kind: "PIDPressure",
            is_on: processes().map(|(running, most)| most.saturating_sub(running) < most / LEAST_PART),
            reasons: ["KubeletHasSufficientPID", "KubeletHasInsufficientPID"],
            messages: [
                "kubelet has sufficient PID available",
                "less than 5 % of the processes that this machine can run are left",
            ],
        },
    ]
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn available(meminfo: &str) -> Option<u64> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    rest.split_ascii_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

/// Of bytes and of files, what is left and what there is.
fn is_full((bytes, all_bytes): (u64, u64), (files, all_files): (u64, u64)) -> bool {
    let no_space = bytes < all_bytes / LEAST_DISK_PART && bytes < LEAST_DISK;
    // Some file systems do not count files.
    no_space || (all_files > 0 && files < all_files / LEAST_PART)
}

/// How many tasks there are, and how many there may be.
fn processes() -> Option<(u64, u64)> {
    let running = read("/proc/loadavg").and_then(|text| tasks(&text))?;
    let limit = |path: &str| read(path).and_then(|text| text.trim().parse::<u64>().ok());
    let limits = [limit("/proc/sys/kernel/pid_max"), limit("/proc/sys/kernel/threads-max")];
    Some((running, limits.into_iter().flatten().min()?))
}

fn tasks(loadavg: &str) -> Option<u64> {
    let (_, all) = loadavg.split_ascii_whitespace().nth(3)?.split_once('/')?;
    all.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_of_much_is_enough_and_little_of_little_is_not() {
        let gibibytes = |count: u64| count << 30;
        for (bytes, files, expected) in [
            ((gibibytes(1), gibibytes(100)), (90, 100), true),
            ((gibibytes(3), gibibytes(100)), (90, 100), false),
            ((gibibytes(1), gibibytes(10)), (90, 100), false),
            ((gibibytes(50), gibibytes(100)), (4, 100), true),
            ((gibibytes(50), gibibytes(100)), (0, 0), false),
        ] {
            assert_eq!(is_full(bytes, files), expected, "{bytes:?} {files:?}");
        }
        assert_eq!(available("MemTotal: 100 kB\nMemAvailable:    50 kB\n"), Some(50 * 1024));
        assert_eq!(tasks("0.20 0.18 0.12 1/180 12345\n"), Some(180));
    }
}
