//! Text that is wiped when nobody needs it any more.
//!
//! `Zeroizing` does the same byte by byte, and sees to it that no write is left out by writing in a way that cannot be done
//! in larger steps. For bundles of manifests that is a tenth of what it takes to list them. Here all of it is overwritten at
//! once, and then shown to somebody the compiler knows nothing of.

use std::fmt;
use std::ops::Deref;

/// What was sealed, opened.
pub(crate) struct Wiped(String);

impl Wiped {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }

    /// Empty, with room: text that has to move while it grows leaves copies behind.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self(String::with_capacity(bytes))
    }

    pub(crate) fn text_mut(&mut self) -> &mut String {
        &mut self.0
    }
}

impl Deref for Wiped {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Drop for Wiped {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.0).into_bytes();
        bytes.fill(0);
        zeroize::optimization_barrier(bytes.as_slice());
    }
}

/// Never what it says.
impl fmt::Debug for Wiped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wiped").field("bytes", &self.0.len()).finish()
    }
}
