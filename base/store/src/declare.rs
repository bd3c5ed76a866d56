//! Bringing a database in line with the catalogue it is opened with.
//!
//! A container whose indexes or secrets are declared otherwise than last time is gone through once: secrets are
//! sealed or opened in place, index entries are made anew. The database remembers what is under way, so an
//! interrupted declaration is taken up again; other processes that have the store open with the old catalogue
//! are refused from the moment it begins.

use std::sync::Arc;
use std::time::Duration;

use tracing::info;

use crate::container::{Prepared, Specification};
use crate::engine::{Command, Maintenance};
use crate::query::List;
use crate::store::{Inner, Store};
use crate::{Error, Lease, LeaseName, seal};

/// Long enough for the largest container; a process that dies over it delays the next one by as much at most.
const LEASE: Duration = Duration::from_secs(120);
/// Documents gone through in one go.
const CHUNK: usize = 200;

pub(crate) async fn declare(store: &Store) -> Result<(), Error> {
    let inner = store.inner();
    if !differing(inner).await?.is_empty() {
        // Processes that start together must not both do it. Where there is only one, a lease would merely make it
        // wait for itself after a crash.
        let lease = if inner.engine.is_shared() { Some(take_turn(store).await?) } else { None };
        for (container, stored) in differing(inner).await? {
            carry_out(inner, &container, stored).await?;
        }
        if let Some(lease) = lease {
            store.lease_release(&lease).await?;
        }
    }
    inner.engine.adopt(inner.engine.state().await?.generation);
    Ok(())
}

async fn take_turn(store: &Store) -> Result<Lease, Error> {
    let name = LeaseName::try_new("store/catalogue")?;
    let holder = uuid::Uuid::new_v4().to_string();
    match store.lease_acquire(&name, &holder, LEASE).await {
        Err(Error::LeaseHeld { remaining, .. }) => {
            info!(?remaining, "waiting for another process that is carrying out a declaration");
            store.lease_wait(&name, &holder, LEASE).await
        }
        taken => taken,
    }
}

/// The containers whose stored declaration is not, or not yet, the wanted one.
async fn differing(inner: &Inner) -> Result<Vec<(Arc<Prepared>, Option<Specification>)>, Error> {
    let stored = inner.engine.catalog().await?;
    let differing = inner.catalog.iter().filter_map(|container| {
        let found = stored.iter().find(|(specification, _)| specification.name == *container.name);
        match found {
            Some((specification, true)) if *specification == *container.specification => None,
            found => Some((container.clone(), found.map(|(specification, _)| specification.clone()))),
        }
    });
    Ok(differing.collect())
}

async fn carry_out(inner: &Inner, container: &Prepared, stored: Option<Specification>) -> Result<(), Error> {
    let maintain = |maintenance| inner.engine.submit(Command::Maintain(maintenance));
    let wanted = container.specification.clone();
    let mut under_way = (*wanted).clone();
    if let Some(stored) = &stored {
        under_way.former.push(stored.secrecy());
        under_way.former.extend(stored.former.iter().cloned());
        under_way.former.dedup();
    }
    let secrets_differ = under_way.former.iter().any(|former| *former != wanted.secrecy());
    maintain(Maintenance::Declare { specification: Arc::new(under_way.clone()) }).await?;
    if stored.is_some() {
        info!(container = %container.name, "going through a container that was declared anew");
        if secrets_differ {
            seal_anew(inner, container, &under_way).await?;
        }
        reindex(inner, container).await?;
    }
    maintain(Maintenance::Declared { specification: wanted }).await?;
    Ok(())
}

/// Every version, also of the past: a value that became secret must not stay in clear in the history.
async fn seal_anew(inner: &Inner, container: &Prepared, under_way: &Specification) -> Result<(), Error> {
    let keyring = inner.keyring.as_ref();
    let mut after = 0;
    loop {
        let scanned = inner.engine.scan(after, CHUNK).await?;
        let Some(last) = scanned.last() else { return Ok(()) };
        after = last.position;
        let mut rows = Vec::new();
        for version in scanned.iter().filter(|version| version.key.container == container.name) {
            let Some(body) = &version.body else { continue };
            let mut plain = body.clone();
            for secrecy in under_way.former.iter().chain([&under_way.secrecy()]) {
                plain = seal::open_where_sealed(secrecy, &version.key, &plain, keyring)?;
            }
            let mut outline = seal::outline(&version.key, &plain)?;
            let (body, sealing_key) = seal::seal(container, &version.key, &mut outline, keyring)?;
            rows.push((version.position, body, sealing_key));
        }
        inner.engine.submit(Command::Maintain(Maintenance::Reseal { rows })).await?;
    }
}

async fn reindex(inner: &Inner, container: &Prepared) -> Result<(), Error> {
    let mut behind = None;
    loop {
        let list = List {
            container: container.name.clone(),
            partition: None,
            prefix: String::new(),
            matching: None,
            limit: CHUNK,
            at: None,
            behind,
        };
        let found = inner.engine.list(list).await?.found;
        let Some(last) = found.last() else { return Ok(()) };
        behind = Some((last.key.partition.clone(), last.key.id.clone()));
        let mut rows = Vec::new();
        for version in &found {
            // Entries are never of secrets, so nothing needs to be opened.
            let entries = container.entries(&mut seal::outline(&version.key, &version.body)?)?;
            rows.push((version.key.clone(), version.revision, entries));
        }
        inner.engine.submit(Command::Maintain(Maintenance::Reindex { rows })).await?;
    }
}
