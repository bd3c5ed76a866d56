//! Descriptors: waiting for those that Tokio has no type for, and handing them to other processes.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use nix::cmsg_space;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// As many as ever travel together: the three streams of a program.
const MOST: usize = 3;

/// A descriptor whose readability can be waited for.
pub(crate) fn readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    register(descriptor, Interest::READABLE)
}

/// A descriptor that can be waited for in both directions.
pub(crate) fn both_ways(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    register(descriptor, Interest::READABLE | Interest::WRITABLE)
}

#[expect(unsafe_code, reason = "Tokio cannot know that an owned descriptor stays what it is")]
fn register(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an owned descriptor is open, belongs to nobody else, and stays the same until it is dropped.
    let registered = unsafe { AsyncFd::register_with_interest(descriptor, interest) };
    registered.map_err(|error| error.into_parts().1)
}

/// Makes reads and writes answer at once.
pub(crate) fn unblock(descriptor: &OwnedFd) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(descriptor, FcntlArg::F_GETFL)?);
    fcntl(descriptor, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

/// Sends bytes on a Unix socket, with descriptors beside the first. Answers how many bytes went.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let numbers: Vec<_> = descriptors.iter().map(|descriptor| descriptor.as_raw_fd()).collect();
    let rights = [ControlMessage::ScmRights(&numbers)];
    let messages = if numbers.is_empty() { &rights[..0] } else { &rights[..] };
    let slices = [IoSlice::new(bytes)];
    Ok(sendmsg::<()>(socket.as_raw_fd(), &slices, messages, MsgFlags::MSG_NOSIGNAL, None)?)
}

/// Reads from a Unix socket, and takes the descriptors that came along. 0 is the end.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut space = cmsg_space!([RawFd; MOST]);
    let mut slices = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut slices, Some(&mut space), flags)?;
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(received) = control {
            descriptors.extend(received.into_iter().map(own));
        }
    }
    Ok(message.bytes)
}

#[expect(unsafe_code, reason = "the kernel hands descriptors over as numbers")]
fn own(descriptor: RawFd) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor for this process, and nobody else has seen the number.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}
