//! A broken rule.

use std::fmt;

/// A broken rule: where, what, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) file: String,
    pub(crate) what: String,
    pub(crate) remedy: String,
}

impl Violation {
    pub(crate) fn new(file: impl Into<String>, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { file: file.into(), what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}; {}", self.file, self.what, self.remedy)
    }
}
