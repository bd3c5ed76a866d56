//! Where signals come from: the operating system, or a test.
//!
//! `SIGHUP` has two meanings. Service managers send it to have files read anew; ours are looked at now and then anyway, so
//! nothing is left to do. And it is sent to what was started from a terminal when that is closed: whoever is not there any more
//! cannot stop the process, so that stops it in order. Which one it is, the terminal tells: it was there, and is not.

use std::fs::{self, File};
use std::io;

use tokio::signal::unix::{self, SignalKind};
#[cfg(test)]
use tokio::sync::mpsc;
use tracing::info;

use crate::shutdown::Signal;

#[derive(Debug)]
pub(super) enum Signals {
    System {
        interrupt: unix::Signal,
        terminate: unix::Signal,
        /// Absent if whoever started this process wants it to be ignored, as `nohup` does.
        hangup: Option<unix::Signal>,
        /// Whether the process was started from a terminal.
        terminal: bool,
    },
    #[cfg(test)]
    Scripted(mpsc::Receiver<Signal>),
}

impl Signals {
    pub(super) fn install() -> io::Result<Self> {
        let hangup = if hangup_is_ignored() { None } else { Some(unix::signal(SignalKind::hangup())?) };
        Ok(Self::System {
            interrupt: unix::signal(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
            hangup,
            terminal: has_terminal(),
        })
    }

    /// The next signal; `None` if there will be none.
    pub(super) async fn next(&mut self) -> Option<Signal> {
        match self {
            Self::System { interrupt, terminate, hangup, terminal } => loop {
                tokio::select! {
                    received = interrupt.recv() => return received.map(|()| Signal::Interrupt),
                    received = terminate.recv() => return received.map(|()| Signal::Terminate),
                    () = heard(hangup.as_mut()) => {
                        if *terminal && !has_terminal() {
                            return Some(Signal::Hangup);
                        }
                        info!("received SIGHUP; files are looked at now and then without it");
                    }
                }
            },
            #[cfg(test)]
            Self::Scripted(signals) => signals.recv().await,
        }
    }
}

/// Returns when the signal has come; never, if there is none.
async fn heard(signal: Option<&mut unix::Signal>) {
    if let Some(signal) = signal
        && signal.recv().await.is_some()
    {
        return;
    }
    std::future::pending().await
}

/// Whether there is a terminal from which this process can be stopped.
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

/// What a process ignores it ignores from its beginning, until it says otherwise.
fn hangup_is_ignored() -> bool {
    let Ok(status) = fs::read_to_string("/proc/self/status") else { return false };
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The lowest bit is the first signal, which this is.
    ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).is_some_and(|set| set & 1 == 1)
}
