//! What containers print, on its way into their logs and to whoever is attached.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::unistd::{read, write};

use super::logs::{Log, Stream};
use crate::descriptor;
use crate::failure::{Doing, Failure};

/// The streams of a container, stdout and stderr, and where they go.
#[derive(Debug)]
pub(super) struct Output {
    log: Log,
    streams: [(Option<OwnedFd>, Stream); 2],
    attached: Vec<Attached>,
}

/// Somebody who sees what a container prints as it comes.
#[derive(Debug)]
pub(super) struct Attached {
    /// Whom to tell when it is over.
    pub(super) connection: u64,
    pub(super) id: u64,
    sinks: [Option<OwnedFd>; 2],
    /// Read from the container and not yet taken by the sink. As long as there is any, nothing more is read.
    unsent: [Vec<u8>; 2],
}

impl Attached {
    pub(super) fn new(connection: u64, id: u64, sinks: [Option<OwnedFd>; 2]) -> Result<Self, Failure> {
        for sink in sinks.iter().flatten() {
            unblock(sink)?;
        }
        Ok(Self { connection, id, sinks, unsent: [Vec::new(), Vec::new()] })
    }

    fn put(&mut self, index: usize, bytes: &[u8]) {
        if self.sinks[index].is_some() {
            self.unsent[index].extend_from_slice(bytes);
            self.flush(index);
        }
    }

    fn flush(&mut self, index: usize) {
        while let (Some(sink), false) = (&self.sinks[index], self.unsent[index].is_empty()) {
            match write(sink, &self.unsent[index]) {
                Ok(count) => drop(self.unsent[index].drain(..count)),
                Err(Errno::EAGAIN) => return,
                Err(Errno::EINTR) => {}
                // Nobody takes it any more.
                Err(_) => {
                    self.sinks[index] = None;
                    self.unsent[index] = Vec::new();
                }
            }
        }
    }
}

// === impl Output ===

impl Output {
    /// From a terminal there is only the first stream.
    pub(super) fn new(log: Log, stdout: OwnedFd, stderr: Option<OwnedFd>) -> Result<Self, Failure> {
        for descriptor in [Some(&stdout), stderr.as_ref()].into_iter().flatten() {
            unblock(descriptor)?;
        }
        let streams = [(Some(stdout), Stream::new("stdout")), (stderr, Stream::new("stderr"))];
        Ok(Self { log, streams, attached: Vec::new() })
    }

    pub(super) fn attach(&mut self, attached: Attached) {
        self.attached.push(attached);
    }

    /// Lets go of whoever came through a connection.
    pub(super) fn detach(&mut self, connection: u64) {
        self.attached.retain(|attached| attached.connection != connection);
    }

    /// What there may be something to read from.
    pub(super) fn readable(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let open = self.streams.iter().enumerate().filter(|(index, _)| !self.is_stuck(*index));
        open.filter_map(|(_, (descriptor, _))| descriptor.as_ref().map(|open| open.as_fd()))
    }

    /// What waits until it can be written to.
    pub(super) fn writable(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.attached.iter().flat_map(|attached| {
            let pairs = attached.sinks.iter().zip(&attached.unsent);
            pairs
                .filter(|(_, unsent)| !unsent.is_empty())
                .filter_map(|(sink, _)| Some(sink.as_ref()?.as_fd()))
        })
    }

    /// Whether nobody can write any more, and all that was written has been taken.
    pub(super) fn is_over(&self) -> bool {
        self.streams.iter().all(|(descriptor, _)| descriptor.is_none())
            && !self.is_stuck(0)
            && !self.is_stuck(1)
    }

    /// Everybody who is to hear that it is over.
    pub(super) fn audience(&self) -> impl Iterator<Item = (u64, u64)> {
        self.attached.iter().map(|attached| (attached.connection, attached.id))
    }

    /// Copies what is there to be read, without waiting for more.
    pub(super) fn copy(&mut self) {
        let mut buffer = [0; 8192];
        for index in 0..self.streams.len() {
            for attached in &mut self.attached {
                attached.flush(index);
            }
            while !self.is_stuck(index) {
                let (descriptor, stream) = &mut self.streams[index];
                let Some(open) = descriptor else { break };
                match read(&*open, &mut buffer) {
                    Ok(0) => {
                        *descriptor = None;
                        let _ = stream.finish(&mut self.log);
                    }
                    Ok(count) => {
                        // A full disk loses lines, and stops nobody from running.
                        let _ = stream.take(&buffer[..count], &mut self.log);
                        for attached in &mut self.attached {
                            attached.put(index, &buffer[..count]);
                        }
                    }
                    Err(Errno::EINTR) => {}
                    Err(Errno::EAGAIN) => break,
                    // The end of a terminal.
                    Err(_) => {
                        *descriptor = None;
                        let _ = stream.finish(&mut self.log);
                    }
                }
            }
        }
    }

    fn is_stuck(&self, index: usize) -> bool {
        self.attached.iter().any(|attached| !attached.unsent[index].is_empty())
    }
}

fn unblock(descriptor: &OwnedFd) -> Result<(), Failure> {
    descriptor::unblock(descriptor).doing(|| "reading output".into())
}
