//! `down`: stops a region.

use std::time::Duration;

use anyhow::anyhow;
use pilothouse_region::{Stopped, stop};
use tokio::runtime;

use super::region_data::RegionArgs;
use crate::{Failure, Hint, Output};

/// Stop a region that runs, or remove what one that was killed has left running.
///
/// Hosted control planes are stopped in order. Nothing stored is lost: `pilothouse up` on the same folder goes on
/// where this one ended.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    region: RegionArgs,
    /// How long the region may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
}

impl Args {
    /// Stops the region.
    ///
    /// # Errors
    ///
    /// If it does not stop in time.
    pub fn run(self, output: &mut Output) -> Result<(), Failure> {
        let data_dir = self.region.data_dir()?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let stopped = runtime
            .block_on(stop(&data_dir, Duration::from_secs(self.timeout)))
            .map_err(|error| anyhow!(error))
            .hint("look at what it is doing, or give it more time with `--timeout SECONDS`")?;
        let text = match stopped {
            Stopped::Ended => "stopped\n",
            Stopped::EndedEarly => "stopped; what it had left running is gone, too\n",
            Stopped::Removed => "the region did not run; what it had left running is gone\n",
            Stopped::Nothing => "nothing was running\n",
        };
        output.raw(text.as_bytes())
    }
}
