//! What a benchmark is doing right now, on standard error.

use std::io::{self, Write as _};

/// Tells whoever watches. Standard output is for figures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress;

impl Progress {
    pub(crate) fn say(self, line: &str) {
        // Where nobody reads there is nobody to tell that writing failed.
        let _ = writeln!(io::stderr().lock(), "{line}");
    }
}
