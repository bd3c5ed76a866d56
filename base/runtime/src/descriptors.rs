//! How many descriptors a process may have.
//!
//! The system has two limits: a low one that holds, and a high one up to which a process may raise it by itself. The low one is
//! for programs of old that count descriptors in a fixed set; ours do not, and have a descriptor for every connection and every
//! watch. So a process raises its limit once when it begins. Programs of others, which it may start, begin with the limit that
//! it was given itself: see [`with_former_limit`].

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tracing::{debug, warn};

/// Before it was raised.
static FORMER: OnceLock<u64> = OnceLock::new();

/// Raises the limit as far as this process may, the first time that it is called.
pub(crate) fn raise_limit() {
    FORMER.get_or_init(|| {
        let (soft, hard) = match getrlimit(Resource::RLIMIT_NOFILE) {
            Ok(limits) => limits,
            Err(error) => {
                warn!(%error, "it is not known how many descriptors there may be");
                return u64::MAX;
            }
        };
        match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
            Ok(()) => debug!(before = soft, limit = hard, "raised the limit of descriptors"),
            Err(error) => warn!(%error, limit = soft, "the limit of descriptors stays as it is"),
        }
        soft
    });
}

/// How many descriptors this process may have at present.
pub fn descriptor_limit() -> u64 {
    // Where nobody knows, there is nothing to be said against many.
    getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft)
}

/// The limit that this process began with, if it is known: for a program of ours that is to set it by itself. That is
/// what to do where programs are started often: with [`with_former_limit`] the system first copies what it knows of the
/// starting process's memory, which takes the longer the more there is.
pub fn former_descriptor_limit() -> Option<u64> {
    FORMER.get().copied()
}

/// Lowers the limit of descriptors of this process, and with it that of all it will start.
///
/// # Errors
///
/// When the system refuses, which it does not for a limit that is lower.
pub fn lower_descriptor_limit(limit: u64) -> std::io::Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, soft.min(limit), hard)?)
}

/// Has a program begin with the limit of descriptors that this process began with.
#[expect(unsafe_code, reason = "something is done between the fork and the program's beginning")]
pub fn with_former_limit(command: &mut Command) -> &mut Command {
    let Some(former) = former_descriptor_limit() else { return command };
    // SAFETY: two calls into the kernel, which allocate nothing and take no lock.
    unsafe { command.pre_exec(move || lower_descriptor_limit(former)) }
}
