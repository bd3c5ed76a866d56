//! The way of a request through a region, in whichever form: one process, or one for each service.

use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_test_support::process::Running;
use tokio::time::sleep;

use crate::provider::Provider;
use crate::region::Region;
use crate::spread::Spread;

/// How long a region is waited for that may have fallen, before somebody looks.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// A region whose processes may fall.
pub(crate) trait Flow {
    /// The processes that have a part in the flow, from the top to the bottom.
    const COMPONENTS: &'static [&'static str];

    /// A file for whatever a story makes.
    fn path(&self, name: &str) -> PathBuf;

    fn process(&mut self, component: &str) -> &mut Running;

    /// Lets a component go on that stands still: at once, but cut off for so long from everybody it calls; or after so long, where
    /// there is nobody else it could be cut off from.
    async fn go_on_apart(&mut self, component: &str, pause: Duration);

    /// Starts a component again, whether it runs or not, with these in its environment, and waits until all answer.
    async fn restart(&mut self, component: &str, variables: &[(&str, &str)]);

    /// The services.
    fn provider(&self) -> Provider;

    /// `kubectl` on the management cluster.
    fn kubectl(&self, arguments: &[&str]) -> Result<String, String>;

    /// `kubectl` on a hosted cluster.
    fn kubectl_in(&self, name: &str, arguments: &[&str]) -> Result<String, String>;
}

impl Flow for Spread {
    const COMPONENTS: &'static [&'static str] = &[
        "frontend",
        "backend",
        "clusters-service",
        "cloud",
        "maestro-server",
        "maestro-agent",
        "multicluster-engine",
        "hypershift-operator",
        "kubelet",
        "kube-apiserver",
    ];

    fn path(&self, name: &str) -> PathBuf {
        self.management.path(name)
    }

    fn process(&mut self, component: &str) -> &mut Running {
        self.management.process(component)
    }

    async fn go_on_apart(&mut self, component: &str, pause: Duration) {
        let id = self.process(component).id();
        if self.ways.are_known(component) {
            self.ways.cut(component, pause, || go_on(id)).await;
        } else {
            sleep(pause).await;
            go_on(id);
        }
    }

    async fn restart(&mut self, component: &str, variables: &[(&str, &str)]) {
        self.management.kill(component);
        self.management.start_with(component, variables);
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
}

impl Flow for Region {
    const COMPONENTS: &'static [&'static str] = &["up"];

    fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    fn process(&mut self, _: &str) -> &mut Running {
        Region::process(self)
    }

    async fn go_on_apart(&mut self, _: &str, pause: Duration) {
        sleep(pause).await;
        go_on(Region::process(self).id());
    }

    async fn restart(&mut self, _: &str, variables: &[(&str, &str)]) {
        self.kill();
        self.up_with(&[], variables).await;
    }

    fn provider(&self) -> Provider {
        Region::provider(self)
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        Region::kubectl(self, arguments)
    }

    fn kubectl_in(&self, name: &str, arguments: &[&str]) -> Result<String, String> {
        self.kubectl_on(&self.kubeconfig_within(LOOK_AGAIN, name)?, arguments)
    }
}

fn go_on(id: u32) {
    kill(Pid::from_raw(id.try_into().unwrap()), Signal::SIGCONT).unwrap();
}
