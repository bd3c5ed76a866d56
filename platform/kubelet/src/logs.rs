//! Reading what containers printed.

use std::io::SeekFrom;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::Stream;
use jiff::{SignedDuration, Timestamp};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use serde::Deserialize;
use tokio::fs::File;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio::sync::mpsc;

use crate::pods::sandbox::Sandbox;

/// What of a log is wanted.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Wanted {
    pub(crate) follow: bool,
    pub(crate) tail_lines: Option<usize>,
    pub(crate) timestamps: bool,
    pub(crate) previous: bool,
    pub(crate) limit_bytes: Option<usize>,
    pub(crate) since_seconds: Option<i64>,
    pub(crate) since_time: Option<Timestamp>,
}

impl Wanted {
    /// The moment before which nothing is shown, written as lines begin.
    fn from(&self, now: Timestamp) -> Option<String> {
        let ago = |seconds| now.saturating_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN);
        let from = self.since_time.or_else(|| self.since_seconds.map(ago))?;
        Some(stamp(from))
    }
}

/// A moment as lines begin with it. Such texts are ordered as the moments are.
fn stamp(moment: Timestamp) -> String {
    format!("{moment:.9}")
}

/// A log that is being read.
pub(crate) struct Reader {
    pub(crate) path: PathBuf,
    pub(crate) writer: Writer,
    pub(crate) wanted: Wanted,
    pub(crate) now: Timestamp,
}

/// Who writes a log, and how long.
pub(crate) enum Writer {
    /// An attempt of a container, if its pod has a sandbox.
    Container { sandbox: Option<Sandbox>, name: String, attempt: u32 },
    /// This process, for as long as anybody can read.
    ThisProcess,
}

// === impl Writer ===

impl Writer {
    /// Whether more may come.
    fn runs(&self) -> bool {
        match self {
            Self::ThisProcess => true,
            Self::Container { sandbox, name, attempt } => {
                sandbox.as_ref().and_then(Sandbox::state).is_some_and(|state| {
                    let known = state.containers.get(name);
                    known.is_some_and(|one| one.attempt == *attempt && one.is_running())
                })
            }
        }
    }

    /// Returns when there is another answer to that, perhaps.
    async fn changed(&mut self) {
        match self {
            Self::Container { sandbox: Some(sandbox), .. } => sandbox.changed().await,
            Self::Container { sandbox: None, .. } | Self::ThisProcess => std::future::pending().await,
        }
    }
}

// === impl Reader ===

/// The file of one attempt of a container of the pod in this folder.
pub(crate) fn path(folder: &Path, container: &str, attempt: u32) -> PathBuf {
    folder.join("logs").join(container).join(format!("{attempt}.log"))
}

impl Reader {
    /// The lines, as they come. The stream ends with the file, or, if it is followed, with the container.
    pub(crate) fn stream(
        self,
        tasks: &pilothouse_runtime::Tasks,
    ) -> impl Stream<Item = std::io::Result<Bytes>> + use<> {
        let (lines_tx, mut lines_rx) = mpsc::channel(64);
        tasks.spawn("log", pilothouse_runtime::OnExit::Expendable, async move {
            let failed = self.copy(&lines_tx).await;
            if let Err(error) = failed {
                // Nobody listens once the client is gone.
                let _ = lines_tx.send(Err(error)).await;
            }
            Ok(())
        });
        futures::stream::poll_fn(move |context| lines_rx.poll_recv(context))
    }

    async fn copy(mut self, lines: &mpsc::Sender<std::io::Result<Bytes>>) -> std::io::Result<()> {
        let path = self.path.clone();
        let folder = path.parent().unwrap_or(&path);
        // Before the first look, so that nothing written in between is missed.
        let changes = if self.wanted.follow { Some(watch(folder)?) } else { None };
        let mut file = File::open(&path).await?;
        let mut older = File::open(path.with_extension("log.1")).await.ok();
        if let Some(count) = self.wanted.tail_lines {
            let (start, found) = tail(&mut file, count).await?;
            file.seek(SeekFrom::Start(start)).await?;
            if let Some(older) = &mut older {
                let (start, _) = tail(older, count - found).await?;
                older.seek(SeekFrom::Start(start)).await?;
            }
        }
        let mut left = self.wanted.limit_bytes.unwrap_or(usize::MAX);
        let from = self.wanted.from(self.now);
        let mut pending = Vec::new();
        loop {
            // Looked at before reading: what a container printed is in the file before its end is known.
            let runs = self.writer.runs();
            loop {
                // What was put aside when it was full comes before what is written now.
                let from_older = match &mut older {
                    Some(older) => older.read_buf(&mut pending).await?,
                    None => 0,
                };
                if from_older == 0 {
                    older = None;
                    if file.read_buf(&mut pending).await? == 0 {
                        let own = number(&file.metadata().await?);
                        // In the moment between two files there is none; the next one is a change.
                        if std::fs::metadata(&path).map_or(true, |found| number(&found) == own) {
                            break;
                        }
                        // Put aside because it was full; nothing is written into it any more.
                        if file.read_buf(&mut pending).await? == 0 {
                            let aside = File::open(path.with_extension("log.1")).await?;
                            // Another one was full before anybody looked.
                            let unseen = number(&aside.metadata().await?) != own;
                            older = unseen.then_some(aside);
                            file = File::open(&path).await?;
                        }
                    }
                }
                while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = pending.drain(..=end).collect();
                    if from.as_ref().is_some_and(|from| line.as_slice() < from.as_bytes()) {
                        continue;
                    }
                    let mut text = self.show(&line);
                    text.truncate(left);
                    left -= text.len();
                    if lines.send(Ok(Bytes::from(text))).await.is_err() || left == 0 {
                        return Ok(());
                    }
                }
            }
            let (Some(changes), true) = (&changes, runs) else { return Ok(()) };
            tokio::select! {
                ready = changes.readable() => {
                    // What changed does not matter: the file says it.
                    let mut events = [0; 4096];
                    let _ = ready?.try_io(|inotify| Ok(nix::unistd::read(inotify.get_ref(), &mut events)?));
                }
                () = self.writer.changed() => {}
                () = lines.closed() => return Ok(()),
            }
        }
    }

    /// A line as it was printed, or with its moment before it.
    fn show(&self, line: &[u8]) -> Vec<u8> {
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let (moment, _stream, tag, text) = (parts.next(), parts.next(), parts.next(), parts.next());
        let text = text.unwrap_or(line);
        // Parts of one line are put together again.
        let text = if tag == Some(b"P") { text.strip_suffix(b"\n").unwrap_or(text) } else { text };
        match moment {
            Some(moment) if self.wanted.timestamps => [moment, b" ", text].concat(),
            _ => text.to_vec(),
        }
    }
}

/// What tells a file from another that has its name.
fn number(file: &std::fs::Metadata) -> u64 {
    file.ino()
}

/// What was printed in a line of a log.
pub(crate) fn text_of(line: &[u8]) -> &[u8] {
    line.splitn(4, |byte| *byte == b' ').nth(3).unwrap_or(line)
}

fn watch(folder: &Path) -> std::io::Result<AsyncFd<OwnedFd>> {
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
    inotify.add_watch(
        folder,
        AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_FROM,
    )?;
    crate::descriptor::readable(inotify.into())
}

/// Where the last `count` lines begin, and how many there are.
async fn tail(file: &mut File, count: usize) -> std::io::Result<(u64, usize)> {
    const BLOCK: u64 = 64 * 1024;
    let end = file.seek(SeekFrom::End(0)).await?;
    let (mut from, mut found) = (end, 0);
    if count == 0 || end == 0 {
        return Ok((end, 0));
    }
    while from > 0 {
        let begin = from.saturating_sub(BLOCK);
        file.seek(SeekFrom::Start(begin)).await?;
        let mut block = vec![0; usize::try_from(from - begin).unwrap_or_default()];
        file.read_exact(&mut block).await?;
        for (index, byte) in block.iter().enumerate().rev() {
            let position = begin + index as u64;
            // The newline at the very end closes the last line and begins no further one.
            if *byte == b'\n' && position + 1 != end {
                found += 1;
                if found == count {
                    return Ok((position + 1, count));
                }
            }
        }
        from = begin;
    }
    // The first line has none before it.
    Ok((0, found + 1))
}
