//! The embedded node: a kubelet in a process of its own.
//!
//! It lives in a network of its own, so the two sides meet over two Unix sockets: through one the kubelet reaches the
//! management cluster's API server, through the other whoever is outside reaches pods. The kubelet ends with the region's
//! process, even if that is killed; its pods do not, and the next kubelet adopts them.

use std::env;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_kubeapi::NodeDialer;
use pilothouse_kubelet::Config;
use pilothouse_kubelet_api::{Acceptor, Dialer, Places};
use pilothouse_pki::{FileError, Visibility, write_atomically};
use pilothouse_runtime::fault::{
    FAULT_FILE_VARIABLE, FAULT_TRACE_VARIABLE, FAULT_VARIABLE, NODE_FAULT_FILE_VARIABLE,
    NODE_FAULT_TRACE_VARIABLE,
};
use pilothouse_runtime::{OnExit, Policy, Shutdown, Tasks, with_former_limit};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use crate::residents::Address;

/// What the API server is called on the way out of the node.
pub(crate) const MANAGEMENT_API: &str = "management-api";
/// How long the kubelet may take to end when it is told to.
const KUBELET_GRACE: Duration = Duration::from_secs(10);

/// Where the parts of the node are on disk.
#[derive(Clone, Debug)]
pub(crate) struct NodeFiles {
    folder: PathBuf,
}

/// Reaches into the node's network, and the services that are shown as pods of another node.
#[derive(Clone, Debug)]
pub(crate) struct IntoNode {
    pub(crate) node: Dialer,
    pub(crate) residents: Address,
}

/// A kubelet that is kept running.
#[derive(Debug)]
pub(crate) struct Node {
    program: PathBuf,
    files: NodeFiles,
    host: Acceptor,
    places: Places,
}

/// Why there is no node.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Its configuration cannot be written.
    #[error("the node's configuration was not saved")]
    File(#[from] FileError),
    /// Its configuration has no text.
    #[error("the node's configuration cannot be written down")]
    Config(#[from] pilothouse_runtime::config::Error),
    /// The way out of the node cannot be opened.
    #[error("the socket `{path}` cannot be made")]
    Socket {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The kubelet cannot be started.
    #[error("the node's kubelet cannot be started")]
    Spawn(#[source] io::Error),
    /// The kubelet does not stay.
    #[error("the node's kubelet ended with {status}; `{log}` says why")]
    Ended {
        /// How it ended.
        status: ExitStatus,
        /// Its log.
        log: PathBuf,
    },
}

// === impl NodeFiles ===

impl NodeFiles {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    pub(crate) fn volumes(&self) -> PathBuf {
        self.folder.join("volumes")
    }

    pub(crate) fn host_socket(&self) -> PathBuf {
        self.folder.join("host.sock")
    }

    pub(crate) fn node_socket(&self) -> PathBuf {
        self.folder.join("node.sock")
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    fn config(&self) -> PathBuf {
        self.folder.join("kubelet.toml")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("kubelet.log")
    }
}

// === impl Node ===

impl Node {
    /// Writes the kubelet's configuration and opens the way out of the node.
    pub(crate) fn prepare(
        program: &Path,
        files: NodeFiles,
        config: &Config,
        management_api: SocketAddr,
    ) -> Result<Self, NodeError> {
        let text = pilothouse_runtime::config::dump(config)?;
        write_atomically(&files.config(), text.as_bytes(), Visibility::OwnerOnly)?;
        let path = files.host_socket();
        let host = Acceptor::bind(path.clone()).map_err(|source| NodeError::Socket { path, source })?;
        let places = Places::new().with(MANAGEMENT_API, management_api);
        Ok(Self { program: program.to_owned(), files, host, places })
    }

    /// The way into the node.
    pub(crate) fn dialer(&self) -> Dialer {
        Dialer::new(self.files.node_socket())
    }

    /// Keeps a kubelet running until shutdown. Its pods are left as they are: stopping them is another decision.
    pub(crate) async fn run(self, tasks: &Tasks, shutdown: Shutdown) -> Result<(), NodeError> {
        let Self { program, files, host, places } = self;
        let handovers = tasks.clone();
        tasks.spawn("host-socket", OnExit::StopProcess, async move {
            host.serve(handovers, places).await?;
            Ok(())
        });
        let mut delays = Policy::RECONNECT.delays();
        loop {
            let mut kubelet = spawn(&program, &files)?;
            let started = Instant::now();
            tokio::select! {
                () = shutdown.requested() => {
                    end(&mut kubelet).await;
                    return Ok(());
                }
                status = kubelet.wait() => {
                    let status = status.map_err(NodeError::Spawn)?;
                    warn!(%status, log = %files.log().display(), "the node's kubelet ended, starting it again");
                    // One that never gets anywhere is a reason to stop, not to try for ever.
                    if status.code() == Some(2) {
                        return Err(NodeError::Ended { status, log: files.log() });
                    }
                }
            }
            // What ran for a while does not pay for the failures before.
            if started.elapsed() > Policy::RECONNECT.cap() {
                delays.reset();
            }
            let delay = delays.next().unwrap_or_default();
            tokio::select! {
                () = shutdown.requested() => return Ok(()),
                () = tokio::time::sleep(delay) => {}
            }
        }
    }
}

// === impl IntoNode ===

impl NodeDialer for IntoNode {
    fn dial(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        if self.residents.get() == Some(&address) {
            return TcpStream::connect(address).boxed();
        }
        self.node.connect(address).boxed()
    }
}

fn spawn(program: &Path, files: &NodeFiles) -> Result<Child, NodeError> {
    let log = std::fs::File::options().create(true).append(true).open(files.log());
    let log = log.map_err(NodeError::Spawn)?;
    let kubelet = command(program, files)
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(NodeError::Spawn)?)
        .stderr(log)
        // Ctrl-C is for the region, which then stops the node in its turn.
        .process_group(0)
        .spawn()
        .map_err(NodeError::Spawn)?;
    info!(process = kubelet.id(), "started the node's kubelet");
    Ok(kubelet)
}

fn command(program: &Path, files: &NodeFiles) -> Command {
    let mut command = Command::new(program);
    // It raises the limit itself, and has to know what pods should have.
    with_former_limit(command.as_std_mut());
    command
        .arg("kubelet")
        .arg("--config")
        .arg(files.config())
        .arg("--parent")
        .arg(std::process::id().to_string())
        // The region's folder; the kubelet would take it for a setting of its own, which it does not have.
        .env_remove("PILOTHOUSE_DATA_DIR")
        // A point is for the process that was told.
        .env_remove(FAULT_VARIABLE);
    for (own, given) in
        [(FAULT_FILE_VARIABLE, NODE_FAULT_FILE_VARIABLE), (FAULT_TRACE_VARIABLE, NODE_FAULT_TRACE_VARIABLE)]
    {
        match env::var_os(given) {
            Some(file) => command.env(own, file),
            None => command.env_remove(own),
        };
    }
    command
}

async fn end(kubelet: &mut Child) {
    let Some(id) = kubelet.id().and_then(|id| i32::try_from(id).ok()) else { return };
    // It may have ended by itself; then there is nobody to tell.
    let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
    if timeout(KUBELET_GRACE, kubelet.wait()).await.is_err() {
        warn!(process = id, "the node's kubelet does not end, killing it");
        let _ = kubelet.kill().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubelet_does_not_inherit_what_only_the_region_was_told() {
        let command = command(Path::new("pilothouse"), &NodeFiles::new(PathBuf::from("node")));
        let mut removed: Vec<_> =
            command.as_std().get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        removed.sort();
        assert_eq!(
            removed,
            ["PILOTHOUSE_DATA_DIR", FAULT_VARIABLE, FAULT_FILE_VARIABLE, FAULT_TRACE_VARIABLE]
        );
    }
}
