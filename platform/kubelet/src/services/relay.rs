//! Two connections joined into one.
//!
//! Bytes go from socket to socket through a pipe and are never copied into this process. A pipe is taken from a shelf when there is
//! something to move, and put back when it has been moved: a connection at rest holds none.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::pipe2;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// How much is moved at once.
const BATCH: usize = 1 << 20;
/// How many pipes wait for their next use.
const SHELVED: usize = 32;
/// A peer that vanished without a word is found out after this much silence, and this many questions.
const SILENCE: Duration = Duration::from_secs(30);
const QUESTION: Duration = Duration::from_secs(10);
const QUESTIONS: u32 = 3;

/// Pipes that are empty.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    pipes: Mutex<Vec<Pipe>>,
}

#[derive(Debug)]
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

// === impl Shelf ===

impl Shelf {
    fn take(&self) -> io::Result<Pipe> {
        if let Some(pipe) = self.pipes.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(pipe);
        }
        let (read, write) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        // An ordinary user may be allowed less, and gets it.
        let _ = fcntl(write.as_fd(), FcntlArg::F_SETPIPE_SZ(BATCH as i32));
        Ok(Pipe { read, write })
    }

    fn put_back(&self, pipe: Pipe) {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        if pipes.len() < SHELVED {
            pipes.push(pipe);
        }
    }
}

/// Joins two connections until both have ended. Each direction ends by itself: whoever has nothing more to say may still listen. A
/// connection that breaks takes the other one with it.
pub(super) async fn join(one: &TcpStream, other: &TcpStream, shelf: &Shelf) -> io::Result<()> {
    for stream in [one, other] {
        stream.set_nodelay(true)?;
        watch_over(stream)?;
    }
    let outcome = tokio::try_join!(pass(one, other, shelf), pass(other, one, shelf));
    if outcome.is_err() {
        reset(one);
        reset(other);
    }
    outcome.map(|_| ())
}

/// Makes the end of a connection a reset instead of an orderly one, so that its peer knows that something is missing.
pub(super) fn reset(stream: &TcpStream) {
    // It may be gone already, and then its peer knows.
    let _ = stream.set_zero_linger();
}

/// One direction.
async fn pass(from: &TcpStream, to: &TcpStream, shelf: &Shelf) -> io::Result<()> {
    loop {
        from.readable().await?;
        let pipe = shelf.take()?;
        let ended = move_all(from, to, &pipe).await?;
        // Only an empty pipe comes here: an error above has dropped it.
        shelf.put_back(pipe);
        if ended {
            return finish(to);
        }
    }
}

/// Moves what is there until there is no more for now. Answers whether there never will be.
async fn move_all(from: &TcpStream, to: &TcpStream, pipe: &Pipe) -> io::Result<bool> {
    let flags = SpliceFFlags::SPLICE_F_MOVE | SpliceFFlags::SPLICE_F_NONBLOCK;
    loop {
        let taken = from
            .try_io(Interest::READABLE, || Ok(splice(from.as_fd(), None, &pipe.write, None, BATCH, flags)?));
        let mut left = match taken {
            Ok(0) => return Ok(true),
            Ok(taken) => taken,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        while left > 0 {
            let moved = to.async_io(Interest::WRITABLE, || {
                Ok(splice(&pipe.read, None, to.as_fd(), None, left, flags)?)
            });
            match moved.await {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(moved) => left -= moved,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // A connection that is never at rest must let the others have their turn.
        tokio::task::coop::consume_budget().await;
    }
}

/// Says that there will be no more, and leaves the other direction as it is.
fn finish(stream: &TcpStream) -> io::Result<()> {
    use nix::sys::socket::{Shutdown, shutdown};
    use std::os::fd::AsRawFd as _;

    match shutdown(stream.as_raw_fd(), Shutdown::Write) {
        // The other side is gone altogether, which the other direction finds out by itself.
        Ok(()) | Err(nix::errno::Errno::ENOTCONN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Has the kernel ask a peer that says nothing whether it is still there.
fn watch_over(stream: &TcpStream) -> io::Result<()> {
    let seconds = |duration: Duration| u32::try_from(duration.as_secs()).unwrap_or(u32::MAX);
    setsockopt(stream, sockopt::KeepAlive, &true)?;
    setsockopt(stream, sockopt::TcpKeepIdle, &seconds(SILENCE))?;
    setsockopt(stream, sockopt::TcpKeepInterval, &seconds(QUESTION))?;
    // Nothing shorter than the kernel's own limit while something is under way: a peer may take its time to read.
    setsockopt(stream, sockopt::TcpKeepCount, &QUESTIONS)?;
    Ok(())
}
