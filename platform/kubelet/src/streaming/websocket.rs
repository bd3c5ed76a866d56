//! Streams in websockets: the first byte of every message is the number of a stream.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf as _, Bytes};
use futures::stream::{SplitSink, SplitStream};
use futures::{Sink as _, SinkExt as _, Stream as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};

use super::{Output, Seat};
use crate::shim::protocol::Streams;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// Ends the stream whose number follows. Since the fifth version of the protocol.
const CLOSE: u8 = 255;
/// Clients send what they read at once, which is much less.
const LARGEST: usize = 4 << 20;

/// What proves that the answer to a handshake was made for it.
pub(crate) fn accept(key: &str) -> String {
    const PROTOCOL: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{PROTOCOL}").as_bytes());
    STANDARD.encode(hash)
}

pub(crate) async fn open<IO: AsyncRead + AsyncWrite + Unpin>(io: IO) -> WebSocketStream<IO> {
    let config = WebSocketConfig::default().max_message_size(Some(LARGEST)).max_frame_size(Some(LARGEST));
    WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await
}

/// Carries a visitor's streams until the session has ended or the client is gone.
pub(crate) async fn serve<IO: AsyncRead + AsyncWrite + Unpin>(
    socket: WebSocketStream<IO>,
    streams: Streams,
    seat: Seat,
    session: impl Future<Output = ()>,
) -> io::Result<()> {
    let (mut sink, stream) = socket.split();
    let Seat { input, window, mut output } = seat;
    // Tells the client that it is connected.
    let first = if streams.stdout {
        STDOUT
    } else if streams.stderr {
        STDERR
    } else {
        ERROR
    };
    send(&mut sink, first, &[]).await?;
    let listening = async {
        let mut input = Some(input).filter(|_| streams.stdin);
        read(
            stream,
            |number, bytes| match number {
                STDIN => Taken::Input(bytes),
                CLOSE if bytes.first() == Some(&STDIN) => Taken::End,
                RESIZE => {
                    if let Ok(size) = serde_json::from_slice(&bytes) {
                        window.send_replace(Some(size));
                    }
                    Taken::Done
                }
                _ => Taken::Done,
            },
            &mut input,
        )
        .await
    };
    let speaking = async {
        while let Some(said) = output.recv().await {
            match said {
                Output::Stdout(bytes) => send(&mut sink, STDOUT, &bytes).await?,
                Output::Stderr(bytes) => send(&mut sink, STDERR, &bytes).await?,
                Output::Over(status) => send(&mut sink, ERROR, status.to_string().as_bytes()).await?,
            }
        }
        // Everything has been said.
        let close = CloseFrame { code: 1000.into(), reason: "".into() };
        sink.send(Message::Close(Some(close))).await.map_err(broken)
    };
    carry(listening, speaking, session).await
}

/// Runs a session between somebody who listens and somebody who speaks. Who listens ends when the client is gone, and the session
/// with them; who speaks ends when all has been said.
pub(crate) async fn carry(
    listening: impl Future<Output = io::Result<()>>,
    speaking: impl Future<Output = io::Result<()>>,
    session: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut speaking = std::pin::pin!(speaking);
    let mut listening = std::pin::pin!(listening);
    tokio::select! {
        ended = &mut listening => return ended,
        ended = &mut speaking => return ended,
        () = session => {}
    }
    tokio::select! {
        // Still heard: answers to pings, and a client's going.
        ended = &mut listening => ended,
        ended = &mut speaking => ended,
    }
}

enum Taken {
    Input(Bytes),
    End,
    Done,
}

async fn read<IO: AsyncRead + AsyncWrite + Unpin>(
    mut stream: SplitStream<WebSocketStream<IO>>,
    mut take: impl FnMut(u8, Bytes) -> Taken,
    input: &mut Option<tokio::sync::mpsc::Sender<Bytes>>,
) -> io::Result<()> {
    while let Some((number, bytes)) = next(&mut stream).await? {
        match take(number, bytes) {
            Taken::Input(bytes) => {
                if let Some(open) = input
                    && open.send(bytes).await.is_err()
                {
                    *input = None;
                }
            }
            Taken::End => *input = None,
            Taken::Done => {}
        }
    }
    Ok(())
}

/// The next message: the number of its stream, and the rest. Nothing once the client is gone.
pub(crate) async fn next<IO: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut SplitStream<WebSocketStream<IO>>,
) -> io::Result<Option<(u8, Bytes)>> {
    while let Some(message) = stream.next().await {
        let mut bytes = match message {
            Ok(Message::Binary(bytes)) => bytes,
            Ok(Message::Text(text)) => Bytes::copy_from_slice(text.as_bytes()),
            Ok(Message::Close(_)) => return Ok(None),
            Ok(_) => continue,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(broken(error)),
        };
        if let Some(number) = bytes.first().copied() {
            bytes.advance(1);
            return Ok(Some((number, bytes)));
        }
    }
    Ok(None)
}

pub(crate) async fn send<IO: AsyncRead + AsyncWrite + Unpin>(
    sink: &mut SplitSink<WebSocketStream<IO>, Message>,
    number: u8,
    bytes: &[u8],
) -> io::Result<()> {
    sink.send(Message::Binary([&[number], bytes].concat().into())).await.map_err(broken)
}

fn is_gone(error: &tungstenite::Error) -> bool {
    matches!(
        error,
        tungstenite::Error::ConnectionClosed
            | tungstenite::Error::AlreadyClosed
            | tungstenite::Error::Io(_)
            | tungstenite::Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake)
    )
}

fn broken(error: tungstenite::Error) -> io::Error {
    match error {
        tungstenite::Error::Io(error) => error,
        other => io::Error::other(other),
    }
}

/// Bytes of another protocol in the messages of a websocket.
pub(crate) struct Tunnel<IO> {
    socket: WebSocketStream<IO>,
    received: Bytes,
}

impl<IO> Tunnel<IO> {
    pub(crate) fn new(socket: WebSocketStream<IO>) -> Self {
        Self { socket, received: Bytes::new() }
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for Tunnel<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.received.is_empty() {
            match ready!(Pin::new(&mut self.socket).poll_next(context)) {
                Some(Ok(Message::Binary(bytes))) => self.received = bytes,
                None | Some(Ok(Message::Close(_))) => return Poll::Ready(Ok(())),
                Some(Ok(_)) => {}
                Some(Err(error)) if is_gone(&error) => return Poll::Ready(Ok(())),
                Some(Err(error)) => return Poll::Ready(Err(broken(error))),
            }
        }
        let count = self.received.len().min(buffer.remaining());
        buffer.put_slice(&self.received.split_to(count));
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Tunnel<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(Pin::new(&mut self.socket).poll_ready(context)).map_err(broken)?;
        let message = Message::Binary(Bytes::copy_from_slice(bytes));
        Pin::new(&mut self.socket).start_send(message).map_err(broken)?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context).map_err(broken)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(Pin::new(&mut self.socket).poll_close(context)) {
            Err(error) if !is_gone(&error) => Poll::Ready(Err(broken(error))),
            _ => Poll::Ready(Ok(())),
        }
    }
}
