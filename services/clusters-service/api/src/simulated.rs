//! A whole Clusters Service without anything below it, for tests of whoever asks one for clusters.
//!
//! It speaks the contract over HTTP on a port of its own: every path below both bases, lists with `search`, `dryRun`, the
//! watch with its cursors, operations that are recognised when they come twice. What it does not have is a cloud and
//! management clusters: in [`Mode::Automatic`] everything that is asked for comes true at once, state after state, and in
//! [`Mode::Explicit`] it comes true when the test says so ([`Simulated::advance`], [`Simulated::fail`]).
//!
//! It can also go wrong ([`Fault`]): refuse, be unavailable, hang, do the work and answer too late or never. And it keeps
//! account of who asked for what, how often, and how many at the same time ([`Call`], [`Simulated::most_at_once`]).
//!
//! Credentials are real: it signs requests with an authority of its own, and makes a key where there is no request. There
//! is no cluster that would let anybody in with them.
//!
//! The machinery stops with the last handle.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use pilothouse_pki::Authority;
use pilothouse_runtime::Clock;
use tokio::sync::watch;
use url::Url;

use crate::{
    BreakGlassCredential, BreakGlassCredentialId, Change, Client, Cluster, ClusterId, ExternalAuth,
    ExternalAuthId, NodePool, NodePoolId,
};

mod calls;
mod clusters;
mod crank;
mod credentials;
mod events;
mod external_auths;
mod faults;
mod node_pools;
mod refusal;
mod search;
mod service;
mod state;
mod versions;

pub use calls::Call;
pub use faults::Fault;

use calls::Calls;
use faults::Faults;
use service::Switch;
use state::State;

/// A simulated Clusters Service. A cheap handle.
#[derive(Clone)]
pub struct Simulated {
    shared: Arc<Shared>,
    address: SocketAddr,
    /// Stops the service with the last handle.
    _switch: Arc<Switch>,
}

/// Who decides what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Everything comes true at once.
    Automatic,
    /// The test turns the crank.
    Explicit,
}

/// Something the service keeps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// A cluster.
    Cluster(ClusterId),
    /// A node pool.
    NodePool(ClusterId, NodePoolId),
    /// An external auth.
    ExternalAuth(ClusterId, ExternalAuthId),
    /// A credential.
    Credential(ClusterId, BreakGlassCredentialId),
}

/// What handlers and handles share.
struct Shared {
    state: Mutex<State>,
    /// How many changes there have been.
    news: watch::Sender<u64>,
    faults: Faults,
    calls: Calls,
    /// How many lines all watches together were told.
    lines: AtomicUsize,
    clock: Clock,
    authority: Authority,
}

impl Simulated {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens, as clients are configured with it.
    pub fn url(&self) -> Url {
        format!("http://{}", self.address).parse().expect("an address is part of a URL")
    }

    /// A client with generous limits.
    pub fn client(&self) -> Client {
        let http =
            pilothouse_http::ClientBuilder::new(service::PATIENCE).build().expect("plain HTTP needs nothing");
        Client::try_new(http, &self.url()).expect("an address is a base")
    }

    /// How many lines all watches together were told, those included that only show that somebody is there.
    pub fn lines_told(&self) -> usize {
        self.shared.lines.load(Ordering::Relaxed)
    }

    /// Who decides what comes next, from now on. What stands still when it becomes [`Mode::Automatic`] goes on at once.
    pub fn set_mode(&self, mode: Mode) {
        self.shared.change(|state, now| {
            state.mode = mode;
            state.walk_all(now);
        });
    }

    /// One thing stands still from now on, even in [`Mode::Automatic`].
    pub fn hold(&self, resource: impl Into<Resource>) {
        self.shared.change(|state, _| state.held.insert(resource.into()));
    }

    /// It goes on.
    pub fn release(&self, resource: impl Into<Resource>) {
        self.shared.change(|state, now| {
            let resource = resource.into();
            state.held.remove(&resource);
            state.walk(&resource, now);
        });
    }

    /// One step on: from validating to pending, installing and ready; from updating to ready; from uninstalling to gone;
    /// from created to issued. False if there is no such thing or nothing left to do.
    pub fn advance(&self, resource: impl Into<Resource>) -> bool {
        self.shared.change(|state, now| state.step(&resource.into(), now))
    }

    /// All steps up to the end, whatever holds it.
    pub fn finish(&self, resource: impl Into<Resource>) {
        let resource = resource.into();
        self.shared.change(|state, now| while state.step(&resource, now) {});
    }

    /// It fails. Only clusters have a place for the code.
    pub fn fail(&self, resource: impl Into<Resource>, code: &str, message: &str) {
        self.shared.change(|state, now| state.fail(&resource.into(), code, message, now));
    }

    /// It is gone, with everything that belongs to it, at once.
    pub fn remove(&self, resource: impl Into<Resource>) {
        self.shared.change(|state, _| state.remove(&resource.into()));
    }

    /// Changes a cluster in any way, and tells whoever watches.
    ///
    /// # Panics
    ///
    /// When there is no such cluster. The same holds for the other changes.
    pub fn change_cluster(&self, id: &ClusterId, change: impl FnOnce(&mut Cluster)) {
        self.shared.change(|state, _| {
            let cluster = &mut state.clusters.get_mut(id).expect("no such cluster").value;
            change(cluster);
            cluster.state = cluster.status.state;
            let told = Change::Cluster(Box::new(cluster.clone()));
            state.tell(told);
        });
    }

    /// Changes a node pool in any way, and tells whoever watches.
    pub fn change_node_pool(&self, cluster: &ClusterId, id: &NodePoolId, change: impl FnOnce(&mut NodePool)) {
        self.shared.change(|state, _| {
            let key = (cluster.clone(), id.clone());
            let node_pool = &mut state.node_pools.get_mut(&key).expect("no such node pool").value;
            change(node_pool);
            let told = Change::NodePool(Box::new(node_pool.clone()));
            state.tell(told);
        });
    }

    /// Changes an external auth in any way, and tells whoever watches.
    pub fn change_external_auth(
        &self,
        cluster: &ClusterId,
        id: &ExternalAuthId,
        change: impl FnOnce(&mut ExternalAuth),
    ) {
        self.shared.change(|state, _| {
            let key = (cluster.clone(), id.clone());
            let external_auth = &mut state.external_auths.get_mut(&key).expect("no such external auth").value;
            change(external_auth);
            let told = Change::ExternalAuth(Box::new(external_auth.clone()));
            state.tell(told);
        });
    }

    /// Changes a credential in any way, and tells whoever watches.
    pub fn change_credential(
        &self,
        cluster: &ClusterId,
        id: &BreakGlassCredentialId,
        change: impl FnOnce(&mut BreakGlassCredential),
    ) {
        self.shared.change(|state, _| {
            let key = (cluster.clone(), id.clone());
            let credential = &mut state.credentials.get_mut(&key).expect("no such credential").value;
            change(credential);
            let told = Change::BreakGlassCredential(cluster.clone(), Box::new(credential.clone()));
            state.tell(told);
        });
    }

    /// Makes a cluster as if an operation had asked for it, without a call.
    ///
    /// # Panics
    ///
    /// When it would be refused.
    pub fn make_cluster(&self, new: crate::NewCluster) -> Cluster {
        let made = self.shared.change(|state, now| state.cluster_create(new, false, now));
        made.unwrap_or_else(|refusal| panic!("the cluster is refused: {}", refusal.reason))
    }

    /// All clusters, by id.
    pub fn clusters(&self) -> Vec<Cluster> {
        self.shared.lock().clusters.values().map(|kept| kept.value.clone()).collect()
    }

    /// All node pools, by cluster and id.
    pub fn node_pools(&self) -> Vec<NodePool> {
        self.shared.lock().node_pools.values().map(|kept| kept.value.clone()).collect()
    }

    /// All external auths, by cluster and id.
    pub fn external_auths(&self) -> Vec<ExternalAuth> {
        self.shared.lock().external_auths.values().map(|kept| kept.value.clone()).collect()
    }

    /// All credentials, by cluster and id.
    pub fn credentials(&self) -> Vec<BreakGlassCredential> {
        self.shared.lock().credentials.values().map(|kept| kept.value.clone()).collect()
    }

    /// Forgets what happened so far: whoever comes back with an older cursor is told that it is too old.
    pub fn forget_history(&self) {
        self.shared.change(|state, _| state.forget_history());
    }

    /// Every watch ends now; its reader comes back.
    pub fn cut_watches(&self) {
        self.shared.change(|state, _| state.watches += 1);
        self.shared.news.send_modify(|_| {});
    }

    /// Calls for which `on` holds go wrong this way until [`Self::clear_faults`].
    pub fn inject(&self, fault: Fault, on: impl Fn(&Call) -> bool + Send + 'static) {
        self.shared.faults.add(None, fault, Box::new(on));
    }

    /// The next `times` calls for which `on` holds go wrong this way.
    pub fn inject_times(&self, times: usize, fault: Fault, on: impl Fn(&Call) -> bool + Send + 'static) {
        self.shared.faults.add(Some(times), fault, Box::new(on));
    }

    /// Nothing goes wrong any more; what hangs goes on.
    pub fn clear_faults(&self) {
        self.shared.faults.clear();
    }

    /// How many calls hang at this moment.
    pub fn stalled(&self) -> usize {
        self.shared.faults.stalled()
    }

    /// Every call so far but watches, in the order they came; long ago is forgotten.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.calls.all()
    }

    /// How often each operation asked for something in earnest.
    pub fn asked(&self) -> std::collections::BTreeMap<String, usize> {
        self.shared.calls.asked()
    }

    /// How many calls that change something were under way at the same time for one cluster, at most: for the ARM resource
    /// it stands for, in lower case.
    pub fn most_at_once(&self, resource_id: &str) -> usize {
        self.shared.calls.most_at_once(resource_id)
    }

    /// The same for whichever cluster had most.
    pub fn most_at_once_of_any(&self) -> usize {
        self.shared.calls.most_at_once_of_any()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A test that panicked elsewhere must not hide behind this one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and tells whoever watches.
    fn change<T>(&self, change: impl FnOnce(&mut State, Timestamp) -> T) -> T {
        let mut state = self.lock();
        let outcome = change(&mut state, self.clock.now());
        state.sign_waiting(&self.authority, &self.clock);
        let told = state.told();
        drop(state);
        self.news.send_if_modified(|news| std::mem::replace(news, told) != told);
        outcome
    }
}

impl From<&ClusterId> for Resource {
    fn from(id: &ClusterId) -> Self {
        Self::Cluster(id.clone())
    }
}

impl From<&Cluster> for Resource {
    fn from(cluster: &Cluster) -> Self {
        Self::Cluster(cluster.id.clone())
    }
}

impl From<&NodePool> for Resource {
    fn from(node_pool: &NodePool) -> Self {
        Self::NodePool(node_pool.cluster_id.clone(), node_pool.id.clone())
    }
}

impl From<&ExternalAuth> for Resource {
    fn from(external_auth: &ExternalAuth) -> Self {
        Self::ExternalAuth(external_auth.cluster_id.clone(), external_auth.id.clone())
    }
}

impl From<&BreakGlassCredential> for Resource {
    fn from(credential: &BreakGlassCredential) -> Self {
        Self::Credential(credential.cluster_id.clone(), credential.id.clone())
    }
}
