//! Resource quotas: how much all objects of a namespace may use together.
//!
//! What is used follows from the objects themselves: there is no second record that could disagree. Still two writes that fit
//! alone and not together must not both pass, whichever process they go through. So an object that a quota counts is written
//! together with the quota's status, in one transaction that fails if anybody else wrote the quota since it was read; then
//! everything is counted again. Within a process one write at a time looks and writes, so that they do not fail all the time.
//!
//! A task writes into the status what is used once objects are gone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pilothouse_runtime::TaskError;
use serde_json::{Value, json};
use tokio::sync::OwnedMutexGuard;

use super::usage::{self, Usage};
use super::{objects, text};
use crate::catalogue::Resource;
use crate::follow::follow;
use crate::server::Server;
use crate::status::Failure;
use crate::storage::{self, Along, WriteError};

const COLLECTION: &str = "resourcequotas";
/// How long the status rests between two looks, so that a busy namespace is not counted on every write.
const PAUSE: Duration = Duration::from_millis(50);

/// Who may write in which namespace next.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    turns: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

/// Held until the write is in the cache, where the next one looks.
#[derive(Debug)]
pub(crate) struct Turn {
    _guard: OwnedMutexGuard<()>,
    along: Vec<Along>,
}

impl Turn {
    /// What has to be written together with the object, if there is a turn at all.
    pub(crate) fn along(turn: Option<&Self>) -> &[Along] {
        turn.map_or(&[], |turn| &turn.along)
    }
}

impl Quotas {
    /// Refuses an object that would exceed a quota. The turn is to be held until the object is written.
    pub(super) async fn check(
        &self,
        server: &Arc<Server>,
        resource: &Resource,
        namespace: &str,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<Option<Turn>, Failure> {
        let cache = server.storage.cache();
        if cache.touched(COLLECTION) == 0 || objects(cache, COLLECTION, namespace).is_empty() {
            return Ok(None);
        }
        let added = difference(&usage::of(resource, new), old.map(|old| usage::of(resource, old)));
        let quotas: Vec<Value> = objects(cache, COLLECTION, namespace)
            .into_iter()
            .filter(|quota| concerns(quota, &added) && usage::matches(quota, resource, new))
            .collect();
        if quotas.is_empty() {
            return Ok(None);
        }
        let name = text(new, "/metadata/name");
        for quota in &quotas {
            let hard = usage::amounts(&quota["spec"]["hard"]);
            if let Some(why) = usage::unsaid(resource, &hard, new).filter(|_| old.is_none()) {
                let why = format!("failed quota: {}: {why}", text(quota, "/metadata/name"));
                return Err(Failure::forbidden(resource, name, why));
            }
        }
        let guard = self.turn(namespace).await;
        let kind = server.built_in("", COLLECTION)?;
        // First the quotas, then the objects: whatever is written in between has changed the quota as well.
        let mut current = Vec::with_capacity(quotas.len());
        for quota in &quotas {
            current.extend(server.storage.get(&kind, namespace, text(quota, "/metadata/name")).await?);
        }
        server.storage.consistent().await?;
        let mut along = Vec::with_capacity(current.len());
        for former in current {
            let used = fits(server, resource, namespace, name, &former.value, &added)?;
            let mut value = former.value.clone();
            value["status"] = status(&former.value, used);
            along.push(Along { resource: Arc::clone(&kind), former, value });
        }
        Ok(Some(Turn { _guard: guard, along }))
    }

    async fn turn(&self, namespace: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            // Those that nobody waits for are of namespaces that may be gone.
            if turns.len() > 1024 {
                turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            }
            Arc::clone(turns.entry(namespace.to_owned()).or_default())
        };
        turn.lock_owned().await
    }
}

/// What an object uses more than before.
fn difference(new: &Usage, old: Option<Usage>) -> Usage {
    let old = old.unwrap_or_default();
    new.iter()
        .filter_map(|(name, amount)| {
            let more = match old.get(name) {
                Some(before) if !amount.exceeds(*before) => return None,
                Some(before) => amount.minus(*before),
                None => *amount,
            };
            (!more.is_zero()).then(|| (name.clone(), more))
        })
        .collect()
}

fn concerns(quota: &Value, added: &Usage) -> bool {
    quota["spec"]["hard"].as_object().is_some_and(|hard| hard.keys().any(|name| added.contains_key(name)))
}

/// What is used with the object, if that is not too much.
fn fits(
    server: &Server,
    resource: &Resource,
    namespace: &str,
    name: &str,
    quota: &Value,
    added: &Usage,
) -> Result<Usage, Failure> {
    let hard = usage::amounts(&quota["spec"]["hard"]);
    let mut used = used(server, namespace, quota);
    let mut exceeded: Vec<[String; 3]> = Vec::new();
    for (name, more) in added {
        let (Some(most), Some(used)) = (hard.get(name), used.get_mut(name)) else { continue };
        let sum = used.plus(*more);
        if sum.exceeds(*most) {
            exceeded.push([format!("{name}={more}"), format!("{name}={used}"), format!("{name}={most}")]);
        }
        *used = sum;
    }
    if exceeded.is_empty() {
        return Ok(used);
    }
    let column = |place: usize| exceeded.iter().map(|row| row[place].as_str()).collect::<Vec<_>>().join(",");
    let why = format!(
        "exceeded quota: {}, requested: {}, used: {}, limited: {}",
        text(quota, "/metadata/name"),
        column(0),
        column(1),
        column(2)
    );
    Err(Failure::forbidden(resource, name, why))
}

/// What the objects of a namespace use of what a quota limits.
fn used(server: &Server, namespace: &str, quota: &Value) -> Usage {
    let hard = usage::amounts(&quota["spec"]["hard"]);
    let mut total: Usage = hard.iter().map(|(name, most)| (name.clone(), most.zero())).collect();
    for resource in counted(server, &hard) {
        let prefix = storage::prefix(&resource, Some(namespace));
        for (_, bytes) in server.storage.cache().snapshot(&prefix).objects {
            let Ok(object) = serde_json::from_slice::<Value>(&bytes) else { continue };
            if !usage::matches(quota, &resource, &object) {
                continue;
            }
            for (name, amount) in usage::of(&resource, &object) {
                if let Some(place) = total.get_mut(&name) {
                    *place = place.plus(amount);
                }
            }
        }
    }
    total
}

fn status(quota: &Value, used: Usage) -> Value {
    let hard = &quota["spec"]["hard"];
    if hard.is_null() {
        return json!({});
    }
    let used: Value = used.into_iter().map(|(name, amount)| (name, json!(amount.to_string()))).collect();
    json!({ "hard": hard, "used": used })
}

/// The kinds that count for what a quota limits.
fn counted(server: &Server, hard: &Usage) -> Vec<Arc<Resource>> {
    let mut wanted: Vec<String> = hard
        .keys()
        .map(|name| match name.as_str() {
            "requests.storage" | "persistentvolumeclaims" => "persistentvolumeclaims".to_owned(),
            name if name.contains(".storageclass.storage.k8s.io/") => "persistentvolumeclaims".to_owned(),
            "services" | "services.nodeports" | "services.loadbalancers" => "services".to_owned(),
            name @ ("configmaps" | "secrets" | "replicationcontrollers" | "resourcequotas") => {
                name.to_owned()
            }
            name => name.strip_prefix("count/").unwrap_or("pods").to_owned(),
        })
        .collect();
    wanted.sort();
    wanted.dedup();
    let catalogue = server.catalogue.load();
    wanted
        .iter()
        .filter_map(|name| {
            catalogue.resources().find(|one| one.namespaced && one.qualified() == *name).cloned()
        })
        .collect()
}

/// Writes into every quota what is used, until shutdown.
pub(crate) async fn run(server: Arc<Server>) -> Result<(), TaskError> {
    let (through, shutdown) = (server.storage.cache().subscribe(), server.shutdown.clone());
    follow("what is used of quotas", through, shutdown, PAUSE, || stamp(&server), || pass(&server)).await
}

fn all(server: &Server) -> Vec<Value> {
    let snapshot = server.storage.cache().snapshot(&format!("{COLLECTION}/"));
    snapshot.objects.iter().filter_map(|(_, bytes)| serde_json::from_slice(bytes).ok()).collect()
}

/// What has to be the same for there to be nothing to do.
fn stamp(server: &Server) -> Vec<u64> {
    let cache = server.storage.cache();
    let mut stamp = vec![cache.touched(COLLECTION)];
    if stamp[0] == 0 {
        return stamp;
    }
    for quota in all(server) {
        let kinds = counted(server, &usage::amounts(&quota["spec"]["hard"]));
        stamp.extend(kinds.iter().map(|resource| cache.touched(&resource.qualified())));
    }
    stamp
}

async fn pass(server: &Arc<Server>) -> Result<(), Failure> {
    let resource = server.built_in("", COLLECTION)?;
    for quota in all(server) {
        let (namespace, name) = (text(&quota, "/metadata/namespace"), text(&quota, "/metadata/name"));
        let wanted = status(&quota, used(server, namespace, &quota));
        if quota["status"] == wanted {
            continue;
        }
        let Some(stored) = server.storage.get(&resource, namespace, name).await? else { continue };
        let mut changed = stored.value.clone();
        changed["status"] = wanted;
        match server.storage.replace(&resource, &stored, &changed).await {
            // One that was changed meanwhile has woken this task again.
            Ok(_) | Err(WriteError::Changed | WriteError::Exists | WriteError::NamespaceChanged) => {}
            Err(WriteError::Failed(failure)) => return Err(failure),
        }
    }
    Ok(())
}
