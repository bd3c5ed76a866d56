//! Connections that are watched only once somebody has to wait for them.
//!
//! To have a connection watched costs calls into the kernel and a turn of the reactor. Mostly there is nothing to wait for at
//! first: what a client says is there when it is accepted, and an endpoint nearby is connected by the time that it is spoken
//! to. So that is tried, and whoever is not that fast is waited for as usual.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsRawFd as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use mio::net as unwatched;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};

/// As many as may wait to be accepted, if the system lets them.
const BACKLOG: u32 = 1024;
/// For so many seconds, more or less, a client that says nothing is left to the system. All of them speak first here.
const SILENT: nix::libc::c_int = 5;

/// Accepts connections.
#[derive(Debug)]
pub(crate) struct Listener {
    watched: AsyncFd<unwatched::TcpListener>,
}

/// A connection.
#[derive(Debug)]
pub struct Stream {
    state: State,
    /// The last read took all there was.
    drained: bool,
    prompt: Prompt,
}

#[derive(Debug)]
enum State {
    Unwatched(unwatched::TcpStream),
    Watched(TcpStream),
    /// It could not be watched, and the error was told.
    Lost,
}

/// Small messages must not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prompt {
    /// The system knows.
    Told,
    /// It is told at the second message: before the first there is none to wait for.
    AfterFirst,
    AtNext,
}

// === impl Listener ===

impl Listener {
    /// Takes a port.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // One that was stopped a moment ago may be started again.
        socket.set_reuseaddr(true)?;
        // What is accepted inherits it.
        socket.set_nodelay(true)?;
        // A system that cannot be asked for it tells of everybody at once, and they are waited for here.
        let _ = tell_of_those_who_speak(&socket);
        socket.bind(address)?;
        let listener = unwatched::TcpListener::from_std(socket.listen(BACKLOG)?.into_std()?);
        Ok(Self { watched: watched(listener)? })
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.watched.get_ref().local_addr()
    }

    pub(crate) async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        let accept = |listener: &unwatched::TcpListener| listener.accept();
        let (stream, peer) = self.watched.async_io(Interest::READABLE, accept).await?;
        Ok((Stream::accepted(stream), peer))
    }

    /// Those who wait to be accepted. Asked of the system directly: the runtime knows only of those that it has already heard
    /// about. No more than can wait at once, as others may come for ever; so a failure, mostly that of one connection which is
    /// gone, need not be the end either.
    pub(crate) fn accept_waiting(&self) -> impl Iterator<Item = (Stream, SocketAddr)> {
        let listener = self.watched.get_ref();
        // The system lets one more wait than it was told.
        let accepted = (0..=BACKLOG).map(move |_| listener.accept());
        let waiting = accepted.take_while(
            |accepted| !matches!(accepted, Err(error) if error.kind() == io::ErrorKind::WouldBlock),
        );
        waiting.flatten().map(|(stream, peer)| (Stream::accepted(stream), peer))
    }
}

// === impl Stream ===

impl Stream {
    fn accepted(stream: unwatched::TcpStream) -> Self {
        Self { state: State::Unwatched(stream), drained: false, prompt: Prompt::Told }
    }

    /// Begins to connect. Whether that succeeds is told by the first write, or read.
    ///
    /// # Errors
    ///
    /// When it is known at once that it does not.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = unwatched::TcpStream::connect(address)?;
        Ok(Self { state: State::Unwatched(stream), drained: true, prompt: Prompt::AfterFirst })
    }

    /// The local end.
    ///
    /// # Errors
    ///
    /// When the system does not know.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.state {
            State::Unwatched(stream) => stream.local_addr(),
            State::Watched(stream) => stream.local_addr(),
            State::Lost => Err(lost()),
        }
    }

    /// The same connection, for code that knows only those.
    pub(crate) fn into_watched(mut self) -> io::Result<TcpStream> {
        self.watch()?;
        match self.state {
            State::Watched(stream) => Ok(stream),
            State::Unwatched(_) | State::Lost => Err(lost()),
        }
    }

    /// Has it watched from now on.
    fn watch(&mut self) -> io::Result<&mut TcpStream> {
        if let State::Unwatched(_) = &self.state
            && let State::Unwatched(stream) = std::mem::replace(&mut self.state, State::Lost)
        {
            self.state = State::Watched(TcpStream::from_std(stream.into())?);
        }
        match &mut self.state {
            State::Watched(stream) => Ok(stream),
            State::Unwatched(_) | State::Lost => Err(lost()),
        }
    }

    fn hurry(&mut self) {
        if self.prompt == Prompt::AtNext {
            // A socket that cannot be told so works all the same.
            let _ = match &self.state {
                State::Unwatched(stream) => stream.set_nodelay(true),
                State::Watched(stream) => stream.set_nodelay(true),
                State::Lost => Ok(()),
            };
            self.prompt = Prompt::Told;
        }
    }
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        Self { state: State::Watched(stream), drained: true, prompt: Prompt::AfterFirst }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let (State::Unwatched(stream), false) = (&mut this.state, this.drained) {
            let room = buffer.initialize_unfilled();
            let length = room.len();
            match uninterrupted(|| stream.read(room)) {
                Ok(read) => {
                    this.drained = read < length;
                    buffer.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Pin::new(this.watch()?).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.hurry();
        let written = match &mut this.state {
            State::Unwatched(stream) => match uninterrupted(|| stream.write(bytes)) {
                // Also as long as it is not connected.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    Pin::new(this.watch()?).poll_write(context, bytes)
                }
                written => Poll::Ready(written),
            },
            State::Watched(stream) => Pin::new(stream).poll_write(context, bytes),
            State::Lost => Poll::Ready(Err(lost())),
        };
        if matches!(written, Poll::Ready(Ok(_))) && this.prompt == Prompt::AfterFirst {
            this.prompt = Prompt::AtNext;
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().state {
            State::Unwatched(stream) => Poll::Ready(match stream.shutdown(Shutdown::Write) {
                // The other side was faster.
                Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
                told => told,
            }),
            State::Watched(stream) => Pin::new(stream).poll_shutdown(context),
            State::Lost => Poll::Ready(Err(lost())),
        }
    }
}

/// Asks the system to tell of a connection when there is something to read, and not before.
#[expect(unsafe_code, reason = "the call is the system's")]
fn tell_of_those_who_speak(socket: &TcpSocket) -> io::Result<()> {
    use nix::libc::{IPPROTO_TCP, TCP_DEFER_ACCEPT, c_int, setsockopt, socklen_t};

    let length = socklen_t::try_from(size_of::<c_int>()).map_err(io::Error::other)?;
    let value = std::ptr::from_ref(&SILENT).cast();
    // SAFETY: the value is a number of that length, and outlives the call.
    match unsafe { setsockopt(socket.as_raw_fd(), IPPROTO_TCP, TCP_DEFER_ACCEPT, value, length) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[expect(unsafe_code, reason = "the runtime cannot know what a type does with its descriptor")]
fn watched(listener: unwatched::TcpListener) -> io::Result<AsyncFd<unwatched::TcpListener>> {
    // SAFETY: a listener has one descriptor, and closes it when it is dropped and not before.
    Ok(unsafe { AsyncFd::register_with_interest(listener, Interest::READABLE) }?)
}

fn uninterrupted(mut operation: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match operation() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

fn lost() -> io::Error {
    io::Error::other("the connection could not be watched")
}

#[cfg(test)]
mod tests;
