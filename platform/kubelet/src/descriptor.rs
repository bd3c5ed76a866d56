//! Waiting for descriptors that Tokio has no type for.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A descriptor whose readability can be waited for.
#[expect(unsafe_code, reason = "Tokio cannot know that an owned descriptor stays what it is")]
pub(crate) fn readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an owned descriptor is open, belongs to nobody else, and stays the same until it is dropped.
    let registered = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    registered.map_err(|error| error.into_parts().1)
}
