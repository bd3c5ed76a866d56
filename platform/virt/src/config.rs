use serde::{Deserialize, Serialize};

/// What virtual machines are made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The image that is this very program.
    pub image: String,
    /// How many machines are worked on at once.
    pub concurrency: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { image: "pilothouse".to_owned(), concurrency: 16 }
    }
}
