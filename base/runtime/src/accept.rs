//! What to do when a listener could not accept.
//!
//! Some failures belong to the connection that was to be accepted, some pass, and the rest is the socket's end. Taking the first
//! two for the third would stop a process, and with it everybody's clusters, because somebody opened too many connections.

use std::io;
use std::time::Duration;

use nix::errno::Errno;
use tracing::{debug, warn};

/// How long accepting rests when the system has nothing left to accept with: it comes back when connections end.
const EXHAUSTED: Duration = Duration::from_millis(100);

/// Returns when the next connection may be accepted, after this failure.
///
/// # Errors
///
/// When there will not be another connection: then the failure is the socket's own.
pub async fn accept_failed(listener: &str, error: io::Error) -> io::Result<()> {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM) => {
            warn!(listener, %error, "cannot accept connections for a moment");
            tokio::time::sleep(EXHAUSTED).await;
        }
        // What became of the connection on the network, which the system tells whoever accepts.
        Some(
            Errno::ECONNABORTED
            | Errno::ECONNRESET
            | Errno::EINTR
            | Errno::EAGAIN
            | Errno::EPROTO
            | Errno::EPERM
            | Errno::ENOPROTOOPT
            | Errno::ENETDOWN
            | Errno::ENETUNREACH
            | Errno::EHOSTDOWN
            | Errno::EHOSTUNREACH
            | Errno::ENONET
            | Errno::ETIMEDOUT,
        ) => debug!(listener, %error, "a connection was gone before it was accepted"),
        _ => return Err(error),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_passes_is_waited_for_and_what_does_not_is_an_error() {
        let failed = async |errno: Errno| accept_failed("test", errno.into()).await;
        for errno in [Errno::EMFILE, Errno::ENFILE, Errno::ECONNABORTED, Errno::EINTR] {
            assert!(failed(errno).await.is_ok(), "{errno}");
        }
        for errno in [Errno::EBADF, Errno::EINVAL, Errno::ENOTSOCK] {
            assert_eq!(failed(errno).await.unwrap_err().raw_os_error(), Some(errno as i32));
        }
    }
}
