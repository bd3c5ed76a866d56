use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_runtime::{OnExit, Tasks, accept_failed};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::address::Address;
use crate::descriptor;
use crate::protocol::{self, Answer, Request, Stoppable};
use crate::target::Target;

/// How long an asker may take to say what it wants, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a connection may take to be made.
const CONNECTING: Duration = Duration::from_secs(8);

/// What the serving side does with a request, and what it refuses.
pub trait Handler: Send + Sync + 'static {
    /// Opens a connection, or refuses to.
    fn connect(&self, target: Target) -> impl Future<Output = io::Result<TcpStream>> + Send;

    /// Stops every pod and returns when they have ended. Only nodes have pods.
    fn stop_pods(&self) -> impl Future<Output = io::Result<()>> + Send {
        async { Err(io::Error::new(io::ErrorKind::Unsupported, "there are no pods on this side")) }
    }
}

/// The few places that may be reached, by name; everything else is refused. For the side that is not a node.
#[derive(Clone, Debug, Default)]
pub struct Places {
    names: BTreeMap<String, SocketAddr>,
}

/// A bound Unix socket. Requests queue from the moment it exists, and are answered once it is served.
#[derive(Debug)]
pub struct Acceptor {
    listener: UnixListener,
    path: PathBuf,
}

// === impl Places ===

impl Places {
    /// No place at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets `name` be reached at `address`.
    pub fn with(mut self, name: impl Into<String>, address: SocketAddr) -> Self {
        self.names.insert(name.into(), address);
        self
    }
}

impl Handler for Places {
    async fn connect(&self, target: Target) -> io::Result<TcpStream> {
        let address = match &target {
            Target::Named(name) => self.names.get(name),
            // Who knows an address of a place may not reach it for that.
            Target::Address(_) => None,
        };
        match address {
            Some(address) => TcpStream::connect(address).await,
            None => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("`{target}` is not on offer here"),
            )),
        }
    }
}

// === impl Acceptor ===

impl Acceptor {
    /// Takes the socket at `path`. One left there by an earlier process is replaced: whoever calls this owns the
    /// folder.
    ///
    /// # Errors
    ///
    /// When the folder is missing or may not be written.
    pub fn bind(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        match fs::remove_file(&path) {
            Ok(()) => debug!(socket = %path.display(), "replaced a socket of an earlier process"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let address = Address::of(&path)?;
        let listener = UnixListener::bind(address.path())?;
        Ok(Self { listener, path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Answers requests until shutdown is requested.
    ///
    /// # Errors
    ///
    /// When the socket itself fails. That there are no descriptors left passes, and is waited for.
    pub async fn serve(self, tasks: Tasks, handler: impl Handler) -> io::Result<()> {
        let handler = Arc::new(handler);
        let shutdown = tasks.shutdown().clone();
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.requested() => return Ok(()),
                accepted = self.listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    accept_failed(&self.path.to_string_lossy(), error).await?;
                    continue;
                }
            };
            let handler = handler.clone();
            tasks.spawn("handover", OnExit::Expendable, async move {
                if let Err(error) = handle(&stream, handler.as_ref()).await {
                    // The asker went away or spoke something else; it is the one who notices.
                    debug!(%error, "request on the node's socket not answered");
                }
                Ok(())
            });
        }
    }
}

async fn handle(stream: &UnixStream, handler: &impl Handler) -> io::Result<()> {
    let (line, _) = timeout(PATIENCE, descriptor::receive(stream)).await??;
    let (answer, connection) = match serde_json::from_slice(&line) {
        Ok(Request::Connect(target)) => {
            let target = Target::parse(&target);
            match timeout(CONNECTING, handler.connect(target.clone())).await {
                Ok(Ok(connection)) => (Answer::ok(), Some(connection)),
                Ok(Err(error)) => {
                    debug!(%target, %error, "connection not made");
                    (Answer::error(&error), None)
                }
                Err(elapsed) => (Answer::error(&elapsed), None),
            }
        }
        Ok(Request::Stop(Stoppable::Pods)) => match handler.stop_pods().await {
            Ok(()) => (Answer::ok(), None),
            Err(error) => {
                warn!(%error, "pods not stopped");
                (Answer::error(&error), None)
            }
        },
        Err(error) => (Answer::error(&error), None),
    };
    let descriptor = connection.as_ref().map(AsFd::as_fd);
    timeout(PATIENCE, descriptor::send(stream, &protocol::line(&answer)?, descriptor)).await?
}
