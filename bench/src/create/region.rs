//! A region of its own, in a process of its own.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_region::{DataDir, Endpoints};
use pilothouse_test_support::process::Running;
use tokio::time::{Instant, sleep};

use crate::harness::{Figure, Folder, PILOTHOUSE, Program, Progress, Report, flush_rate, interruption};

/// How long a region may take to start, and to stop.
const PATIENCE: Duration = Duration::from_secs(90);
/// How often to look whether it has.
const LOOK: Duration = Duration::from_millis(1);

/// How long the disk is tried.
const FLUSHES: Duration = Duration::from_millis(500);

/// Measures something of regions, from a copy of the program by which their processes are found. Everything that was started
/// is stopped, also after an error and after Ctrl-C, and that nothing is left is checked.
pub(crate) async fn with_program(
    mut report: Report,
    measure: impl AsyncFnOnce(&Program, &Folder, &mut Report) -> anyhow::Result<()>,
) -> anyhow::Result<Report> {
    let folder = Folder::create()?;
    report.condition("file system of the region", folder.describe());
    Progress.say("copying the program");
    let program = Program::copy_to(&folder, PILOTHOUSE)?;
    let rate = flush_rate(&folder, FLUSHES)?;
    report.figure(Figure::new("disk, append 4 KiB and fdatasync", rate, "1/s").note("for orientation"));
    tokio::select! {
        outcome = Box::pin(measure(&program, &folder, &mut report)) => outcome?,
        outcome = interruption() => outcome?,
    }
    let left = program.processes()?;
    if !left.is_empty() {
        bail!("the region has ended, and left behind: {left:?}");
    }
    Ok(report)
}

/// A region that runs. Dropping it kills it and removes what its node runs; [`stop`](Self::stop) is the orderly way.
#[derive(Debug)]
pub(crate) struct Region {
    program: PathBuf,
    data_dir: DataDir,
    log: PathBuf,
    endpoints: PathBuf,
    process: Option<Running>,
}

impl Region {
    /// Starts one where none was before. Returns it with the time until every endpoint accepted.
    pub(crate) async fn start(
        program: &Program,
        folder: &Folder,
        name: &str,
    ) -> anyhow::Result<(Self, Duration)> {
        Self::start_with(program, folder, name, &[]).await
    }

    /// The same with further arguments.
    pub(crate) async fn start_with(
        program: &Program,
        folder: &Folder,
        name: &str,
        arguments: &[&OsStr],
    ) -> anyhow::Result<(Self, Duration)> {
        let root = folder.path().join(name);
        let (log, endpoints) = (root.with_extension("log"), root.with_extension("json"));
        let output = File::create(&log)?;
        let mut command = Command::new(program.path());
        command
            .args(["up", "--ephemeral-ports", "--data-dir"])
            .arg(&root)
            .arg("--endpoints-file")
            .arg(&endpoints)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let start = Instant::now();
        let process = Running::spawn(command).context("the region's process cannot be started")?;
        let mut region = Self {
            program: program.path().to_owned(),
            data_dir: DataDir::new(root),
            log,
            endpoints,
            process: Some(process),
        };
        while !region.endpoints.exists() {
            if region.has_ended() || start.elapsed() > PATIENCE {
                bail!("the region did not start; it said:\n{}", region.said());
            }
            sleep(LOOK).await;
        }
        Ok((region, start.elapsed()))
    }

    pub(crate) fn data_dir(&self) -> &DataDir {
        &self.data_dir
    }

    /// Where its parts are.
    pub(crate) fn endpoints(&self) -> anyhow::Result<Endpoints> {
        serde_json::from_slice(&fs::read(&self.endpoints)?).context("the region's endpoints cannot be read")
    }

    /// What it said so far.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Ends it in order, with all that it runs. Returns how long that took.
    pub(crate) async fn stop(mut self) -> anyhow::Result<Duration> {
        let start = Instant::now();
        if let Some(process) = &self.process {
            kill(Pid::from_raw(process.id().try_into()?), Signal::SIGTERM)?;
        }
        while !self.has_ended() {
            if start.elapsed() > PATIENCE {
                bail!("the region did not stop; it said:\n{}", self.said());
            }
            sleep(LOOK).await;
        }
        self.process = None;
        Ok(start.elapsed())
    }

    fn has_ended(&mut self) -> bool {
        self.process.as_mut().is_none_or(|process| !matches!(process.child().try_wait(), Ok(None)))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let Some(process) = self.process.take() else { return };
        process.kill();
        // What the node runs survives the region, as it should.
        let down =
            Command::new(&self.program).args(["down", "--data-dir"]).arg(self.data_dir.root()).output();
        if !down.is_ok_and(|output| output.status.success()) {
            Progress
                .say(&format!("not everything was stopped: see what runs from {}", self.program.display()));
        }
    }
}
