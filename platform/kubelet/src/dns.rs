//! Cluster DNS, answered by the node itself.
//!
//! Every node knows all Services already, so every node answers for all of them, at the same address of the Service range. An answer is
//! a look into a [directory](directory::Directory) that the watches keep, and costs as much however many Services there are. There is no way
//! out of a node, so of other names nothing is known.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use hickory_proto::op::{Query, ResponseCode};
use k8s_openapi::api::core::v1::Service;
use pilothouse_informer::{Informer, ObjectKey};
use pilothouse_nameserver::{Answer, Answers};

use crate::config::Config;
use crate::network::{Network, Range};
use crate::services::Slices;

mod directory;
mod zone;

use directory::Directory;
use zone::Zone;

/// The port of DNS.
pub(crate) const PORT: u16 = 53;

/// The server. A cheap handle.
#[derive(Clone)]
pub(crate) struct Dns {
    shared: Arc<Shared>,
}

struct Shared {
    services: Informer<Service>,
    slices: Slices,
    directory: RwLock<Directory>,
    zone: Zone,
    network: Network,
    turn: AtomicUsize,
    /// Whether all that was there at the beginning is in the directory.
    complete: AtomicBool,
}

// === impl Dns ===

impl Dns {
    pub(crate) fn new(
        services: Informer<Service>,
        slices: Slices,
        config: &Config,
        ranges: Vec<Range>,
        network: Network,
    ) -> Self {
        let zone = Zone::new(&config.cluster_domain, ranges, config.outside_names);
        let turn = AtomicUsize::new(0);
        let (directory, complete) = (RwLock::default(), AtomicBool::new(false));
        let shared = Shared { services, slices, directory, zone, network, turn, complete };
        Self { shared: Arc::new(shared) }
    }

    /// Something about a Service or its endpoints has changed.
    pub(crate) fn update(&self, key: &ObjectKey) {
        let shared = &*self.shared;
        // Looked up inside, so that of two changes at once the later one is the last written.
        let mut directory = shared.directory.write().unwrap_or_else(PoisonError::into_inner);
        let found = shared.services.get(key).map(|service| (service, shared.slices.of(key)));
        directory.put(key, found);
    }

    /// Whether everything is known. The first lists are announced object by object, and nobody should be told meanwhile that
    /// there is no such name; so who comes first takes them in at once.
    fn is_complete(&self) -> bool {
        let shared = &*self.shared;
        if !shared.complete.load(Ordering::Acquire) {
            if !shared.services.is_synced() || !shared.slices.is_synced() {
                return false;
            }
            shared.slices.take_all();
            for key in shared.services.keys() {
                self.update(&key);
            }
            shared.complete.store(true, Ordering::Release);
        }
        true
    }
}

impl Answers for Dns {
    fn answer(&self, question: &Query, client: IpAddr) -> Answer {
        let shared = &*self.shared;
        if !self.is_complete() {
            // It may be there all the same: the client should ask again.
            return Answer::only(ResponseCode::ServFail);
        }
        let view = shared.network.view(client);
        let directory = shared.directory.read().unwrap_or_else(PoisonError::into_inner);
        let turn = shared.turn.fetch_add(1, Ordering::Relaxed);
        let asked = (question.name(), question.query_type());
        shared.zone.answer(&directory, asked, view.as_deref(), turn)
    }
}
