//! Carrying bytes between two connections.
//!
//! Bytes pass through a buffer that belongs to the thread: what was read is written at once, and only what the other side does
//! not take is kept with the connection. So the buffer can be large, is warm when it is used, and a connection that is silent,
//! as most are, holds none.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pilothouse_runtime::Shutdown;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::sleep;

/// Of each thread.
const BUFFER: usize = 128 * 1024;

thread_local! {
    static SHARED: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER]);
}

/// How patient to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// How long both sides may be silent.
    pub(crate) idle: Duration,
    /// The same at shutdown.
    pub(crate) quiet: Duration,
}

/// Why it ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Both sides said all they had to say.
    Closed,
    Broken(io::Error),
    Idle,
    Drained,
    /// The cluster is gone whose way out it was.
    Gone,
}

/// How much was carried so far. A cheap handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carried {
    pub(crate) from_client: Arc<AtomicU64>,
    pub(crate) to_client: Arc<AtomicU64>,
}

/// One direction.
#[derive(Debug, Default)]
struct Flow {
    /// What was read and is not written yet, from `sent` on.
    left: Vec<u8>,
    sent: usize,
    /// Nothing more will be read.
    ended: bool,
    /// The other side was told so.
    done: bool,
}

/// Carries bytes both ways until one side is done, nobody has said anything for too long, or shutdown finds it
/// silent.
pub(crate) async fn splice<C, E>(
    mut client: C,
    mut endpoint: E,
    carried: &Carried,
    patience: Patience,
    shutdown: &Shutdown,
) -> Ended
where
    C: AsyncRead + AsyncWrite + Unpin,
    E: AsyncRead + AsyncWrite + Unpin,
{
    let (mut there, mut back) = (Flow::default(), Flow::default());
    let carrying = std::future::poll_fn(|context| {
        let (client, endpoint) = (&mut client, &mut endpoint);
        let one = there.poll(context, client, endpoint, &carried.from_client, back.done)?;
        let other = back.poll(context, endpoint, client, &carried.to_client, there.done)?;
        if one.is_ready() && other.is_ready() { Poll::Ready(io::Result::Ok(())) } else { Poll::Pending }
    });
    tokio::select! {
        result = carrying => match result {
            Ok(()) => Ended::Closed,
            Err(error) => Ended::Broken(error),
        },
        () = silence(carried, patience.idle) => Ended::Idle,
        () = async {
            shutdown.requested().await;
            silence(carried, patience.quiet).await;
        } => Ended::Drained,
    }
}

// === impl Flow ===

impl Flow {
    /// Carries what there is. Ready once the reader has ended and the writer knows; or, if that was the `last` direction, is
    /// about to hear it: then both connections are closed, which says the same.
    fn poll<R, W>(
        &mut self,
        context: &mut Context<'_>,
        reader: &mut R,
        writer: &mut W,
        count: &AtomicU64,
        last: bool,
    ) -> Poll<io::Result<()>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        if self.done {
            return Poll::Ready(Ok(()));
        }
        loop {
            ready!(self.poll_rest(context, writer))?;
            if self.ended {
                if !last {
                    ready!(Pin::new(&mut *writer).poll_shutdown(context))?;
                }
                self.done = true;
                return Poll::Ready(Ok(()));
            }
            let more =
                SHARED.with_borrow_mut(|buffer| self.poll_more(context, reader, writer, buffer, count));
            if more.is_pending() {
                // Silence may be long.
                self.left = Vec::new();
            }
            ready!(more)?;
        }
    }

    /// Writes what is left over from before.
    fn poll_rest(
        &mut self,
        context: &mut Context<'_>,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        while self.sent < self.left.len() {
            let written = ready!(Pin::new(&mut *writer).poll_write(context, &self.left[self.sent..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += written;
        }
        self.left.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    /// Reads more, and writes as much of it as is taken at once.
    fn poll_more(
        &mut self,
        context: &mut Context<'_>,
        reader: &mut (impl AsyncRead + Unpin),
        writer: &mut (impl AsyncWrite + Unpin),
        buffer: &mut [u8],
        count: &AtomicU64,
    ) -> Poll<io::Result<()>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(reader).poll_read(context, &mut buffer))?;
        let read = buffer.filled();
        if read.is_empty() {
            self.ended = true;
            return Poll::Ready(Ok(()));
        }
        count.fetch_add(read.len() as u64, Ordering::Relaxed);
        let written = match Pin::new(writer).poll_write(context, read) {
            Poll::Ready(written) => written?,
            Poll::Pending => 0,
        };
        self.left.extend_from_slice(&read[written..]);
        Poll::Ready(Ok(()))
    }
}

/// Returns once nothing was carried for so long.
async fn silence(carried: &Carried, duration: Duration) {
    let mut before = carried.total();
    loop {
        sleep(duration).await;
        let now = carried.total();
        if now == before {
            return;
        }
        before = now;
    }
}

impl Carried {
    fn total(&self) -> u64 {
        self.from_client.load(Ordering::Relaxed) + self.to_client.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_runtime::Reason;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    const PATIENCE: Patience = Patience { idle: Duration::from_secs(60), quiet: Duration::from_secs(1) };

    #[tokio::test(start_paused = true)]
    async fn silence_ends_a_connection_and_a_word_keeps_it() {
        let ((mut client, near), (far, _endpoint)) = (duplex(64), duplex(64));
        let (carried, shutdown) = (Carried::default(), Shutdown::new());
        let start = Instant::now();
        let talking = async {
            sleep(Duration::from_secs(50)).await;
            client.write_all(b"hello").await.unwrap();
            std::future::pending::<()>().await
        };
        tokio::select! {
            () = talking => {}
            ended = splice(near, far, &carried, PATIENCE, &shutdown) => assert!(matches!(ended, Ended::Idle)),
        }
        assert_eq!(start.elapsed(), Duration::from_secs(120));
        assert_eq!(carried.from_client.load(Ordering::Relaxed), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn shutdown_lets_a_busy_connection_finish_its_sentence() {
        let ((mut client, near), (far, mut endpoint)) = (duplex(64), duplex(64));
        let (carried, shutdown) = (Carried::default(), Shutdown::new());
        shutdown.request(Reason::Asked("test".to_owned()));
        let answering = async {
            for _ in 0..5 {
                sleep(Duration::from_millis(800)).await;
                endpoint.write_all(b"x").await.unwrap();
            }
            let mut got = [0; 5];
            client.read_exact(&mut got).await.unwrap();
            std::future::pending::<()>().await
        };
        tokio::select! {
            () = answering => {}
            ended = splice(near, far, &carried, PATIENCE, &shutdown) => assert!(matches!(ended, Ended::Drained)),
        }
        assert_eq!(carried.to_client.load(Ordering::Relaxed), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_lost_or_reordered_when_one_side_reads_slowly_and_ends_are_passed_on() {
        // Far smaller than what is read at once, so that there is always something left over.
        let ((mut client, near), (far, mut endpoint)) = (duplex(BUFFER), duplex(1000));
        let (carried, shutdown) = (Carried::default(), Shutdown::new());
        let sent: Vec<u8> = (0..1_000_000_u32).map(|number| (number % 251) as u8).collect();
        let talking = async {
            let mut got = Vec::new();
            let (writing, reading) = tokio::join!(
                async {
                    client.write_all(&sent).await?;
                    client.shutdown().await
                },
                endpoint.read_to_end(&mut got)
            );
            writing.unwrap();
            reading.unwrap();
            assert!(got == sent);
            // The other direction goes on.
            endpoint.write_all(b"answer").await.unwrap();
            drop(endpoint);
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            assert_eq!(answer, b"answer");
        };
        let ((), ended) = tokio::join!(talking, splice(near, far, &carried, PATIENCE, &shutdown));
        assert!(matches!(ended, Ended::Closed));
        assert_eq!(carried.from_client.load(Ordering::Relaxed), 1_000_000);
    }
}
