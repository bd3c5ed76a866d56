//! Which workers to make, which to change and which to remove.
//!
//! Workers have ordinals, and the lowest free one is taken. So a pass over a cache that is behind makes the same workers
//! again, which is refused, instead of more of them.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::fingerprint::Fingerprint;

#[cfg(test)]
mod tests;

/// What a pool should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted<'a> {
    /// The name of the pool, which its workers' names begin with.
    pub(crate) pool: &'a str,
    pub(crate) replicas: usize,
    /// What workers should be made of.
    pub(crate) made_of: &'a Fingerprint,
    pub(crate) rollout: Rollout,
}

/// How workers get another release or configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rollout {
    /// New ones take their places, so many more or fewer at a time.
    Rolling { max_surge: usize, max_unavailable: usize },
    /// A new one takes the place of each that somebody removes.
    OnDelete,
    /// They stay and change, so many at a time.
    InPlace { max_unavailable: usize },
}

/// A worker's machine, and what the hosted cluster says of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Worker {
    pub(crate) name: String,
    pub(crate) created: Option<Timestamp>,
    pub(crate) made_of: Fingerprint,
    /// It has been asked to go.
    pub(crate) going: bool,
    /// It is being changed in place.
    pub(crate) updating: bool,
    /// It has ended and will not come back by itself.
    pub(crate) ended: bool,
    /// It has been unwell for so long that it is to be replaced.
    pub(crate) sick: bool,
    /// What it runs on is there.
    pub(crate) running: bool,
    /// Whether its node is ready; `None` while there is no node.
    pub(crate) ready: Option<bool>,
    /// What keeps it from being ready.
    pub(crate) state: String,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Make a worker of this name.
    Create(String),
    /// Begin to change this worker in place.
    Update(String),
    /// Ask this worker to go.
    Delete(String),
}

// === impl Worker ===

impl Worker {
    /// Whether it counts: it is there and nothing is about to end it.
    pub(crate) fn is_alive(&self) -> bool {
        !self.going && !self.ended && !self.sick
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_alive() && self.ready == Some(true)
    }
}

/// What brings the pool closer to what it should be.
pub(crate) fn plan(wanted: &Wanted<'_>, workers: &[Worker]) -> Vec<Action> {
    let lost = workers.iter().filter(|worker| !worker.going && !worker.is_alive());
    let mut actions: Vec<_> = lost.map(|worker| Action::Delete(worker.name.clone())).collect();
    let mut alive: Vec<_> = workers.iter().filter(|worker| worker.is_alive()).collect();
    alive.sort_by_key(|worker| (worker.created, ordinal(wanted.pool, &worker.name)));
    let (current, outdated): (Vec<&Worker>, Vec<&Worker>) =
        alive.iter().copied().partition(|worker| worker.made_of == *wanted.made_of);
    let (surge, unavailable) = match wanted.rollout {
        // Neither more nor fewer: then nothing could ever change.
        Rollout::Rolling { max_surge: 0, max_unavailable: 0 } => (1, 0),
        Rollout::Rolling { max_surge, max_unavailable } => (max_surge, max_unavailable),
        Rollout::OnDelete | Rollout::InPlace { .. } => (0, 0),
    };

    let most = wanted.replicas + if outdated.is_empty() { 0 } else { surge };
    let missing = wanted.replicas.saturating_sub(current.len()).min(most.saturating_sub(alive.len()));
    actions.extend(free_names(wanted.pool, workers).take(missing).map(Action::Create));

    // Whoever is not needed goes: those of the old configuration first, and of those that are alike the newest, which has the
    // least to lose.
    let too_many = alive.len().saturating_sub(wanted.replicas);
    let replaced = match wanted.rollout {
        Rollout::Rolling { .. } => replaceable(&alive, &outdated, wanted.replicas, unavailable),
        Rollout::OnDelete | Rollout::InPlace { .. } => {
            outdated.iter().rev().copied().take(too_many).collect()
        }
    };
    let superfluous = current
        .iter()
        .rev()
        .copied()
        .take(too_many.saturating_sub(outdated.len()).min(current.len().saturating_sub(wanted.replicas)));
    let removed: Vec<_> = replaced.into_iter().chain(superfluous).collect();
    if let Rollout::InPlace { max_unavailable } = wanted.rollout {
        let staying: Vec<_> = alive.iter().copied().filter(|worker| !removed.contains(worker)).collect();
        actions.extend(updates(wanted, &staying, max_unavailable.max(1)));
    }
    actions.extend(removed.into_iter().map(|worker| Action::Delete(worker.name.clone())));
    actions
}

/// The workers of an old configuration that can go now, so that enough are left that are ready.
fn replaceable<'a>(
    alive: &[&'a Worker],
    outdated: &[&'a Worker],
    replicas: usize,
    unavailable: usize,
) -> Vec<&'a Worker> {
    let floor = replicas.saturating_sub(unavailable);
    let mut ready = alive.iter().filter(|worker| worker.is_ready()).count();
    let dispensable = |worker: &&&Worker| {
        if worker.ready != Some(true) {
            return true;
        }
        let spare = ready > floor;
        ready -= usize::from(spare);
        spare
    };
    // Those that do no work first.
    let (idle, busy): (Vec<&Worker>, Vec<&Worker>) =
        outdated.iter().rev().partition(|worker| worker.ready != Some(true));
    let order: Vec<&'a Worker> = idle.into_iter().chain(busy).collect();
    order.iter().filter(dispensable).take(alive.len().saturating_sub(floor)).copied().collect()
}

/// Which workers begin to change in place.
fn updates(wanted: &Wanted<'_>, workers: &[&Worker], max_unavailable: usize) -> Vec<Action> {
    let places = max_unavailable.saturating_sub(workers.iter().filter(|worker| worker.updating).count());
    let missing = wanted.replicas.saturating_sub(workers.len());
    let mut unavailable =
        missing + workers.iter().filter(|worker| worker.updating || !worker.is_ready()).count();
    let mut waiting: Vec<_> =
        workers.iter().filter(|worker| !worker.updating && worker.made_of != *wanted.made_of).collect();
    // Those that do no work first, which cost nothing.
    waiting.sort_by_key(|worker| worker.is_ready());
    let affordable = waiting.into_iter().take(places).take_while(|worker| {
        let costs = usize::from(worker.is_ready());
        let affordable = unavailable + costs <= max_unavailable.max(unavailable);
        unavailable += costs;
        affordable
    });
    affordable.map(|worker| Action::Update(worker.name.clone())).collect()
}

fn free_names<'a>(pool: &'a str, workers: &[Worker]) -> impl Iterator<Item = String> + 'a {
    let taken: BTreeSet<_> = workers.iter().filter_map(|worker| ordinal(pool, &worker.name)).collect();
    (0..).filter(move |ordinal| !taken.contains(ordinal)).map(move |ordinal| format!("{pool}-{ordinal}"))
}

fn ordinal(pool: &str, worker: &str) -> Option<u32> {
    worker.strip_prefix(pool)?.strip_prefix('-')?.parse().ok()
}
