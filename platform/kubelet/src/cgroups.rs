//! Limits on what pods use, and the account of what they have used, through the kernel's control groups.
//!
//! A node has a group of its own inside the one it was started in, so that it never takes more than it was given: named after its
//! root folder, so that no two nodes meet, and written down, so that the next kubelet and whoever removes the node find it. In it is a
//! group per pod, and in that one per container and one for the pod's first process. With the second version of control
//! groups processes are only in the leaves.
//!
//! A node inside a pod finds, where control groups usually are, one group of its container and nothing else of the machine's.
//! The container's own limits are on the group above that one, out of its reach.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;

use aws_lc_rs::digest;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use crate::files::{read_json, write_json};

pub(crate) mod amounts;
mod discovery;
pub(crate) mod group;

pub(crate) use amounts::{Amounts, PodAmounts};
use discovery::Found;
pub(crate) use group::{Controller, Group};

/// Where the node's group is, for those who come later.
const RECORD: &str = "cgroups.json";
/// Where a kubelet goes that has to leave its own group to the groups below.
const LEAF: &str = "pilothouse-processes";

/// What of all this the machine allows.
#[derive(Clone, Debug)]
pub(crate) struct Cgroups {
    node: Option<Group>,
    shortfall: Option<Shortfall>,
}

/// Why not every limit is enforced, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shortfall {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

#[derive(Serialize, Deserialize)]
struct Record {
    node: Group,
}

// === impl Cgroups ===

impl Cgroups {
    /// The node's group, made if there is none yet. Never fails: what is not to be had is a [shortfall](Self::shortfall).
    pub(crate) fn open(root: &Path, wanted: bool) -> Self {
        if !wanted {
            let message =
                "limits are switched off in this node's configuration; set `resource_limits` to true";
            return Self::without("SwitchedOff", message.to_owned());
        }
        let known = read_json::<Record>(&root.join(RECORD)).ok().flatten().map(|record| record.node);
        let node = match known.filter(Group::exists) {
            Some(node) => node,
            None => match Self::make(root) {
                Ok(node) => node,
                Err(shortfall) => return Self { node: None, shortfall: Some(shortfall) },
            },
        };
        // All pods together would otherwise have no more than a single process beside them.
        if let Err(error) = node.weigh(processors()) {
            warn!(%error, group = node.describe(), "pods have as much of the processors as one process");
        }
        let missing: Vec<_> =
            Controller::LIMITING.into_iter().filter(|one| !node.has(*one)).map(Controller::name).collect();
        let shortfall = (!missing.is_empty()).then(|| Shortfall {
            reason: "ControllersMissing",
            message: format!(
                "limits of {} are not enforced: this node was given no such control group; {}",
                missing.join(" and "),
                remedy()
            ),
        });
        if let Some(shortfall) = &shortfall {
            warn!(reason = shortfall.reason, shortfall.message, "some limits are not enforced");
        }
        Self { node: Some(node), shortfall }
    }

    fn without(reason: &'static str, message: String) -> Self {
        Self { node: None, shortfall: Some(Shortfall { reason, message }) }
    }

    fn make(root: &Path) -> Result<Group, Shortfall> {
        let unavailable = |cause: String| {
            let message = format!("limits are not enforced: {cause}; {}", remedy());
            warn!(message, "no control groups");
            Shortfall { reason: "NoControlGroups", message }
        };
        let found = discovery::discover().map_err(unavailable)?;
        let parent = match &found {
            Found::One(parent) => parent.clone(),
            Found::Two { parent, is_own } => {
                prepare(parent, *is_own).map_err(|error| unavailable(error.to_string()))?
            }
        };
        let node = parent.child(&name(root));
        let node = node.make_what_can_be().map_err(|error| {
            unavailable(format!("a group in {} cannot be made: {error}", parent.describe()))
        })?;
        node.delegate().map_err(|error| unavailable(error.to_string()))?;
        write_json(&root.join(RECORD), &Record { node: node.clone() })
            .map_err(|error| unavailable(format!("writing {RECORD}: {error}")))?;
        info!(group = node.describe(), "limits are enforced through control groups");
        Ok(node)
    }

    /// What is not enforced here, if anything.
    pub(crate) fn shortfall(&self) -> Option<&Shortfall> {
        self.shortfall.as_ref()
    }

    pub(crate) fn enforces(&self, controller: Controller) -> bool {
        self.node.as_ref().is_some_and(|node| node.has(controller))
    }

    /// The group of a pod, whether it exists or not.
    pub(crate) fn pod(&self, uid: &str) -> Option<Group> {
        Some(self.node.as_ref()?.child(&format!("pod{uid}")))
    }

    /// Makes the group of a pod, and answers with the one for its first process.
    pub(crate) fn make_pod(&self, uid: &str, amounts: &Amounts) -> io::Result<Option<Group>> {
        let Some(pod) = self.pod(uid) else { return Ok(None) };
        pod.make()?;
        pod.limit(amounts)?;
        pod.delegate()?;
        let first = pod.child("shim");
        first.make()?;
        Ok(Some(first))
    }

    /// Makes the group of a container, and answers with the one its processes belong in.
    pub(crate) fn make_container(
        &self,
        uid: &str,
        name: &str,
        amounts: &Amounts,
        privileged: bool,
    ) -> io::Result<Option<Group>> {
        let Some(pod) = self.pod(uid) else { return Ok(None) };
        // One that was adopted may be older than its groups.
        if !pod.exists() {
            return Ok(None);
        }
        let container = pod.child(&container_name(name));
        container.make()?;
        container.limit(amounts)?;
        if !privileged {
            return Ok(Some(container));
        }
        container.delegate()?;
        let inner = container.child("inner");
        inner.make()?;
        Ok(Some(inner))
    }

    /// Removes the group of a pod whose processes are gone.
    pub(crate) fn remove_pod(&self, uid: &str) -> io::Result<()> {
        self.pod(uid).map_or(Ok(()), |pod| pod.remove())
    }

    /// Removes the groups of pods that nobody knows any more.
    pub(crate) fn remove_others(&self, known: &BTreeSet<String>) {
        let Some(node) = &self.node else { return };
        for name in node.children() {
            let Some(uid) = name.strip_prefix("pod").filter(|uid| !known.contains(*uid)) else { continue };
            match self.remove_pod(uid) {
                Ok(()) => info!(uid, "removed the control group of a pod that is gone"),
                Err(error) => warn!(uid, %error, "cannot remove the control group of a pod that is gone"),
            }
        }
    }
}

/// The group of a container inside that of its pod. Names of containers cannot contain a colon, so none is the shim's.
pub(crate) fn container_name(container: &str) -> String {
    format!("container:{container}")
}

/// The processes in the groups of the node below a root folder.
pub(crate) fn processes(root: &Path) -> io::Result<BTreeSet<i32>> {
    let record = read_json::<Record>(&root.join(RECORD))?;
    Ok(record.map(|record| record.node.processes()).unwrap_or_default())
}

/// Removes all groups of the node below a root folder, whose processes are gone.
pub(crate) fn remove(root: &Path) -> io::Result<()> {
    let Some(record) = read_json::<Record>(&root.join(RECORD))? else { return Ok(()) };
    record.node.remove()?;
    fs::remove_file(root.join(RECORD))
}

/// Of this machine, as far as this process may use them.
fn processors() -> u64 {
    let known = thread::available_parallelism().map_or(1, NonZero::get);
    u64::try_from(known).unwrap_or(1)
}

fn name(root: &Path) -> String {
    let hash = digest::digest(&digest::SHA256, root.as_os_str().as_encoded_bytes());
    let letters: String = hash.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("pilothouse-{letters}")
}

/// Makes a group of the second version ready to have limited groups inside.
fn prepare(parent: &Group, is_own: bool) -> io::Result<Group> {
    match parent.delegate() {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy && is_own => {}
        delegated => return delegated.map(|()| parent.clone()),
    }
    // Processes may only be in leaves: those that are here, which are ours, go into one.
    let leaf = parent.child(LEAF);
    leaf.make()?;
    for folder in parent.folders() {
        for pid in fs::read_to_string(folder.join("cgroup.procs"))?.lines() {
            match fs::write(folder.join(LEAF).join("cgroup.procs"), pid) {
                // One that has ended meanwhile.
                Err(error) if error.raw_os_error() == Some(nix::libc::ESRCH) => {}
                moved => moved?,
            }
        }
    }
    parent.delegate()?;
    Ok(parent.clone())
}

fn remedy() -> &'static str {
    if nix::unistd::Uid::effective().is_root() && is_first_user() {
        "mount control groups at /sys/fs/cgroup, writable, with the controllers memory, cpu and pids"
    } else {
        "run the node in a delegated control group of the second version, such as with \
         `systemd-run --user --scope -p Delegate=yes`, or run it as root"
    }
}

/// Whether root here is root of the machine.
fn is_first_user() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_ascii_whitespace().nth(2).is_some_and(|count| count != "1")
}

/// Paths where control groups are shown to a node inside a pod: one for every folder of its group.
pub(crate) fn shown_at(group: &Group) -> Vec<(PathBuf, String)> {
    group.shown().into_iter().map(|(folder, name)| (folder, format!("sys/fs/cgroup{name}"))).collect()
}
