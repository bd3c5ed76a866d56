//! Connections to ports of a pod, from far away.
//!
//! They are made in the pod's own network, to its loopback, so they also reach what listens nowhere else. Only a process of
//! the pod can make a socket there: its shim does, and hands it out unconnected. A pod that is part of this process has no
//! network of its own; its ports are wherever that part listens.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream as StdTcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;

use super::upgrade::{self, Protocol};
use super::{PIECE, QUEUE, spdy, websocket};
use crate::pods::session::{Session, Taken};
use crate::shim::protocol::Request;

/// The pod, and how it is called in errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) door: Door<'a>,
    pub(crate) pod: &'a str,
    pub(crate) uid: &'a str,
}

/// Where the ports of a pod are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Door<'a> {
    /// In the network of the pod in this folder.
    Pod(&'a Path),
    /// At these addresses.
    Addresses(&'a BTreeMap<u16, SocketAddr>),
}

// === impl Place ===

impl Place<'_> {
    async fn connect(&self, port: u16) -> Result<TcpStream, String> {
        self.try_connect(port).await.map_err(|error| {
            let Self { pod, uid, .. } = self;
            format!(
                "error forwarding port {port} to pod {pod}, uid {uid}: failed to connect to localhost:{port} inside the pod: \
                 dial tcp4 127.0.0.1:{port}: {error}"
            )
        })
    }

    async fn try_connect(&self, port: u16) -> io::Result<TcpStream> {
        let refused = || io::Error::new(io::ErrorKind::ConnectionRefused, "connect: connection refused");
        let (socket, address) = match self.door {
            Door::Pod(folder) => (socket_in(folder).await?, (Ipv4Addr::LOCALHOST, port).into()),
            Door::Addresses(ports) => (TcpSocket::new_v4()?, *ports.get(&port).ok_or_else(refused)?),
        };
        let stream = socket.connect(address).await.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => refused(),
            _ => error,
        })?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// A socket in the network of a pod.
async fn socket_in(folder: &Path) -> io::Result<TcpSocket> {
    let (ours, theirs) = UnixStream::pair()?;
    let theirs = OwnedFd::from(theirs.into_std()?);
    let mut session = Session::ask(folder, Request::Socket, &[theirs.as_fd()]).await?;
    drop(theirs);
    let Taken::Descriptor(socket) = session.take(ours).await? else {
        return Err(io::Error::other("the pod gives no socket"));
    };
    Ok(TcpSocket::from_std_stream(StdTcpStream::from(socket)))
}

/// Serves whoever came to the ports of a pod, in the protocol agreed on.
pub(crate) async fn over<IO>(protocol: Protocol, place: Place<'_>, ports: &[u16], io: IO) -> io::Result<()>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match protocol {
        Protocol::WebSocket(upgrade::TUNNEL) => {
            let tunnel = websocket::Tunnel::new(websocket::open(io).await);
            let (connection, opened) = spdy::Connection::new(tunnel)?;
            connection.run(over_spdy(place, opened)).await
        }
        Protocol::WebSocket(_) => over_websocket(place, ports, websocket::open(io).await).await,
        Protocol::Spdy => {
            let (connection, opened) = spdy::Connection::new(io)?;
            connection.run(over_spdy(place, opened)).await
        }
    }
}

/// Two streams for every connection: one for what is said, one for what went wrong. Which belong together says their request id.
async fn over_spdy(place: Place<'_>, mut opened: mpsc::Receiver<spdy::Stream>) {
    let mut halves: HashMap<String, spdy::Stream> = HashMap::new();
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            stream = opened.recv() => {
                let Some(stream) = stream else { break };
                let Some(id) = stream.headers.get("requestid").map(str::to_owned) else {
                    let _ = stream.output.reset().await;
                    continue;
                };
                match halves.remove(&id) {
                    None => drop(halves.insert(id, stream)),
                    Some(other) => {
                        let is_error = |one: &spdy::Stream| one.headers.get("streamtype") == Some("error");
                        let (error, data) = if is_error(&other) { (other, stream) } else { (stream, other) };
                        connections.push(forward(place, error, data));
                    }
                }
            }
            Some(()) = connections.next() => {}
        }
    }
    while connections.next().await.is_some() {}
}

async fn forward(place: Place<'_>, error: spdy::Stream, data: spdy::Stream) {
    let port = data.headers.get("port").and_then(|port| port.parse().ok()).unwrap_or_default();
    let spdy::Stream { mut input, output, .. } = data;
    match place.connect(port).await {
        Ok(mut stream) => {
            let (mut reading, mut writing) = stream.split();
            let there = async {
                while let Some(bytes) = input.recv().await {
                    if writing.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                let _ = writing.shutdown().await;
            };
            let back = async {
                copy(&mut reading, |bytes| output.send(bytes)).await;
                let _ = output.finish().await;
            };
            // Once the program has said all it had to, nobody waits for the client to do so, too.
            let mut there = std::pin::pin!(there);
            let mut back = std::pin::pin!(back);
            tokio::select! {
                () = &mut back => {}
                () = &mut there => back.await,
            }
        }
        Err(why) => {
            let _ = error.output.send(why.into()).await;
            let _ = output.finish().await;
        }
    }
    // The client waits for this end before it lets go of a connection.
    let _ = error.output.finish().await;
}

/// Calls `put` with everything that can be read, piece by piece, for as long as it succeeds.
async fn copy<P: Future<Output = io::Result<()>>>(
    reading: &mut (impl AsyncRead + Unpin),
    mut put: impl FnMut(Bytes) -> P,
) {
    let mut buffer = vec![0; PIECE];
    while let Ok(count @ 1..) = reading.read(&mut buffer).await {
        if put(Bytes::copy_from_slice(&buffer[..count])).await.is_err() {
            return;
        }
    }
}

/// Two numbered streams for every port: the even one for what is said, the odd one for what went wrong. Both begin with the
/// port. A connection is made at once, and lasts as long as the websocket.
async fn over_websocket<IO: AsyncRead + AsyncWrite + Unpin>(
    place: Place<'_>,
    ports: &[u16],
    socket: WebSocketStream<IO>,
) -> io::Result<()> {
    use futures::StreamExt as _;
    let (mut sink, mut stream) = socket.split();
    let (output_tx, mut output_rx) = mpsc::channel::<(u8, Bytes)>(QUEUE);
    let mut inputs = Vec::new();
    let connections = FuturesUnordered::new();
    for (index, port) in ports.iter().copied().enumerate() {
        let number = u8::try_from(index * 2).unwrap_or(u8::MAX - 1);
        for number in [number, number + 1] {
            websocket::send(&mut sink, number, &port.to_le_bytes()).await?;
        }
        let (input_tx, mut input_rx) = mpsc::channel::<Bytes>(QUEUE);
        inputs.push(input_tx);
        let output = output_tx.clone();
        connections.push(async move {
            let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            match place.connect(port).await {
                Ok(mut stream) => {
                    let (mut reading, mut writing) = stream.split();
                    let there = async {
                        while let Some(bytes) = input_rx.recv().await {
                            if writing.write_all(&bytes).await.is_err() {
                                return;
                            }
                        }
                    };
                    let back =
                        copy(&mut reading, async |bytes| output.send((number, bytes)).await.map_err(gone));
                    tokio::join!(there, back);
                }
                Err(why) => drop(output.send((number + 1, why.into())).await),
            }
        });
    }
    drop(output_tx);
    let listening = async {
        while let Some((number, bytes)) = websocket::next(&mut stream).await? {
            let input = inputs.get(usize::from(number / 2)).filter(|_| number % 2 == 0);
            if let Some(input) = input {
                // A port that has closed its connection takes nothing more.
                let _ = input.send(bytes).await;
            }
        }
        Ok(())
    };
    let speaking = async {
        while let Some((number, bytes)) = output_rx.recv().await {
            websocket::send(&mut sink, number, &bytes).await?;
        }
        Ok(())
    };
    websocket::carry(listening, speaking, connections.for_each(|()| std::future::ready(()))).await
}
