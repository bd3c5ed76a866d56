//! What can be said about a hosted cluster on every platform.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use crate::hcp::values;
use crate::{Failure, Hint};

/// What can be said about a hosted cluster on every platform.
#[derive(Debug, clap::Args)]
pub(super) struct SettingsArgs {
    /// The hosted cluster's name
    #[arg(long, value_parser = values::label)]
    pub(super) name: String,
    /// Its namespace, which is made if it is not there
    #[arg(long, default_value = "clusters", value_parser = values::label)]
    pub(super) namespace: String,
    /// A file with credentials for image registries, as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) pull_secret: PathBuf,
    /// The release; the newest that the management cluster supports if absent
    #[arg(long, value_name = "IMAGE")]
    pub(super) release_image: Option<String>,
    /// The zone of the cluster's names
    #[arg(long, value_name = "DOMAIN")]
    pub(super) base_domain: Option<String>,
    /// The cluster's label in that zone; `none` for no label
    #[arg(long, value_name = "LABEL")]
    pub(super) base_domain_prefix: Option<String>,
    /// Publish all services by host names below this domain
    #[arg(long, value_name = "DOMAIN")]
    pub(super) external_dns_domain: Option<String>,
    /// Which network the cluster runs
    #[arg(long, value_name = "TYPE", default_value = "OVNKubernetes",
          value_parser = ["OVNKubernetes", "OpenShiftSDN", "Calico", "Other"])]
    pub(super) network_type: String,
    /// A range of service addresses
    #[arg(long, value_name = "CIDR", default_value = "172.31.0.0/16", value_delimiter = ',')]
    pub(super) service_cidr: Vec<String>,
    /// A range of pod addresses
    #[arg(long, value_name = "CIDR", default_value = "10.132.0.0/14", value_delimiter = ',')]
    pub(super) cluster_cidr: Vec<String>,
    /// A range of machine addresses
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub(super) machine_cidr: Vec<String>,
    /// Whether the control plane survives the loss of a node
    #[arg(long, value_name = "POLICY", default_value = "HighlyAvailable",
          value_parser = ["HighlyAvailable", "SingleReplica"])]
    pub(super) control_plane_availability_policy: String,
    /// Whether infrastructure inside the cluster does
    #[arg(long, value_name = "POLICY", value_parser = ["HighlyAvailable", "SingleReplica"])]
    pub(super) infra_availability_policy: Option<String>,
    /// How many nodes the cluster begins with; below 0 it gets no node pool
    #[arg(long, value_name = "COUNT", default_value_t = 0, allow_negative_numbers = true)]
    pub(super) node_pool_replicas: i32,
    /// Whether nodes are made anew or changed in place
    #[arg(long, value_name = "TYPE", value_parser = ["Replace", "InPlace"])]
    pub(super) node_upgrade_type: Option<String>,
    /// How long a node that goes may be drained; 0s for as long as it takes
    #[arg(long, value_name = "SPAN", default_value = "0s", value_parser = values::duration)]
    pub(super) node_drain_timeout: Duration,
    /// How long its volumes may take to be detached; 0s for as long as it takes
    #[arg(long, value_name = "SPAN", default_value = "0s", value_parser = values::duration)]
    pub(super) node_volume_detach_timeout: Duration,
    /// Replace nodes that are sick
    #[arg(long)]
    pub(super) auto_repair: bool,
    /// Use certified cryptography only
    #[arg(long)]
    pub(super) fips: bool,
    /// The processors of the nodes
    #[arg(long, default_value = "amd64", value_parser = ["amd64", "arm64", "ppc64le", "s390x"])]
    pub(super) arch: String,
    /// The storage class of the cluster's state; the management cluster's default if absent
    #[arg(long, value_name = "CLASS")]
    pub(super) etcd_storage_class: Option<String>,
    /// How large the volume of the cluster's state is
    #[arg(long, value_name = "AMOUNT", default_value = "8Gi", value_parser = values::quantity)]
    pub(super) etcd_storage_size: String,
    /// What the cluster's infrastructure is named after; made up if absent
    #[arg(long, value_name = "ID", value_parser = values::label)]
    pub(super) infra_id: Option<String>,
    /// A file with the public key of administrators
    #[arg(long, value_name = "FILE")]
    pub(super) ssh_key: Option<PathBuf>,
    /// A file with further authorities to trust, PEM
    #[arg(long, value_name = "FILE")]
    pub(super) additional_trust_bundle: Option<PathBuf>,
    /// A file that says where images are found besides where their names say, YAML
    #[arg(long, value_name = "FILE")]
    pub(super) image_content_sources: Option<PathBuf>,
    /// An annotation of the hosted cluster
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::pair)]
    pub(super) annotations: Vec<(String, String)>,
    /// A label of the hosted cluster
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::pair)]
    pub(super) labels: Vec<(String, String)>,
    /// Labels of the nodes that the control plane's pods may run on
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = values::pair)]
    pub(super) node_selector: Vec<(String, String)>,
    /// Labels of the control plane's pods
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = values::pair)]
    pub(super) pods_labels: Vec<(String, String)>,
    /// A taint that the control plane's pods tolerate: key=k,operator=Equal,value=v,effect=NoSchedule
    #[arg(long, value_name = "TOLERATION", value_parser = values::toleration)]
    pub(super) toleration: Vec<Value>,
    /// Where the catalogues of operators run
    #[arg(long, value_name = "PLACE", default_value = "management", value_parser = ["management", "guest"])]
    pub(super) olm_catalog_placement: String,
    /// Leave out the usual catalogues of operators
    #[arg(long)]
    pub(super) olm_disable_default_sources: bool,
    /// Do nothing until this time, or for as long as it is true
    #[arg(long = "pausedUntil", value_name = "TIME")]
    pub(super) paused_until: Option<String>,
    /// A set of features that are not for everybody yet
    #[arg(long, value_name = "SET", value_parser = ["TechPreviewNoUpgrade", "DevPreviewNoUpgrade"])]
    pub(super) feature_set: Option<String>,
    /// Optional parts that the cluster has
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) enable_cluster_capabilities: Vec<String>,
    /// Optional parts that the cluster does not have
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) disable_cluster_capabilities: Vec<String>,
    /// Another name of the API server
    #[arg(long, value_name = "NAME")]
    pub(super) kas_dns_name: Option<String>,
    /// Leave out further networks of pods
    #[arg(long)]
    pub(super) disable_multi_network: bool,
    /// The largest packet of the pods' network; 0 for the usual
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = mtu)]
    pub(super) ovn_kubernetes_mtu: u32,
    /// Let the control plane divide the range of pod addresses among the nodes
    #[arg(long)]
    pub(super) allocate_node_cidrs: bool,
}

/// What the files hold that the options name.
pub(super) struct Files {
    pub(super) pull_secret: Vec<u8>,
    pub(super) ssh_key: Option<Vec<u8>>,
    pub(super) trust_bundle: Option<String>,
    pub(super) image_content_sources: Option<Value>,
}

impl SettingsArgs {
    /// Whether the files can be used.
    pub(super) fn check_files(&self) -> Result<(), Failure> {
        self.files().map(drop)
    }

    /// Reads the files.
    pub(super) fn files(&self) -> Result<Files, Failure> {
        let pull_secret = read(&self.pull_secret, "--pull-secret").hint(
            "--pull-secret takes a file with credentials for image registries; {\"auths\":{}} is the least",
        )?;
        values::pull_secret(&pull_secret)
            .with_context(|| format!("the pull secret {} cannot be used", self.pull_secret.display()))
            .hint("it has to look like {\"auths\":{\"registry.example.test\":{\"auth\":\"…\"}}}")?;
        let ssh_key = self.ssh_key.as_deref().map(|file| read(file, "--ssh-key"));
        let ssh_key = ssh_key.transpose().hint("--ssh-key takes the file with the public key")?;
        let bundle =
            self.additional_trust_bundle.as_deref().map(|file| read(file, "--additional-trust-bundle"));
        let trust_bundle = bundle.transpose().hint("--additional-trust-bundle takes certificates in PEM")?;
        let sources = self.image_content_sources.as_deref().map(|file| -> anyhow::Result<Value> {
            let sources: Value = serde_saphyr::from_str(&read(file, "--image-content-sources")?)
                .with_context(|| format!("{} is not YAML", file.display()))?;
            anyhow::ensure!(sources.is_array(), "{} is no list", file.display());
            Ok(sources)
        });
        let image_content_sources =
            sources.transpose().hint("the file holds a list of `- source: …` with `mirrors: […]`")?;
        Ok(Files {
            pull_secret: pull_secret.into_bytes(),
            ssh_key: ssh_key.map(String::into_bytes),
            trust_bundle,
            image_content_sources,
        })
    }
}

fn read(file: &Path, option: &str) -> anyhow::Result<String> {
    fs::read_to_string(file).with_context(|| format!("{option} {} cannot be read", file.display()))
}

fn mtu(text: &str) -> Result<u32, String> {
    let bytes: u32 = text.parse().map_err(|_| "this is a number".to_owned())?;
    if bytes == 0 || (576..=9216).contains(&bytes) {
        Ok(bytes)
    } else {
        Err("a packet has between 576 and 9216 bytes".to_owned())
    }
}
