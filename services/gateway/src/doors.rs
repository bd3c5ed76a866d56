//! Where the gateway listens. Doors are opened, turned to others and closed while it runs, all but the first.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::{mpsc, oneshot};
use tracing::info;

use crate::config::{Config, Reach};
use crate::error::Error;
use crate::stream::Listener;

/// What a listener is there for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// The way to hosted clusters.
    In(Reach),
    /// The way out, of this cluster or of whom a private link names.
    Out(Option<String>),
}

/// Every listener that there is. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Doors(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// As configured; the first is the one for everybody.
    open: Mutex<Vec<Open>>,
    opened: mpsc::UnboundedSender<Bound>,
}

/// A door that is open for as long as this is kept.
#[derive(Debug)]
struct Open {
    configured: SocketAddr,
    address: SocketAddr,
    door: Arc<ArcSwap<Door>>,
    _kept: oneshot::Sender<()>,
}

/// A port that was taken, for whoever accepts there.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) listener: Listener,
    pub(crate) address: SocketAddr,
    pub(crate) door: Arc<ArcSwap<Door>>,
    /// Ends when the door is to be closed.
    pub(crate) kept: oneshot::Receiver<()>,
}

/// Other doors than before: every port of theirs has been taken, and nothing has changed yet.
pub(crate) struct Change<'a> {
    doors: &'a Doors,
    open: MutexGuard<'a, Vec<Open>>,
    wanted: Vec<Wanted>,
}

enum Wanted {
    /// This one of those that are open.
    Kept(usize, Door),
    New(Open, Bound),
}

// === impl Doors ===

impl Doors {
    /// Takes the port for everybody. What is opened beside that one is told the receiver.
    ///
    /// # Errors
    ///
    /// If it cannot be had.
    pub(crate) fn bind(address: SocketAddr) -> Result<(Self, Bound, mpsc::UnboundedReceiver<Bound>), Error> {
        let (opened, further) = mpsc::unbounded_channel();
        let (open, bound) = bind(address, Door::In(Reach::Public))?;
        Ok((Self(Arc::new(Inner { open: Mutex::new(vec![open]), opened })), bound, further))
    }

    /// Takes the ports that the configuration asks for beside the first.
    ///
    /// # Errors
    ///
    /// If one cannot be had; then nothing has changed.
    pub(crate) fn prepare(&self, config: &Config) -> Result<Change<'_>, Error> {
        let open = self.lock();
        let mut free: Vec<usize> = (1..open.len()).collect();
        let mut wanted: Vec<_> = further(config).into_iter().map(|wanted| (wanted, None)).collect();
        // Those that stay as they are first: ports that the system chose are told apart by nothing else.
        for same_door in [true, false] {
            for ((address, door), kept) in wanted.iter_mut().filter(|(_, kept)| kept.is_none()) {
                let is_it = |index: &usize| {
                    let Open { configured, door: now, .. } = &open[*index];
                    configured == address && (!same_door || **now.load() == *door)
                };
                *kept = free.iter().position(is_it).map(|position| free.remove(position));
            }
        }
        let wanted = wanted.into_iter().map(|((address, door), kept)| match kept {
            Some(index) => Ok(Wanted::Kept(index, door)),
            None => bind(address, door).map(|(open, bound)| Wanted::New(open, bound)),
        });
        Ok(Change { doors: self, wanted: wanted.collect::<Result<_, Error>>()?, open })
    }

    /// Where it listens, as configured.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.lock().iter().map(|open| open.address).collect()
    }

    /// The first door of this kind.
    pub(crate) fn address_of(&self, door: &Door) -> Option<SocketAddr> {
        self.lock().iter().find(|open| **open.door.load() == *door).map(|open| open.address)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Open>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Change ===

impl Change<'_> {
    /// Opens, turns and closes doors. Whoever came through one stays.
    pub(crate) fn make(mut self) {
        let mut before: Vec<_> = std::mem::take(&mut *self.open).into_iter().map(Some).collect();
        self.open.extend(before[0].take());
        for wanted in self.wanted {
            match wanted {
                Wanted::Kept(index, door) => {
                    let Some(open) = before[index].take() else { continue };
                    if **open.door.load() != door {
                        info!(address = %open.address, ?door, "a listener is for others now");
                        open.door.store(Arc::new(door));
                    }
                    self.open.push(open);
                }
                Wanted::New(open, bound) => {
                    // Nobody accepts any more at shutdown only.
                    let _ = self.doors.0.opened.send(bound);
                    self.open.push(open);
                }
            }
        }
    }
}

fn bind(configured: SocketAddr, door: Door) -> Result<(Open, Bound), Error> {
    let bind_error = |source| Error::Bind { address: configured, source };
    let listener = Listener::bind(configured).map_err(bind_error)?;
    let address = listener.local_addr().map_err(bind_error)?;
    let door = Arc::new(ArcSwap::from_pointee(door));
    let (keep, kept) = oneshot::channel();
    let open = Open { configured, address, door: door.clone(), _kept: keep };
    Ok((open, Bound { listener, address, door, kept }))
}

/// Every listener that is configured, but the one for everybody.
fn further(config: &Config) -> Vec<(SocketAddr, Door)> {
    let further = config.listeners.iter().map(|listener| (listener.address, Door::In(listener.reach)));
    let out = config.egress.listeners.iter();
    let out = out.map(|listener| (listener.address, Door::Out(listener.cluster.clone())));
    further.chain(out).collect()
}
