//! Sources of others, for tests that hold ours against what the world really uses.
//!
//! They come through the Go module proxy, by the ordinary client, and stay in its cache: a second run needs no network. Version
//! and sum are pinned, so that a test means the same everywhere.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::requirement;

/// Ten megabytes take seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// One version of one module.
#[derive(Clone, Copy, Debug)]
pub struct Module {
    /// As Go names it.
    pub path: &'static str,
    /// With the `v` in front.
    pub version: &'static str,
    /// What `go.sum` says about its content.
    pub sum: &'static str,
}

impl Module {
    /// The folder with the sources. `None` means that the test was noted as skipped and should go on without them.
    ///
    /// # Panics
    ///
    /// If what was fetched is not what is pinned.
    pub fn fetch(&self) -> Option<PathBuf> {
        let what = format!("{}@{}", self.path, self.version);
        let Some(go) = requirement::search_path("go") else {
            requirement::skipped(&what, "apt-get install golang-go");
            return None;
        };
        let answer = answer(Command::new(go).args(["mod", "download", "-json", &what]));
        let text = |name: &str| field(answer.as_deref()?, name);
        let (Some(folder), Some(sum)) = (text("Dir"), text("Sum")) else {
            requirement::skipped(&what, &format!("go mod download {what}"));
            return None;
        };
        assert_eq!(sum, self.sum, "{what} is not what it was");
        Some(folder.into())
    }
}

/// What the program printed, in time.
fn answer(command: &mut Command) -> Option<String> {
    let folder = tempfile::tempdir().ok()?;
    let mut child = command
        .current_dir(folder.path())
        // The sum is pinned here; nobody else is asked about it.
        .envs([("GOFLAGS", "-mod=mod"), ("GONOSUMDB", "*"), ("GOTOOLCHAIN", "local")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut output = child.stdout.take()?;
    let (printed_tx, printed_rx) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut printed = String::new();
        let read = output.read_to_string(&mut printed).is_ok();
        // Nobody listens any more if it took too long.
        let _ = printed_tx.send(read.then_some(printed));
    });
    let printed = printed_rx.recv_timeout(PATIENCE).ok().flatten();
    if printed.is_none() {
        let _ = child.kill();
    }
    let _ = child.wait();
    let _ = reader.join();
    printed
}

/// A text of a flat object, as Go prints one: a member to a line.
fn field(printed: &str, name: &str) -> Option<String> {
    let start = format!("\"{name}\": \"");
    let line = printed.lines().find_map(|line| line.trim().strip_prefix(&start))?;
    Some(line.trim_end_matches(',').trim_end_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_by_name() {
        let printed = "{\n\t\"Path\": \"a/b\",\n\t\"Dir\": \"/x/a/b@v1\",\n\t\"Sum\": \"h1:abc=\"\n}\n";
        assert_eq!(field(printed, "Dir").as_deref(), Some("/x/a/b@v1"));
        assert_eq!(field(printed, "Sum").as_deref(), Some("h1:abc="));
        assert_eq!(field(printed, "Error"), None);
    }
}
