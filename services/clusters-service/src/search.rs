//! The expressions of `search`: which clusters, or other things, a caller wants to see.
//!
//! The language is the one other OCM services use: `field = 'value'`, `!= <> < <= > >=`, `[not] like`, `[not] ilike`,
//! `[not] in (…)`, `[not] between a and b`, `is [not] null`, joined by `not`, `and`, `or` and parentheses. Keywords are
//! read in any case, text is in single quotes, a quote inside is doubled.
//!
//! As in SQL there are three answers: what is asked of a field that is not there is neither true nor false, and its
//! negation is not true either. A field that nothing of the kind can have is a mistake, and is said so.
//!
//! Parsing gives an [`Expression`]; evaluating it over the JSON of a cluster touches nothing else, so that an index
//! ([`Expression::required`]) only ever narrows what has to be looked at.

use serde_json::Value;

mod evaluate;
mod key;
mod lexer;
mod order;
mod parser;
#[cfg(test)]
mod tests;

pub(crate) use order::Order;

/// A parsed search.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression {
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
    Not(Box<Expression>),
    Compare(Field, Comparison, Literal),
    Like { field: Field, pattern: String, any_case: bool },
    In(Field, Vec<Literal>),
    Between(Field, Literal, Literal),
    IsNull(Field),
}

/// A field of a cluster, as a path of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field(Vec<String>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Text(String),
    Number(f64),
    Boolean(bool),
}

/// Why a search is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at character {at}: {problem}")]
pub(crate) struct SyntaxError {
    /// Counted from one.
    pub(crate) at: usize,
    pub(crate) problem: String,
}

/// What is searched for, and so which fields there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Clusters,
    Versions,
    Shards,
    NodePools,
    UpgradePolicies,
    Credentials,
    ExternalAuths,
}

/// The fields of clusters that can be searched by and sorted by. Below `properties` any name may stand.
const OF_CLUSTERS: &[&[&str]] = &[
    &["id"],
    &["name"],
    &["href"],
    &["creation_timestamp"],
    &["domain_prefix"],
    &["state"],
    &["status", "state"],
    &["status", "provision_error_code"],
    &["region", "id"],
    &["cloud_provider", "id"],
    &["product", "id"],
    &["dns", "base_domain"],
    &["version", "id"],
    &["api", "url"],
    &["hypershift", "enabled"],
    &["azure", "subscription_id"],
    &["azure", "resource_group_name"],
    &["azure", "resource_name"],
    &["azure", "managed_resource_group_name"],
    &["azure", "tenant_id"],
];

/// The same of versions.
const OF_VERSIONS: &[&[&str]] = &[&["id"], &["raw_id"], &["enabled"], &["default"], &["channel_group"]];

/// The same of management clusters.
const OF_SHARDS: &[&[&str]] = &[
    &["id"],
    &["status"],
    &["topology"],
    &["creation_timestamp"],
    &["region", "id"],
    &["cloud_provider", "id"],
    &["health", "state"],
    &["maestro_config", "consumer_name"],
];

/// The same of node pools.
const OF_NODE_POOLS: &[&[&str]] = &[
    &["id"],
    &["creation_timestamp"],
    &["auto_repair"],
    &["availability_zone"],
    &["subnet"],
    &["version", "id"],
    &["status", "state", "value"],
    &["azure_node_pool", "resource_name"],
    &["azure_node_pool", "vm_size"],
];

/// What upgrades can be sorted by.
const OF_UPGRADE_POLICIES: &[&[&str]] = &[
    &["id"],
    &["version"],
    &["creation_timestamp"],
    &["last_update_timestamp"],
    &["next_run"],
    &["state", "value"],
];

/// The fields of administrators' credentials. None of them lets anybody in.
const OF_CREDENTIALS: &[&[&str]] =
    &[&["id"], &["username"], &["status"], &["expiration_timestamp"], &["revocation_timestamp"]];

/// The fields of external auths.
const OF_EXTERNAL_AUTHS: &[&[&str]] =
    &[&["id"], &["creation_timestamp"], &["issuer", "url"], &["status", "state", "value"]];

impl Expression {
    /// Reads a search.
    pub(crate) fn parse(text: &str, subject: Subject) -> Result<Self, SyntaxError> {
        parser::parse(text, subject)
    }

    /// Whether a cluster, as JSON, is one that is searched for.
    pub(crate) fn matches(&self, cluster: &Value) -> bool {
        evaluate::evaluate(self, cluster) == Some(true)
    }

    /// The text that `field` must equal in everything that matches, if the expression says so at its top.
    pub(crate) fn required(&self, field: &[&str]) -> Option<&str> {
        match self {
            Self::And(left, right) => left.required(field).or_else(|| right.required(field)),
            Self::Compare(found, Comparison::Equal, Literal::Text(value)) if found.is(field) => Some(value),
            _ => None,
        }
    }
}

impl Field {
    /// The field of this name; `None` if nothing of that kind has it.
    fn known(name: &str, subject: Subject) -> Option<Self> {
        let path: Vec<String> = name.split('.').map(str::to_owned).collect();
        let same = |known: &&&[&str]| path.iter().map(String::as_str).eq(known.iter().copied());
        let listed = subject.fields().iter().find(same).is_some();
        let property =
            subject == Subject::Clusters && path.len() == 2 && path[0] == "properties" && !path[1].is_empty();
        (listed || property).then_some(Self(path))
    }

    fn is(&self, path: &[&str]) -> bool {
        self.0.iter().map(String::as_str).eq(path.iter().copied())
    }

    /// Names in ARM are the same in any case, and are kept in lower case here; callers type them as they know them.
    fn ignores_case(&self) -> bool {
        self.0.first().is_some_and(|first| first == "azure")
    }

    fn of<'a>(&self, cluster: &'a Value) -> Option<&'a Value> {
        let found = self.0.iter().try_fold(cluster, |value, name| value.get(name))?;
        (!found.is_null()).then_some(found)
    }
}

impl Subject {
    fn fields(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Clusters => OF_CLUSTERS,
            Self::Versions => OF_VERSIONS,
            Self::Shards => OF_SHARDS,
            Self::NodePools => OF_NODE_POOLS,
            Self::UpgradePolicies => OF_UPGRADE_POLICIES,
            Self::Credentials => OF_CREDENTIALS,
            Self::ExternalAuths => OF_EXTERNAL_AUTHS,
        }
    }

    /// For messages: every field one may name.
    fn known_fields(self) -> String {
        let mut names: Vec<String> = self.fields().iter().map(|path| path.join(".")).collect();
        if self == Self::Clusters {
            names.push("properties.<name>".to_owned());
        }
        names.join(", ")
    }
}
