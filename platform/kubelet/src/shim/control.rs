//! Connections of kubelets.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use super::protocol::{Envelope, Message};
use crate::descriptor;

/// More than this unread means that nobody reads.
const LARGEST_BACKLOG: usize = 8 << 20;

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) number: u64,
    pub(super) stream: UnixStream,
    received: Vec<u8>,
    /// What came beside the requests and was not taken yet.
    pub(super) descriptors: Vec<OwnedFd>,
    unsent: VecDeque<u8>,
}

impl Connection {
    pub(super) fn new(number: u64, stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { number, stream, received: Vec::new(), descriptors: Vec::new(), unsent: VecDeque::new() })
    }

    /// What was asked since the last time.
    ///
    /// # Errors
    ///
    /// When the other side is gone or speaks something else; the connection is then to be dropped.
    pub(super) fn receive(&mut self) -> io::Result<Vec<Envelope>> {
        let mut buffer = [0; 8192];
        loop {
            match descriptor::receive(self.stream.as_fd(), &mut buffer, &mut self.descriptors) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.received.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let mut envelopes = Vec::new();
        while let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
            envelopes.push(serde_json::from_slice(&self.received[..end])?);
            self.received.drain(..=end);
        }
        Ok(envelopes)
    }

    pub(super) fn send(&mut self, message: &Message) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.unsent.extend(line);
        self.flush()
    }

    /// Sends on what could not be sent at once.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            let (front, _) = self.unsent.as_slices();
            match self.stream.write(front) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.unsent.len() > LARGEST_BACKLOG {
            return Err(io::Error::other("nobody reads"));
        }
        Ok(())
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }
}
