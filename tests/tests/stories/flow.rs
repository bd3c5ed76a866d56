//! The way of a request through a region, in whichever form: one process, or one for each service.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_runtime::fault::{
    FAULT_FILE_VARIABLE, FAULT_TRACE_VARIABLE, NODE_FAULT_FILE_VARIABLE, NODE_FAULT_TRACE_VARIABLE,
};
use pilothouse_test_support::eventually;
use pilothouse_test_support::process::Running;
use pilothouse_test_support::requirement::Requirement;
use tokio::time::sleep;

use crate::names::dig;
use crate::provider::Provider;
use crate::region::{LIMIT, Region};
use crate::spread::Spread;

const KUBELET: &str = "kubelet";

/// How long a region is waited for that may have fallen, before somebody looks.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// A region whose processes may fall.
pub(crate) trait Flow {
    /// The processes that have a part in the flow, from the top to the bottom.
    const COMPONENTS: &'static [&'static str];

    /// Those of them that write nothing.
    const READERS: &'static [&'static str] = &[];

    /// How many components may fall in one operation of a long run.
    const COMPANY: usize;

    /// How often a component falls in each operation in a short run.
    fn falls(_component: &str) -> usize {
        1
    }

    /// A file for whatever a story makes.
    fn path(&self, name: &str) -> PathBuf;

    /// The number of a component's process.
    fn id(&mut self, component: &str) -> u32;

    /// Whether a component was killed.
    fn has_died(&mut self, component: &str) -> bool;

    /// Lets a component go on that stands still: at once, but cut off for so long from everybody it calls; or after so long, where
    /// there is nobody else it could be cut off from.
    async fn go_on_apart(&mut self, component: &str, pause: Duration);

    /// Starts a component again, whether it runs or not, with these in its environment.
    async fn start_again(&mut self, component: &str, variables: &[(&str, &str)]);

    /// Until everybody answers.
    async fn answers(&self);

    /// The services.
    fn provider(&self) -> Provider;

    /// `kubectl` on the management cluster.
    fn kubectl(&self, arguments: &[&str]) -> Result<String, String>;

    /// `kubectl` on a hosted cluster.
    fn kubectl_in(&self, name: &str, arguments: &[&str]) -> Result<String, String>;

    /// What the region's name server answers.
    fn dig(&self, question: &str) -> String;

    /// What pods have left on the node of the management cluster: their files, and the processes that keep theirs.
    fn left_on_node(&self) -> Vec<String>;
}

/// A region in one process, and the kubelet of its node in another.
pub(crate) struct Whole {
    pub(crate) region: Region,
    kubelet: u32,
    /// What each of the two was started with.
    variables: BTreeMap<&'static str, Vec<(String, String)>>,
}

impl Flow for Spread {
    // Nodes of these clusters are pods: the controller of virtual machines, which others of platform KubeVirt have, writes nothing.
    const COMPONENTS: &'static [&'static str] = &[
        "frontend",
        "backend",
        "clusters-service",
        "cloud",
        "maestro-server",
        "maestro-agent",
        "multicluster-engine",
        "hypershift-operator",
        "gateway",
        "dns",
        "kubelet",
        "kube-apiserver",
    ];
    const READERS: &'static [&'static str] = &["dns"];
    const COMPANY: usize = 3;

    fn path(&self, name: &str) -> PathBuf {
        self.management.path(name)
    }

    fn id(&mut self, component: &str) -> u32 {
        self.management.process(component).id()
    }

    fn has_died(&mut self, component: &str) -> bool {
        died(component, self.management.process(component))
    }

    async fn go_on_apart(&mut self, component: &str, pause: Duration) {
        let id = self.id(component);
        if self.ways.are_known(component) {
            self.ways.cut(component, pause, || signal(id, Signal::SIGCONT)).await;
        } else {
            sleep(pause).await;
            signal(id, Signal::SIGCONT);
        }
    }

    async fn start_again(&mut self, component: &str, variables: &[(&str, &str)]) {
        self.management.kill(component);
        self.management.start_with(component, variables);
    }

    async fn answers(&self) {
        self.listens().await;
    }

    fn provider(&self) -> Provider {
        self.provider.clone()
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        self.management.kubectl(arguments)
    }

    fn kubectl_in(&self, name: &str, arguments: &[&str]) -> Result<String, String> {
        Spread::kubectl_in(self, name, arguments)
    }

    fn dig(&self, question: &str) -> String {
        dig(&self.names_port.to_string(), question)
    }

    fn left_on_node(&self) -> Vec<String> {
        self.management.left_on_node()
    }
}

impl Whole {
    /// Starts one; `None`, and said so, where a program is missing.
    pub(crate) async fn start() -> Option<Self> {
        Requirement::new("dig", "bind9-dnsutils").find()?;
        let region = Region::start(&[]).await?;
        region.provider().register();
        let mut whole = Self { region, kubelet: 0, variables: BTreeMap::new() };
        whole.has_kubelet().await;
        Some(whole)
    }

    /// The kubelet that the region has started last, if it runs.
    fn running_kubelet(&mut self) -> Option<u32> {
        let parent = self.region.process().id();
        let processes =
            fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        processes.into_iter().find(|process: &u32| {
            let read = |file: &str| fs::read(format!("/proc/{process}/{file}")).unwrap_or_default();
            let (stat, line) = (read("stat"), read("cmdline"));
            let stat = String::from_utf8_lossy(&stat).into_owned();
            let of = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
            of == Some(parent) && line.split(|byte| *byte == 0).nth(1) == Some(b"kubelet".as_slice())
        })
    }

    async fn has_kubelet(&mut self) {
        self.kubelet = eventually("the node has a kubelet", LIMIT, || {
            let found = self.running_kubelet();
            async move { found.ok_or("there is none") }
        })
        .await;
    }
}

impl Flow for Whole {
    const COMPONENTS: &'static [&'static str] = &["up", KUBELET];
    // A kubelet goes with its region, and nobody could tell which of the two had fallen.
    const COMPANY: usize = 1;

    /// All services are one process, which falls more often than each of several would.
    fn falls(component: &str) -> usize {
        if component == KUBELET { 1 } else { 3 }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.region.folder().join(name)
    }

    fn id(&mut self, component: &str) -> u32 {
        if component == KUBELET { self.kubelet } else { self.region.process().id() }
    }

    fn has_died(&mut self, component: &str) -> bool {
        let region = died("up", self.region.process());
        if component == KUBELET {
            // The region starts another one, if it has not done so yet; a region that has died does not.
            !region && self.running_kubelet() != Some(self.kubelet)
        } else {
            region
        }
    }

    async fn go_on_apart(&mut self, component: &str, pause: Duration) {
        sleep(pause).await;
        signal(self.id(component), Signal::SIGCONT);
    }

    async fn start_again(&mut self, component: &str, variables: &[(&str, &str)]) {
        let is_kubelet = component == KUBELET;
        let named = |name: &str| match name {
            FAULT_FILE_VARIABLE if is_kubelet => NODE_FAULT_FILE_VARIABLE.to_owned(),
            FAULT_TRACE_VARIABLE if is_kubelet => NODE_FAULT_TRACE_VARIABLE.to_owned(),
            _ => name.to_owned(),
        };
        let variables: Vec<_> =
            variables.iter().map(|(name, value)| (named(name), (*value).to_owned())).collect();
        let known = self.variables.insert(if is_kubelet { KUBELET } else { "up" }, variables.clone());
        // A kubelet that is to be as it was before is started by the region, and others only by another region.
        if !is_kubelet || known.as_ref() != Some(&variables) {
            let all: Vec<_> =
                self.variables.values().flatten().map(|(name, value)| (&**name, &**value)).collect();
            self.region.kill();
            self.region.up_with(&[], &all).await;
        }
        self.has_kubelet().await;
    }

    /// A region that has been started again answers.
    async fn answers(&self) {}

    fn provider(&self) -> Provider {
        self.region.provider()
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        self.region.kubectl(arguments)
    }

    fn kubectl_in(&self, name: &str, arguments: &[&str]) -> Result<String, String> {
        self.region.kubectl_on(&self.region.kubeconfig_within(LOOK_AGAIN, name)?, arguments)
    }

    fn dig(&self, question: &str) -> String {
        self.region.dig(question)
    }

    fn left_on_node(&self) -> Vec<String> {
        let keepers = self.region.processes().into_iter().filter(|line| line.contains("/pods/"));
        keepers.chain(self.region.pod_files()).collect()
    }
}

/// Whether a process has ended, which has to be by the signal that cannot be caught.
fn died(component: &str, process: &mut Running) -> bool {
    let ended = process.child().try_wait().unwrap();
    if let Some(status) = ended {
        assert_eq!(status.signal(), Some(9), "{component} ended with {status}");
    }
    ended.is_some()
}

pub(crate) fn signal(process: u32, signal: Signal) {
    kill(Pid::from_raw(process.try_into().unwrap()), signal).unwrap();
}
