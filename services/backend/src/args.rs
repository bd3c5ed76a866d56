use pilothouse_runtime::config::ConfigArgs;

/// Run a backend alone: what takes accepted operations to their end.
///
/// It is configured by a file; `--dump-config` shows every key. Any number of backends share one PostgreSQL store with the
/// frontends; each takes a part of the work.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How it is configured.
    #[command(flatten)]
    pub config: ConfigArgs,
}
