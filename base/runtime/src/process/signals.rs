//! Where signals come from: the operating system, or a test.

use std::io;

use tokio::signal::unix::{self, SignalKind};
#[cfg(test)]
use tokio::sync::mpsc;

use crate::shutdown::Signal;

#[derive(Debug)]
pub(super) enum Signals {
    System {
        interrupt: unix::Signal,
        terminate: unix::Signal,
    },
    #[cfg(test)]
    Scripted(mpsc::Receiver<Signal>),
}

impl Signals {
    pub(super) fn install() -> io::Result<Self> {
        Ok(Self::System {
            interrupt: unix::signal(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
        })
    }

    /// The next signal; `None` if there will be none.
    pub(super) async fn next(&mut self) -> Option<Signal> {
        match self {
            Self::System { interrupt, terminate } => tokio::select! {
                received = interrupt.recv() => received.map(|()| Signal::Interrupt),
                received = terminate.recv() => received.map(|()| Signal::Terminate),
            },
            #[cfg(test)]
            Self::Scripted(signals) => signals.recv().await,
        }
    }
}
