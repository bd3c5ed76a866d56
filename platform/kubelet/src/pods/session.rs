//! One conversation with a pod's shim, for as long as somebody is at a program in the pod.
//!
//! It has a connection of its own: what goes with it are descriptors, and what was asked for ends with it.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader, Interest, Lines};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::descriptor;
use crate::shim::protocol::{Envelope, Message, Outcome, Request};

/// How long a shim may take to hand something out.
const PATIENCE: Duration = Duration::from_secs(20);

/// A conversation. Dropping it ends what was asked for.
pub(crate) struct Session {
    lines: Lines<BufReader<UnixStream>>,
    /// Heard while something else was waited for.
    heard: Option<Outcome>,
}

impl Session {
    /// Asks the shim of a pod for something, with descriptors beside the request.
    pub(crate) async fn ask(
        folder: &Path,
        request: Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<Self> {
        let path = folder.join("shim.sock");
        let stream = timeout(PATIENCE, pilothouse_kubelet_api::connect_unix(&path)).await??;
        let mut line = serde_json::to_vec(&Envelope { id: 0, request })?;
        line.push(b'\n');
        let (mut rest, mut descriptors) = (line.as_slice(), descriptors);
        while !rest.is_empty() {
            let sending = || descriptor::send(stream.as_fd(), rest, descriptors);
            let sent = timeout(PATIENCE, stream.async_io(Interest::WRITABLE, sending)).await??;
            descriptors = &[];
            rest = &rest[sent..];
        }
        Ok(Self { lines: BufReader::new(stream).lines(), heard: None })
    }

    /// What came of it, which may take for ever.
    pub(crate) async fn outcome(&mut self) -> io::Result<Outcome> {
        if let Some(outcome) = self.heard.take() {
            return Ok(outcome);
        }
        loop {
            let Some(line) = self.lines.next_line().await? else {
                return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the pod has ended"));
            };
            if let Message::Answer { outcome, .. } = serde_json::from_str(&line)? {
                return Ok(outcome);
            }
        }
    }

    /// What the shim hands out through the other end of a socket that went along.
    pub(crate) async fn take(&mut self, socket: UnixStream) -> io::Result<Taken> {
        let mut descriptors = Vec::new();
        loop {
            tokio::select! {
                biased;
                readable = timeout(PATIENCE, socket.readable()) => {
                    readable??;
                    let take = || descriptor::receive(socket.as_fd(), &mut [0], &mut descriptors);
                    match socket.try_io(Interest::READABLE, take) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                        received => received?,
                    };
                }
                outcome = self.outcome() => {
                    let outcome = outcome?;
                    // Handed out before the outcome was told, and perhaps not yet noticed.
                    let _ = descriptor::receive(socket.as_fd(), &mut [0], &mut descriptors);
                    if descriptors.is_empty() {
                        return Ok(Taken::Outcome(outcome));
                    }
                    self.heard = Some(outcome);
                }
            }
            break;
        }
        Ok(descriptors.pop().map_or(Taken::Nothing, Taken::Descriptor))
    }
}

/// What came of waiting for a descriptor.
pub(crate) enum Taken {
    Descriptor(OwnedFd),
    /// The other end was closed: there is none to be had.
    Nothing,
    /// It was over before.
    Outcome(Outcome),
}
