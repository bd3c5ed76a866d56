//! What a process does between being forked and becoming somebody else's program.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nix::sys::prctl;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, sigprocmask};
use nix::unistd::{Gid, Uid, chdir, execve, setgid, setgroups, setuid};

use super::capabilities;
use super::protocol::Container;
use crate::failure::{Doing, Failure};

/// Where programs are looked for when a container does not say.
pub(crate) const PATH: &str =
    "/opt/pilothouse/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Becomes `command` inside the root this process is already in. Returns only if that fails.
pub(super) fn become_program(
    container: &Container,
    command: &[String],
) -> Result<std::convert::Infallible, Failure> {
    let directory = container.directory.as_deref().unwrap_or("/");
    chdir(directory).doing(|| format!("entering the working directory {directory}"))?;
    if !container.privileged {
        prctl::set_no_new_privs().doing(|| "forbidding new privileges".into())?;
    }
    if !container.privileged {
        // Before the user changes, who may not do it any more.
        capabilities::limit().doing(|| "limiting privileges".into())?;
    }
    change_user(container)?;
    reset_signals().doing(|| "making signals what they usually are".into())?;
    if !container.privileged {
        capabilities::drop_all().doing(|| "giving up privileges".into())?;
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
        .doing(|| "unblocking signals".into())?;
    let program = find(container, command)?;
    let text = |text: &[u8]| {
        CString::new(text)
            .map_err(|_| Failure::other("starting the program", "an argument contains a zero byte"))
    };
    let arguments =
        command.iter().map(|argument| text(argument.as_bytes())).collect::<Result<Vec<_>, _>>()?;
    let environment = container
        .environment
        .iter()
        .map(|(name, value)| text(format!("{name}={value}").as_bytes()))
        .collect::<Result<Vec<_>, _>>()?;
    let path = text(program.as_os_str().as_bytes())?;
    execve(&path, &arguments, &environment).doing(|| format!("starting {}", program.display()))
}

/// What is ignored stays ignored in a new program, and whoever started the node may have ignored something: under `nohup` no
/// program in a pod would end when its visitor hangs up.
#[expect(unsafe_code, reason = "what a signal does is changed for the whole process")]
fn reset_signals() -> nix::Result<()> {
    let changeable = Signal::iterator().filter(|signal| !matches!(signal, Signal::SIGKILL | Signal::SIGSTOP));
    for signal in changeable {
        // SAFETY: no handler is set, only taken away, in a process that becomes another program.
        unsafe { nix::sys::signal::signal(signal, SigHandler::SigDfl) }?;
    }
    Ok(())
}

fn change_user(container: &Container) -> Result<(), Failure> {
    let group = container.group.filter(|group| *group != 0);
    let user = container.user.filter(|user| *user != 0);
    if let Some(group) = group {
        setgroups(&[]).doing(|| "leaving supplementary groups".into())?;
        setgid(Gid::from_raw(group))
            .doing(|| format!("running as group {group}, which an unprivileged node cannot"))?;
    }
    if let Some(user) = user {
        setuid(Uid::from_raw(user))
            .doing(|| format!("running as user {user}, which an unprivileged node cannot"))?;
    }
    Ok(())
}

fn find(container: &Container, command: &[String]) -> Result<PathBuf, Failure> {
    let Some(name) = command.first() else {
        return Err(Failure::other("starting the program", "there is no command"));
    };
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }
    let path =
        container.environment.iter().rev().find(|(key, _)| key == "PATH").map_or(PATH, |(_, value)| value);
    path.split(':')
        .map(|folder| Path::new(folder).join(name))
        .find(|candidate| {
            fs::metadata(candidate)
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        })
        .ok_or_else(|| Failure {
            doing: format!("exec: \"{name}\": executable file not found in $PATH"),
            source: io::Error::new(io::ErrorKind::NotFound, format!("it is in none of {path}")),
        })
}
