//! Ctrl-C while something is measured: what was started has to be stopped first.

use anyhow::bail;
use tokio::signal::unix::{SignalKind, signal};

/// Ends only with an error: when somebody wants this to end.
pub(crate) async fn interruption() -> anyhow::Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    bail!("interrupted")
}
