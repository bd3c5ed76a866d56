//! What is posted to Maestro for a cluster and its node pools.
//!
//! Per cluster two bundles, per node pool one, each named so that the name alone leads back to what it is for:
//!
//! | bundle | inside |
//! |---|---|
//! | `<id>` | the `ManifestWork` `<id>`: namespace, secrets, `HostedCluster` |
//! | `<id>-managed` | the `ManagedCluster` `<id>` |
//! | `<id>-pool-<node pool>` | the `ManifestWork` `<id>-pool-<node pool>`: the `NodePool` |
//! | `<id>-credential-<id>` | the `ManifestWork` of that name: a request for a certificate, until that has come back |
//! | `<id>-revocation-<id>` | the `ManifestWork` of that name: that all such certificates are revoked, until they are |
//!
//! And, where there are several management clusters, one for each of these: `probe-<shard>`, see `shards`.
//!
//! A `ManifestWork` is applied twice: the agent of Maestro makes the object, the management cluster's own work agent
//! applies what is inside. So feedback is nested as well: the bundle feeds back the whole status of the work, the work
//! feeds back single fields of the objects in it.
//!
//! These functions are pure: the same records give the same bundles, and a bundle that differs from what Maestro has is
//! an update. An update is marked with its number (`mark`), which is no difference.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilothouse_clusters_service_api::{BreakGlassCredentialId, ClusterId, ExternalAuthId, NodePoolId};
use pilothouse_crds::{
    DeleteOption, FeedbackRule, FeedbackRuleType, JsonPath, ManifestConfig, ManifestWork, ManifestWorkSpec,
    PropagationPolicy, ResourceIdentifier, ServerSideApply, UpdateStrategy, UpdateStrategyType, Workload,
};
use pilothouse_maestro_api::{ManifestBundle, Work};
use secrecy::SecretString;
use serde_json::Value;

use crate::config::Shard;
use crate::record::{ClusterRecord, CredentialRecord, NodePoolRecord, Origin, Revocation};

mod authentication;
mod credential;
mod hosted_cluster;
mod identities;
mod left_behind;
mod managed_cluster;
pub(crate) mod mark;
mod node_pool;
mod probe;
mod secrets;
mod settings;
#[cfg(test)]
mod tests;

pub(crate) use left_behind::left_behind;
pub(crate) use probe::{SHARD_LABEL, probe_asked_at, probe_work, probe_work_name};

/// On every object of a cluster, at every level: the service's own id of the cluster.
pub(crate) const CLUSTER_ID_LABEL: &str = "api.openshift.com/id";
/// The one id that follows the work.
const CORRELATION_ANNOTATION: &str = "pilothouse.dev/correlation-id";

/// Conditions of a `HostedCluster` that are fed back.
pub(crate) const HOSTED_CLUSTER_CONDITIONS: [&str; 7] = [
    "Available",
    "Progressing",
    "Degraded",
    "ValidConfiguration",
    "ValidReleaseImage",
    "SupportedHostedCluster",
    "ValidOIDCConfiguration",
];
/// Conditions of a `NodePool` that are fed back.
pub(crate) const NODE_POOL_CONDITIONS: [&str; 4] =
    ["Ready", "ValidReleaseImage", "SupportedVersionSkew", "ValidPlatformConfig"];
/// The name of the rule that feeds back a whole status.
pub(crate) const STATUS_FEEDBACK: &str = "status";
/// The name of the rule that feeds back how often what an object asks for was changed: a status is about one of these.
pub(crate) const GENERATION_FEEDBACK: &str = "Generation";
/// The name of the rule that feeds back how far the newest version of an object is.
pub(crate) const VERSION_STATE_FEEDBACK: &str = "VersionState";
/// The name of the rule that feeds back the newest version of an object.
pub(crate) const VERSION_FEEDBACK: &str = "Version";
/// The name of the rule that feeds back which of these the controller of an object has looked at.
pub(crate) const OBSERVED_GENERATION_FEEDBACK: &str = "ObservedGeneration";

/// The names of the rules that feed back what an administrator's credential consists of, and since when all are revoked.
pub(crate) const CERTIFICATE_FEEDBACK: &str = "Certificate";
pub(crate) const SERVER_FEEDBACK: &str = "Server";
pub(crate) const SERVER_NAME_FEEDBACK: &str = "ServerName";
pub(crate) const AUTHORITIES_FEEDBACK: &str = "Authorities";
pub(crate) const REVOCATION_FEEDBACK: &str = "RevocationTimestamp";

/// What all manifests need to know beside the records.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) environment: String,
    pub(crate) release_repository: String,
    /// A Docker configuration.
    pub(crate) pull_secret: SecretString,
    pub(crate) ssh_public_key: Option<String>,
}

/// Why manifests could not be written down. Our own types always can.
pub(crate) type NotWritten = serde_json::Error;

pub(crate) fn cluster_work_name(id: &ClusterId) -> String {
    id.to_string()
}

pub(crate) fn managed_cluster_work_name(id: &ClusterId) -> String {
    format!("{id}-managed")
}

pub(crate) fn node_pool_work_name(id: &ClusterId, node_pool: &NodePoolId) -> String {
    format!("{id}-pool-{node_pool}")
}

pub(crate) fn credential_work_name(id: &ClusterId, credential: &BreakGlassCredentialId) -> String {
    format!("{id}-credential-{credential}")
}

pub(crate) fn revocation_work_name(id: &ClusterId, revocation: &str) -> String {
    format!("{id}-revocation-{revocation}")
}

/// The bundle with the `HostedCluster`.
pub(crate) fn cluster_work(
    record: &ClusterRecord,
    shard: &Shard,
    settings: &Settings,
) -> Result<Work, NotWritten> {
    let names = Names::of(record, settings);
    let mut manifests = secrets::manifests(record, settings, &names)?;
    let authorities = authentication::authorities(record, &names)?;
    let mut feedback = hosted_cluster::feedback(&names);
    if !authorities.is_empty() {
        feedback.push(config(hosted_cluster::config_maps(&names), Vec::new()));
        manifests.extend(authorities);
    }
    manifests.push(hosted_cluster::manifest(record, settings, &names)?);
    nested(&cluster_work_name(&record.cluster.id), record, record.latest_origin(), shard, manifests, feedback)
}

/// The bundle with the `ManagedCluster`.
pub(crate) fn managed_cluster_work(record: &ClusterRecord, shard: &Shard) -> Result<Work, NotWritten> {
    let manifest = managed_cluster::manifest(record)?;
    let identifier = ResourceIdentifier {
        group: "cluster.open-cluster-management.io".to_owned(),
        resource: "managedclusters".to_owned(),
        name: record.cluster.id.to_string(),
        namespace: String::new(),
    };
    let config = config(identifier, vec![path(STATUS_FEEDBACK, ".status")]);
    let name = managed_cluster_work_name(&record.cluster.id);
    Ok(work(&name, record, &record.origin, shard, vec![manifest], vec![config]))
}

/// The bundle with a `NodePool`.
pub(crate) fn node_pool_work(
    cluster: &ClusterRecord,
    node_pool: &NodePoolRecord,
    shard: &Shard,
    settings: &Settings,
) -> Result<Work, NotWritten> {
    let names = Names::of(cluster, settings);
    let manifest = node_pool::manifest(cluster, node_pool, settings, &names)?;
    let feedback = node_pool::feedback(node_pool, &names);
    let name = node_pool_work_name(&cluster.cluster.id, &node_pool.node_pool.id);
    nested(&name, cluster, node_pool.latest_origin(), shard, vec![manifest], feedback)
}

/// The bundle with a request for an administrator's certificate.
pub(crate) fn credential_work(
    cluster: &ClusterRecord,
    credential: &CredentialRecord,
    shard: &Shard,
    settings: &Settings,
) -> Result<Work, NotWritten> {
    let names = Names::of(cluster, settings);
    let manifests = credential::manifests(cluster, credential, &names)?;
    let feedback = credential::feedback(credential, &names);
    let name = credential_work_name(&cluster.cluster.id, &credential.credential.id);
    nested(&name, cluster, &credential.origin, shard, manifests, feedback)
}

/// The bundle that has the signer of such certificates replaced.
pub(crate) fn revocation_work(
    cluster: &ClusterRecord,
    revocation: &Revocation,
    shard: &Shard,
    settings: &Settings,
) -> Result<Work, NotWritten> {
    let names = Names::of(cluster, settings);
    let (manifest, feedback) = credential::revocation(cluster, revocation, &names)?;
    let name = revocation_work_name(&cluster.cluster.id, &revocation.id);
    nested(&name, cluster, cluster.latest_origin(), shard, vec![manifest], vec![feedback])
}

/// The image of a release, by its number.
pub(crate) fn image_of(repository: &str, number: &str) -> String {
    format!("{repository}:{number}")
}

/// The names that several manifests share.
struct Names {
    /// Where the `HostedCluster`, its node pools and secrets are.
    namespace: String,
    /// The name of the `HostedCluster`.
    hosted_cluster: String,
}

impl Names {
    fn of(record: &ClusterRecord, settings: &Settings) -> Self {
        Self::in_environment(record, &settings.environment)
    }

    fn in_environment(record: &ClusterRecord, environment: &str) -> Self {
        Self {
            namespace: format!("ocm-{environment}-{}", record.cluster.id),
            hosted_cluster: record.cluster.domain_prefix.clone(),
        }
    }

    /// Where the control plane runs.
    fn control_plane(&self) -> String {
        format!("{}-{}", self.namespace, self.hosted_cluster)
    }

    fn pull_secret(&self) -> String {
        format!("{}-pull-secret", self.hosted_cluster)
    }

    fn ssh_key(&self) -> String {
        format!("{}-ssh-key", self.hosted_cluster)
    }

    fn secret_encryption(&self) -> String {
        format!("{}-secret-encryption", self.hosted_cluster)
    }

    fn issuer_authority(&self, external_auth: &ExternalAuthId) -> String {
        format!("{}-issuer-{external_auth}", self.hosted_cluster)
    }

    fn node_pool(&self, node_pool: &NodePoolId) -> String {
        format!("{}-{node_pool}", self.hosted_cluster)
    }
}

/// A bundle that wraps a `ManifestWork` of the same name, which holds the manifests.
fn nested(
    name: &str,
    cluster: &ClusterRecord,
    origin: &Origin,
    shard: &Shard,
    manifests: Vec<Value>,
    manifest_configs: Vec<ManifestConfig>,
) -> Result<Work, NotWritten> {
    let mut inner = ManifestWork::new(
        name,
        ManifestWorkSpec {
            workload: Workload { manifests },
            delete_option: Some(foreground()),
            manifest_configs,
            ..ManifestWorkSpec::default()
        },
    );
    let namespace = Some(shard.work_namespace.clone());
    inner.metadata = ObjectMeta { namespace, ..metadata(name, cluster, origin) };
    let identifier = ResourceIdentifier {
        group: "work.open-cluster-management.io".to_owned(),
        resource: "manifestworks".to_owned(),
        name: name.to_owned(),
        namespace: shard.work_namespace.clone(),
    };
    // Nothing but this: people and programs take whatever is fed back of a work for its status.
    let config = config(identifier, vec![path(STATUS_FEEDBACK, ".status")]);
    Ok(work(name, cluster, origin, shard, vec![serde_json::to_value(inner)?], vec![config]))
}

fn work(
    name: &str,
    cluster: &ClusterRecord,
    origin: &Origin,
    shard: &Shard,
    manifests: Vec<Value>,
    manifest_configs: Vec<ManifestConfig>,
) -> Work {
    Work {
        consumer: shard.consumer.clone(),
        name: name.to_owned(),
        labels: labels(cluster),
        annotations: annotations(origin),
        bundle: ManifestBundle {
            manifests,
            delete_option: Some(foreground()),
            manifest_configs,
            executor: None,
        },
        correlation_id: origin.correlation_id.clone(),
    }
}

fn foreground() -> DeleteOption {
    DeleteOption { propagation_policy: PropagationPolicy::Foreground, ..DeleteOption::default() }
}

/// Applied on the server's side, so that defaults filled in there are not taken for drift.
fn config(resource_identifier: ResourceIdentifier, json_paths: Vec<JsonPath>) -> ManifestConfig {
    let rule = FeedbackRule { type_: FeedbackRuleType::JsonPaths, json_paths };
    ManifestConfig {
        resource_identifier,
        feedback_rules: if rule.json_paths.is_empty() { Vec::new() } else { vec![rule] },
        update_strategy: Some(UpdateStrategy {
            type_: UpdateStrategyType::ServerSideApply,
            server_side_apply: Some(ServerSideApply { force: true, ..ServerSideApply::default() }),
        }),
        other: BTreeMap::new(),
    }
}

fn path(name: impl Into<String>, path: impl Into<String>) -> JsonPath {
    JsonPath { name: name.into(), path: path.into(), ..JsonPath::default() }
}

/// Four rules a condition, as whoever reads them elsewhere expects.
fn condition_paths(conditions: &[&str]) -> Vec<JsonPath> {
    let fields = [
        ("Status", "status"),
        ("Reason", "reason"),
        ("Message", "message"),
        ("LastTransitionTime", "lastTransitionTime"),
    ];
    let of_condition = |condition: &str| {
        fields.map(|(suffix, field)| {
            path(
                format!("{condition}-{suffix}"),
                format!(r#".status.conditions[?(@.type=="{condition}")].{field}"#),
            )
        })
    };
    conditions.iter().flat_map(|condition| of_condition(condition)).collect()
}

fn metadata(name: &str, cluster: &ClusterRecord, origin: &Origin) -> ObjectMeta {
    let annotations = annotations(origin);
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(labels(cluster)),
        annotations: (!annotations.is_empty()).then_some(annotations),
        ..ObjectMeta::default()
    }
}

fn labels(cluster: &ClusterRecord) -> BTreeMap<String, String> {
    BTreeMap::from([(CLUSTER_ID_LABEL.to_owned(), cluster.cluster.id.to_string())])
}

fn annotations(origin: &Origin) -> BTreeMap<String, String> {
    let correlation = origin.correlation_id.iter();
    correlation.map(|id| (CORRELATION_ANNOTATION.to_owned(), id.clone())).collect()
}
