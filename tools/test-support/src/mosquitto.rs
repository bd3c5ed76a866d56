//! A private Mosquitto: the MQTT broker that everybody compares with.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::process::{Running, free_port};
use crate::requirement::Requirement;

/// Where Debian has it, which is on nobody's path.
const PROGRAM: &str = "/usr/sbin/mosquitto";

/// A broker on the loopback, for anybody. It ends when it is dropped.
pub struct Mosquitto {
    port: u16,
    /// With its configuration.
    folder: TempDir,
    process: Option<Running>,
}

// === impl Mosquitto ===

impl Mosquitto {
    /// Starts one; `None`, and said so, where it is missing. It may take a moment to listen.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start() -> Option<Self> {
        Self::start_with("allow_anonymous true\n")
    }

    /// Starts one with these lines of configuration for its listener.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start_with(lines: &str) -> Option<Self> {
        if !Self::is_here() {
            return None;
        }
        let folder = tempfile::Builder::new().prefix("mosquitto").tempdir().expect("a folder");
        let mut broker = Self { port: free_port(), folder, process: None };
        let text = format!("user root\nlistener {} 127.0.0.1\n{lines}", broker.port);
        std::fs::write(broker.config(), text).expect("a folder that can be written to");
        broker.start_again().expect("mosquitto can be started");
        Some(broker)
    }

    /// Whether it is on this machine; if not, the test was noted as skipped and should return.
    pub fn is_here() -> bool {
        let found = Path::new(PROGRAM).exists();
        if !found {
            Requirement::new("mosquitto", "mosquitto").missing();
        }
        found
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("mosquitto.conf")
    }

    /// Its port, which stays the same.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill();
        }
    }

    /// Starts it again, as it was.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn start_again(&mut self) -> io::Result<()> {
        let mut command = Command::new(PROGRAM);
        command.arg("-c").arg(self.config()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(Running::spawn(command)?);
        Ok(())
    }
}
