//! `status`: how a region is.

use std::process::ExitCode;

use comfy_table::Table;
use pilothouse_region::Status;
use serde::Serialize;
use tokio::runtime;

use super::region_data::RegionArgs;
use crate::output;
use crate::{Failure, Hint, Output, Render};

/// What is not well has another exit code than what does not run.
const NOT_READY: u8 = 1;
const NOT_RUNNING: u8 = 3;

/// Show how a region is: its parts, where they are, and its hosted clusters.
///
/// Ends with 0 if it runs and all of its parts can work, with 1 if one cannot, and with 3 if it does not run.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    region: RegionArgs,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Shown(Status);

impl Args {
    /// Prints it.
    ///
    /// # Errors
    ///
    /// If nothing can be asked from this machine.
    pub fn run(self, output: &mut Output) -> Result<ExitCode, Failure> {
        let data_dir = self.region.data_dir()?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let status = runtime
            .block_on(Status::look(&data_dir))
            .hint("`pilothouse up` starts a region; `--data-dir DIR` names another one")?;
        let code = match (&status.process, status.ready) {
            (None, _) => NOT_RUNNING,
            (Some(_), false) => NOT_READY,
            (Some(_), true) => 0,
        };
        output.show(&Shown(status))?;
        Ok(ExitCode::from(code))
    }
}

impl Render for Shown {
    fn table(&self) -> Table {
        let Status { data_dir, process, endpoints, ready, checks, clusters, unknown } = &self.0;
        let row = |kind: &str, name: &str, state: &str, detail: &str| {
            [kind, name, state, detail].map(str::to_owned)
        };
        let state = match (process, ready) {
            (None, _) => "not running",
            (Some(_), true) => "ready",
            (Some(_), false) => "not ready",
        };
        let detail = match process {
            None => "`pilothouse up` starts it".to_owned(),
            Some(process) => format!("process {}", process.id),
        };
        let mut rows = vec![row("region", data_dir, state, &detail)];
        rows.extend(unknown.iter().map(|what| row("region", "", "unknown", what)));
        rows.extend(checks.iter().map(|(name, check)| row("check", name, &check.status, &check.detail)));
        for (name, place) in endpoints.iter().flat_map(|endpoints| endpoints.rows()) {
            rows.push(row("endpoint", name, "", &place));
        }
        for cluster in clusters {
            let state = if cluster.available { "available" } else { "not available" };
            let detail = format!("{} in {}: {}", cluster.version, cluster.namespace, cluster.state);
            rows.push(row("cluster", &cluster.name, state, &detail));
        }
        let rows = rows.iter().map(|row| row.each_ref().map(String::as_str));
        output::table(["WHAT", "NAME", "STATE", "DETAIL"], rows)
    }
}
