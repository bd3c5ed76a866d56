use pilothouse_runtime::config::ConfigArgs;

/// Run the resource provider's API alone: what clusters are asked of.
///
/// It is configured by a file; `--dump-config` shows every key. It shares its store with the backends, so that both want
/// a PostgreSQL store unless they run in one process, as in `pilothouse up`. Off the loopback it wants callers that can be
/// told apart: `service.access`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How it is configured.
    #[command(flatten)]
    pub config: ConfigArgs,
}
