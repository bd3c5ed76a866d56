use std::collections::BTreeSet;

use pilothouse_arm::{ResourceId, dns};
use pilothouse_http::ListenerConfig;
use pilothouse_runtime::config::{Duration, SecretFile};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::error::Error;

/// How Clusters Service runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where it listens, and who may call; port 0 takes a free one.
    pub listener: ListenerConfig,
    /// The address of the cloud's resource manager. There is no default: it is different in every region.
    pub cloud: String,
    /// Part of the namespaces of hosted clusters, `ocm-<environment>-<id>`.
    pub environment: String,
    /// The region's name.
    pub region: String,
    /// The zone that clusters' names are in.
    pub base_domain: String,
    /// The id of that zone, in which clusters' own zones are delegated to. Without one, somebody else delegates.
    pub base_zone: Option<String>,
    /// Releases are `<repository>:<version>`.
    pub release_repository: String,
    /// The oldest and the newest minor version of OpenShift 4 that can be served.
    pub minor_versions: (u32, u32),
    /// The pull secret of every cluster, a Docker configuration file. Without one, clusters pull anonymously.
    pub pull_secret: Option<SecretFile>,
    /// The public key that may log in to nodes; none unless given.
    pub ssh_public_key: Option<String>,
    /// The management clusters.
    pub shards: Vec<Shard>,
    /// How management clusters are asked whether they are there.
    pub probes: Probes,
    /// How long each step may take before it counts as failed.
    pub deadlines: Deadlines,
    /// How often every cluster is looked at without any event.
    pub resync: Duration,
    /// How many clusters are worked on at once.
    pub concurrency: usize,
    /// How long a replica has a part of the work without saying that it is still there: so long others wait when it dies.
    pub lease: Duration,
    /// What this replica is called, if nobody else can ever have that name at the same time, as in a region of one process: whoever
    /// starts again under it goes on at once with what it was at. Without it every start is somebody new.
    pub replica: Option<String>,
}

/// A management cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shard {
    /// Its id.
    pub id: String,
    /// Its name at Maestro.
    pub consumer: String,
    /// The namespace of `ManifestWork`s that its own agent applies to itself.
    pub work_namespace: String,
    /// Where its customers' managed identities are.
    pub managed_identities_key_vault_url: String,
    /// Maestro's addresses, shown to whoever asks for the shard.
    pub maestro_rest_url: String,
    /// Maestro's gRPC address, likewise.
    pub maestro_grpc_url: String,
    /// How many clusters it may have. What is said here counts until somebody says otherwise over the API.
    pub capacity: u32,
}

/// How management clusters are asked whether they are there: by a small object that each of them is to apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Probes {
    /// Whether they are asked at all.
    pub when: Probing,
    /// How often.
    pub every: Duration,
    /// How long one may take to answer before it counts as lost.
    pub silence: Duration,
}

/// Whether management clusters are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probing {
    /// If there are several, so that there is a choice to make.
    #[default]
    Several,
    /// Also if there is only one.
    Always,
    /// Never: all of them count as well.
    Never,
}

/// How long each step may take before it counts as failed. Work goes on afterwards, and may still succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Deadlines {
    /// Preparing the cloud's resources.
    pub cloud: Duration,
    /// From the posted manifests to a cluster that answers.
    pub install: Duration,
    /// From a node pool's posted manifest to nodes that are ready.
    pub node_pool: Duration,
    /// From a request for an administrator's credential to a certificate.
    pub credential: Duration,
    /// Deleting anything.
    pub delete: Duration,
}

/// A namespace's name has 63 characters; see the design of names.
const LONGEST_ENVIRONMENT: usize = 9;

/// Below that, a busy machine loses leases that it has.
const SHORTEST_LEASE: std::time::Duration = std::time::Duration::from_secs(1);

impl Default for Config {
    fn default() -> Self {
        Self {
            listener: ListenerConfig::loopback(0),
            cloud: String::new(),
            environment: "local".to_owned(),
            region: "local".to_owned(),
            base_domain: "pilothouse.test".to_owned(),
            base_zone: None,
            release_repository: "pilothouse/release".to_owned(),
            minor_versions: (17, 21),
            pull_secret: None,
            ssh_public_key: None,
            shards: vec![Shard::default()],
            probes: Probes::default(),
            deadlines: Deadlines::default(),
            resync: Duration::from_secs(300),
            concurrency: 32,
            lease: Duration::from_secs(15),
            replica: None,
        }
    }
}

impl Default for Shard {
    fn default() -> Self {
        Self {
            id: "local".to_owned(),
            consumer: "local-cluster".to_owned(),
            work_namespace: "local-cluster".to_owned(),
            managed_identities_key_vault_url: "https://local-cx-mi-1.vault.pilothouse.test".to_owned(),
            maestro_rest_url: String::new(),
            maestro_grpc_url: String::new(),
            // What one machine was measured to carry.
            capacity: 1_000,
        }
    }
}

impl Default for Probes {
    fn default() -> Self {
        Self {
            when: Probing::default(),
            every: Duration::from_secs(60),
            silence: Duration::from_secs(3 * 60),
        }
    }
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            cloud: Duration::from_secs(5 * 60),
            install: Duration::from_secs(20 * 60),
            node_pool: Duration::from_secs(20 * 60),
            credential: Duration::from_secs(10 * 60),
            delete: Duration::from_secs(25 * 60),
        }
    }
}

impl Deadlines {
    /// By when a cluster has everything that others wait for.
    pub(crate) fn of_cluster(&self) -> std::time::Duration {
        self.cloud.0.saturating_add(self.install.0)
    }
}

impl Config {
    /// Checked once, at the edge.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let refused = |key, problem: String| Err(Error::Config { key, problem });
        let label = |text: &str| {
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        if !label(&self.environment) || self.environment.len() > LONGEST_ENVIRONMENT {
            let problem = format!("must be 1 to {LONGEST_ENVIRONMENT} lower-case letters and digits");
            return refused("environment", problem);
        }
        if self.shards.is_empty() {
            return refused("shards", "must name at least one management cluster".to_owned());
        }
        let mut known = BTreeSet::new();
        for shard in &self.shards {
            if shard.id.is_empty() || shard.consumer.is_empty() {
                return refused("shards", "each needs an `id` and a `consumer`".to_owned());
            }
            if !known.insert(&shard.id) {
                return refused("shards", format!("must not name `{}` twice", shard.id));
            }
        }
        if self.lease.0 < SHORTEST_LEASE {
            return refused("lease", format!("must be at least {SHORTEST_LEASE:?}: it is renewed in time"));
        }
        if self.base_domain.is_empty() {
            return refused("base_domain", "must not be empty".to_owned());
        }
        Ok(())
    }

    /// The address of the cloud's resource manager.
    pub(crate) fn cloud_address(&self) -> Result<Url, Error> {
        match Url::parse(&self.cloud) {
            Ok(address) if !address.cannot_be_a_base() => Ok(address),
            _ => Err(Error::Config {
                key: "cloud",
                problem: format!("must be the address of the cloud's resource manager, not `{}`", self.cloud),
            }),
        }
    }

    /// The zone that clusters' zones are delegated from.
    pub(crate) fn base_zone(&self) -> Result<Option<ResourceId>, Error> {
        let refused = |problem: String| Error::Config { key: "base_zone", problem };
        let Some(text) = &self.base_zone else { return Ok(None) };
        let id: ResourceId = text.parse().map_err(|error| refused(format!("is not usable: {error}")))?;
        if !id.is_a(dns::ZONES) || !id.name().eq_ignore_ascii_case(&self.base_domain) {
            return Err(refused(format!(
                "must be the id of the DNS zone `{}`, not `{id}`",
                self.base_domain
            )));
        }
        Ok(Some(id))
    }
}
