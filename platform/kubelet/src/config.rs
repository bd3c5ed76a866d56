use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use pilothouse_runtime::config::Duration;
use serde::{Deserialize, Serialize};

/// A node and how it reaches its cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The name of the Node object.
    pub node_name: String,
    /// Where pods, their logs and volumes, and the kubelet's own records are. Absolute; no other kubelet may use it.
    pub root: PathBuf,
    /// How the API server is reached and who we are to it.
    pub kubeconfig: PathBuf,
    /// A kubeconfig whose user is the token that lets this node join. With it the node asks for its own certificates, keeps them
    /// below its root folder, renews them, and writes `kubeconfig` itself (a file beside them, if nothing is said). It is not
    /// needed again once the node has joined.
    pub bootstrap_kubeconfig: Option<PathBuf>,
    /// How long somebody may take to approve and sign the certificate of a node that joins.
    pub join_limit: Duration,
    /// A Unix socket through which the API server is reached, where it is in another network. The kubeconfig still says
    /// how it is recognised. Without it, plain TCP.
    pub host_socket: Option<PathBuf>,
    /// What the API server is called on that socket.
    pub host_target: String,
    /// Where to offer connections into the node's network, as a Unix socket. Without it nothing is offered.
    pub node_socket: Option<PathBuf>,
    /// Whose namespaces the node lives in.
    pub namespaces: Namespaces,
    /// The addresses of pods, such as `10.200.0.0/16`. Without it the range is taken from `spec.podCIDR` of the Node.
    pub pod_range: Option<String>,
    /// The addresses of Services.
    pub service_range: String,
    /// The node's own address. Without it: the first of the pod range, or with `namespaces = "inherit"` the address that
    /// the surroundings gave.
    pub node_address: Option<Ipv4Addr>,
    /// Where cluster DNS answers; written into the pods' resolv.conf. Without it, the tenth address of the Service range.
    pub cluster_dns: Option<Ipv4Addr>,
    /// The DNS domain of the cluster.
    pub cluster_domain: String,
    /// What cluster DNS says about names that are not of the cluster.
    pub outside_names: OutsideNames,
    /// What the node offers to the scheduler.
    pub capacity: Capacity,
    /// Whether what pods may use is limited, and what they use is counted, through control groups.
    pub resource_limits: bool,
    /// How many processes a pod may have, where limits are enforced. Without it, as many as the node.
    pub pod_processes: Option<u32>,
    /// Labels of the Node, beside those every node has.
    pub labels: BTreeMap<String, String>,
    /// Taints of a new Node.
    pub taints: Vec<Taint>,
    /// Whether pods may have `hostPath` volumes, privileges and the node's network. Only on a node whose pods are all our own.
    pub allow_host_path: bool,
    /// The folder of persistent volumes that are made and removed here. A claim bound to a volume below it may be
    /// mounted also where `hostPath` may not.
    pub volume_root: Option<PathBuf>,
    /// Which pods of this node may talk to each other.
    pub isolation: Isolation,
    /// The program of the image `pilothouse`. Without it, the running one.
    pub program: Option<PathBuf>,
    /// Further images: programs of this machine by name, with a tag (`web:2`) or for every tag (`web`).
    pub images: BTreeMap<String, PathBuf>,
    /// A folder with programs of upstream Kubernetes, a folder for each version (`v1.34.1`); they are images, too.
    pub upstream: Option<PathBuf>,
    /// The Kubernetes version the node says it has.
    pub version: String,
    /// Where the API server asks for logs and programs, in the node's network.
    pub listen: SocketAddr,
    /// The certificate of that server. Without it, it does not run, unless the node joins by a token: then it asks for one.
    pub tls: Option<Tls>,
    /// The authorities of clients, PEM, where a node that joins by a token asks for its serving certificate itself: its API servers may have
    /// another authority than the one that they are recognised by. Without it, that one.
    pub client_authorities: Option<PathBuf>,
    /// The common names under which the API server comes, who may ask for everything. Of anybody else it is asked.
    pub api_servers: Vec<String>,
}

/// Whose namespaces the node lives in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Namespaces {
    /// Its own, which outlive the kubelet.
    #[default]
    Own,
    /// Those it is started in: a node that is itself a pod.
    Inherit,
}

/// What cluster DNS says about names that are not of the cluster: there is no way out of a node to ask for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutsideNames {
    /// That they should be asked for elsewhere (`REFUSED`).
    #[default]
    Refused,
    /// That they do not exist (`NXDOMAIN`), which ends every search at once.
    Unknown,
}

/// Which pods of a node may talk to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// All of them, as in any Kubernetes.
    #[default]
    None,
    /// Those of one namespace: each is somebody else's.
    Namespace,
}

/// What a node offers to the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Capacity {
    /// How many pods.
    pub pods: u32,
    /// Processors, as a Kubernetes quantity. Without it, what the machine has.
    pub cpu: Option<String>,
    /// Memory, as a Kubernetes quantity. Without it, what the machine has.
    pub memory: Option<String>,
}

/// A taint of the Node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value.
    #[serde(default)]
    pub value: Option<String>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// The files of a serving certificate, and who may be a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificate and those above it, PEM.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
    /// The authorities whose clients are let in, PEM.
    pub client_authorities: PathBuf,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            node_name: "pilothouse".to_owned(),
            root: PathBuf::new(),
            kubeconfig: PathBuf::new(),
            bootstrap_kubeconfig: None,
            join_limit: Duration::from(std::time::Duration::from_secs(300)),
            host_socket: None,
            host_target: "management-api".to_owned(),
            node_socket: None,
            namespaces: Namespaces::Own,
            pod_range: None,
            service_range: "10.96.0.0/16".to_owned(),
            node_address: None,
            cluster_dns: None,
            cluster_domain: "cluster.local".to_owned(),
            outside_names: OutsideNames::Refused,
            capacity: Capacity::default(),
            resource_limits: true,
            pod_processes: Some(16_384),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            allow_host_path: false,
            volume_root: None,
            isolation: Isolation::None,
            program: None,
            images: BTreeMap::new(),
            upstream: None,
            version: "1.33.4".to_owned(),
            listen: SocketAddr::from(([0, 0, 0, 0], 10250)),
            tls: None,
            client_authorities: None,
            // Ours, and what the usual installers call theirs.
            api_servers: ["kube-apiserver", "kube-apiserver-kubelet-client", "system:kube-apiserver"]
                .map(str::to_owned)
                .to_vec(),
        }
    }
}

impl Default for Capacity {
    fn default() -> Self {
        Self { pods: 10_000, cpu: None, memory: None }
    }
}
