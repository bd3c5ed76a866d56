//! Sockets that questions come in by.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use pilothouse_runtime::{OnExit, Tasks};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use crate::answer::{Answer, Answers};
use crate::message::{OVER_TCP, Query};
use crate::strangers::{Origins, Questions};

#[cfg(test)]
mod tests;

/// How many clients may ask over connections at once, and how long one may take for a question.
const CONNECTIONS: usize = 256;
const SILENCE: Duration = Duration::from_secs(10);
/// How long to rest when the system is out of something.
const EXHAUSTED: Duration = Duration::from_millis(100);
/// How long a stranger may go on asking over one connection.
const LIFETIME: Duration = Duration::from_secs(60);
/// The largest question.
const LARGEST: usize = 4096;
/// How often another free port is tried: one that is free for connections may be taken for datagrams.
const ATTEMPTS: usize = 20;

/// Sockets that nobody answers on yet: both kinds, on one port.
#[derive(Debug)]
pub struct Bound {
    datagrams: UdpSocket,
    connections: TcpListener,
}

/// One question at a time, whichever way it came.
#[derive(Clone)]
struct Server<A> {
    answers: A,
    /// Where those who ask are strangers.
    strangers: Option<Strangers>,
}

/// What they are held to.
#[derive(Clone)]
struct Strangers {
    origins: Origins,
    lifetime: Duration,
}

/// How a question came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Connection,
    Datagram,
    /// The same, after too many others.
    TooMany,
}

// === impl Bound ===

impl Bound {
    /// Takes a port for datagrams and for connections; port 0 takes one that is free for both.
    ///
    /// # Errors
    ///
    /// If it cannot be had.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let mut attempt = 1;
        loop {
            let connections = TcpListener::bind(address).await?;
            match UdpSocket::bind(connections.local_addr()?).await {
                Ok(datagrams) => return Ok(Self { datagrams, connections }),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && address.port() == 0 => {
                    attempt += 1;
                    if attempt > ATTEMPTS {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Where it listens, with the real port.
    ///
    /// # Errors
    ///
    /// If the system does not say.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.connections.local_addr()
    }

    /// Answers until shutdown, whoever asks.
    pub fn start<A: Answers>(self, answers: A, tasks: &Tasks) {
        self.serve(Server { answers, strangers: None }, tasks);
    }

    /// The same where anybody may ask, and nobody as much as they like.
    pub fn start_for_strangers<A: Answers>(self, answers: A, tasks: &Tasks) {
        let strangers = Strangers { origins: Origins::default(), lifetime: LIFETIME };
        self.serve(Server { answers, strangers: Some(strangers) }, tasks);
    }

    fn serve<A: Answers>(self, server: Server<A>, tasks: &Tasks) {
        let Self { datagrams, connections } = self;
        let (answering, shutdown) = (server.clone(), tasks.shutdown().clone());
        tasks.spawn("dns", OnExit::StopProcess, async move {
            tokio::select! {
                () = shutdown.requested() => {}
                () = answering.answer_datagrams(&datagrams) => {}
            }
            Ok(())
        });
        let (shutdown, serving) = (tasks.shutdown().clone(), tasks.clone());
        tasks.spawn("dns-connections", OnExit::StopProcess, async move {
            tokio::select! {
                () = shutdown.requested() => {}
                () = server.accept(&connections, &serving) => {}
            }
            Ok(())
        });
    }
}

// === impl Server ===

impl<A: Answers> Server<A> {
    async fn answer_datagrams(&self, socket: &UdpSocket) {
        let mut buffer = vec![0; LARGEST];
        let mut questions = self.strangers.is_some().then(Questions::default);
        loop {
            match socket.recv_from(&mut buffer).await {
                Ok((length, client)) => {
                    let admitted = questions.as_mut().is_none_or(|questions| questions.admit(client.ip()));
                    let by = if admitted { By::Datagram } else { By::TooMany };
                    if let Some(reply) = self.reply(&buffer[..length], client.ip(), by) {
                        // Whoever asked may be gone.
                        let _ = socket.send_to(&reply, client).await;
                    }
                }
                Err(error) => {
                    warn!(%error, "cannot receive questions about names for a moment");
                    sleep(EXHAUSTED).await;
                }
            }
        }
    }

    async fn accept(&self, listener: &TcpListener, tasks: &Tasks) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            // Never closed.
            let Ok(place) = places.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, client)) => {
                    let origin =
                        self.strangers.as_ref().map(|strangers| strangers.origins.enter(client.ip()));
                    if matches!(origin, Some(None)) {
                        debug!(%client, "too many connections from there that ask for names");
                        continue;
                    }
                    let server = self.clone();
                    tasks.spawn("dns-connection", OnExit::Expendable, async move {
                        let answered = server.answer_connection(stream, client.ip());
                        let answered = match &server.strangers {
                            Some(strangers) => {
                                let answered = timeout(strangers.lifetime, answered).await;
                                answered.unwrap_or_else(|late| Err(late.into()))
                            }
                            None => answered.await,
                        };
                        if let Err(error) = answered {
                            debug!(%client, %error, "somebody stopped asking for names");
                        }
                        drop((place, origin));
                        Ok(())
                    });
                }
                Err(error) => {
                    warn!(%error, "cannot accept questions about names for a moment");
                    sleep(EXHAUSTED).await;
                }
            }
        }
    }

    async fn answer_connection(&self, mut stream: TcpStream, client: IpAddr) -> io::Result<()> {
        let mut question = Vec::new();
        loop {
            let length = timeout(SILENCE, stream.read_u16()).await??;
            question.resize(usize::from(length), 0);
            timeout(SILENCE, stream.read_exact(&mut question)).await??;
            let Some(reply) = self.reply(&question, client, By::Connection) else { return Ok(()) };
            let length = u16::try_from(reply.len()).map_err(io::Error::other)?;
            let framed = [&length.to_be_bytes(), reply.as_slice()].concat();
            timeout(SILENCE, stream.write_all(&framed)).await??;
        }
    }

    /// What is sent back to a message.
    fn reply(&self, message: &[u8], client: IpAddr, by: By) -> Option<Vec<u8>> {
        let reply = match Query::read(message) {
            Ok(query) if by == By::TooMany => query.ask_by_connection().map(Some),
            Ok(query) => {
                let answer = if query.is_of_internet() {
                    self.answers.answer(&query.question, client)
                } else {
                    Answer::only(ResponseCode::Refused)
                };
                let limit = if by == By::Connection { OVER_TCP } else { query.datagram() };
                query.reply(&answer, limit).map(Some)
            }
            Err(unreadable) => unreadable.reply(),
        };
        reply.unwrap_or_else(|error| {
            warn!(%client, %error, "cannot write down what is known of a name; please report this");
            None
        })
    }
}
