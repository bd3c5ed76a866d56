//! What this process knows of a pod on its node.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::plan::{Health, count_failures};
use super::record::Record;
use super::references::Reference;
use super::sandbox::Sandbox;
use super::tokens::Tokens;
use super::volumes::Made;
use crate::files::read_json;
use crate::shim::protocol::State;

/// One pod. Passes over a pod never overlap; probes and shims tell it what they see in between.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) folder: PathBuf,
    pub(crate) tokens: Tokens,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    record: Record,
    sandbox: Option<Sandbox>,
    volumes: Option<Made>,
    /// What a container waits for before it can be started.
    awaited: Option<Reference>,
    watched: BTreeMap<String, Watched>,
    /// By container: the attempt that was counted last, and the failures in a row up to it.
    failures: BTreeMap<String, (u32, u32)>,
    reported: Option<PodStatus>,
    /// When its containers are killed, once it is being ended.
    deadline: Option<Instant>,
    /// Containers, and which attempt of each, that were started and for which something is still to be done.
    held: BTreeMap<String, u32>,
}

#[derive(Debug)]
struct Watched {
    attempt: u32,
    health: Health,
    /// When it is killed, once it was asked to end for its bad health.
    deadline: Option<Instant>,
    watch: CancellationToken,
}

// === impl Local ===

impl Local {
    pub(crate) fn new(folder: PathBuf, record: Record) -> Self {
        let inner = Inner {
            record,
            sandbox: None,
            volumes: None,
            awaited: None,
            watched: BTreeMap::new(),
            failures: BTreeMap::new(),
            reported: None,
            deadline: None,
            held: BTreeMap::new(),
        };
        Self { folder, tokens: Tokens::default(), inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change is one assignment; a panic elsewhere leaves nothing half-done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn record(&self) -> Record {
        self.lock().record.clone()
    }

    /// Changes the record, on disk first.
    pub(crate) fn update_record(&self, change: impl FnOnce(&mut Record)) -> std::io::Result<()> {
        let mut record = self.record();
        change(&mut record);
        record.write(&self.folder)?;
        self.lock().record = record;
        Ok(())
    }

    pub(crate) fn address(&self) -> Option<Ipv4Addr> {
        self.lock().record.address
    }

    /// The connection to its shim, unless that is gone.
    pub(crate) fn sandbox(&self) -> Option<Sandbox> {
        self.lock().sandbox.clone().filter(|sandbox| sandbox.state().is_some())
    }

    pub(crate) fn set_sandbox(&self, sandbox: Option<Sandbox>) {
        let mut inner = self.lock();
        inner.sandbox = sandbox;
        for watched in std::mem::take(&mut inner.watched).into_values() {
            watched.watch.cancel();
        }
    }

    /// What became of its containers, from the shim or, without one, from disk.
    pub(crate) fn state(&self) -> State {
        let living = self.sandbox().and_then(|sandbox| sandbox.state());
        living.unwrap_or_else(|| last_state(&self.folder))
    }

    pub(crate) fn volumes(&self) -> Option<Made> {
        self.lock().volumes.clone()
    }

    pub(crate) fn set_volumes(&self, volumes: Made) {
        self.lock().volumes = Some(volumes);
    }

    /// An attempt of a container does not count as running for now.
    pub(crate) fn hold(&self, container: &str, attempt: u32) {
        self.lock().held.insert(container.to_owned(), attempt);
    }

    pub(crate) fn let_go(&self, container: &str, attempt: u32) {
        let mut inner = self.lock();
        if inner.held.get(container) == Some(&attempt) {
            inner.held.remove(container);
        }
    }

    pub(crate) fn is_held(&self, container: &str, attempt: u32) -> bool {
        self.lock().held.get(container) == Some(&attempt)
    }

    /// The containers that do not count as running for now.
    pub(crate) fn held(&self, state: &State) -> BTreeSet<String> {
        let inner = self.lock();
        let is_current = |(name, attempt): &(&String, &u32)| {
            state.containers.get(*name).is_some_and(|one| one.attempt == **attempt && one.is_running())
        };
        inner.held.iter().filter(is_current).map(|(name, _)| name.clone()).collect()
    }

    pub(crate) fn awaited(&self) -> Option<Reference> {
        self.lock().awaited.clone()
    }

    pub(crate) fn set_awaited(&self, awaited: Option<Reference>) {
        self.lock().awaited = awaited;
    }

    pub(crate) fn reported(&self) -> Option<PodStatus> {
        self.lock().reported.clone()
    }

    /// Why a container does not run, as it was reported.
    pub(crate) fn waiting_reason(&self, container: &str) -> Option<String> {
        let reported = self.reported()?;
        let statuses = reported.init_container_statuses.iter().chain(&reported.container_statuses).flatten();
        let status = statuses.into_iter().find(|status| status.name == container)?;
        status.state.as_ref()?.waiting.as_ref()?.reason.clone()
    }

    pub(crate) fn set_reported(&self, status: PodStatus) {
        self.lock().reported = Some(status);
    }

    /// Begins to watch an attempt of a container, unless it is watched already.
    pub(crate) fn watch(
        &self,
        container: &str,
        attempt: u32,
        initial: impl FnOnce() -> Health,
    ) -> Option<CancellationToken> {
        let mut inner = self.lock();
        if inner.watched.get(container).is_some_and(|watched| watched.attempt == attempt) {
            return None;
        }
        let watch = CancellationToken::new();
        let watched = Watched { attempt, health: initial(), deadline: None, watch: watch.clone() };
        if let Some(old) = inner.watched.insert(container.to_owned(), watched) {
            old.watch.cancel();
        }
        Some(watch)
    }

    pub(crate) fn unwatch(&self, container: &str) {
        if let Some(old) = self.lock().watched.remove(container) {
            old.watch.cancel();
        }
    }

    /// Changes what is known of the health of an attempt, if that is still the one watched.
    pub(crate) fn set_health(&self, container: &str, attempt: u32, change: impl FnOnce(&mut Health)) {
        if let Some(watched) = self.lock().watched.get_mut(container)
            && watched.attempt == attempt
        {
            change(&mut watched.health);
        }
    }

    pub(crate) fn health(&self) -> BTreeMap<String, Health> {
        self.lock().watched.iter().map(|(name, watched)| (name.clone(), watched.health.clone())).collect()
    }

    /// When an unhealthy container is killed; set by the first call.
    pub(crate) fn unhealthy_deadline(&self, container: &str, grace: Duration) -> Option<(Instant, bool)> {
        let mut inner = self.lock();
        let watched = inner.watched.get_mut(container)?;
        let first = watched.deadline.is_none();
        Some((*watched.deadline.get_or_insert_with(|| Instant::now() + grace), first))
    }

    /// How often in a row each container has ended soon, brought up to date.
    pub(crate) fn failures(&self, state: &State) -> BTreeMap<String, u32> {
        let mut inner = self.lock();
        for (name, container) in &state.containers {
            if container.run.exit.is_some() {
                let counted = inner.failures.get(name).copied();
                if counted.is_none_or(|(attempt, _)| attempt != container.attempt) {
                    let count = count_failures(container, counted.map(|(_, count)| count));
                    inner.failures.insert(name.clone(), (container.attempt, count));
                }
            }
        }
        inner.failures.iter().map(|(name, (_, count))| (name.clone(), *count)).collect()
    }

    /// When its containers are killed, which may only become earlier, and whether this call began it.
    pub(crate) fn begin_to_end(&self, grace: Duration) -> (Instant, bool) {
        let mut inner = self.lock();
        let first = inner.deadline.is_none();
        let latest = Instant::now() + grace;
        let deadline = inner.deadline.map_or(latest, |deadline| deadline.min(latest));
        inner.deadline = Some(deadline);
        for watched in inner.watched.values() {
            watched.watch.cancel();
        }
        (deadline, first)
    }
}

/// What a shim wrote last. What ran then has ended with it.
fn last_state(folder: &Path) -> State {
    let mut state: State = read_json(&folder.join("state.json")).ok().flatten().unwrap_or_default();
    for container in state.containers.values_mut().filter(|container| container.is_running()) {
        container.run.exit =
            Some(crate::shim::protocol::Exit::killed(pilothouse_runtime::Clock::system().now()));
    }
    state
}
