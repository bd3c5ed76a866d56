//! A road to the broker on which things happen: messages come twice, late, in another order, or not at all.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use pilothouse_runtime::{OnExit, Reason, Shutdown, Tasks};
use rumqttc::mqttbytes::v5::{Codec, Packet};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::codec::{FramedRead, FramedWrite};

/// After how many others a message comes that is late: by then there may be a newer one of the same work.
const LATE: usize = 25;
/// How long it is held back if no other comes by.
const SILENCE: Duration = Duration::from_millis(500);

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Passes,
    /// The second time late.
    ComesTwice,
    ComesLate,
    /// It is lost, and the connection with it.
    IsCut,
}

#[derive(Clone)]
struct Faults {
    on: Arc<AtomicBool>,
    dice: Arc<AtomicU64>,
    counts: Arc<[AtomicU64; 3]>,
    /// Nothing gets through, and nobody is told.
    silent: watch::Sender<bool>,
    /// Nobody gets in, and who is in is thrown out.
    closed: watch::Sender<bool>,
}

/// The proxy; it ends when dropped.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    faults: Faults,
    shutdown: Shutdown,
    _tasks: Tasks,
}

impl Proxy {
    /// To the broker on a port. The same seed makes the same dice.
    pub(crate) async fn start(broker: u16, seed: u64) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let faults = Faults {
            on: Arc::new(AtomicBool::new(true)),
            dice: Arc::new(AtomicU64::new(seed)),
            counts: Arc::default(),
            silent: watch::Sender::new(false),
            closed: watch::Sender::new(false),
        };
        let shutdown = Shutdown::new();
        let tasks = Tasks::new("proxy", shutdown.clone());
        let (own, road, until) = (tasks.clone(), faults.clone(), shutdown.clone());
        tasks.spawn("proxy", OnExit::LogError, async move {
            loop {
                let client = tokio::select! {
                    () = until.requested() => return Ok(()),
                    accepted = listener.accept() => accepted?.0,
                };
                let (faults, until) = (road.clone(), until.clone());
                own.spawn("road", OnExit::Expendable, async move {
                    let mut closed = faults.closed.subscribe();
                    tokio::select! {
                        biased;
                        () = until.requested() => {}
                        _ = closed.wait_for(|closed| *closed) => {}
                        () = carry(client, broker, &faults) => {}
                    }
                    Ok(())
                });
            }
        });
        Self { port, faults, shutdown, _tasks: tasks }
    }

    /// From now on nothing happens any more.
    pub(crate) fn calm(&self) {
        self.faults.on.store(false, Ordering::SeqCst);
    }

    /// From now on nothing gets through, though connections stand, until it may again.
    pub(crate) fn silence(&self, is_silent: bool) {
        self.faults.silent.send_replace(is_silent);
    }

    /// From now on nobody gets through, and connections break, until they may again.
    pub(crate) fn close(&self, is_closed: bool) {
        self.faults.closed.send_replace(is_closed);
    }

    /// How many messages came twice, late, and not at all.
    pub(crate) fn counts(&self) -> [u64; 3] {
        [0, 1, 2].map(|index: usize| self.faults.counts[index].load(Ordering::SeqCst))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shutdown.request(Reason::Asked("the test is over".to_owned()));
    }
}

impl Faults {
    fn fate(&self, packet: &Packet) -> Fate {
        if !matches!(packet, Packet::Publish(_)) || !self.on.load(Ordering::SeqCst) {
            return Fate::Passes;
        }
        let next = |dice: u64| {
            Some(dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
        };
        let dice = self.dice.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).unwrap_or_default() >> 33;
        let (index, fate) = match dice % 24 {
            0..=3 => (0, Fate::ComesTwice),
            4..=9 => (1, Fate::ComesLate),
            10 => (2, Fate::IsCut),
            _ => return Fate::Passes,
        };
        self.counts[index].fetch_add(1, Ordering::SeqCst);
        fate
    }
}

/// One connection, both ways, until either end has enough.
async fn carry(client: TcpStream, broker: u16, faults: &Faults) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", broker)).await else { return };
    let (from_client, to_client) = tokio::io::split(client);
    let (from_server, to_server) = tokio::io::split(server);
    tokio::select! {
        () = pump(from_client, to_server, faults) => {}
        () = pump(from_server, to_client, faults) => {}
    }
}

async fn pump(from: impl AsyncRead + Unpin, to: impl AsyncWrite + Unpin, faults: &Faults) {
    let codec = Codec { max_incoming_size: Some(16 << 20), max_outgoing_size: None };
    let mut from = FramedRead::new(from, codec.clone());
    let mut to = FramedWrite::new(to, codec);
    let mut late: VecDeque<(usize, Packet)> = VecDeque::new();
    loop {
        let packet = tokio::select! {
            packet = from.next() => packet,
            () = tokio::time::sleep(SILENCE), if !late.is_empty() => None,
        };
        let now = match packet {
            Some(Ok(packet)) => match faults.fate(&packet) {
                Fate::Passes => Some(packet),
                Fate::ComesTwice => {
                    late.push_back((LATE, packet.clone()));
                    Some(packet)
                }
                Fate::ComesLate => {
                    late.push_back((LATE, packet));
                    None
                }
                Fate::IsCut => return,
            },
            // Nothing else comes by.
            None if !late.is_empty() => {
                late.iter_mut().for_each(|(others, _)| *others = 0);
                None
            }
            _ => return,
        };
        let mut packets: Vec<_> = now.into_iter().collect();
        late.iter_mut().for_each(|(others, _)| *others = others.saturating_sub(packets.len()));
        while late.front().is_some_and(|(others, _)| *others == 0) {
            packets.extend(late.pop_front().map(|(_, packet)| packet));
        }
        let mut silent = faults.silent.subscribe();
        for packet in packets {
            if silent.wait_for(|silent| !silent).await.is_err() {
                return;
            }
            if to.send(packet).await.is_err() {
                return;
            }
        }
    }
}
