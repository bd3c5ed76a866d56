//! Why the controllers cannot run.

use pilothouse_runtime::StillRunning;

/// Why the controllers cannot be built, or did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The range that nodes get their pod ranges from cannot be used.
    #[error("`cluster_cidr` is `{range}`, which {problem}; write it like `10.132.0.0/14`")]
    ClusterRange {
        /// As configured.
        range: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A node's share of the range cannot be that large or small.
    #[error("`node_cidr_mask` is {mask}, but must lie between the mask of `{range}` and 30")]
    NodeMask {
        /// As configured.
        mask: u8,
        /// The range to be shared.
        range: String,
    },
    /// Not everything ended in time.
    #[error("not all controllers ended in time")]
    Drain(#[source] StillRunning),
}
