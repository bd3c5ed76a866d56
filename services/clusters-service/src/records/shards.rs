//! Management clusters, and how many clusters each of them has.
//!
//! A count is changed in the transactions that create and forget clusters, with the version it was read at: of two
//! replicas that count at once one begins again, and nothing is ever counted twice. Within one process creations take
//! turns instead, so that a hundred of them at once do not make each other begin again a hundred times.

use std::collections::BTreeMap;

use jiff::Timestamp;
use pilothouse_store::{Conflict, Container, Decision, DocumentId, Error, Precondition, Query, Transaction};

use super::{Records, Stored};
use crate::config::Shard;
use crate::record::{ClusterRecord, ShardRecord, Usage};

pub(super) const SHARDS: &str = "shards";
pub(super) const SHARD_USAGE: &str = "shard-usage";
/// Enough to find two that are to stay, unless most of them are about to go.
const FEW: usize = 4;

/// A management cluster and how full it is.
#[derive(Clone, Debug)]
pub(crate) struct Seats {
    pub(crate) shard: Stored<ShardRecord>,
    /// Not there as long as nothing was counted.
    pub(crate) usage: Option<Stored<Usage>>,
}

impl Seats {
    pub(crate) fn usage(&self) -> Usage {
        self.usage.as_ref().map(|usage| usage.value).unwrap_or_default()
    }

    fn expected(&self) -> Precondition {
        self.usage.as_ref().map_or(Precondition::Absent, |usage| Precondition::Etag(usage.etag.clone()))
    }
}

impl Records {
    pub(crate) async fn shard_get(&self, id: &str) -> Result<Option<Stored<ShardRecord>>, Error> {
        match DocumentId::try_new(id) {
            Ok(id) => self.get(&self.shards, &id).await,
            // What cannot be an id is the id of nothing.
            Err(_) => Ok(None),
        }
    }

    /// One management cluster and how full it is.
    pub(crate) async fn seats_get(&self, id: &str) -> Result<Option<Seats>, Error> {
        let Some(shard) = self.shard_get(id).await? else { return Ok(None) };
        let usage = self.get(&self.shard_usage, &DocumentId::try_new(id)?).await?;
        Ok(Some(Seats { shard, usage }))
    }

    /// All management clusters in the order of their ids, and how full each of them is.
    pub(crate) async fn seats_list(&self) -> Result<Vec<Seats>, Error> {
        let query = |container: &Container| Query::partition(container, &self.partition);
        let (counted, _) = self.documents(query(&self.shard_usage)).await?;
        let mut usage = BTreeMap::new();
        for document in &counted {
            usage.insert(document.id.as_str().to_owned(), super::stored::<Usage>(document)?);
        }
        let (shards, _) = self.documents(query(&self.shards)).await?;
        let mut seats = Vec::with_capacity(shards.len());
        for document in &shards {
            let usage = usage.remove(document.id.as_str());
            seats.push(Seats { shard: super::stored(document)?, usage });
        }
        seats.sort_by(|left, right| left.shard.value.shard.id.cmp(&right.shard.value.shard.id));
        Ok(seats)
    }

    /// Whether there is a choice: more than one management cluster that is to stay. However many there are, few are looked at.
    pub(crate) async fn shards_are_several(&self) -> Result<bool, Error> {
        let mut query = Query::partition(&self.shards, &self.partition).limit(FEW);
        let mut staying = 0;
        loop {
            let page = self.store.list(query.clone()).await?;
            for document in &page.documents {
                staying += usize::from(!super::stored::<ShardRecord>(document)?.value.removing);
            }
            match page.next {
                Some(next) if staying < 2 => query = query.from(next),
                _ => return Ok(staying > 1),
            }
        }
    }

    /// Makes sure that the management clusters of the configuration are known, as they are configured now, and that those
    /// with clusters from before anything was counted are counted.
    pub(crate) async fn shards_ensure(&self, configured: &[Shard], now: Timestamp) -> Result<(), Error> {
        for shard in configured {
            let mut record = ShardRecord::new(shard.clone(), now);
            record.configured = true;
            match self.shard_create(&record).await {
                Ok(()) => continue,
                Err(Error::Conflict(Conflict::Exists { .. })) => {}
                Err(error) => return Err(error),
            }
            self.shard_update(&shard.id, |record| {
                let before = record.clone();
                record.shard.clone_from(shard);
                (record.configured, record.removing) = (true, false);
                if *record == before { Decision::Keep } else { Decision::Write }
            })
            .await?;
        }
        let seats = self.seats_list().await?;
        for Seats { shard, .. } in &seats {
            let ShardRecord { shard, configured: was, .. } = &shard.value;
            if *was && !configured.iter().any(|found| found.id == shard.id) {
                self.shard_update(&shard.id, |record| {
                    record.configured = false;
                    Decision::Write
                })
                .await?;
            }
        }
        if seats.iter().any(|seats| seats.usage.is_none()) {
            let (clusters, _) = self.cluster_list(None).await?;
            self.recount(&seats, &clusters).await?;
        }
        Ok(())
    }

    /// Makes a management cluster known.
    pub(crate) async fn shard_create(&self, record: &ShardRecord) -> Result<(), Error> {
        let id = DocumentId::try_new(&record.shard.id)?;
        self.store.create(&self.shards, &self.partition, id, record).await.map(drop)
    }

    /// Changes a management cluster, whatever it has become meanwhile.
    pub(crate) async fn shard_update(
        &self,
        id: &str,
        change: impl FnMut(&mut ShardRecord) -> Decision,
    ) -> Result<ShardRecord, Error> {
        self.store.update(&self.shards, &self.partition, &DocumentId::try_new(id)?, change).await
    }

    /// Forgets a management cluster, if nothing was counted on it since it was read.
    pub(crate) async fn shard_remove(&self, seats: &Seats) -> Result<(), Error> {
        let id = DocumentId::try_new(&seats.shard.value.shard.id)?;
        let mut transaction = Transaction::new(self.partition.clone());
        transaction.delete(&self.shards, id.clone(), Precondition::Etag(seats.shard.etag.clone()));
        match &seats.usage {
            Some(usage) => {
                transaction.delete(&self.shard_usage, id, Precondition::Etag(usage.etag.clone()));
            }
            None => {
                transaction.check(&self.shard_usage, id, Precondition::Absent);
            }
        }
        self.store.commit(&transaction).await.map(drop)
    }

    /// Adds one cluster to what a transaction creates.
    pub(super) fn count_one_more(&self, transaction: &mut Transaction, seats: &Seats) -> Result<(), Error> {
        let usage = Usage { clusters: seats.usage().clusters.saturating_add(1) };
        self.count(transaction, &seats.shard.value.shard.id, seats.expected(), usage)
    }

    pub(super) fn count(
        &self,
        transaction: &mut Transaction,
        shard: &str,
        expected: Precondition,
        usage: Usage,
    ) -> Result<(), Error> {
        transaction.put(&self.shard_usage, DocumentId::try_new(shard)?, expected, &usage)?;
        Ok(())
    }

    /// Takes one cluster off the count of a shard, if it is counted.
    pub(super) async fn count_one_fewer(
        &self,
        transaction: &mut Transaction,
        shard: &str,
    ) -> Result<(), Error> {
        let found = self.get::<Usage>(&self.shard_usage, &DocumentId::try_new(shard)?).await?;
        let Some(Stored { value, etag }) = found else { return Ok(()) };
        let usage = Usage { clusters: value.clusters.saturating_sub(1) };
        self.count(transaction, shard, Precondition::Etag(etag), usage)
    }

    /// Writes what was found by counting, where it differs from what is written and nobody counted meanwhile. Answers
    /// which ones were wrong.
    ///
    /// `seats` has to be older than `clusters`: whatever came or went in between has changed the count.
    pub(crate) async fn recount(
        &self,
        seats: &[Seats],
        clusters: &[ClusterRecord],
    ) -> Result<Vec<String>, Error> {
        let mut found: BTreeMap<&str, u32> = BTreeMap::new();
        for record in clusters {
            *found.entry(record.shard.as_str()).or_default() += 1;
        }
        let mut wrong = Vec::new();
        for seats in seats {
            let id = seats.shard.value.shard.id.as_str();
            let usage = Usage { clusters: found.get(id).copied().unwrap_or_default() };
            if usage == seats.usage() {
                continue;
            }
            let mut transaction = Transaction::new(self.partition.clone());
            self.count(&mut transaction, id, seats.expected(), usage)?;
            match self.store.commit(&transaction).await {
                Ok(_) => wrong.push(id.to_owned()),
                // Somebody counts right now; the next look compares again.
                Err(Error::Conflict(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(wrong)
    }
}

/// Whether a transaction failed because somebody else counted first.
pub(super) fn is_counted_elsewhere(error: &Error) -> bool {
    is_conflict_in(error, SHARD_USAGE)
}

/// Whether a transaction failed because a management cluster is not as it was read.
pub(super) fn is_shard_changed(error: &Error) -> bool {
    is_conflict_in(error, SHARDS)
}

fn is_conflict_in(error: &Error, wanted: &str) -> bool {
    let Error::Conflict(
        Conflict::Changed { container, .. }
        | Conflict::Exists { container, .. }
        | Conflict::Missing { container, .. },
    ) = error
    else {
        return false;
    };
    container == wanted
}
