//! Giving up privileges, and the two system calls that have no wrapper.

use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::libc;

/// `_LINUX_CAPABILITY_VERSION_3`
const VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Sees to it that no capability can be had by executing something.
#[expect(unsafe_code, reason = "there is no wrapper for capabilities")]
pub(super) fn limit() -> nix::Result<()> {
    for capability in 0..64 {
        // SAFETY: takes numbers only.
        match Errno::result(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) }) {
            Ok(_) => {}
            // Past the last one this kernel knows.
            Err(Errno::EINVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Gives up every capability.
#[expect(unsafe_code, reason = "there is no wrapper for capabilities")]
pub(super) fn drop_all() -> nix::Result<()> {
    // SAFETY: takes numbers only.
    Errno::result(unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) })?;
    let header = Header { version: VERSION, pid: 0 };
    let none = [Data { effective: 0, permitted: 0, inheritable: 0 }; 2];
    // SAFETY: both structures have the layout of version 3, which reads two of the second, and outlive the call.
    Errno::result(unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) })?;
    Ok(())
}

/// How a mount is protected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Protection {
    pub(super) read_only: bool,
    pub(super) no_devices: bool,
    /// Also what is mounted below.
    pub(super) recursive: bool,
}

/// Adds restrictions to a mount, without lifting those it has.
#[expect(unsafe_code, reason = "there is no wrapper for this system call")]
pub(super) fn protect(mount: BorrowedFd<'_>, protection: Protection) -> nix::Result<()> {
    let mut set = libc::MOUNT_ATTR_NOSUID;
    if protection.read_only {
        set |= libc::MOUNT_ATTR_RDONLY;
    }
    if protection.no_devices {
        set |= libc::MOUNT_ATTR_NODEV;
    }
    let attributes = libc::mount_attr { attr_set: set, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if protection.recursive { libc::AT_RECURSIVE } else { 0 };
    let empty = CString::default();
    // SAFETY: the path and the structure outlive the call, and the size is the structure's.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            empty.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    Errno::result(result).map(drop)
}
