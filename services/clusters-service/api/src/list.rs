use serde::{Deserialize, Serialize};

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct List<T> {
    /// `ClusterList`, `NodePoolList` and so on.
    pub kind: String,
    /// Which page, counted from one.
    pub page: u32,
    /// How many items are on it.
    pub size: u32,
    /// How many there are in all.
    pub total: u32,
    /// The items.
    pub items: Vec<T>,
}

impl<T> List<T> {
    /// A list of nothing.
    pub fn empty(kind: &str) -> Self {
        Self { kind: kind.to_owned(), page: 1, size: 0, total: 0, items: Vec::new() }
    }
}

/// Which part of a list is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListQuery {
    /// An expression such as `azure.subscription_id = '…' and name like 'a%'`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
    /// `<field> [asc|desc]`, more of them behind commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// Which page, counted from one; the first unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// How many items a page has; 100 unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
}

impl ListQuery {
    /// Everything that an expression matches.
    pub fn search(expression: impl Into<String>) -> Self {
        Self { search: Some(expression.into()), ..Self::default() }
    }
}
