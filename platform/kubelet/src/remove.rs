//! Removing a node that no kubelet looks after any more.

use std::fs;
use std::io;
use std::path::Path;

use nix::sys::signal::Signal;

use crate::anchor;
use crate::cgroups;
use crate::error::Error;
use crate::failure::{Doing as _, Failure};
use crate::pods::record;
use crate::process::Process;

/// How long a killed process may take to end.
const KILLED: u16 = 20_000;

/// Ends every pod below a root folder, ends the process that holds the node's namespaces, and removes what was written. Namespaces,
/// mounts and interfaces go with the processes. Volumes outside of the pods' folders, and the folder itself, stay.
///
/// Blocks. Answers how many pods were still running. The caller makes sure that no kubelet runs there.
///
/// # Errors
///
/// When a process does not end or a file cannot be removed. It can be called again.
pub fn remove(root: &Path) -> Result<usize, Error> {
    remove_or_fail(root)
        .map_err(|failure| Error::Setup { part: "the removal of a node", source: Box::new(failure) })
}

fn remove_or_fail(root: &Path) -> Result<usize, Failure> {
    let mut running = 0;
    let pods = record::all(root).doing(|| format!("reading {}", root.display()))?;
    for (folder, _) in &pods {
        if let Some(shim) = record::shim(folder) {
            running += 1;
            end(shim)?;
        }
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).doing(|| format!("removing {}", folder.display()));
            }
            _ => {}
        }
    }
    cgroups::remove(root).doing(|| "removing the node's control groups".into())?;
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

fn end(process: Process) -> Result<(), Failure> {
    let doing = || format!("ending process {}", process.pid);
    process.signal(Signal::SIGKILL).doing(doing)?;
    if process.ended_within(KILLED).doing(doing)? {
        Ok(())
    } else {
        Err(Failure { doing: doing(), source: io::Error::from(io::ErrorKind::TimedOut) })
    }
}
