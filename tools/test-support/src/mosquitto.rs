//! A private Mosquitto: the MQTT broker that everybody compares with.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::process::{Running, free_port};
use crate::requirement::Requirement;

/// Where Debian has it, which is on nobody's path.
const PROGRAM: &str = "/usr/sbin/mosquitto";

/// A broker on the loopback. It ends when it is dropped.
pub struct Mosquitto {
    port: u16,
    /// Lines of its configuration about its listener.
    lines: String,
    folder: TempDir,
    process: Option<Running>,
}

// === impl Mosquitto ===

impl Mosquitto {
    /// Starts one for anybody; `None`, and said so, where it is missing. It may take a moment to listen.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start() -> Option<Self> {
        Self::start_with("allow_anonymous true\n")
    }

    /// The same, with these lines of configuration for its listener.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start_with(lines: &str) -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            Requirement::new("mosquitto", "mosquitto").missing();
            return None;
        }
        let folder = tempfile::Builder::new().prefix("mosquitto").tempdir().expect("a folder");
        let mut broker = Self { port: free_port(), lines: lines.to_owned(), folder, process: None };
        broker.start_again().expect("mosquitto can be started");
        Some(broker)
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
        let config = self.folder.path().join("mosquitto.conf");
        let text = format!("user root\nlistener {} 127.0.0.1\n{}", self.port, self.lines);
        std::fs::write(&config, text)?;
        let mut command = Command::new(PROGRAM);
        command.arg("-c").arg(config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(Running::spawn(command)?);
        Ok(())
    }
}
