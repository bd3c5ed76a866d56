//! Errors written with their causes.
//!
//! No `Display` of ours repeats its source, so whoever logs an error, and only they, writes the whole chain.

use std::error::Error;
use std::fmt;

/// Displays an error and everything beneath it: `what: why: why that`.
#[derive(Debug)]
pub struct Chain<'a>(pub &'a (dyn Error + 'a));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(formatter, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Layer(&'static str, #[source] Option<Box<Layer>>);

    #[test]
    fn chain_names_every_cause_once() {
        let error = Layer("save", Some(Box::new(Layer("write", Some(Box::new(Layer("disk full", None)))))));
        assert_eq!(Chain(&error).to_string(), "save: write: disk full");
    }
}
