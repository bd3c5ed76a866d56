use serde::{Deserialize, Serialize};

/// Something named by its id only, such as a region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// Its id.
    pub id: String,
}

impl Reference {
    /// A reference to this id.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into() }
    }
}
