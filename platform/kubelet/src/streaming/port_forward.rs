//! Connections to ports of a pod, from far away.
//!
//! They are made in the pod's own network, to its loopback, so they also reach what listens nowhere else. Only a process of
//! the pod can make a socket there: its shim does, and hands it out unconnected.

use std::collections::HashMap;
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

use super::{PIECE, QUEUE, spdy, websocket};
use crate::pods::session::{Session, Taken};
use crate::shim::protocol::Request;

/// The pod, and how it is called in errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) pod: &'a str,
    pub(crate) uid: &'a str,
}

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
        let (ours, theirs) = UnixStream::pair()?;
        let theirs = OwnedFd::from(theirs.into_std()?);
        let mut session = Session::ask(self.folder, Request::Socket, &[theirs.as_fd()]).await?;
        drop(theirs);
        let Taken::Descriptor(socket) = session.take(ours).await? else {
            return Err(io::Error::other("the pod gives no socket"));
        };
        let socket = TcpSocket::from_std_stream(StdTcpStream::from(socket));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = socket.connect(address).await.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => io::Error::new(error.kind(), "connect: connection refused"),
            _ => error,
        })?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// Two streams for every connection: one for what is said, one for what went wrong. Which belong together says their request id.
pub(crate) async fn over_spdy(place: Place<'_>, mut opened: mpsc::Receiver<spdy::Stream>) {
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
pub(crate) async fn over_websocket<IO: AsyncRead + AsyncWrite + Unpin>(
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
