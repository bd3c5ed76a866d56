//! Carrying bytes between two connections.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use pilothouse_runtime::Shutdown;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional_with_sizes};
use tokio::time::sleep;

/// Per direction and connection. The kernel buffers the rest.
const BUFFER: usize = 8 * 1024;

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
}

/// How much was carried so far. A cheap handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carried {
    pub(crate) from_client: Arc<AtomicU64>,
    pub(crate) to_client: Arc<AtomicU64>,
}

/// Counts what is read.
struct Metered<S> {
    stream: S,
    read: Arc<AtomicU64>,
}

/// Carries bytes both ways until one side is done, nobody has said anything for too long, or shutdown finds it
/// silent.
pub(crate) async fn splice<C, E>(
    client: C,
    endpoint: E,
    carried: &Carried,
    patience: Patience,
    shutdown: &Shutdown,
) -> Ended
where
    C: AsyncRead + AsyncWrite + Unpin,
    E: AsyncRead + AsyncWrite + Unpin,
{
    let mut client = Metered { stream: client, read: carried.from_client.clone() };
    let mut endpoint = Metered { stream: endpoint, read: carried.to_client.clone() };
    let carrying = copy_bidirectional_with_sizes(&mut client, &mut endpoint, BUFFER, BUFFER);
    tokio::select! {
        result = carrying => match result {
            Ok(_) => Ended::Closed,
            Err(error) => Ended::Broken(error),
        },
        () = silence(carried, patience.idle) => Ended::Idle,
        () = async {
            shutdown.requested().await;
            silence(carried, patience.quiet).await;
        } => Ended::Drained,
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

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let read = buffer.filled().len() - before;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
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
}
