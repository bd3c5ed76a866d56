//! Finding the control groups this process is in, and where they can be reached.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::Uid;

use super::group::{Controller, Group};

/// The group to make others in.
pub(super) enum Found {
    /// Of the first version: a folder per controller.
    One(Group),
    /// Of the second version, and whether all processes in it are ours to move.
    Two { parent: Group, is_own: bool },
}

/// One hierarchy, as it is mounted.
#[derive(Debug, PartialEq, Eq)]
struct Hierarchy {
    /// What of it is mounted.
    root: PathBuf,
    at: PathBuf,
    /// Its controllers, of the first version; nothing for the second.
    controllers: Option<Vec<String>>,
}

pub(super) fn discover() -> Result<Found, String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("reading {path}: {error}"));
    let hierarchies = mounted(&read("/proc/self/mountinfo")?);
    let memberships = read("/proc/self/cgroup")?;
    if let Some(unified) = hierarchies.iter().find(|one| one.controllers.is_none()) {
        let own = own_folder(unified, &membership(&memberships, None).unwrap_or_default());
        if has_memory(&unified.at) || has_memory(&own) {
            return second(unified, own);
        }
    }
    let mut group = Group::of_first_version();
    for controller in Controller::ALL {
        let name = controller.name();
        let has = |one: &&Hierarchy| {
            one.controllers.as_ref().is_some_and(|controllers| controllers.iter().any(|one| one == name))
        };
        // What a node inside a pod was given comes later than what it inherited.
        if let Some(hierarchy) = hierarchies.iter().rev().find(has) {
            let path = membership(&memberships, Some(name)).unwrap_or_default();
            group.add(controller, own_folder(hierarchy, &path));
        }
    }
    if group.is_empty() {
        return Err("no control groups are mounted".to_owned());
    }
    Ok(Found::One(group))
}

fn second(unified: &Hierarchy, own: PathBuf) -> Result<Found, String> {
    let is_root = Uid::effective().is_root();
    let belongs =
        |path: &Path| fs::metadata(path).is_ok_and(|found| found.uid() == Uid::effective().as_raw());
    // The topmost group that is shown has no such rule, or is a container's own.
    let is_top = own == unified.at;
    if is_top || is_delegated(&own) || (!is_root && belongs(&own)) {
        return Ok(Found::Two { parent: Group::of_second_version(own), is_own: true });
    }
    if is_root && belongs(&unified.at) {
        // Other people's processes are beside ours, and not ours to move.
        return Ok(Found::Two { parent: Group::of_second_version(unified.at.clone()), is_own: false });
    }
    Err(format!("{} is not delegated to this user", own.display()))
}

fn has_memory(folder: &Path) -> bool {
    let controllers = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
    controllers.split_ascii_whitespace().any(|name| name == "memory")
}

/// Whether the service manager has said that a group is its user's to divide.
#[expect(unsafe_code, reason = "there is no wrapper for this system call")]
fn is_delegated(folder: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    let Ok(path) = std::ffi::CString::new(folder.as_os_str().as_bytes()) else { return false };
    [c"user.delegate", c"trusted.delegate"].iter().any(|name| {
        let mut value = [0_u8; 8];
        let room = value.as_mut_ptr().cast();
        // SAFETY: both texts end with a zero and outlive the call, and the room is as large as it says.
        let length = unsafe { nix::libc::getxattr(path.as_ptr(), name.as_ptr(), room, value.len()) };
        length == 1 && value[0] == b'1'
    })
}

/// The folder of the group that a process is in.
fn own_folder(hierarchy: &Hierarchy, membership: &str) -> PathBuf {
    let path = Path::new(if membership.is_empty() { "/" } else { membership });
    let rest = path.strip_prefix(&hierarchy.root).unwrap_or_else(|_| Path::new(""));
    let folder = hierarchy.at.join(rest);
    match fs::metadata(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => hierarchy.at.clone(),
        _ => folder,
    }
}

fn mounted(mountinfo: &str) -> Vec<Hierarchy> {
    let mut found = Vec::new();
    for line in mountinfo.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let mut before = before.split(' ').skip(3);
        let (Some(root), Some(at)) = (before.next(), before.next()) else { continue };
        let mut after = after.split(' ');
        let (kind, options) = (after.next(), after.nth(1).unwrap_or_default());
        let controllers = match kind {
            Some("cgroup") => Some(options.split(',').map(str::to_owned).collect()),
            Some("cgroup2") => None,
            _ => continue,
        };
        found.push(Hierarchy { root: root.into(), at: at.into(), controllers });
    }
    found
}

/// The group of a process in the hierarchy of a controller, or in the one of the second version.
fn membership(text: &str, controller: Option<&str>) -> Option<String> {
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let is_it = match controller {
            Some(controller) => controllers.split(',').any(|one| one == controller),
            None => controllers.is_empty(),
        };
        is_it.then(|| path.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_and_memberships_are_read_as_the_kernel_writes_them() {
        let mountinfo = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - tmpfs tmpfs rw,mode=755\n\
            31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
            32 30 0:28 /a/inner /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
            33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let found = mounted(mountinfo);
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].controllers.as_deref(), Some(&["rw", "cpu", "cpuacct"].map(str::to_owned)[..]));
        assert_eq!(
            (found[1].root.to_str(), found[1].at.to_str()),
            (Some("/a/inner"), Some("/sys/fs/cgroup/memory"))
        );
        assert_eq!(found[2].controllers, None);

        let memberships =
            "9:name=systemd:/\n4:memory:/a/inner/own\n3:cpu,cpuacct:/user.slice\n0::/user.slice/one\n";
        assert_eq!(membership(memberships, Some("memory")).as_deref(), Some("/a/inner/own"));
        assert_eq!(membership(memberships, Some("cpuacct")).as_deref(), Some("/user.slice"));
        assert_eq!(membership(memberships, Some("pids")), None);
        assert_eq!(membership(memberships, None).as_deref(), Some("/user.slice/one"));
    }

    #[test]
    fn a_group_is_found_below_the_part_that_is_mounted() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("own")).unwrap();
        let hierarchy =
            |root: &str| Hierarchy { root: root.into(), at: folder.path().into(), controllers: None };
        for (root, membership, expected) in [
            ("/", "/own", folder.path().join("own")),
            ("/a/inner", "/a/inner/own", folder.path().join("own")),
            ("/a/inner", "/a/inner", folder.path().join("")),
            // Outside of what is mounted, or not there.
            ("/a/inner", "/elsewhere", folder.path().join("")),
            ("/", "/gone", folder.path().to_owned()),
        ] {
            assert_eq!(own_folder(&hierarchy(root), membership), expected, "{root} {membership}");
        }
    }
}
