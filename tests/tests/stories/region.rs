//! A region under test.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use pilothouse_region::Endpoints;
use pilothouse_test_support::eventually;
use pilothouse_test_support::process::Running;
use pilothouse_test_support::requirement::Requirement;
use tempfile::TempDir;

use crate::aftermath;

/// Generous: the machine may be busy with other tests.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// A region of its own, in a process of its own. Dropping it kills the process and removes what its node runs.
pub(crate) struct Region {
    folder: TempDir,
    process: Option<Running>,
    kubectl: PathBuf,
    user: User,
    /// Whether it listens where it does without a flag.
    on_default_ports: bool,
}

/// Whose region it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// Whoever runs the tests.
    This,
    /// Nobody in particular.
    Ordinary,
    /// Whoever runs the tests, with the programs installed side by side under their own names.
    Installed,
    /// The same with `pilothouse` alone.
    Alone,
}

/// The number of nobody in particular.
pub(crate) const ORDINARY: u32 = 65_534;

// === impl Region ===

impl Region {
    /// Starts a region in a new folder; `None`, and said so, where `kubectl` is missing.
    pub(crate) async fn start(arguments: &[&str]) -> Option<Self> {
        Self::start_as(User::This, arguments).await
    }

    /// The same on the ports that people know. Whoever does that sees to it that nobody else has them.
    pub(crate) async fn start_on_default_ports(arguments: &[&str]) -> Option<Self> {
        let mut region = Self::prepare(User::This)?;
        region.on_default_ports = true;
        region.up(arguments).await;
        Some(region)
    }

    /// The same, as somebody. Who is no root has no other to be.
    pub(crate) async fn start_as(user: User, arguments: &[&str]) -> Option<Self> {
        let mut region = Self::prepare(user)?;
        region.up(arguments).await;
        Some(region)
    }

    /// A folder for a region, with the program that somebody has.
    fn prepare(user: User) -> Option<Self> {
        let kubectl = Requirement::new("kubectl", "kubernetes-client").find()?;
        let folder = tempfile::Builder::new().prefix("region").tempdir().unwrap();
        let user = if user == User::Ordinary && !Uid::effective().is_root() { User::This } else { user };
        if matches!(user, User::Installed | User::Alone) {
            install(program(), &folder.path().join("pilothouse"));
        }
        if user == User::Installed {
            install(env!("CARGO_BIN_EXE_hcp-under-test"), &folder.path().join("hcp"));
        }
        if user == User::Ordinary {
            Requirement::new("setpriv", "util-linux").find()?;
            // Others may not look into the folders that the tests are built in.
            fs::copy(program(), folder.path().join("pilothouse")).unwrap();
            fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
            chown(folder.path(), Some(ORDINARY), Some(ORDINARY)).unwrap();
        }
        Some(Self { folder, process: None, kubectl, user, on_default_ports: false })
    }

    /// The program, as whoever's region it is.
    fn command(&self) -> Command {
        match self.user {
            User::This => Command::new(program()),
            User::Installed | User::Alone => Command::new(self.folder.path().join("pilothouse")),
            User::Ordinary => {
                let mut command = Command::new("setpriv");
                let id = ORDINARY.to_string();
                command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]);
                command.arg(self.folder.path().join("pilothouse")).env("HOME", self.folder.path());
                command
            }
        }
    }

    /// Starts it on what is in its folder already, and waits until every endpoint accepts.
    pub(crate) async fn up(&mut self, arguments: &[&str]) {
        self.up_with(arguments, &[]).await;
    }

    /// The same, with these in its environment.
    pub(crate) async fn up_with(&mut self, arguments: &[&str], variables: &[(&str, &str)]) {
        let endpoints = self.endpoints_file();
        // The region removes it when it has the folder; this looks before that.
        let _ = fs::remove_file(&endpoints);
        let said = self.log().len();
        let log = fs::File::options().create(true).append(true).open(self.log_file()).unwrap();
        let mut command = self.command();
        command.args(["up", "--log", "info,kube_client=off,pilothouse_http=warn"]);
        if !self.on_default_ports {
            command.arg("--ephemeral-ports");
        }
        command
            .arg("--data-dir")
            .arg(self.data_dir())
            .arg("--endpoints-file")
            .arg(&endpoints)
            .args(arguments)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let mut process = Running::spawn(command).unwrap();
        eventually("the region is up", LIMIT, || {
            let ended = process.child().try_wait().unwrap();
            if ended.is_some() {
                panic!("the region ended with {ended:?}:\n{}", self.log());
            }
            let log = self.log();
            let ready = endpoints.exists() && said_cluster_is_ready(arguments, &log[said..]);
            async move { if ready { Ok(()) } else { Err(log) } }
        })
        .await;
        self.process = Some(process);
    }

    /// The region's process.
    pub(crate) fn process(&mut self) -> &mut Running {
        self.process.as_mut().unwrap()
    }

    /// `kill -9` of the region's process.
    pub(crate) fn kill(&mut self) {
        self.process.take().unwrap().kill();
    }

    /// Ends it in order, as Ctrl-C does.
    pub(crate) fn stop(&mut self) {
        let process = self.process.take().unwrap();
        let id = Pid::from_raw(process.id().try_into().unwrap());
        kill(id, Signal::SIGTERM).unwrap();
        let status = process.wait().unwrap();
        assert!(status.success(), "the region ended with {status}:\n{}", self.log());
    }

    pub(crate) fn endpoints(&self) -> Endpoints {
        serde_json::from_slice(&fs::read(self.endpoints_file()).unwrap()).unwrap()
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// What the region said so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// A folder for whatever a story makes.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// `kubectl` on the management cluster.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        self.kubectl_on(&self.data_dir().join("kubeconfig"), arguments)
    }

    /// `kubectl` with this kubeconfig.
    pub(crate) fn kubectl_on(&self, kubeconfig: &Path, arguments: &[&str]) -> Result<String, String> {
        result(&self.kubectl_command(kubeconfig, arguments).output().unwrap())
    }

    /// The same, to be started.
    pub(crate) fn kubectl_command(&self, kubeconfig: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        command
            .arg("--kubeconfig")
            .arg(kubeconfig)
            // Its caches of what servers can do are by address, which another story may have had.
            .arg("--cache-dir")
            .arg(self.folder.path().join("kubectl-cache"))
            .args(arguments);
        command
    }

    /// The pods of the management cluster, apart from those that show the region's own services.
    pub(crate) fn pods(&self) -> Result<String, String> {
        self.kubectl(&["get", "pods", "-A", "-o", "name", "--field-selector", "spec.nodeName!=region"])
    }

    /// The names of everything of these kinds on the management cluster, and of those pods.
    pub(crate) fn left(&self, kinds: &str) -> Result<String, String> {
        Ok(self.kubectl(&["get", kinds, "-A", "-o", "name"])? + &self.pods()?)
    }

    /// `kubectl apply` of these documents on the management cluster.
    pub(crate) fn apply(&self, manifests: &str) -> Result<String, String> {
        let file = self.folder.path().join("apply.yaml");
        fs::write(&file, manifests).unwrap();
        self.kubectl(&["apply", "-f", file.to_str().unwrap()])
    }

    /// `pilothouse` with these arguments, about this region.
    pub(crate) fn pilothouse(&self, arguments: &[&str]) -> Result<String, String> {
        result(&self.about(arguments).output().unwrap())
    }

    fn about(&self, arguments: &[&str]) -> Command {
        let mut command = self.command();
        command.args(arguments).arg("--data-dir").arg(self.data_dir());
        command
    }

    /// Writes a hosted cluster's kubeconfig to a file.
    pub(crate) fn kubeconfig(&self, cluster: &str) -> Result<PathBuf, String> {
        self.kubeconfig_within(LIMIT, cluster)
    }

    /// The same for somebody who knows that the region may have fallen, and will look.
    pub(crate) fn kubeconfig_within(&self, limit: Duration, cluster: &str) -> Result<PathBuf, String> {
        let asking = self.about(&["kubeconfig", cluster]);
        let variables = asking.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let mut command = Command::new("timeout");
        command.args(["--kill-after=1", &limit.as_secs().to_string()]);
        command.arg(asking.get_program()).args(asking.get_args()).envs(variables);
        let text = result(&command.output().unwrap())?;
        let file = self.folder.path().join(format!("{cluster}.kubeconfig"));
        fs::write(&file, text).unwrap();
        Ok(file)
    }

    /// The processes that were started from this region's folder, or work in it.
    pub(crate) fn processes(&self) -> Vec<String> {
        self.numbered_processes().into_iter().map(|(_, line)| line).collect()
    }

    /// The same with their numbers.
    pub(crate) fn numbered_processes(&self) -> Vec<(String, String)> {
        let folder = self.data_dir();
        let folder = folder.to_str().unwrap();
        fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let line = fs::read(entry.path().join("cmdline")).ok()?;
                let line = String::from_utf8_lossy(&line).replace('\0', " ");
                let number = entry.file_name().to_string_lossy().into_owned();
                line.contains(folder).then_some((number, line))
            })
            .collect()
    }

    /// What pods and volumes have left on disk.
    pub(crate) fn pod_files(&self) -> Vec<String> {
        ["root/pods", "volumes"]
            .iter()
            .filter_map(|folder| fs::read_dir(self.data_dir().join("node").join(folder)).ok())
            .flatten()
            .map(|entry| entry.unwrap().path().display().to_string())
            .collect()
    }

    fn endpoints_file(&self) -> PathBuf {
        self.folder.path().join("endpoints.json")
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("region.log")
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let node = fs::read_to_string(self.data_dir().join("node/kubelet.log")).unwrap_or_default();
            let logs = [("the region".to_owned(), self.log()), ("the node".to_owned(), node)];
            aftermath::show(|arguments| self.kubectl(arguments), logs);
        }
        drop(self.process.take());
        // What the node runs survives the region, as it should; a test that failed half-way must not leave it.
        let _ = self.pilothouse(&["down"]);
    }
}

/// Puts a program where it belongs. A link is enough where it is possible: the programs of tests are large.
pub(crate) fn install(program: &str, to: &Path) {
    if fs::hard_link(program, to).is_err() {
        fs::copy(program, to).unwrap();
    }
}

pub(crate) fn program() -> &'static str {
    env!("CARGO_BIN_EXE_pilothouse-under-test")
}

pub(crate) fn result(output: &Output) -> Result<String, String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(format!("{}{}", text(&output.stdout), text(&output.stderr)))
    }
}

/// Whether the cluster that was asked for with the region is there, which takes longer than the region.
fn said_cluster_is_ready(arguments: &[&str], log: &str) -> bool {
    let asked = arguments.iter().position(|argument| *argument == "--cluster");
    let name = asked.and_then(|position| arguments.get(position + 1));
    name.is_none_or(|name| log.contains(&format!("cluster `{name}` is ready")))
}
