//! The controller of management clusters: asks each of them whether it is there.
//!
//! The question is a `ConfigMap` with the moment it was asked at. It takes the way of all manifests: Maestro, its broker, the
//! agent, the management cluster's API, and back. So an answer says that this way is open, and not merely that some process
//! runs. The next question is asked when the last was answered and its time has come; one that is not answered in time
//! stays where it is, and is answered whenever the management cluster is back.

use std::sync::Arc;

use jiff::Timestamp;
use pilothouse_clusters_service_api::{ProvisionShardStatus, ShardHealthState};
use pilothouse_maestro_api::{Error as MaestroError, RestClient, SourceClient, work_uid};
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};
use pilothouse_store::{Conflict, Decision, Error as StoreError};
use tracing::{info, warn};

use crate::config::{Config, Probes, Probing, Shard};
use crate::manifests;
use crate::observed::Bundle;
use crate::plan::plus;
use crate::record::{Health, ShardRecord};
use crate::records::Records;

/// Keeps what is known of management clusters.
#[derive(Debug)]
pub(crate) struct ShardController {
    pub(crate) records: Records,
    pub(crate) maestro: RestClient,
    pub(crate) source: SourceClient,
    pub(crate) config: Arc<Config>,
    pub(crate) clock: Clock,
}

/// What follows from what Maestro has of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Verdict {
    health: Health,
    ask: bool,
    look_again: Timestamp,
}

impl Reconcile for ShardController {
    type Key = String;

    async fn list(&self) -> Result<Vec<String>, TaskError> {
        let all = self.records.seats_list().await?;
        Ok(all.into_iter().map(|seats| seats.shard.value.shard.id).collect())
    }

    async fn reconcile(&self, id: &String) -> Result<Next, TaskError> {
        let Some(stored) = self.records.shard_get(id).await? else { return Ok(Next::Done) };
        let record = &stored.value;
        let wanted = match self.config.probes.when {
            Probing::Never => false,
            Probing::Several => self.records.shards_are_several().await?,
            Probing::Always => true,
        };
        if record.removing || !wanted || record.status == ProvisionShardStatus::Offline {
            self.leave_alone(record).await?;
            if record.removing {
                self.forget(id).await?;
            }
            return Ok(Next::Done);
        }
        self.probe(record).await
    }
}

impl ShardController {
    async fn probe(&self, record: &ShardRecord) -> Result<Next, TaskError> {
        let shard = &record.shard;
        let bundle = self.maestro.resource_bundle_get(&self.bundle_id(shard)).await?.map(Bundle::of);
        let now = self.clock.now();
        let verdict = judge(&record.health, bundle.as_ref(), &self.config.probes, now);
        self.note(record, &verdict.health).await?;
        if verdict.ask {
            let work = manifests::probe_work(shard, now);
            let asked = match &bundle {
                Some(bundle) => self.source.work_update(&work, bundle.version).await,
                None => self.source.work_create(&work).await,
            };
            match asked {
                // Another replica was faster, which is as well.
                Ok(()) | Err(MaestroError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Next::After(self.clock.until(verdict.look_again)))
    }

    /// Takes away what asks it, and what was known from asking.
    async fn leave_alone(&self, record: &ShardRecord) -> Result<(), TaskError> {
        if !record.health.asked {
            return Ok(());
        }
        self.maestro.resource_bundle_delete(&self.bundle_id(&record.shard)).await?;
        self.note(record, &Health::default()).await?;
        Ok(())
    }

    async fn forget(&self, id: &str) -> Result<(), TaskError> {
        let Some(seats) = self.records.seats_get(id).await? else { return Ok(()) };
        if seats.usage().clusters > 0 {
            // It got one while nobody looked, so it stays.
            warn!(shard = id, "a management cluster that was to be forgotten has clusters");
            self.update(id, |record| record.removing = false).await?;
            return Ok(());
        }
        match self.records.shard_remove(&seats).await {
            Ok(()) => {
                info!(shard = id, "the management cluster is forgotten");
                Ok(())
            }
            // It changed just now; what changed it looks again.
            Err(StoreError::Conflict(_)) => {
                Err("the management cluster changed while it was forgotten".into())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn note(&self, record: &ShardRecord, health: &Health) -> Result<(), TaskError> {
        if record.health == *health {
            return Ok(());
        }
        let id = &record.shard.id;
        self.update(id, |record| record.health.clone_from(health)).await?;
        let (before, after) = (record.health.state, health.state);
        if before == after {
            return Ok(());
        }
        match after {
            ShardHealthState::Unresponsive => {
                warn!(shard = id, consumer = record.shard.consumer, "a management cluster does not answer");
            }
            _ => info!(shard = id, ?before, ?after, "a management cluster's health changed"),
        }
        Ok(())
    }

    async fn update(&self, id: &str, change: impl Fn(&mut ShardRecord)) -> Result<(), StoreError> {
        let updated = self.records.shard_update(id, |record| {
            let before = record.clone();
            change(record);
            if *record == before { Decision::Keep } else { Decision::Write }
        });
        match updated.await {
            Ok(_) | Err(StoreError::Conflict(Conflict::Missing { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn bundle_id(&self, shard: &Shard) -> String {
        work_uid(self.source.source(), &shard.consumer, &manifests::probe_work_name(&shard.id)).to_string()
    }
}

fn judge(before: &Health, bundle: Option<&Bundle>, probes: &Probes, now: Timestamp) -> Verdict {
    let mut health = Health { asked: true, ..before.clone() };
    let again = plus(now, probes.every.0);
    let asked_at = bundle.and_then(|bundle| manifests::probe_asked_at(&bundle.content));
    let (Some(bundle), Some(asked_at)) = (bundle, asked_at) else {
        return Verdict { health, ask: true, look_again: again };
    };
    let report = bundle.direct_report();
    health.problem.clone_from(&report.problem);
    if report.applied {
        let news = health.state != ShardHealthState::Healthy
            || health.last_heard.is_none_or(|heard| heard < asked_at);
        if news {
            health.last_heard = Some(now);
        }
        health.state = ShardHealthState::Healthy;
        let due = plus(asked_at, probes.every.0);
        let ask = now >= due;
        return Verdict { health, ask, look_again: if ask { again } else { due } };
    }
    let deadline = plus(asked_at, probes.silence.0);
    if now < deadline {
        return Verdict { health, ask: false, look_again: deadline };
    }
    health.state = ShardHealthState::Unresponsive;
    Verdict { health, ask: false, look_again: again }
}

#[cfg(test)]
mod tests {
    use pilothouse_maestro_api::BundleStatus;
    use serde_json::json;

    use super::*;

    fn moment(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn question(asked_at: i64, applied: Option<&str>) -> Bundle {
        let work = manifests::probe_work(&Shard::default(), moment(asked_at));
        let status = applied.map(|status| -> BundleStatus {
            let condition = json!({"type": "Applied", "status": status, "reason": "x", "message": "no room",
                                   "lastTransitionTime": "2026-01-01T00:00:00Z"});
            serde_json::from_value(json!({"conditions": [condition], "resourceStatus": []})).unwrap()
        });
        Bundle { version: 1, deleting: false, content: work.bundle, status }
    }

    #[test]
    fn one_that_answers_is_asked_again_in_time_and_one_that_does_not_is_lost_at_its_deadline() {
        let probes = Probes::default();
        let at = |health: &Health, bundle: Option<&Bundle>, now| judge(health, bundle, &probes, moment(now));
        let first = at(&Health::default(), None, 0);
        assert_eq!((first.ask, first.health.state), (true, ShardHealthState::Unknown));

        let waiting = at(&first.health, Some(&question(0, None)), 10);
        assert_eq!((waiting.ask, waiting.look_again), (false, moment(180)));
        let answered = at(&waiting.health, Some(&question(0, Some("True"))), 20);
        assert_eq!(
            (answered.health.state, answered.health.last_heard),
            (ShardHealthState::Healthy, Some(moment(20)))
        );
        assert_eq!((answered.ask, answered.look_again), (false, moment(60)));
        // Looking once more is no news.
        assert_eq!(at(&answered.health, Some(&question(0, Some("True"))), 30).health, answered.health);
        assert!(at(&answered.health, Some(&question(0, Some("True"))), 60).ask);

        let silent = at(&answered.health, Some(&question(60, None)), 239);
        assert_eq!(silent.health.state, ShardHealthState::Healthy);
        let lost = at(&answered.health, Some(&question(60, Some("False"))), 240);
        assert_eq!((lost.health.state, lost.ask), (ShardHealthState::Unresponsive, false));
        assert_eq!(
            (lost.health.last_heard, lost.health.problem.as_deref()),
            (Some(moment(20)), Some("no room"))
        );
        let back = at(&lost.health, Some(&question(60, Some("True"))), 500);
        assert_eq!(
            (back.health.state, back.health.last_heard),
            (ShardHealthState::Healthy, Some(moment(500)))
        );
        assert_eq!((back.health.problem, back.ask), (None, true));
    }
}
