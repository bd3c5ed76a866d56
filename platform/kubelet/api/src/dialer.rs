use std::io;
use std::net::{SocketAddr, TcpStream as StdTcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::address::Address;
use crate::descriptor;
use crate::protocol::{self, Answer, Request, Stoppable};
use crate::target::Target;

/// How long a connection may take to be made, unless said otherwise.
const DEADLINE: Duration = Duration::from_secs(10);

/// Opens connections on the other side of a Unix socket. A cheap handle.
#[derive(Clone, Debug)]
pub struct Dialer {
    path: PathBuf,
    deadline: Duration,
}

// === impl Dialer ===

impl Dialer {
    /// Dials through the socket at `path`, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), deadline: DEADLINE }
    }

    /// With another limit on how long a connection may take to be made.
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The socket it dials through.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A connection to an address in the network on the other side.
    ///
    /// # Errors
    ///
    /// When nobody serves the socket, the place refuses, or it takes too long. The text says which.
    pub async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.connect_to(&Target::Address(address)).await
    }

    /// A connection to any target.
    ///
    /// # Errors
    ///
    /// As for [`connect`](Self::connect), and when the other side does not know the name.
    pub async fn connect_to(&self, target: &Target) -> io::Result<TcpStream> {
        let request = Request::Connect(target.to_string());
        let descriptor = self.ask(&request, self.deadline, &format!("connecting to {target}")).await?;
        let descriptor = descriptor.ok_or_else(|| invalid("the answer came without a connection"))?;
        let stream = StdTcpStream::from(descriptor);
        // Flags belong to the open socket, which is shared with whoever made it.
        stream.set_nonblocking(true)?;
        TcpStream::from_std(stream)
    }

    /// Asks the node to stop all its pods, and waits until they have ended, at most for `deadline`.
    ///
    /// # Errors
    ///
    /// When nobody serves the socket, the other side runs no pods, or it takes too long.
    pub async fn stop_pods(&self, deadline: Duration) -> io::Result<()> {
        self.ask(&Request::Stop(Stoppable::Pods), deadline, "stopping the pods").await?;
        Ok(())
    }

    async fn ask(&self, request: &Request, deadline: Duration, doing: &str) -> io::Result<Option<OwnedFd>> {
        let socket = self.path.display();
        match timeout(deadline, self.exchange(request)).await {
            Ok(Ok(descriptor)) => Ok(descriptor),
            Ok(Err(error)) => Err(io::Error::new(error.kind(), format!("{doing} through {socket}: {error}"))),
            Err(_elapsed) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("{doing} through {socket} took longer than {} s", deadline.as_secs_f64()),
            )),
        }
    }

    async fn exchange(&self, request: &Request) -> io::Result<Option<OwnedFd>> {
        let address = Address::of(&self.path)?;
        let stream = UnixStream::connect(address.path()).await?;
        descriptor::send(&stream, &protocol::line(request)?, None).await?;
        let (line, descriptor) = descriptor::receive(&stream).await?;
        let answer: Answer = serde_json::from_slice(&line)?;
        match answer {
            Answer { error: Some(error), .. } => Err(io::Error::other(error)),
            Answer { ok: true, error: None } => Ok(descriptor),
            Answer { ok: false, error: None } => Err(invalid("the answer says neither yes nor no")),
        }
    }
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}
