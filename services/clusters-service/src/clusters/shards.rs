//! Management clusters, and which of them a new cluster goes to.

use pilothouse_clusters_service_api::{
    AzureShard, BASES, ClusterId, Endpoint, List, ListQuery, MaestroConfig, NewProvisionShard,
    ProvisionShard, ProvisionShardStatus, ProvisionShardUpdate, Reference, ShardHealth,
};
use pilothouse_store::{Conflict, Decision, Error as StoreError};

use super::{Clusters, Mode, list, searched};
use crate::config::Shard;
use crate::placement::{self, Nowhere};
use crate::record::{ClusterRecord, ShardRecord, Usage};
use crate::records::{COUNTS, NotCreated, Seats};
use crate::refusal::Refusal;
use crate::search::Subject;

/// The longest name that is also a label of Kubernetes.
const LONGEST_ID: usize = 63;
/// The only ones there are.
const TOPOLOGY: &str = "shared";
const PROVIDER: &str = "azure";

impl Clusters {
    /// Writes a new cluster where there is room. Nobody else of this process counts meanwhile; another replica may.
    pub(super) async fn cluster_write(
        &self,
        record: &mut ClusterRecord,
    ) -> Result<Result<(), NotCreated>, Refusal> {
        let _turn = self.records.turn().await;
        for _ in 1..COUNTS {
            let seats = self.place(record).await?;
            match self.records.cluster_create(record, &seats).await {
                Err(NotCreated::SeatTaken) => {}
                outcome => return Ok(outcome),
            }
        }
        Ok(Err(NotCreated::SeatTaken))
    }

    /// Chooses the management cluster of a new cluster. Looks at management clusters and their counts, never at clusters.
    pub(super) async fn place(&self, record: &mut ClusterRecord) -> Result<Seats, Refusal> {
        let all = self.records.seats_list().await?;
        let chosen = placement::choose(all.iter().map(|seats| (&seats.shard.value, seats.usage())));
        let chosen = match chosen {
            Ok(shard) => shard.shard.id.clone(),
            Err(Nowhere { why, is_full }) => {
                return Err(Refusal::NoCapacity { region: self.config.region.clone(), why, is_full });
            }
        };
        record.shard.clone_from(&chosen);
        let mut all = all.into_iter();
        all.find(|seats| seats.shard.value.shard.id == chosen)
            .ok_or_else(|| Refusal::shard_not_found(chosen.as_str()))
    }

    /// The management cluster that hosts a cluster.
    pub(crate) async fn cluster_shard(&self, id: &ClusterId) -> Result<ProvisionShard, Refusal> {
        let record = self.cluster_record(id).await?;
        self.shard_get(&record.shard).await
    }

    pub(crate) async fn shard_get(&self, id: &str) -> Result<ProvisionShard, Refusal> {
        match self.records.seats_get(id).await? {
            Some(seats) => Ok(self.shown(&seats.shard.value, seats.usage())),
            None => Err(Refusal::shard_not_found(id)),
        }
    }

    pub(crate) async fn shard_list(&self, query: &ListQuery) -> Result<List<ProvisionShard>, Refusal> {
        let expression = searched(query, Subject::Shards)?;
        let all = self.records.seats_list().await?;
        let shown = all.iter().map(|seats| self.shown(&seats.shard.value, seats.usage()));
        list("ProvisionShardList", shown, expression.as_ref(), query, Subject::Shards)
    }

    /// Makes a management cluster known.
    pub(crate) async fn shard_create(
        &self,
        new: NewProvisionShard,
        mode: Mode,
    ) -> Result<ProvisionShard, Refusal> {
        let record = self.shard_admit(new)?;
        let consumer = &record.shard.consumer;
        let others = self.records.seats_list().await?;
        if let Some(other) = others.iter().find(|seats| seats.shard.value.shard.consumer == *consumer) {
            let id = &other.shard.value.shard.id;
            return Err(Refusal::Conflict(format!(
                "consumer `{consumer}` is provision shard `{id}` already"
            )));
        }
        let exists = || Refusal::Conflict(format!("provision shard `{}` exists", record.shard.id));
        if mode == Mode::DryRun {
            let known = others.iter().any(|seats| seats.shard.value.shard.id == record.shard.id);
            return if known { Err(exists()) } else { Ok(self.shown(&record, Usage::default())) };
        }
        match self.records.shard_create(&record).await {
            Ok(()) => self.shard_get(&record.shard.id).await,
            Err(StoreError::Conflict(Conflict::Exists { .. })) => Err(exists()),
            Err(error) => Err(error.into()),
        }
    }

    fn shard_admit(&self, new: NewProvisionShard) -> Result<ShardRecord, Refusal> {
        let NewProvisionShard {
            id,
            status,
            topology,
            region,
            cloud_provider,
            capacity,
            work_namespace,
            azure_shard,
            maestro_config,
        } = new;
        only("topology", topology, TOPOLOGY)?;
        only("region.id", region.map(|region| region.id), &self.config.region)?;
        only("cloud_provider.id", cloud_provider.map(|provider| provider.id), PROVIDER)?;
        let consumer = maestro_config.consumer_name;
        if consumer.is_empty() {
            return Err(Refusal::field("maestro_config.consumer_name", "it is required"));
        }
        let id = if id.is_empty() { consumer.clone() } else { id };
        if !is_label(&id) {
            let problem = format!(
                "`{id}` must be at most {LONGEST_ID} lower-case letters, digits and hyphens, with none of the latter at its \
                 ends"
            );
            return Err(Refusal::field("id", problem));
        }
        known(status)?;
        let default = Shard::default();
        // What is not said is as it is for those that the service was configured with.
        let first = self.config.shards.first().unwrap_or(&default);
        let or = |given: String, otherwise: &str| if given.is_empty() { otherwise.to_owned() } else { given };
        let shard = Shard {
            id,
            consumer,
            work_namespace: work_namespace.unwrap_or_else(|| default.work_namespace.clone()),
            managed_identities_key_vault_url: azure_shard.cx_managed_identities_key_vault_url.clone(),
            maestro_rest_url: or(maestro_config.rest_api_config.url, &first.maestro_rest_url),
            maestro_grpc_url: or(maestro_config.grpc_api_config.url, &first.maestro_grpc_url),
            capacity: capacity.unwrap_or(default.capacity),
        };
        let mut record = ShardRecord::new(shard, self.clock.now());
        record.azure = azure_shard;
        record.status = status;
        Ok(record)
    }

    /// Changes what is wanted of a management cluster. Clusters that it has stay where they are.
    pub(crate) async fn shard_update(
        &self,
        id: &str,
        update: &ProvisionShardUpdate,
        mode: Mode,
    ) -> Result<ProvisionShard, Refusal> {
        known(update.status.unwrap_or_default())?;
        let Some(seats) = self.records.seats_get(id).await? else {
            return Err(Refusal::shard_not_found(id));
        };
        if mode == Mode::DryRun {
            let usage = seats.usage();
            let mut record = seats.shard.value;
            record.change(update);
            return Ok(self.shown(&record, usage));
        }
        let updated = self
            .records
            .shard_update(id, |record| if record.change(update) { Decision::Write } else { Decision::Keep });
        match updated.await {
            Ok(_) => self.shard_get(id).await,
            Err(StoreError::Conflict(Conflict::Missing { .. })) => Err(Refusal::shard_not_found(id)),
            Err(error) => Err(error.into()),
        }
    }

    /// Forgets a management cluster, once it has no clusters.
    pub(crate) async fn shard_delete(&self, id: &str, mode: Mode) -> Result<(), Refusal> {
        let Some(seats) = self.records.seats_get(id).await? else {
            return Err(Refusal::shard_not_found(id));
        };
        let clusters = seats.usage().clusters;
        if clusters > 0 {
            let reason = format!(
                "provision shard `{id}` has {clusters} clusters; put it into `maintenance` and delete it once they have gone"
            );
            return Err(Refusal::Conflict(reason));
        }
        if seats.shard.value.configured {
            let reason = format!(
                "provision shard `{id}` is in the service's configuration, and would come back; take it out there first"
            );
            return Err(Refusal::Conflict(reason));
        }
        if mode == Mode::DryRun {
            return Ok(());
        }
        // What asks it whether it is there goes first.
        let updated = self.records.shard_update(id, |record| {
            if record.removing {
                return Decision::Keep;
            }
            record.removing = true;
            Decision::Write
        });
        match updated.await {
            Ok(_) | Err(StoreError::Conflict(Conflict::Missing { .. })) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn shown(&self, record: &ShardRecord, usage: Usage) -> ProvisionShard {
        let shard = &record.shard;
        let description = match (record.out_of_reach(), record.health.last_heard) {
            (Some(reason), _) => reason,
            (None, Some(_)) => "it does what it is asked".to_owned(),
            (None, None) => "it was not asked yet".to_owned(),
        };
        ProvisionShard {
            kind: "ProvisionShard".to_owned(),
            id: shard.id.clone(),
            href: format!("{}/provision_shards/{}", BASES[0], shard.id),
            status: record.status,
            topology: TOPOLOGY.to_owned(),
            region: Reference::new(&self.config.region),
            cloud_provider: Reference::new(PROVIDER),
            azure_shard: AzureShard {
                cx_managed_identities_key_vault_url: shard.managed_identities_key_vault_url.clone(),
                ..record.azure.clone()
            },
            maestro_config: MaestroConfig {
                consumer_name: shard.consumer.clone(),
                rest_api_config: Endpoint { url: shard.maestro_rest_url.clone() },
                grpc_api_config: Endpoint { url: shard.maestro_grpc_url.clone() },
            },
            work_namespace: shard.work_namespace.clone(),
            creation_timestamp: Some(record.created_at),
            capacity: record.capacity(),
            clusters: usage.clusters,
            health: ShardHealth {
                state: record.health.state,
                last_heard: record.health.last_heard,
                description,
            },
        }
    }
}

/// What has one value here may be said, and nothing else.
fn only(field: &'static str, said: Option<String>, value: &str) -> Result<(), Refusal> {
    match said {
        Some(said) if said != value => {
            Err(Refusal::field(field, format!("`{said}` is not possible; it is `{value}`, or left out")))
        }
        _ => Ok(()),
    }
}

fn known(status: ProvisionShardStatus) -> Result<(), Refusal> {
    match status {
        ProvisionShardStatus::Active | ProvisionShardStatus::Maintenance | ProvisionShardStatus::Offline => {
            Ok(())
        }
        _ => Err(Refusal::field("status", "it is one of `active`, `maintenance` and `offline`")),
    }
}

fn is_label(id: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=LONGEST_ID).contains(&id.len())
        && id.bytes().all(inner)
        && !id.starts_with('-')
        && !id.ends_with('-')
}
