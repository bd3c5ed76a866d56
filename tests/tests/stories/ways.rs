//! The ways from a process to those it calls, each of which can be cut for a while.

use std::net::SocketAddr;
use std::time::Duration;

use pilothouse_runtime::{OnExit, Reason, Shutdown, Tasks};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

/// The ways of several processes; they end when dropped.
pub(crate) struct Ways {
    known: Vec<Way>,
    shutdown: Shutdown,
    tasks: Tasks,
}

struct Way {
    caller: &'static str,
    is_cut: watch::Sender<bool>,
}

// === impl Ways ===

impl Ways {
    pub(crate) fn new() -> Self {
        let shutdown = Shutdown::new();
        Self { known: Vec::new(), tasks: Tasks::new("ways", shutdown.clone()), shutdown }
    }

    /// A text of a caller's in which a name stands for the beginning of a way to a port of this machine, if it is in there.
    pub(crate) async fn lead(&mut self, caller: &'static str, name: &str, port: u16, text: String) -> String {
        if !text.contains(name) {
            return text;
        }
        let target = SocketAddr::from(([127, 0, 0, 1], port));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let text = text.replace(name, &listener.local_addr().unwrap().to_string());
        let is_cut = watch::Sender::new(false);
        let (until, tasks, cut) = (self.shutdown.clone(), self.tasks.clone(), is_cut.clone());
        self.tasks.spawn("way", OnExit::LogError, async move {
            loop {
                let client = tokio::select! {
                    () = until.requested() => return Ok(()),
                    accepted = listener.accept() => accepted?.0,
                };
                let (until, cut) = (until.clone(), cut.subscribe());
                tasks.spawn("connection", OnExit::Expendable, async move {
                    tokio::select! {
                        () = until.requested() => {}
                        () = carry(client, target, cut) => {}
                    }
                    Ok(())
                });
            }
        });
        self.known.push(Way { caller, is_cut });
        text
    }

    /// Whether a caller calls anybody on a way that could be cut.
    pub(crate) fn are_known(&self, caller: &str) -> bool {
        self.known.iter().any(|way| way.caller == caller)
    }

    /// Nothing of a caller's gets through for a while, and nobody is told; after that its connections are gone. `meanwhile` is
    /// called as soon as that holds.
    pub(crate) async fn cut(&self, caller: &str, pause: Duration, meanwhile: impl FnOnce()) {
        let ways: Vec<_> = self.known.iter().filter(|way| way.caller == caller).collect();
        assert!(!ways.is_empty(), "{caller} calls nobody on a way that could be cut");
        let set = |is_cut| {
            for way in &ways {
                way.is_cut.send_replace(is_cut);
            }
        };
        set(true);
        meanwhile();
        sleep(pause).await;
        set(false);
    }
}

impl Drop for Ways {
    fn drop(&mut self) {
        self.shutdown.request(Reason::Asked("the story is over".to_owned()));
    }
}

/// One connection, until either end has enough, or the way was cut and is open again.
async fn carry(mut client: TcpStream, target: SocketAddr, mut cut: watch::Receiver<bool>) {
    // Who calls while the way is cut is not answered.
    let mut server = None;
    if !*cut.borrow_and_update() {
        let Ok(connected) = TcpStream::connect(target).await else { return };
        let server = server.insert(connected);
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        tokio::select! {
            _ = copy_bidirectional(&mut client, server) => return,
            _ = cut.wait_for(|is_cut| *is_cut) => {}
        }
    }
    let _ = cut.wait_for(|is_cut| !*is_cut).await;
    drop(server);
}
