//! What becomes of objects whose owners go.
//!
//! * An object all of whose owners are gone is deleted (*background*).
//! * An owner deleted in the *foreground* waits, by a finalizer, until its dependents that say so are gone.
//! * An owner that *orphans* waits until no dependent names it any more.
//!
//! That an owner is gone is never concluded from the inventory, which may not have heard of it yet, but asked of the
//! server. An owner of a kind that the server does not know counts as existing: deleting is the one mistake that cannot be
//! mended.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;
use kube::api::{DeleteParams, Patch, Preconditions, PropagationPolicy};
use pilothouse_runtime::reconcile::Handle;
use pilothouse_runtime::{Next, Reconcile, TaskError};
use serde_json::json;
use tracing::{debug, info};

use crate::calls::{CallError, PATCH, required, tolerant};
use crate::discovery::{Metadata, Resource, Resources};
use crate::inventory::{Change, Deletion, FOREGROUND, Inventory, Item, ORPHAN, Owner, Policy};
use crate::metrics::Metrics;

pub(crate) struct Collector {
    client: Client,
    inventory: Arc<Inventory>,
    resources: Resources,
    metrics: Metrics,
}

/// What an object's owner turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerState {
    /// It exists, and is not waiting for its dependents.
    Solid,
    /// It waits for its dependents to go.
    Waiting,
    /// It does not exist.
    Gone,
}

/// What to do about one object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    /// Delete this dependent, or the object itself.
    Delete { uid: String, policy: Policy },
    /// Take these owners off an object's list.
    Disown { uid: String, owners: Vec<String> },
    /// Let foreground deletion of its owners go on without it.
    Unblock { uid: String },
    /// Take this finalizer off the object.
    Release { finalizer: &'static str },
}

/// A look at an object that somebody else changed at the same moment.
const CHANGED_MEANWHILE: Duration = Duration::from_millis(5);

/// A look at an owner that the server knows and the inventory does not: its watch has only begun, and if the owner goes
/// before the first list is in, no event says so.
const NOT_LISTED_YET: Duration = Duration::from_millis(500);

/// A look at an owner of a kind that was not served, or that is not watched. The former costs no call.
const UNKNOWN_KIND: Duration = Duration::from_secs(5);

// === planning ===

/// What an object that is waiting to be deleted has to do about its dependents.
fn plan_owner(item: &Item, dependents: &[Arc<Item>]) -> Vec<Action> {
    match item.deletion {
        Deletion::Yes(Policy::Orphan) if dependents.is_empty() => vec![Action::Release { finalizer: ORPHAN }],
        Deletion::Yes(Policy::Orphan) => dependents
            .iter()
            .map(|dependent| Action::Disown { uid: dependent.uid.clone(), owners: vec![item.uid.clone()] })
            .collect(),
        Deletion::Yes(Policy::Foreground) => {
            let blocks = |dependent: &Arc<Item>| {
                dependent.owners.iter().any(|owner| owner.uid == item.uid && owner.blocks)
            };
            // The dependents look after their own deletion: they are woken, and see that this one waits.
            if dependents.iter().any(blocks) {
                Vec::new()
            } else {
                vec![Action::Release { finalizer: FOREGROUND }]
            }
        }
        Deletion::Yes(Policy::Background) | Deletion::No(_) => Vec::new(),
    }
}

/// What becomes of an object, given its owners and its own dependents.
fn plan_dependent(item: &Item, owners: &[(&Owner, OwnerState)], dependents: &[Arc<Item>]) -> Vec<Action> {
    if item.owners.is_empty() || item.is_deleting() {
        return Vec::new();
    }
    let of_state = |state| owners.iter().filter(move |(_, found)| *found == state).map(|(owner, _)| *owner);
    if of_state(OwnerState::Solid).next().is_some() {
        let lost: Vec<_> = owners
            .iter()
            .filter(|(_, state)| *state != OwnerState::Solid)
            .map(|(owner, _)| owner.uid.clone())
            .collect();
        if lost.is_empty() {
            return Vec::new();
        }
        return vec![Action::Disown { uid: item.uid.clone(), owners: lost }];
    }
    let mut actions = Vec::new();
    let waits = of_state(OwnerState::Waiting).next().is_some();
    // A circle of owners that all wait for each other would never end.
    if waits && dependents.iter().any(|dependent| dependent.waits_for_dependents()) {
        actions.push(Action::Unblock { uid: item.uid.clone() });
    }
    let policy = match item.deletion {
        Deletion::No(Policy::Background) if waits && !dependents.is_empty() => Policy::Foreground,
        Deletion::No(policy) | Deletion::Yes(policy) => policy,
    };
    actions.push(Action::Delete { uid: item.uid.clone(), policy });
    actions
}

// === impl Collector ===

impl Collector {
    pub(crate) fn new(
        client: Client,
        inventory: Arc<Inventory>,
        resources: Resources,
        metrics: Metrics,
    ) -> Self {
        Self { client, inventory, resources, metrics }
    }

    /// Whom to look at when something happens to an object.
    pub(crate) fn on_change(inventory: &Arc<Inventory>, handle: Handle<String>) -> impl Fn(&Change) + use<> {
        let inventory = inventory.clone();
        move |change: &Change| {
            if let Some(after) = &change.after
                && after.concerns_garbage()
            {
                handle.wake(after.uid.clone());
            }
            // Owners wait until it is gone, or names them no longer.
            let owners = change.before.iter().chain(&change.after).flat_map(|item| &item.owners);
            for owner in owners {
                if inventory.item(&owner.uid).is_some_and(|owner| owner.is_deleting()) {
                    handle.wake(owner.uid.clone());
                }
            }
            // Dependents live as long as one of their owners does, and go before one that waits for them.
            let item = change.after.as_ref().filter(|after| after.waits_for_dependents());
            let gone = if change.after.is_none() { change.before.as_ref() } else { None };
            for item in item.into_iter().chain(gone) {
                for dependent in inventory.dependents(&item.uid) {
                    handle.wake(dependent.uid.clone());
                }
            }
        }
    }

    /// What became of an owner, and when to ask again because no event will tell.
    async fn owner_state(&self, item: &Item, owner: &Owner) -> Result<(OwnerState, Next), CallError> {
        if let Some(known) = self.inventory.item(&owner.uid) {
            // An owner in another namespace is none.
            let reachable = known.key.namespace.is_none() || known.key.namespace == item.key.namespace;
            let state = match () {
                () if !reachable => OwnerState::Gone,
                () if known.waits_for_dependents() => OwnerState::Waiting,
                () => OwnerState::Solid,
            };
            return Ok((state, Next::Done));
        }
        let Some(resource) = self.resources.of_kind(&owner.api_version, &owner.kind) else {
            debug!(kind = owner.kind, api_version = owner.api_version, "owner of a kind that is not served");
            return Ok((OwnerState::Solid, Next::After(UNKNOWN_KIND)));
        };
        if resource.namespaced && item.key.namespace.is_none() {
            return Ok((OwnerState::Gone, Next::Done));
        }
        let api = resource.api(&self.client, item.key.namespace.as_deref());
        let what = format!("read the owner {} {}", owner.kind, owner.name);
        let found = required(what, api.get_opt(&owner.name)).await?;
        let found = found.filter(|found| found.metadata.uid.as_deref() == Some(owner.uid.as_str()));
        let Some(found) = found else { return Ok((OwnerState::Gone, Next::Done)) };
        let waits =
            Item::of(&resource.api, &found.metadata).is_some_and(|found| found.waits_for_dependents());
        let state = if waits { OwnerState::Waiting } else { OwnerState::Solid };
        let next = if resource.is_watched() { NOT_LISTED_YET } else { UNKNOWN_KIND };
        Ok((state, Next::After(next)))
    }

    /// Answers whether it is done, rather than overtaken by somebody else's change.
    async fn execute(&self, item: &Arc<Item>, action: &Action) -> Result<bool, CallError> {
        match action {
            Action::Delete { uid, policy } => {
                let Some(target) = self.inventory.item(uid) else { return Ok(true) };
                self.delete(&target, *policy).await?;
                Ok(true)
            }
            Action::Disown { uid, owners } => {
                let Some(target) = self.inventory.item(uid) else { return Ok(true) };
                self.rewrite_owners(&target, |list| list.retain(|owner| !owners.contains(&owner.uid))).await
            }
            Action::Unblock { uid } => {
                let Some(target) = self.inventory.item(uid) else { return Ok(true) };
                self.rewrite_owners(&target, |list| {
                    list.iter_mut().for_each(|owner| owner.block_owner_deletion = Some(false));
                })
                .await
            }
            Action::Release { finalizer } => self.release(item, finalizer).await,
        }
    }

    async fn delete(&self, target: &Item, policy: Policy) -> Result<(), CallError> {
        let params = DeleteParams {
            propagation_policy: Some(match policy {
                Policy::Background => PropagationPolicy::Background,
                Policy::Foreground => PropagationPolicy::Foreground,
                Policy::Orphan => PropagationPolicy::Orphan,
            }),
            preconditions: Some(Preconditions { uid: Some(target.uid.clone()), resource_version: None }),
            ..DeleteParams::default()
        };
        let what = format!("delete {} {}", target.resource.kind, target.key);
        let api = self.resource(target).api(&self.client, target.key.namespace.as_deref());
        if tolerant(what, api.delete(&target.key.name, &params)).await?.is_some() {
            info!(kind = target.resource.kind, key = %target.key, "collected");
            self.metrics.collected.inc();
        }
        Ok(())
    }

    async fn rewrite_owners(
        &self,
        target: &Item,
        change: impl FnOnce(&mut Vec<OwnerReference>),
    ) -> Result<bool, CallError> {
        let Some(object) = self.read(target).await? else { return Ok(true) };
        let before = object.metadata.owner_references.clone().unwrap_or_default();
        let mut owners = before.clone();
        change(&mut owners);
        if owners == before {
            return Ok(true);
        }
        self.patch(target, &object, json!({ "ownerReferences": owners })).await
    }

    async fn release(&self, target: &Item, finalizer: &str) -> Result<bool, CallError> {
        let Some(object) = self.read(target).await? else { return Ok(true) };
        let before = object.metadata.finalizers.clone().unwrap_or_default();
        let finalizers: Vec<_> = before.iter().filter(|name| *name != finalizer).collect();
        if finalizers.len() == before.len() {
            return Ok(true);
        }
        self.patch(target, &object, json!({ "finalizers": finalizers })).await
    }

    async fn read(&self, target: &Item) -> Result<Option<Metadata>, CallError> {
        let api = self.resource(target).api(&self.client, target.key.namespace.as_deref());
        let what = format!("read {} {}", target.resource.kind, target.key);
        let object = required(what, api.get_opt(&target.key.name)).await?;
        Ok(object.filter(|object| object.metadata.uid.as_deref() == Some(target.uid.as_str())))
    }

    async fn patch(
        &self,
        target: &Item,
        read: &Metadata,
        mut metadata: serde_json::Value,
    ) -> Result<bool, CallError> {
        metadata["resourceVersion"] = json!(read.metadata.resource_version);
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let api = self.resource(target).api(&self.client, target.key.namespace.as_deref());
        let what = format!("change the metadata of {} {}", target.resource.kind, target.key);
        Ok(tolerant(what, api.patch(&target.key.name, &PATCH, &patch)).await?.is_some())
    }

    fn resource(&self, item: &Item) -> Resource {
        Resource::known(item.resource.clone(), item.key.namespace.is_some())
    }
}

impl Reconcile for Collector {
    type Key = String;

    async fn list(&self) -> Result<Vec<String>, TaskError> {
        Ok(self.inventory.candidates())
    }

    async fn reconcile(&self, uid: &String) -> Result<Next, TaskError> {
        let Some(item) = self.inventory.item(uid) else { return Ok(Next::Done) };
        let dependents = self.inventory.dependents(uid);
        let mut actions = plan_owner(&item, &dependents);
        let mut next = Next::Done;
        if !item.owners.is_empty() && !item.is_deleting() {
            let mut owners = Vec::new();
            for owner in &item.owners {
                let (state, again) = self.owner_state(&item, owner).await?;
                if again != Next::Done {
                    next = again;
                }
                owners.push((owner, state));
            }
            actions.extend(plan_dependent(&item, &owners, &dependents));
        }
        for action in &actions {
            if !self.execute(&item, action).await? {
                // What changed may be nothing that the inventory keeps, and then no event follows.
                next = Next::After(CHANGED_MEANWHILE);
            }
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests;
