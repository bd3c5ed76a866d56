//! Lines, and descriptors beside them, on a Unix stream socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::cmsg_space;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::protocol::LONGEST_LINE;

/// Sends a line, with a descriptor beside its first byte.
pub(crate) async fn send(
    stream: &UnixStream,
    line: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut descriptor = descriptor.map(|descriptor| [descriptor.as_raw_fd()]);
    let mut rest = line;
    while !rest.is_empty() {
        let sent = stream
            .async_io(Interest::WRITABLE, || {
                let messages: Vec<_> =
                    descriptor.iter().map(|descriptors| ControlMessage::ScmRights(descriptors)).collect();
                let flags = MsgFlags::MSG_NOSIGNAL;
                Ok(sendmsg::<()>(stream.as_raw_fd(), &[IoSlice::new(rest)], &messages, flags, None)?)
            })
            .await?;
        descriptor = None;
        rest = &rest[sent..];
    }
    Ok(())
}

/// Reads up to the first newline, and takes the descriptor that came along.
pub(crate) async fn receive(stream: &UnixStream) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let mut line = Vec::new();
    let mut descriptor = None;
    loop {
        let mut buffer = [0_u8; LONGEST_LINE];
        let (count, received) =
            stream.async_io(Interest::READABLE, || receive_now(stream.as_raw_fd(), &mut buffer)).await?;
        // Several would be a mistake of the other side; all but the first are closed here.
        descriptor = descriptor.or_else(|| received.into_iter().next());
        if count == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the other side closed without an answer",
            ));
        }
        line.extend_from_slice(&buffer[..count]);
        if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            line.truncate(end);
            return Ok((line, descriptor));
        }
        if line.len() >= LONGEST_LINE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the other side does not end its line"));
        }
    }
}

fn receive_now(socket: RawFd, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = cmsg_space!([RawFd; 2]);
    let mut slices = [IoSliceMut::new(buffer)];
    let message = recvmsg::<()>(socket, &mut slices, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(received) = control {
            descriptors.extend(received.into_iter().map(own));
        }
    }
    Ok((message.bytes, descriptors))
}

#[expect(unsafe_code, reason = "the kernel hands descriptors over as numbers")]
fn own(descriptor: RawFd) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor for this process, and nobody else has seen the number.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}
