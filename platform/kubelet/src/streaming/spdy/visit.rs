//! A visitor over SPDY: one stream for each of theirs, named by a header.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::{Stream, Writer};
use crate::shim::protocol::Streams;
use crate::streaming::{Output, Seat, Window};

/// How long a client may take to open its streams.
const PATIENCE: Duration = Duration::from_secs(30);
/// A size takes some thirty bytes.
const LARGEST_SIZE: usize = 4096;

#[derive(Default)]
struct Opened {
    error: Option<Stream>,
    stdin: Option<Stream>,
    stdout: Option<Stream>,
    stderr: Option<Stream>,
    resize: Option<Stream>,
}

/// Carries a visitor's streams until the session has ended and all of it has been said.
pub(crate) async fn serve(
    mut streams: mpsc::Receiver<Stream>,
    wanted: Streams,
    terminal: bool,
    seat: Seat,
    session: impl Future<Output = ()>,
) -> io::Result<()> {
    let opened = timeout(PATIENCE, all(&mut streams, wanted, terminal)).await??;
    let Seat { input, window, mut output } = seat;
    let (stdin, resize) = (opened.stdin.map(|one| one.input), opened.resize.map(|one| one.input));
    let typing = async {
        if let Some(mut stdin) = stdin {
            while let Some(bytes) = stdin.recv().await {
                if input.send(bytes).await.is_err() {
                    break;
                }
            }
        }
        // The end of the input is heard; the end of this is not.
        drop(input);
        std::future::pending::<io::Result<()>>().await
    };
    let resizing = async {
        if let Some(resize) = resize {
            follow(resize, &window).await;
        }
        std::future::pending::<io::Result<()>>().await
    };
    let [error, stdout, stderr] =
        [opened.error, opened.stdout, opened.stderr].map(|one| one.map(|one| one.output));
    let speaking = async {
        while let Some(said) = output.recv().await {
            let (stream, bytes) = match said {
                Output::Stdout(bytes) => (&stdout, bytes),
                Output::Stderr(bytes) => (&stderr, bytes),
                Output::Over(status) => (&error, Bytes::from(status.to_string())),
            };
            if let Some(stream) = stream {
                stream.send(bytes).await?;
            }
        }
        for stream in [&stdout, &stderr, &error].into_iter().flatten() {
            Writer::finish(stream).await?;
        }
        Ok(())
    };
    let session = async {
        session.await;
        std::future::pending::<io::Result<()>>().await
    };
    tokio::select! {
        ended = speaking => ended,
        ended = session => ended,
        ended = typing => ended,
        ended = resizing => ended,
    }
}

async fn all(streams: &mut mpsc::Receiver<Stream>, wanted: Streams, terminal: bool) -> io::Result<Opened> {
    let mut opened = Opened::default();
    let complete = |opened: &Opened| {
        opened.error.is_some()
            && opened.stdin.is_some() == wanted.stdin
            && opened.stdout.is_some() == wanted.stdout
            && opened.stderr.is_some() == wanted.stderr
            && opened.resize.is_some() == terminal
    };
    while !complete(&opened) {
        let stream = streams.recv().await.ok_or(io::ErrorKind::UnexpectedEof)?;
        let place = match stream.headers.get("streamtype") {
            Some("error") => &mut opened.error,
            Some("stdin") => &mut opened.stdin,
            Some("stdout") => &mut opened.stdout,
            Some("stderr") => &mut opened.stderr,
            Some("resize") => &mut opened.resize,
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "a stream is of no known type")),
        };
        *place = Some(stream);
    }
    Ok(opened)
}

/// One size after the other, without anything in between.
async fn follow(mut sizes: mpsc::Receiver<Bytes>, window: &watch::Sender<Option<Window>>) {
    let mut received = BytesMut::new();
    while let Some(bytes) = sizes.recv().await {
        received.extend_from_slice(&bytes);
        let mut parsed = serde_json::Deserializer::from_slice(&received).into_iter::<Window>();
        while let Some(Ok(size)) = parsed.next() {
            window.send_replace(Some(size));
        }
        let used = parsed.byte_offset();
        let _ = received.split_to(used);
        if received.len() > LARGEST_SIZE {
            return;
        }
    }
}
