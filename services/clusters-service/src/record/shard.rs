//! A management cluster as it is stored.
//!
//! How many clusters it has is a document of its own: that one is written by every creation, in the transaction that
//! creates, and must not change for other reasons.

use jiff::Timestamp;
use pilothouse_clusters_service_api::{
    AzureShard, ProvisionShardStatus, ProvisionShardUpdate, ShardHealthState,
};
use serde::{Deserialize, Serialize};

use super::SCHEMA;
use crate::config::Shard;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShardRecord {
    schema: u32,
    /// What the configuration says of it, or what it was made known with.
    pub(crate) shard: Shard,
    /// What belongs to it in the cloud, as it was made known; where managed identities are says the former.
    #[serde(default)]
    pub(crate) azure: AzureShard,
    /// Whether the configuration names it: then it would come back if it were forgotten.
    pub(crate) configured: bool,
    /// What an operator wants of it.
    pub(crate) status: ProvisionShardStatus,
    /// How many clusters it may have, if somebody said so over the API.
    #[serde(default)]
    pub(crate) capacity: Option<u32>,
    pub(crate) created_at: Timestamp,
    #[serde(default)]
    pub(crate) health: Health,
    /// Set once it is to be forgotten.
    #[serde(default)]
    pub(crate) removing: bool,
}

/// What came of asking a management cluster whether it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Health {
    pub(crate) state: ShardHealthState,
    /// Whether there may be something at Maestro that asks it.
    pub(crate) asked: bool,
    /// When its last answer came.
    pub(crate) last_heard: Option<Timestamp>,
    /// What it could not do, in its own words.
    pub(crate) problem: Option<String>,
}

/// How many clusters a management cluster has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Usage {
    pub(crate) clusters: u32,
}

impl ShardRecord {
    pub(crate) fn new(shard: Shard, now: Timestamp) -> Self {
        Self {
            schema: SCHEMA,
            shard,
            azure: AzureShard::default(),
            configured: false,
            status: ProvisionShardStatus::Active,
            capacity: None,
            created_at: now,
            health: Health::default(),
            removing: false,
        }
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity.unwrap_or(self.shard.capacity)
    }

    /// Takes over a change; false if there is nothing to change.
    pub(crate) fn change(&mut self, update: &ProvisionShardUpdate) -> bool {
        let before = self.clone();
        self.status = update.status.unwrap_or(self.status);
        self.capacity = update.capacity.or(self.capacity);
        if before.status == ProvisionShardStatus::Offline && self.status != before.status {
            // What was known from before says nothing about one that comes back.
            self.health = Health { asked: self.health.asked, ..Health::default() };
        }
        *self != before
    }

    /// Why nothing can be expected of it now, in words; `None` if it is as it should be, or nobody knows.
    pub(crate) fn out_of_reach(&self) -> Option<String> {
        let consumer = &self.shard.consumer;
        if self.status == ProvisionShardStatus::Offline {
            return Some(format!("its management cluster `{consumer}` was put offline"));
        }
        if self.health.state != ShardHealthState::Unresponsive {
            return None;
        }
        let since = match self.health.last_heard {
            Some(heard) => format!("has not answered since {heard}"),
            None => "has never answered".to_owned(),
        };
        Some(match &self.health.problem {
            Some(problem) => format!("its management cluster `{consumer}` {since}: {problem}"),
            None => format!("its management cluster `{consumer}` {since}"),
        })
    }
}
