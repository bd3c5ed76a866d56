//! The connection breaks during a commit: just before the server gets it, or just after. The writer must find out
//! which, and say so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use pilothouse_runtime::{OnExit, Shutdown, Tasks};
use pilothouse_store::{Catalog, Error, LeaseName, Options, Precondition, Store};
use pilothouse_test_support::postgres;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::fixture::{ada, assert_sound, id, notes};

const PASS: u8 = 0;
const CUT_BEFORE: u8 = 1;
const CUT_AFTER: u8 = 2;

/// Stands between the store and the server. Armed, it breaks the first connection that commits, and then no more.
async fn proxy(listener: TcpListener, server: u16, mode: Arc<AtomicU8>, tasks: Tasks) {
    while let Ok((client, _)) = listener.accept().await {
        let Ok(upstream) = TcpStream::connect(("127.0.0.1", server)).await else { continue };
        let mode = mode.clone();
        tasks.spawn("connection", OnExit::Expendable, async move {
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = upstream.into_split();
            let forward = async {
                let mut buffer = vec![0; 1 << 16];
                // The statement is prepared by its text first; what is sent next carries it out.
                let mut prepared = false;
                loop {
                    let read = from_client.read(&mut buffer).await.unwrap_or(0);
                    if read == 0 {
                        return;
                    }
                    let armed = prepared && mode.load(Ordering::SeqCst) != PASS;
                    if armed && mode.load(Ordering::SeqCst) == CUT_BEFORE {
                        mode.store(PASS, Ordering::SeqCst);
                        return;
                    }
                    prepared = buffer[..read].windows(7).any(|window| window == b"COMMIT\0");
                    if to_server.write_all(&buffer[..read]).await.is_err() {
                        return;
                    }
                    if armed {
                        mode.store(PASS, Ordering::SeqCst);
                        return;
                    }
                }
            };
            let backward = async {
                let mut buffer = vec![0; 1 << 16];
                loop {
                    let read = from_server.read(&mut buffer).await.unwrap_or(0);
                    if read == 0 || to_client.write_all(&buffer[..read]).await.is_err() {
                        return;
                    }
                }
            };
            tokio::select! {
                () = forward => {}
                () = backward => {}
            }
            Ok(())
        });
    }
}

/// Stores on one schema: one that goes to the server directly, others through the proxy.
struct Doubt {
    direct: Store,
    through: String,
    mode: Arc<AtomicU8>,
}

impl Doubt {
    /// None, after saying so, without PostgreSQL.
    async fn new() -> Option<Self> {
        let server = postgres::shared()?;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (mode, tasks) = (Arc::new(AtomicU8::new(PASS)), Tasks::new("proxy", Shutdown::new()));
        let proxying = proxy(listener, server.port(), mode.clone(), tasks.clone());
        tasks.spawn("accept", OnExit::Expendable, async move {
            proxying.await;
            Ok(())
        });
        let direct = format!("{}?schema=documents", server.fresh_database());
        let through = direct.replace(&format!(":{}/", server.port()), &format!(":{port}/"));
        Some(Self { direct: open(&direct).await, through, mode })
    }

    /// A new store through the proxy, whose first commit is cut. New, because the text of a statement is only
    /// sent when a connection first uses it.
    async fn armed(&self, cut: u8) -> Store {
        let store = open(&self.through).await;
        self.mode.store(cut, Ordering::SeqCst);
        store
    }
}

async fn open(location: &str) -> Store {
    let catalog = Catalog::try_new([notes()]).unwrap();
    Store::open(Options::new(location.parse().unwrap(), catalog, Shutdown::new())).await.unwrap()
}

#[tokio::test]
async fn a_commit_that_was_not_answered_is_told_as_what_it_was() {
    let Some(doubt) = Doubt::new().await else { return };
    for (round, cut) in [CUT_BEFORE, CUT_AFTER, CUT_BEFORE, CUT_AFTER].into_iter().enumerate() {
        let store = doubt.armed(cut).await;
        let name = id(&round.to_string());
        let outcome = store.create(&notes(), &ada(), name.clone(), &json!(round)).await;
        assert_eq!(doubt.mode.load(Ordering::SeqCst), PASS, "the connection was broken");
        let found = doubt.direct.get(&notes(), &ada(), &name).await.unwrap();
        match (cut, outcome) {
            (CUT_BEFORE, Err(Error::Unavailable { .. })) => assert_eq!(found, None),
            (CUT_AFTER, Ok(committed)) => {
                assert_eq!(found.map(|document| document.revision), Some(committed.revision));
            }
            (cut, outcome) => panic!("cut {cut}: {outcome:?}, found {found:?}"),
        }
        // Whatever it was, the next write goes through.
        store.put(&notes(), &ada(), name, Precondition::Any, &json!("again")).await.unwrap();
        store.close().await;
    }
    assert_sound(&doubt.direct).await;
}

#[tokio::test]
async fn a_lease_that_was_not_answered_is_told_as_what_it_was() {
    let Some(doubt) = Doubt::new().await else { return };
    let limit = Duration::from_secs(3600);
    for (cut, held) in [(CUT_BEFORE, false), (CUT_AFTER, true)] {
        let store = doubt.armed(cut).await;
        let name = LeaseName::try_new(format!("lease-{cut}")).unwrap();
        let outcome = store.lease_acquire(&name, "ada", limit).await;
        assert_eq!(outcome.is_ok(), held, "{outcome:?}");
        let other = doubt.direct.lease_acquire(&name, "bob", limit).await;
        assert_eq!(matches!(other, Err(Error::LeaseHeld { .. })), held, "{other:?}");
        store.close().await;
    }
}
