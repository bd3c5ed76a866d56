//! Which region a verb is about.

use std::env;
use std::path::PathBuf;

use anyhow::anyhow;
use pilothouse_region::DataDir;

use crate::{Failure, Hint};

/// The option that names a region by its folder.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RegionArgs {
    /// The folder the region lives in [default: `pilothouse` in the user's data directory]
    #[arg(long, value_name = "DIR", env = "PILOTHOUSE_DATA_DIR", hide_env_values = true, global = true)]
    data_dir: Option<PathBuf>,
}

impl RegionArgs {
    /// The folder that is meant.
    pub(crate) fn data_dir(&self) -> Result<DataDir, Failure> {
        let path = match &self.data_dir {
            Some(path) => path.clone(),
            None => default_folder()
                .ok_or_else(|| anyhow!("there is no home directory to keep a region in"))
                .hint("name a folder with `--data-dir DIR`")?,
        };
        // A region's parts are processes with working directories of their own.
        Ok(DataDir::new(std::path::absolute(path)?))
    }
}

fn default_folder() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = folder("XDG_DATA_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/share")))?;
    Some(data.join("pilothouse"))
}
