//! The part of SPDY/3.1 that Kubernetes uses: streams that the client opens, with headers, and data both ways.
//!
//! Neither side of it has ever used flow control, priorities or settings; those frames are read and passed over. What keeps
//! a fast client from filling our memory is that nothing more is read while a stream's queue is full.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

use super::{PIECE, QUEUE};

mod frame;
mod headers;
pub(crate) mod visit;

use frame::{Control, Head, Sent};
pub(crate) use headers::Headers;

/// More streams at once are refused: two for each forwarded connection, five for a program.
const MOST_STREAMS: usize = 1024;

/// How long a client may take to hear the rest.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// A stream that the client has opened.
pub(crate) struct Stream {
    pub(crate) headers: Headers,
    /// What comes. Ends when the client ends its half, or resets the stream, or is gone.
    pub(crate) input: mpsc::Receiver<Bytes>,
    pub(crate) output: Writer,
}

/// Our half of a stream.
#[derive(Clone)]
pub(crate) struct Writer {
    id: u32,
    frames: mpsc::Sender<Sent>,
}

impl Writer {
    /// # Errors
    ///
    /// When the connection is over.
    pub(crate) async fn send(&self, data: Bytes) -> io::Result<()> {
        self.put(Sent::Data { id: self.id, data, last: false }).await
    }

    /// Ends our half.
    pub(crate) async fn finish(&self) -> io::Result<()> {
        self.put(Sent::Data { id: self.id, data: Bytes::new(), last: true }).await
    }

    /// Ends both halves at once.
    pub(crate) async fn reset(&self) -> io::Result<()> {
        self.put(Sent::Reset { id: self.id }).await
    }

    async fn put(&self, frame: Sent) -> io::Result<()> {
        self.frames.send(frame).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// A connection that speaks it.
pub(crate) struct Connection<IO> {
    reading: Reading<IO>,
    writing: Writing<IO>,
}

struct Reading<IO> {
    io: ReadHalf<IO>,
    inflater: headers::Inflater,
    streams: HashMap<u32, mpsc::Sender<Bytes>>,
    opened: mpsc::Sender<Stream>,
    frames: mpsc::Sender<Sent>,
}

struct Writing<IO> {
    io: WriteHalf<IO>,
    deflater: headers::Deflater,
    frames: mpsc::Receiver<Sent>,
}

impl<IO: AsyncRead + AsyncWrite> Connection<IO> {
    /// A connection, and the streams that clients open on it.
    pub(crate) fn new(io: IO) -> io::Result<(Self, mpsc::Receiver<Stream>)> {
        let (read, write) = tokio::io::split(io);
        let (frames_tx, frames_rx) = mpsc::channel(QUEUE);
        let (opened_tx, opened_rx) = mpsc::channel(QUEUE);
        let reading = Reading {
            io: read,
            inflater: headers::Inflater::new(),
            streams: HashMap::new(),
            opened: opened_tx,
            frames: frames_tx,
        };
        let writing = Writing { io: write, deflater: headers::Deflater::try_new()?, frames: frames_rx };
        Ok((Self { reading, writing }, opened_rx))
    }

    /// Carries frames for a session until that has ended, or the client is gone, with whom the session ends.
    pub(crate) async fn run(self, session: impl Future<Output = ()>) -> io::Result<()> {
        let Self { reading, writing } = self;
        let mut writing = std::pin::pin!(writing.run());
        tokio::select! {
            biased;
            () = session => {}
            ended = reading.run() => ended?,
            ended = &mut writing => return ended,
        }
        // What is on its way still goes.
        tokio::time::timeout(LAST_WORDS, writing).await?
    }
}

impl<IO: AsyncRead> Reading<IO> {
    async fn run(mut self) -> io::Result<()> {
        loop {
            let mut head = [0; Head::LENGTH];
            match self.io.read_exact(&mut head).await {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                read => read?,
            };
            match Head::parse(head) {
                Head::Data { id, last, length } => self.data(id, last, length).await?,
                Head::Control { kind, last, length } => {
                    let mut payload = vec![0; frame::control_length(length)?];
                    self.io.read_exact(&mut payload).await?;
                    let control = Control::parse(kind, last, &payload, &mut self.inflater)?;
                    if !self.control(control).await? {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn data(&mut self, id: u32, last: bool, length: usize) -> io::Result<()> {
        let mut left = length;
        while left > 0 {
            let mut piece = vec![0; left.min(PIECE)];
            self.io.read_exact(&mut piece).await?;
            left -= piece.len();
            // Nobody is interested any more: the rest of the stream is passed over.
            if let Some(stream) = self.streams.get(&id)
                && stream.send(piece.into()).await.is_err()
            {
                self.streams.remove(&id);
            }
        }
        if last {
            self.streams.remove(&id);
        }
        Ok(())
    }

    /// Answers whether there is more to come.
    async fn control(&mut self, control: Control) -> io::Result<bool> {
        let over = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        match control {
            Control::Open { id, last, headers } => {
                self.streams.retain(|_, stream| !stream.is_closed());
                if self.streams.len() >= MOST_STREAMS {
                    self.frames.send(Sent::Reset { id }).await.map_err(over)?;
                    return Ok(true);
                }
                let (input_tx, input_rx) = mpsc::channel(QUEUE);
                if !last {
                    self.streams.insert(id, input_tx);
                }
                self.frames.send(Sent::Reply { id }).await.map_err(over)?;
                let output = Writer { id, frames: self.frames.clone() };
                let stream = Stream { headers, input: input_rx, output };
                return Ok(self.opened.send(stream).await.is_ok());
            }
            Control::Reset { id } => drop(self.streams.remove(&id)),
            Control::Ping { id } => self.frames.send(Sent::Ping { id }).await.map_err(over)?,
            Control::GoAway => return Ok(false),
            Control::Other => {}
        }
        Ok(true)
    }
}

impl<IO: AsyncWrite> Writing<IO> {
    async fn run(mut self) -> io::Result<()> {
        while let Some(frame) = self.frames.recv().await {
            let head = frame.head(&mut self.deflater)?;
            self.io.write_all(&head).await?;
            if let Sent::Data { data, .. } = frame {
                self.io.write_all(&data).await?;
            }
            if self.frames.is_empty() {
                self.io.flush().await?;
            }
        }
        self.io.shutdown().await
    }
}

#[cfg(test)]
mod tests;
