//! What a spec names instead of holding it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An image that stands for a release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Release {
    /// The image.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^(\w+\S+)$"))]
    pub image: String,
}

/// A Secret or ConfigMap in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reference {
    /// Its name.
    #[serde(default)]
    pub name: String,
}

/// A key of a Secret or ConfigMap in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeyReference {
    /// The object's name.
    pub name: String,
    /// The key.
    pub key: String,
}

// === impl Reference ===

impl Reference {
    /// A reference to the object of this name.
    pub fn to(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.name.is_empty()
    }
}
