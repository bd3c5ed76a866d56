//! Child processes that a test may kill, and free ports.
//!
//! What `kill -9` does to a writer can only be seen on a process of its own. The shortest way to one is the test
//! binary itself, started again to run a single test in the role of the child:
//!
//! ```no_run
//! use pilothouse_test_support::process::{self, Running};
//!
//! #[test]
//! fn writer_in_a_child_process() {
//!     if !process::is_child() {
//!         return; // only meaningful when started by the test below
//!     }
//!     // write until killed …
//! }
//!
//! #[test]
//! fn acknowledged_writes_survive_a_kill() {
//!     let mut command = process::child_of_this_test("writer_in_a_child_process");
//!     command.env("DATABASE", "…");
//!     let writer = Running::spawn(command).expect("this binary can be started again");
//!     writer.kill();
//! }
//! ```

use std::env;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, ExitStatus};

use nix::sys::prctl;
use nix::sys::signal::Signal;

use crate::environment;
use crate::keeper;

/// A child process that is killed (`SIGKILL`) when this value is dropped, or when the test process dies.
#[derive(Debug)]
pub struct Running {
    child: Child,
}

/// The command that runs `test_name` of the current test binary in a process of its own. The name is the full
/// path of the test, as the harness prints it. Add environment variables and redirect output, then start it with
/// [`Running::spawn`].
///
/// # Panics
///
/// If the path of the current executable cannot be read.
pub fn child_of_this_test(test_name: &str) -> Command {
    let binary = env::current_exe().expect("the path of the running test binary is known");
    let mut command = Command::new(binary);
    command
        .args([test_name, "--exact", "--nocapture", "--test-threads=1"])
        .env(environment::CHILD, test_name);
    command
}

/// Whether this process is such a child. A child also asks the kernel here to be killed with its parent.
pub fn is_child() -> bool {
    let child = environment::is_set(environment::CHILD);
    if child {
        prctl::set_pdeathsig(Signal::SIGKILL).expect("a process may choose the signal of its parent's death");
    }
    child
}

/// A port of the loopback interface on which nothing listens.
///
/// It comes from below the range that the kernel hands to outgoing connections, so that a server which is
/// stopped for a moment finds its port free again. Another process may still take it between this call and its
/// use; whoever starts a server should try a second port.
///
/// # Panics
///
/// If no port of that range is free.
pub fn free_port() -> u16 {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;

    let start = u16::try_from(RandomState::new().hash_one(()) % u64::from(COUNT)).unwrap_or_default();
    (0..COUNT)
        .map(|step| FIRST + (start + step) % COUNT)
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("one of twelve thousand ports is free")
}

// === impl Running ===

impl Running {
    /// Starts `command`.
    ///
    /// # Errors
    ///
    /// If the operating system refuses, for example because the program does not exist.
    pub fn spawn(command: Command) -> io::Result<Self> {
        keeper::spawn(command).map(|child| Self { child })
    }

    /// The process's number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The child itself, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// `kill -9`: the process gets no chance to finish anything. Returns when it is gone.
    pub fn kill(self) {
        drop(self);
    }

    /// Waits for the process to end by itself.
    ///
    /// # Errors
    ///
    /// If the operating system cannot tell.
    pub fn wait(mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only for a process that has already been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead, BufReader, Read};
    use std::os::unix::process::ExitStatusExt;
    use std::path::Path;
    use std::process::Stdio;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::eventually;

    const LIMIT: Duration = Duration::from_secs(60);

    /// Says its number, then waits for ever.
    #[test]
    fn sleeper() {
        if !is_child() {
            return;
        }
        println!("sleeping as {}", std::process::id());
        loop {
            thread::park();
        }
    }

    /// A test process that starts a [`sleeper`] and then never returns.
    #[test]
    fn parent_of_a_sleeper() {
        if !is_child() {
            return;
        }
        let _sleeper = Running::spawn(child_of_this_test("process::tests::sleeper")).unwrap();
        loop {
            thread::park();
        }
    }

    /// Reads the child's output up to the line with which a sleeper begins.
    fn sleeper_id(output: impl Read) -> u32 {
        let line = BufReader::new(output)
            .lines()
            .map(Result::unwrap)
            .find(|line| line.contains("sleeping as "))
            .expect("the sleeper says its number");
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    fn is_alive(id: u32) -> bool {
        // A zombie still has a folder, but no memory.
        fs::read_to_string(Path::new("/proc").join(id.to_string()).join("statm"))
            .is_ok_and(|memory| !memory.starts_with("0 "))
    }

    #[test]
    fn child_runs_the_named_test_only() {
        let mut command = child_of_this_test("process::tests::free_port_can_be_listened_on");
        command.stdout(Stdio::piped());
        let mut child = Running::spawn(command).unwrap();
        let mut output = String::new();
        child.child().stdout.take().unwrap().read_to_string(&mut output).unwrap();
        assert!(child.wait().unwrap().success());
        assert!(output.contains("1 passed"), "{output}");
    }

    #[test]
    fn dropped_child_is_gone() {
        let mut command = child_of_this_test("process::tests::sleeper");
        command.stdout(Stdio::piped());
        let mut child = Running::spawn(command).unwrap();
        let id = sleeper_id(child.child().stdout.take().unwrap());
        assert!(is_alive(id));
        child.kill();
        assert!(!is_alive(id));
    }

    #[tokio::test]
    async fn grandchild_dies_when_its_parent_is_killed() {
        let mut command = child_of_this_test("process::tests::parent_of_a_sleeper");
        command.stdout(Stdio::piped());
        let mut parent = Running::spawn(command).unwrap();
        let grandchild = sleeper_id(parent.child().stdout.take().unwrap());
        assert!(is_alive(grandchild));

        parent.child().kill().unwrap();
        assert_eq!(parent.wait().unwrap().signal(), Some(Signal::SIGKILL as i32));

        eventually("the grandchild is gone", LIMIT, || async {
            if is_alive(grandchild) { Err("alive") } else { Ok(()) }
        })
        .await;
    }

    #[test]
    fn free_port_can_be_listened_on() {
        TcpListener::bind((Ipv4Addr::LOCALHOST, free_port())).unwrap();
    }
}
