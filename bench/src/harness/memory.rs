//! How much memory processes use, once they have been at rest for a while.
//!
//! The unit is the proportional set size: a page that is shared is divided among those who share it, so that sums are what
//! the machine gives. It is all in the kernel's `smaps_rollup`.

use std::fs;
use std::ops::Add;
use std::time::Duration;

use anyhow::Context as _;
use tokio::time::{Instant, sleep};

use super::processes::Census;
use super::program::Program;

/// Memory in MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Memory {
    pub(crate) total: f64,
    /// Heap, stacks: what was written to and has no file behind it.
    pub(crate) anonymous: f64,
}

/// All processes, and what they use altogether.
#[derive(Debug)]
pub(crate) struct Rest {
    pub(crate) census: Census,
    pub(crate) total: Memory,
    /// Whether it is certain that nothing was going on any more.
    pub(crate) settled: bool,
}

/// The time between two readings.
const PAUSE: Duration = Duration::from_millis(500);
/// How many equal readings are rest: processes give back what they do not need at rest after some seconds of it.
const READINGS: usize = 16;
/// Something that never rests is measured all the same.
const PATIENCE: Duration = Duration::from_secs(30);
/// Readings that differ by less are equal: leases are renewed also at rest.
const EQUAL: f64 = 0.002;

/// What these processes have in memory, in MiB, each as if it were alone: whoever else runs the same programs on this machine
/// does not make it less. One that has ended has none.
pub(crate) fn resident(processes: &[i32]) -> f64 {
    let texts = processes.iter().filter_map(|id| fs::read_to_string(format!("/proc/{id}/status")).ok());
    texts.filter_map(|text| field(&text, "VmRSS:")).sum()
}

/// A line of the kernel's with an amount, in MiB.
fn field(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kibibytes / 1024.0)
}

impl Memory {
    /// Of these processes together. One that has ended uses none.
    pub(crate) fn of(processes: &[i32]) -> anyhow::Result<Self> {
        let mut sum = Self::default();
        for id in processes {
            let file = format!("/proc/{id}/smaps_rollup");
            match fs::read_to_string(&file) {
                Ok(text) => {
                    sum = sum + Self::parse(&text).with_context(|| format!("{file} is not understood"))?
                }
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error).context(file),
            }
        }
        Ok(sum)
    }

    fn parse(text: &str) -> Option<Self> {
        Some(Self { total: field(text, "Pss:")?, anonymous: field(text, "Pss_Anon:")? })
    }

    /// For a note: of what it is.
    pub(crate) fn parts(self) -> String {
        let Self { total, anonymous } = self;
        format!("{anonymous:.1} of its own, {:.1} program and files", total - anonymous)
    }
}

impl Add for Memory {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { total: self.total + other.total, anonymous: self.anonymous + other.anonymous }
    }
}

impl Rest {
    /// Waits for readings that are equal for a while.
    pub(crate) async fn of(program: &Program) -> anyhow::Result<Self> {
        let deadline = Instant::now() + PATIENCE;
        let mut last: Option<Self> = None;
        let mut equal = 1;
        loop {
            let census = Census::of(&program.processes()?);
            let total = Memory::of(&census.all())?;
            let same = last.is_some_and(|last: Self| {
                last.census == census && (last.total.total - total.total).abs() <= total.total * EQUAL
            });
            equal = if same { equal + 1 } else { 1 };
            let settled = equal >= READINGS;
            let now = Self { census, total, settled };
            if settled || Instant::now() >= deadline {
                return Ok(now);
            }
            last = Some(now);
            sleep(PAUSE).await;
        }
    }

    /// For a note: whether the reading can be trusted.
    pub(crate) fn remark(&self) -> &'static str {
        if self.settled { "" } else { "; NOT at rest" }
    }
}

/// The kernel says so in two ways, depending on how far the process was.
fn is_gone(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound || error.raw_os_error() == Some(nix::libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rollup_is_read_in_mebibytes() {
        let text =
            "559d-7ffc ---p 00000000 00:00 0 [rollup]\nRss:  9999 kB\nPss:   2048 kB\nPss_Anon:  512 kB\n";
        assert_eq!(Memory::parse(text), Some(Memory { total: 2.0, anonymous: 0.5 }));
        assert_eq!(Memory::parse("Rss: 1 kB\n"), None);
    }

    #[test]
    fn ended_process_uses_nothing() {
        assert_eq!(Memory::of(&[i32::MAX]).unwrap(), Memory::default());
        assert!(Memory::of(&[std::process::id().try_into().unwrap()]).unwrap().total > 0.0);
    }
}
