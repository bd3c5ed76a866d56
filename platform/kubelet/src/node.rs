//! The Node object and its lease.
//!
//! The object says what the node is and is written when that changes; the lease says that it lives and is renewed every ten
//! seconds.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{
    DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeSpec, NodeStatus,
    NodeSystemInfo, Taint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference, Time};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use pilothouse_runtime::backoff::Policy;
use pilothouse_runtime::{Chain, Clock, TaskError};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::{info, warn};

use crate::cgroups::Cgroups;
use crate::config::Config;
use crate::pressure;

const LEASE_NAMESPACE: &str = "kube-node-lease";
/// Whether limits of pods are more than words here.
const LIMITS: &str = "ResourceLimits";
const LEASE_SECONDS: i32 = 40;
const RENEWAL: Duration = Duration::from_secs(10);

/// This node, as the API is told about it.
#[derive(Clone)]
pub(crate) struct Registration {
    pub(crate) client: kube::Client,
    pub(crate) config: Config,
    pub(crate) address: Ipv4Addr,
    pub(crate) clock: Clock,
    /// What limits are enforced by. A node whose pods are parts of this process has none to enforce.
    pub(crate) cgroups: Option<Cgroups>,
}

impl Registration {
    /// Makes the Node if it is missing, with its condition `Ready` at False: nothing has been seen to work yet. Tries until
    /// the API answers.
    pub(crate) async fn ensure(&self) -> Node {
        let mut delays = Policy::RECONNECT.delays();
        loop {
            match self.ensure_once().await {
                Ok(node) => return node,
                Err(error) => warn!(error = %Chain(error.as_ref()), "cannot register the node, trying again"),
            }
            if let Some(delay) = delays.next() {
                sleep(delay).await;
            }
        }
    }

    async fn ensure_once(&self) -> Result<Node, TaskError> {
        let api: Api<Node> = Api::all(self.client.clone());
        if let Some(node) = api.get_opt(&self.config.node_name).await? {
            let missing: BTreeMap<_, _> = self
                .labels()
                .into_iter()
                .filter(|(key, value)| node.labels().get(key) != Some(value))
                .collect();
            if missing.is_empty() {
                return Ok(node);
            }
            let patch = json!({"metadata": {"labels": missing}});
            return Ok(api
                .patch(&self.config.node_name, &PatchParams::default(), &Patch::Merge(&patch))
                .await?);
        }
        let taints = self.config.taints.iter().map(|taint| Taint {
            key: taint.key.clone(),
            value: taint.value.clone(),
            effect: taint.effect.clone(),
            time_added: None,
        });
        let node = Node {
            metadata: ObjectMeta {
                name: Some(self.config.node_name.clone()),
                labels: Some(self.labels()),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec {
                taints: Some(taints.collect::<Vec<_>>()).filter(|taints| !taints.is_empty()),
                pod_cidr: self.config.pod_range.clone(),
                pod_cidrs: self.config.pod_range.clone().map(|range| vec![range]),
                ..NodeSpec::default()
            }),
            status: None,
        };
        match api.create(&PostParams::default(), &node).await {
            Ok(node) => {
                info!(node = self.config.node_name, "registered the node");
                Ok(node)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {
                Ok(api.get(&self.config.node_name).await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Says that the node is ready, and what it is, unless the API knows already.
    pub(crate) async fn report(&self) -> Result<(), TaskError> {
        let api: Api<Node> = Api::all(self.client.clone());
        let node = api.get(&self.config.node_name).await?;
        let status = self.status(&node);
        if node.status.as_ref().is_some_and(|present| says_the_same(present, &status)) {
            return Ok(());
        }
        let patch = json!({"status": status});
        api.patch_status(&self.config.node_name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        info!(node = self.config.node_name, "the node is ready");
        Ok(())
    }

    /// Renews the lease until dropped, and repeats the report from time to time: somebody may have found us dead.
    pub(crate) async fn keep_alive(&self, owner: &Node) -> Result<(), TaskError> {
        let mut ticks = interval(RENEWAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut healthy = true;
        loop {
            ticks.tick().await;
            let renewed = async {
                self.renew(owner).await?;
                self.report().await
            };
            match renewed.await {
                Ok(()) => healthy = true,
                Err(error) => {
                    if healthy {
                        warn!(error = %Chain(error.as_ref()), "cannot renew the node's lease");
                    }
                    healthy = false;
                }
            }
        }
    }

    async fn renew(&self, owner: &Node) -> Result<(), TaskError> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), LEASE_NAMESPACE);
        let name = &self.config.node_name;
        let now = MicroTime(self.clock.now());
        let patch = json!({"spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now}});
        match api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(LEASE_NAMESPACE.to_owned()),
                owner_references: Some(vec![OwnerReference {
                    api_version: "v1".to_owned(),
                    kind: "Node".to_owned(),
                    name: name.clone(),
                    uid: owner.uid().unwrap_or_default(),
                    ..OwnerReference::default()
                }]),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(name.clone()),
                lease_duration_seconds: Some(LEASE_SECONDS),
                renew_time: Some(now),
                ..LeaseSpec::default()
            }),
        };
        api.create(&PostParams::default(), &lease).await?;
        Ok(())
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::from([
            ("kubernetes.io/hostname".to_owned(), self.config.node_name.clone()),
            ("kubernetes.io/os".to_owned(), "linux".to_owned()),
            ("kubernetes.io/arch".to_owned(), architecture().to_owned()),
        ]);
        labels.extend(self.config.labels.clone());
        labels
    }

    fn status(&self, node: &Node) -> NodeStatus {
        let capacity = capacity(&self.config);
        let now = self.clock.now();
        let condition = |kind: &str, status: &str, reason: &str, message: &str| {
            let present =
                node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
            let known =
                present.iter().find(|condition| condition.type_ == kind && condition.status == status);
            NodeCondition {
                type_: kind.to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                message: Some(message.to_owned()),
                last_transition_time: known
                    .and_then(|condition| condition.last_transition_time.clone())
                    .or_else(|| Some(seconds(now))),
                last_heartbeat_time: Some(seconds(now)),
            }
        };
        let [memory, disk, processes] = pressure::measure(&self.config.root).map(|one| {
            let (status, reason, message) = one.in_words();
            condition(one.kind, status, reason, message)
        });
        let limits = self.cgroups.as_ref().map(|cgroups| match cgroups.shortfall() {
            None => condition(LIMITS, "True", "Enforced", "limits are enforced through control groups"),
            Some(shortfall) => condition(LIMITS, "False", shortfall.reason, &shortfall.message),
        });
        let ready = match &self.cgroups {
            Some(_) => "namespaces, network and proxy are in place",
            None => "the process runs that its pods are parts of",
        };
        let ready = condition("Ready", "True", "KubeletReady", ready);
        let address = |kind: &str, address: String| NodeAddress { type_: kind.to_owned(), address };
        NodeStatus {
            capacity: Some(capacity.clone()),
            allocatable: Some(capacity),
            conditions: Some([memory, disk, processes].into_iter().chain(limits).chain([ready]).collect()),
            addresses: Some(vec![
                address("InternalIP", self.address.to_string()),
                address("Hostname", self.config.node_name.clone()),
            ]),
            daemon_endpoints: Some(NodeDaemonEndpoints {
                kubelet_endpoint: Some(DaemonEndpoint { port: i32::from(self.config.listen.port()) }),
            }),
            node_info: Some(NodeSystemInfo {
                architecture: architecture().to_owned(),
                container_runtime_version: concat!("pilothouse://", env!("CARGO_PKG_VERSION")).to_owned(),
                kernel_version: line("/proc/sys/kernel/osrelease"),
                kubelet_version: format!("v{}", self.config.version.trim_start_matches('v')),
                kube_proxy_version: format!("v{}", self.config.version.trim_start_matches('v')),
                machine_id: line("/etc/machine-id"),
                boot_id: line("/proc/sys/kernel/random/boot_id"),
                operating_system: "linux".to_owned(),
                os_image: "Linux".to_owned(),
                ..NodeSystemInfo::default()
            }),
            ..NodeStatus::default()
        }
    }
}

/// Apart from the moments it was said at.
fn says_the_same(present: &NodeStatus, new: &NodeStatus) -> bool {
    let timeless = |status: &NodeStatus| {
        let conditions = status.conditions.iter().flatten();
        let conditions: Vec<_> =
            conditions.map(|one| (one.type_.clone(), one.status.clone(), one.reason.clone())).collect();
        let plain = (
            status.capacity.clone(),
            status.addresses.clone(),
            status.node_info.clone(),
            status.daemon_endpoints.clone(),
        );
        (conditions, plain)
    };
    timeless(present) == timeless(new)
}

fn capacity(config: &Config) -> BTreeMap<String, Quantity> {
    BTreeMap::from([
        ("cpu".to_owned(), Quantity(as_written(processors(config)))),
        ("memory".to_owned(), Quantity(as_written(memory(config)))),
        ("pods".to_owned(), Quantity(canonical(config.capacity.pods))),
    ])
}

/// The processors that pods share, as a quantity.
pub(crate) fn processors(config: &Config) -> String {
    config
        .capacity
        .cpu
        .clone()
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get).to_string())
}

/// The memory that pods share, as a quantity.
pub(crate) fn memory(config: &Config) -> String {
    config.capacity.memory.clone().unwrap_or_else(|| {
        let total = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kibibytes = total.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kibibytes = kibibytes.and_then(|rest| rest.split_ascii_whitespace().next()).unwrap_or("0");
        format!("{kibibytes}Ki")
    })
}

/// A number as the API gives it back, `10k` for 10000: else a report never seems to have arrived.
fn canonical(number: u32) -> String {
    pilothouse_cel::Quantity::whole(number.into()).to_string()
}

/// An amount as the API gives it back.
fn as_written(amount: String) -> String {
    pilothouse_cel::Quantity::parse(&amount).map_or(amount, |quantity| quantity.to_string())
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn line(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn seconds(moment: Timestamp) -> Time {
    Time(Timestamp::from_second(moment.as_second()).unwrap_or(moment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_api_writes_them() {
        for (number, text) in [(0, "0"), (110, "110"), (10_000, "10k"), (1_500, "1500"), (2_000_000, "2M")] {
            assert_eq!(canonical(number), text);
        }
        for (amount, text) in [("10240Mi", "10Gi"), ("2", "2"), ("nonsense", "nonsense")] {
            assert_eq!(as_written(amount.to_owned()), text);
        }
    }
}
