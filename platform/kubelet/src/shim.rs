//! The first process of every pod.
//!
//! A shim is this program, started once a pod as process 1 of the pod's process namespace. It starts containers when told to,
//! gives each a private root, copies what they print into log files, waits for whatever ends, writes exit codes to
//! disk, and tells whoever listens on its socket. It decides nothing: what to start, and whether again, is the kubelet's
//! business. It keeps going while kubelets come and go, and when it is killed the kernel ends all processes of the pod.
//!
//! It has one thread, no runtime, and a loop around `poll`. Its folder holds:
//!
//! | file | written by | what |
//! |---|---|---|
//! | `sandbox.json` | kubelet | what the pod's namespaces should be like |
//! | `shim.lock` | shim | locked as long as it lives: there is never a second one |
//! | `shim.json` | shim | its pid and start time, by which a later kubelet finds it |
//! | `shim.sock` | shim | where it is talked to, see `protocol` |
//! | `state.json` | shim | what became of every container |
//! | `logs/CONTAINER/ATTEMPT.log` | shim | what a container printed |
//! | `etc/…` | kubelet | the pod's own hosts, resolv.conf, passwd and others |

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use pilothouse_runtime::Chain;

mod capabilities;
mod container;
mod control;
mod event_loop;
mod execution;
mod launch;
mod logs;
mod output;
pub(crate) mod protocol;
mod root;
mod terminal;

pub(crate) use self::logs::{Log, Stream};

/// The verb of the program under which [`main`] is run.
pub const VERB: &str = "shim";

/// Ends a launch that found a living shim in its folder.
pub(crate) const ALREADY: u8 = 3;

/// The body of the hidden verb `shim FOLDER`. Call it before any thread exists.
///
/// It makes the namespaces of the pod whose `sandbox.json` is in the folder, starts the shim in them, and ends as soon as
/// that one listens on its socket.
pub fn main(arguments: impl IntoIterator<Item = String>) -> ExitCode {
    let Some(folder) = arguments.into_iter().next() else {
        let _ = writeln!(std::io::stderr(), "usage: {VERB} FOLDER");
        return ExitCode::from(2);
    };
    match launch::launch(Path::new(&folder)) {
        Ok(launch::Outcome::Launched) => ExitCode::SUCCESS,
        Ok(launch::Outcome::Already) => ExitCode::from(ALREADY),
        Ok(launch::Outcome::Ended) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "{}", Chain(&failure));
            ExitCode::FAILURE
        }
    }
}
