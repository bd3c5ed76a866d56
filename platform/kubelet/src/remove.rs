//! Removing a node that no kubelet looks after any more.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::anchor;
use crate::cgroups;
use crate::enter;
use crate::error::Error;
use crate::failure::{Doing as _, Failure};
use crate::pods::record;
use crate::process::Process;

/// How long a killed process may take to end.
const KILLED: u16 = 20_000;
/// How often processes are looked for: one may start another before it is ended.
const GENERATIONS: usize = 10;
/// How often groups are looked at again that somebody has come into, and after how long.
const LATECOMERS: usize = 100;
const LATE: Duration = Duration::from_millis(20);

/// Ends every pod below a root folder, ends the process that holds the node's namespaces, and removes what was written. Namespaces,
/// mounts and interfaces go with the processes. Volumes outside of the pods' folders, and the folder itself, stay.
///
/// Blocks. Answers how many pods were still running.
///
/// # Errors
///
/// When a kubelet runs there, a process does not end or a file cannot be removed. It can be called again.
pub fn remove(root: &Path) -> Result<usize, Error> {
    remove_or_fail(root)
        .map_err(|failure| Error::Setup { part: "the removal of a node", source: Box::new(failure) })
}

fn remove_or_fail(root: &Path) -> Result<usize, Failure> {
    if !root.try_exists().doing(|| format!("looking for {}", root.display()))? {
        return Ok(0);
    }
    let _lock = enter::lock(root)?;
    let mut running = 0;
    let pods = record::all(root).doing(|| format!("reading {}", root.display()))?;
    for (folder, _) in &pods {
        if let Some(shim) = record::shim(folder) {
            running += 1;
            end(shim)?;
        }
    }
    // Before the folders: one that a killed kubelet had only begun to start still writes into its own.
    end_all(root)?;
    for (folder, _) in &pods {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).doing(|| format!("removing {}", folder.display()));
            }
            _ => {}
        }
    }
    remove_groups(root)?;
    if let Some(anchor) = anchor::find(root)? {
        end(anchor)?;
    }
    anchor::forget(root);
    for name in ["kubelet.lock", "pods"] {
        let path = root.join(name);
        // Left alone they do no harm.
        let _ = if path.is_dir() { fs::remove_dir(&path) } else { fs::remove_file(&path) };
    }
    Ok(running)
}

/// Removes the node's control groups. One that a killed kubelet was just about to start may still come into them, and is ended too.
#[expect(
    clippy::disallowed_methods,
    reason = "a group says nothing when somebody leaves it, and this blocks anyway"
)]
fn remove_groups(root: &Path) -> Result<(), Failure> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match cgroups::remove(root) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && attempts < LATECOMERS => {
                std::thread::sleep(LATE);
                end_all(root)?;
            }
            removed => return removed.doing(|| "removing the node's control groups".into()),
        }
    }
}

/// Ends whatever is in the node's control groups, which cannot be removed as long as somebody is: what shims started goes with
/// them, though not in the same moment, and a shim may be there that nobody has written down yet.
fn end_all(root: &Path) -> Result<(), Failure> {
    for _ in 0..GENERATIONS {
        let left = cgroups::processes(root).doing(|| "looking for processes of the node".into())?;
        if left.is_empty() {
            break;
        }
        // One that has ended since then has no state any more.
        left.into_iter().filter_map(|pid| Process::of(pid).ok()).try_for_each(end)?;
    }
    Ok(())
}

fn end(process: Process) -> Result<(), Failure> {
    let doing = || format!("ending process {}", process.pid);
    process.signal(Signal::SIGKILL).doing(doing)?;
    if process.ended_within(KILLED).doing(doing)? {
        Ok(())
    } else {
        Err(Failure { doing: doing(), source: io::Error::from(io::ErrorKind::TimedOut) })
    }
}
