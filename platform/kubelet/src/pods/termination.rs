//! The last words of containers.
//!
//! A container may leave a message in a file that the kubelet gives it; one that fails without a word has its last lines
//! of output taken for it, if its specification says so.

use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Container;

use crate::logs;
use crate::shim::protocol::{ContainerState, Mount, Run};

/// As much of a message as is shown, and of a log in its place.
const LARGEST: u64 = 4096;
const LARGEST_OF_LOG: usize = 2048;
const LINES_OF_LOG: usize = 80;
/// Where a container leaves its message unless it says otherwise.
const DEFAULT_PATH: &str = "/dev/termination-log";

fn file(folder: &Path, container: &str, attempt: u32) -> PathBuf {
    folder.join("termination").join(format!("{container}-{attempt}"))
}

/// Makes the file for the message of an attempt, and says where the container finds it.
pub(crate) fn prepare(folder: &Path, container: &Container, attempt: u32) -> io::Result<Mount> {
    let source = file(folder, &container.name, attempt);
    fs::create_dir_all(folder.join("termination"))?;
    if let Some(old) = attempt.checked_sub(2) {
        // Only the attempt before is still shown.
        let _ = fs::remove_file(file(folder, &container.name, old));
    }
    fs::File::options().create(true).append(true).open(&source)?;
    // Whoever the container runs as.
    fs::set_permissions(&source, fs::Permissions::from_mode(0o666))?;
    let path = container.termination_message_path.as_deref().filter(|path| !path.is_empty());
    let target = path.unwrap_or(DEFAULT_PATH).to_owned();
    Ok(Mount { source, sub_path: None, target, read_only: false })
}

/// What the present attempt of a container left, and what the one before it did.
pub(crate) fn messages(folder: &Path, container: &Container, state: &ContainerState) -> [Option<String>; 2] {
    let previous = state.previous.as_ref().zip(state.attempt.checked_sub(1));
    [
        message(folder, container, state.attempt, &state.run),
        previous.and_then(|(run, attempt)| message(folder, container, attempt, run)),
    ]
}

fn message(folder: &Path, container: &Container, attempt: u32, run: &Run) -> Option<String> {
    let exit = run.exit.as_ref()?;
    let mut bytes = Vec::new();
    if let Ok(left) = fs::File::open(file(folder, &container.name, attempt)) {
        let _ = left.take(LARGEST).read_to_end(&mut bytes);
    }
    let falls_back = container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
    if bytes.is_empty() && falls_back && exit.code != 0 {
        bytes = last_lines(&logs::path(folder, &container.name, attempt)).unwrap_or_default();
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Some(text).filter(|text| !text.is_empty())
}

fn last_lines(log: &Path) -> io::Result<Vec<u8>> {
    let mut log = fs::File::open(log)?;
    let length = log.metadata()?.len();
    // Every line carries its moment and its stream, so there is always more than enough.
    let from = length.saturating_sub(4 * LARGEST_OF_LOG as u64 + 64 * LINES_OF_LOG as u64);
    log.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    log.read_to_end(&mut bytes)?;
    let lines: Vec<_> = bytes.split_inclusive(|byte| *byte == b'\n').skip(usize::from(from > 0)).collect();
    let last = lines[lines.len().saturating_sub(LINES_OF_LOG)..].iter();
    let text: Vec<u8> = last.flat_map(|line| logs::text_of(line)).copied().collect();
    Ok(text[text.len().saturating_sub(LARGEST_OF_LOG)..].to_vec())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::shim::protocol::Exit;

    #[test]
    fn last_words_are_those_left_or_else_those_printed() {
        let folder = tempfile::tempdir().unwrap();
        let mut container = Container { name: "main".to_owned(), ..Container::default() };
        let ended = |code| Run {
            pid: 1,
            started_at: Timestamp::UNIX_EPOCH,
            exit: Some(Exit { code, signal: None, ..Exit::killed(Timestamp::UNIX_EPOCH) }),
        };
        let said = |container: &Container, code| message(folder.path(), container, 0, &ended(code));
        let mount = prepare(folder.path(), &container, 0).unwrap();
        assert_eq!(mount.target, "/dev/termination-log");
        let log = logs::path(folder.path(), "main", 0);
        fs::create_dir_all(log.parent().unwrap()).unwrap();
        let lines =
            |count| (0..count).map(|line| format!("2026-01-01T00:00:00.000000000Z stdout F line {line}\n"));
        fs::write(&log, lines(500).collect::<String>()).unwrap();
        assert_eq!(said(&container, 1), None);
        container.termination_message_policy = Some("FallbackToLogsOnError".to_owned());
        assert_eq!(said(&container, 0), None);
        let printed = said(&container, 1).unwrap();
        assert!(printed.starts_with("line 420\n") && printed.ends_with("line 499\n"), "{printed}");
        fs::write(&mount.source, "x".repeat(5000)).unwrap();
        assert_eq!(said(&container, 0).unwrap(), "x".repeat(4096));
    }
}
