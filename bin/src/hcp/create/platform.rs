//! Platforms, as words between what is created and its flags.

use clap::Subcommand;

/// Where nodes come from. What it means for a cluster or a pool is said on their arguments.
#[derive(Debug, Subcommand)]
pub(super) enum Platform<K: clap::Args, N: clap::Args> {
    #[command(name = "kubevirt")]
    KubeVirt(Box<K>),
    None(Box<N>),
}
