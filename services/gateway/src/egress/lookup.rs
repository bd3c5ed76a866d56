//! Looking up names.
//!
//! The system's resolver blocks a thread until it is done, and cannot be told to stop. Whoever has waited long enough goes, the
//! thread stays; and there are only so many, for everybody. So a lookup has a permit of its cluster, of which there are few, and
//! keeps it until the thread is free: names that nobody answers for cost the cluster that asks for them. With it goes one of
//! all lookups: where many clusters ask for such names, lookups wait for each other, and whatever else needs a thread has one.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

/// How many names are looked up at once, for all clusters: half as many as the runtime has threads for what blocks.
static ALL: Semaphore = Semaphore::const_new(256);

/// The addresses of a host.
pub(super) async fn find(
    host: &str,
    port: u16,
    lookups: &Arc<Semaphore>,
    patience: Duration,
) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let host = host.to_owned();
    ask(lookups, &ALL, patience, move || Ok((host.as_str(), port).to_socket_addrs()?.collect())).await
}

async fn ask(
    lookups: &Arc<Semaphore>,
    all: &'static Semaphore,
    patience: Duration,
    lookup: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static,
) -> io::Result<Vec<SocketAddr>> {
    let permits = acquire(lookups, all, patience).await?;
    let answer = spawn_blocking(move || {
        let answer = lookup();
        // Only now is the thread free.
        drop(permits);
        answer
    });
    match timeout(patience, answer).await {
        Ok(answer) => answer.map_err(io::Error::other)?,
        Err(_elapsed) => Err(late("no answer in time")),
    }
}

/// The cluster's own first: whoever waits for that takes nothing from others.
async fn acquire(
    lookups: &Arc<Semaphore>,
    all: &'static Semaphore,
    patience: Duration,
) -> io::Result<(OwnedSemaphorePermit, SemaphorePermit<'static>)> {
    let begun = Instant::now();
    let own = match timeout(patience, Arc::clone(lookups).acquire_owned()).await {
        Ok(own) => own.map_err(io::Error::other)?,
        Err(_elapsed) => return Err(late("too many names of this cluster are being looked up")),
    };
    match timeout(patience.saturating_sub(begun.elapsed()), all.acquire()).await {
        Ok(one) => Ok((own, one.map_err(io::Error::other)?)),
        Err(_elapsed) => Err(late("too many names are being looked up")),
    }
}

fn late(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, why.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use super::*;

    #[tokio::test]
    async fn lookup_keeps_its_permit_as_long_as_its_thread() {
        let lookups = Arc::new(Semaphore::new(1));
        let soon = Duration::from_millis(50);
        let (answer, answered) = mpsc::channel::<()>();
        let stuck = ask(&lookups, &ALL, soon, move || {
            let _ = answered.recv();
            Ok(Vec::new())
        });
        assert_eq!(stuck.await.unwrap_err().to_string(), "no answer in time");
        let refused = ask(&lookups, &ALL, soon, || Ok(Vec::new())).await.unwrap_err();
        assert!(refused.to_string().starts_with("too many names of this cluster"), "{refused}");
        // An address needs no thread.
        assert_eq!(find("10.0.0.1", 443, &lookups, soon).await.unwrap().len(), 1);

        drop(answer);
        let patience = Duration::from_secs(20);
        let found = find("localhost", 443, &lookups, patience).await.unwrap();
        assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 443), "{found:?}");
    }

    #[tokio::test]
    async fn clusters_together_have_no_more_lookups_than_there_are() {
        static TWO: Semaphore = Semaphore::const_new(2);
        let cluster = || Arc::new(Semaphore::new(16));
        let (answer, answered) = mpsc::channel::<()>();
        let answered = Arc::new(Mutex::new(answered));
        let soon = Duration::from_millis(50);
        for lookups in [cluster(), cluster()] {
            let answered = answered.clone();
            let stuck = ask(&lookups, &TWO, soon, move || {
                let _ = answered.lock().unwrap().recv();
                Ok(Vec::new())
            });
            assert_eq!(stuck.await.unwrap_err().to_string(), "no answer in time");
        }
        let refused = ask(&cluster(), &TWO, soon, || Ok(Vec::new())).await.unwrap_err();
        assert_eq!(refused.to_string(), "too many names are being looked up");
        drop(answer);
        ask(&cluster(), &TWO, Duration::from_secs(20), || Ok(Vec::new())).await.unwrap();
    }
}
