//! A visitor and a program in a container.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;
use nix::unistd::{pipe2, read, write};
use serde_json::Value;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{Output, PIECE, Visitor, Window, ended, failed};
use crate::descriptor;
use crate::pods::session::{Session, Taken};
use crate::shim::protocol::{Outcome, Request, Streams};

/// After a program at a terminal has ended, how long others may keep the terminal open.
const LINGER: Duration = Duration::from_secs(1);

/// The code of a program that was killed.
const KILLED: i32 = 137;

/// What a visitor wants to be at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) container: String,
    /// A program to run; without one, the container itself.
    pub(crate) command: Option<Vec<String>>,
    pub(crate) streams: Streams,
    pub(crate) terminal: bool,
}

/// Our ends of a program's streams.
#[derive(Default)]
struct Ends {
    input: Option<AsyncFd<OwnedFd>>,
    stdout: Option<AsyncFd<OwnedFd>>,
    stderr: Option<AsyncFd<OwnedFd>>,
}

/// Brings them together, until the program has ended. Dropping this is the visitor's going.
pub(crate) async fn run(folder: &Path, wanted: Wanted, visitor: Visitor) {
    let output = visitor.output.clone();
    // With a pod that ends, its programs are killed; and who was only attached has seen all there was.
    let (doing, code_at_end) = match wanted.command {
        Some(_) => ("error executing command in container", KILLED),
        None => ("error attaching to container", 0),
    };
    let status = match meet(folder, wanted, visitor).await {
        Ok(status) => status,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ended(code_at_end),
        Err(error) => failed(&format!("{doing}: {error}")),
    };
    // One who is gone does not hear of it.
    let _ = output.send(Output::Over(status)).await;
}

async fn meet(folder: &Path, wanted: Wanted, visitor: Visitor) -> io::Result<Value> {
    let Wanted { container, command, streams, terminal } = wanted;
    let mut ends = Ends::default();
    let mut theirs: Vec<OwnedFd> = Vec::new();
    let attaches = command.is_none();
    if streams.stdin && !attaches && !terminal {
        let (reading, writing) = pipe2(OFlag::O_CLOEXEC)?;
        theirs.push(reading);
        ends.input = Some(both_ways(writing)?);
    }
    for (is_wanted, end) in [(streams.stdout, &mut ends.stdout), (streams.stderr, &mut ends.stderr)] {
        if is_wanted && (attaches || !terminal) {
            let (reading, writing) = pipe2(OFlag::O_CLOEXEC)?;
            theirs.push(writing);
            *end = Some(both_ways(reading)?);
        }
    }
    // What comes from the other side: the terminal, or where the container reads from.
    let handed = if terminal || (attaches && streams.stdin) {
        let (ours, other) = UnixStream::pair()?;
        theirs.push(OwnedFd::from(other.into_std()?));
        Some(ours)
    } else {
        None
    };
    let request = match command {
        Some(command) => Request::Run { container, command, terminal, streams },
        // The window of a terminal is changed where its input goes.
        None => Request::Attach { container, streams: Streams { stdin: handed.is_some(), ..streams } },
    };
    let borrowed: Vec<_> = theirs.iter().map(|one| one.as_fd()).collect();
    let mut session = Session::ask(folder, request, &borrowed).await?;
    drop(theirs);
    if let Some(socket) = handed {
        match session.take(socket).await? {
            Taken::Descriptor(descriptor) if attaches => ends.input = Some(both_ways(descriptor)?),
            Taken::Descriptor(descriptor) => {
                ends.stdout = Some(both_ways(descriptor.try_clone()?)?);
                ends.input = Some(both_ways(descriptor)?);
            }
            Taken::Nothing => {}
            Taken::Outcome(outcome) => return status_of(outcome),
        }
    }
    converse(session, ends, visitor, terminal, streams.stdin).await
}

/// Carries what is said between the two until the program has ended and all it said has gone.
async fn converse(
    mut session: Session,
    ends: Ends,
    visitor: Visitor,
    terminal: bool,
    reads: bool,
) -> io::Result<Value> {
    let Visitor { input, window, output } = visitor;
    let over = CancellationToken::new();
    let Ends { input: stdin, stdout, stderr } = ends;
    // Windows may change after the input has ended, so a terminal is kept; a pipe is closed, which is how a program sees the
    // end of its input.
    let (controller, stdin) = if terminal { (stdin, None) } else { (None, stdin) };
    let typing = async {
        match &controller {
            Some(controller) => type_into(Some(controller), input, reads).await,
            None => {
                let stdin = stdin;
                type_into(stdin.as_ref(), input, reads).await;
            }
        }
        pending::<Infallible>().await
    };
    let resizing = resize(controller.as_ref(), window);
    let working = async {
        let ending = async {
            let outcome = session.outcome().await;
            over.cancel();
            outcome
        };
        let wrap: [fn(Bytes) -> Output; 2] = [Output::Stdout, Output::Stderr];
        let copying = |end, index: usize| copy(end, &output, wrap[index], &over, terminal);
        let (outcome, (), ()) = tokio::join!(ending, copying(stdout, 0), copying(stderr, 1));
        outcome
    };
    let outcome: io::Result<Outcome> = tokio::select! {
        outcome = working => outcome,
        never = typing => match never {},
        never = resizing => match never {},
    };
    status_of(outcome?)
}

/// Passes on what a visitor types. What nobody reads is thrown away, as by a closed pipe.
async fn type_into(end: Option<&AsyncFd<OwnedFd>>, mut input: mpsc::Receiver<Bytes>, reads: bool) {
    let mut end = end.filter(|_| reads);
    while let Some(bytes) = input.recv().await {
        if let Some(open) = end
            && put(open, &bytes).await.is_err()
        {
            end = None;
        }
    }
}

async fn put(end: &AsyncFd<OwnedFd>, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let mut ready = end.writable().await?;
        match ready.try_io(|end| Ok(write(end.get_ref(), rest)?)) {
            Ok(written) => rest = &rest[written?..],
            Err(_would_block) => {}
        }
    }
    Ok(())
}

/// Copies what a program says, until it says nothing more or is over.
async fn copy(
    end: Option<AsyncFd<OwnedFd>>,
    output: &mpsc::Sender<Output>,
    wrap: fn(Bytes) -> Output,
    over: &CancellationToken,
    terminal: bool,
) {
    let Some(end) = end else { return };
    let mut buffer = vec![0; PIECE];
    let gone = async {
        over.cancelled().await;
        if terminal {
            // What was written to a terminal arrives a moment later, but before its end does.
            tokio::time::sleep(LINGER).await;
        }
    };
    let mut gone = std::pin::pin!(gone);
    let mut is_over = false;
    loop {
        let count = if is_over {
            // All that the program wrote is there, whether or not Tokio has heard of it.
            read(end.get_ref(), &mut buffer).map_err(io::Error::from)
        } else {
            tokio::select! {
                biased;
                ready = end.readable() => match ready.map(|mut ready| ready.try_io(|end| Ok(read(end.get_ref(), &mut buffer)?))) {
                    Ok(Ok(count)) => count,
                    Ok(Err(_would_block)) => continue,
                    Err(error) => Err(error),
                },
                () = &mut gone => {
                    is_over = true;
                    continue;
                }
            }
        };
        match count {
            // The end of a terminal is an error.
            Ok(0) | Err(_) => return,
            Ok(count) => {
                if output.send(wrap(Bytes::copy_from_slice(&buffer[..count]))).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn resize(
    controller: Option<&AsyncFd<OwnedFd>>,
    mut window: watch::Receiver<Option<Window>>,
) -> Infallible {
    while let (Some(controller), Ok(())) = (controller, window.changed().await) {
        let wanted = *window.borrow_and_update();
        if let Some(wanted) = wanted {
            // A terminal that is gone has no window.
            let _ = set_window(controller.get_ref(), wanted);
        }
    }
    pending().await
}

#[expect(unsafe_code, reason = "there is no wrapper for this request")]
fn set_window(terminal: &OwnedFd, window: Window) -> nix::Result<()> {
    let size = libc::winsize { ws_row: window.height, ws_col: window.width, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the structure is the one this request reads, and outlives the call.
    let set = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    Errno::result(set).map(drop)
}

fn both_ways(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    descriptor::unblock(&descriptor)?;
    descriptor::both_ways(descriptor)
}

fn status_of(outcome: Outcome) -> io::Result<Value> {
    match outcome {
        Outcome::Exited(code) => Ok(ended(code)),
        Outcome::Done => Ok(ended(0)),
        Outcome::Refused(why) => Err(io::Error::other(why)),
    }
}
