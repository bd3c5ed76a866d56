//! A living shim, seen from the kubelet.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use pilothouse_runtime::{OnExit, Tasks};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::record;
use crate::process::Process;
use crate::shim;
use crate::shim::protocol::{Envelope, Message, Outcome, Request, State};

/// How long a shim may take to be there, to answer, and to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection to a shim. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Sandbox {
    state: watch::Receiver<Option<State>>,
    commands: mpsc::Sender<Asked>,
}

/// A request and who waits for its outcome.
type Asked = (Request, oneshot::Sender<Outcome>);

// === impl Sandbox ===

impl Sandbox {
    /// Starts a shim in a pod's folder, or finds the one that is there.
    pub(crate) async fn launch(folder: &Path, program: &Path) -> io::Result<Process> {
        // Nothing is asked to be done between fork and beginning: so the system need not copy what it knows of our memory.
        let launching = Command::new(program)
            .arg(shim::VERB)
            .arg(folder)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .output();
        let output = timeout(PATIENCE, launching).await??;
        if !output.status.success() && output.status.code() != Some(i32::from(shim::ALREADY)) {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!("the pod's first process did not start: {}", said.trim())));
        }
        record::shim(folder).ok_or_else(|| io::Error::other("the pod's first process ended at once"))
    }

    /// Connects to a shim that lives. `on_change` is called whenever something became of a container, and once when the shim is gone.
    pub(crate) async fn connect(
        folder: PathBuf,
        process: Process,
        tasks: &Tasks,
        on_change: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let stream =
            timeout(PATIENCE, pilothouse_kubelet_api::connect_unix(&folder.join("shim.sock"))).await??;
        let (state_tx, mut state_rx) = watch::channel(Some(State::default()));
        let (commands_tx, commands_rx) = mpsc::channel(16);
        state_rx.mark_unchanged();
        tasks.spawn("shim", OnExit::Expendable, async move {
            let ended = converse(stream, commands_rx, &state_tx, &on_change).await;
            state_tx.send_replace(None);
            on_change();
            if let Err(error) = ended
                && process.is_alive()
            {
                tracing::warn!(%error, pid = process.pid, "lost the connection to a pod's first process");
            }
            // Nobody may have ended it: then nobody else waits for it.
            process.ended().await?;
            process.reap();
            Ok(())
        });
        // The shim begins by telling its state; a pass must not take its absence for "nothing was ever started".
        timeout(PATIENCE, state_rx.changed()).await?.map_err(io::Error::other)?;
        Ok(Self { state: state_rx, commands: commands_tx })
    }

    /// What became of every container; nothing once the shim is gone.
    pub(crate) fn state(&self) -> Option<State> {
        self.state.borrow().clone()
    }

    /// Returns when something has become of a container since the last look by this handle.
    pub(crate) async fn changed(&mut self) {
        // An end of the connection is a change, too, and comes before the sender goes.
        let _ = self.state.changed().await;
    }

    pub(crate) async fn request(&self, request: Request) -> io::Result<Outcome> {
        let gone = || io::Error::new(io::ErrorKind::BrokenPipe, "the pod's first process is gone");
        let (outcome_tx, outcome_rx) = oneshot::channel();
        self.commands.send((request, outcome_tx)).await.map_err(|_| gone())?;
        outcome_rx.await.map_err(|_| gone())
    }

    /// A request that should simply be done.
    pub(crate) async fn tell(&self, request: Request) -> io::Result<()> {
        match timeout(PATIENCE, self.request(request)).await?? {
            Outcome::Done | Outcome::Exited(_) => Ok(()),
            Outcome::Refused(reason) => Err(io::Error::other(reason)),
        }
    }
}

/// Ends a pod's first process, and with it all others, and returns when it is gone.
pub(crate) async fn end(process: Process) -> io::Result<()> {
    process.signal(Signal::SIGKILL)?;
    timeout(PATIENCE, process.ended()).await??;
    process.reap();
    Ok(())
}

async fn converse(
    stream: UnixStream,
    mut commands: mpsc::Receiver<Asked>,
    state: &watch::Sender<Option<State>>,
    on_change: &impl Fn(),
) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    let mut waiting: HashMap<u64, oneshot::Sender<Outcome>> = HashMap::new();
    let mut next = 0;
    loop {
        tokio::select! {
            line = lines.next_line() => {
                let Some(line) = line? else { return Ok(()) };
                match serde_json::from_str(&line)? {
                    Message::State(new) => {
                        state.send_replace(Some(new));
                        on_change();
                    }
                    Message::Answer { id, outcome } => {
                        // Whoever asked may have given up.
                        if let Some(asker) = waiting.remove(&id) {
                            let _ = asker.send(outcome);
                        }
                    }
                }
            }
            Some((request, asker)) = commands.recv() => {
                next += 1;
                waiting.insert(next, asker);
                let mut line = serde_json::to_vec(&Envelope { id: next, request })?;
                line.push(b'\n');
                write.write_all(&line).await?;
            }
        }
    }
}
