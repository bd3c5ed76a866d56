//! A private HAProxy: the proxy that everybody compares with, and whose PROXY headers others are written after.

use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::process::Running;
use crate::requirement::Requirement;

/// Where Debian has it, which is on nobody's path.
const PROGRAM: &str = "/usr/sbin/haproxy";

/// What every configuration begins with.
const DEFAULTS: &str = "\
defaults
    mode tcp
    timeout connect 5s
    timeout client 60s
    timeout server 60s
";

/// A proxy on the loopback. It ends when it is dropped.
pub struct Haproxy {
    process: Running,
    _folder: TempDir,
}

// === impl Haproxy ===

impl Haproxy {
    /// Starts one with these sections in its configuration; `None`, and said so, where it is missing. It may take a moment to
    /// listen.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(sections: &str) -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            Requirement::new("haproxy", "haproxy").missing();
            return None;
        }
        let folder = tempfile::Builder::new().prefix("haproxy").tempdir().expect("a folder");
        let config = folder.path().join("haproxy.cfg");
        std::fs::write(&config, format!("{DEFAULTS}\n{sections}")).expect("a configuration");
        let mut command = Command::new(PROGRAM);
        // In the foreground and without workers, so that its one process is the one that is ended.
        command.arg("-db").arg("-f").arg(config);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = Running::spawn(command).expect("haproxy can be started");
        Some(Self { process, _folder: folder })
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}
