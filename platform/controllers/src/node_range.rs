//! A pod range for every node, out of the cluster's.
//!
//! Ranges handed out a moment ago are remembered until the cache shows them: two nodes that join together must not share one.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::core::v1::Node;
use kube::api::Patch;
use kube::{Api, Client};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{Next, Reconcile, TaskError};
use serde_json::json;
use tracing::info;

use crate::calls::{PATCH, tolerant};
use crate::error::Error;
use crate::ownership::is_deleting;
use crate::watches::Caches;

/// A range of IPv4 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Range {
    first: u32,
    mask: u8,
}

/// The cluster's range, and how large a node's share is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    range: Range,
    mask: u8,
}

pub(crate) struct NodeRanges {
    client: Client,
    caches: Caches,
    shares: Shares,
    /// By node.
    given: Mutex<BTreeMap<String, Range>>,
}

// === impl Range ===

impl Range {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let (address, mask) = text.split_once('/').ok_or("has no prefix length")?;
        let address: Ipv4Addr = address.parse().map_err(|_| "is not an IPv4 range")?;
        let mask: u8 = mask.parse().ok().filter(|mask| *mask <= 32).ok_or("has no usable prefix length")?;
        let first = u32::from(address);
        if u64::from(first) % size(mask) != 0 {
            return Err("does not begin where its prefix says");
        }
        Ok(Self { first, mask })
    }

    fn overlaps(self, other: Self) -> bool {
        let end = |range: Self| u64::from(range.first) + size(range.mask);
        u64::from(self.first) < end(other) && u64::from(other.first) < end(self)
    }
}

fn size(mask: u8) -> u64 {
    1 << (32 - u32::from(mask))
}

impl std::fmt::Display for Range {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", Ipv4Addr::from(self.first), self.mask)
    }
}

// === impl Shares ===

impl Shares {
    pub(crate) fn new(range: &str, mask: u8) -> Result<Self, Error> {
        let parsed = Range::parse(range)
            .map_err(|problem| Error::ClusterRange { range: range.to_owned(), problem })?;
        if mask < parsed.mask || mask > 30 {
            return Err(Error::NodeMask { mask, range: range.to_owned() });
        }
        Ok(Self { range: parsed, mask })
    }

    /// The first share that meets none of those taken.
    fn free(&self, taken: &[Range]) -> Option<Range> {
        let count = size(self.range.mask) / size(self.mask);
        let mut sorted = taken.to_vec();
        sorted.sort_unstable();
        let share = |index: u64| {
            let first = u64::from(self.range.first) + index * size(self.mask);
            Range { first: u32::try_from(first).unwrap_or(u32::MAX), mask: self.mask }
        };
        (0..count).map(share).find(|share| !sorted.iter().any(|taken| taken.overlaps(*share)))
    }
}

// === impl NodeRanges ===

impl NodeRanges {
    pub(crate) fn new(client: Client, caches: Caches, shares: Shares) -> Self {
        Self { client, caches, shares, given: Mutex::default() }
    }

    fn choose(&self, node: &str) -> Option<Range> {
        let nodes = self.caches.nodes.list();
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.retain(|name, _| {
            let found = nodes.iter().find(|node| node.metadata.name.as_ref() == Some(name));
            found.is_some_and(|node| range_of(node).is_none())
        });
        if let Some(range) = given.get(node) {
            return Some(*range);
        }
        let taken: Vec<_> =
            nodes.iter().filter_map(|node| range_of(node)).chain(given.values().copied()).collect();
        let range = self.shares.free(&taken)?;
        given.insert(node.to_owned(), range);
        Some(range)
    }
}

fn range_of(node: &Node) -> Option<Range> {
    Range::parse(node.spec.as_ref()?.pod_cidr.as_deref()?).ok()
}

/// The cluster has no room for another node.
#[derive(Debug, thiserror::Error)]
#[error(
    "the range {range} has no free /{mask} for node `{node}`; remove a node or begin with a larger `cluster_cidr`"
)]
struct Exhausted {
    range: Range,
    mask: u8,
    node: String,
}

impl Reconcile for NodeRanges {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        Ok(self.caches.nodes.keys())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let Some(node) = self.caches.nodes.get(key) else { return Ok(Next::Done) };
        let has_range = node.spec.as_ref().is_some_and(|spec| spec.pod_cidr.is_some());
        if has_range || is_deleting(&node.metadata) {
            return Ok(Next::Done);
        }
        let Some(range) = self.choose(&key.name) else {
            let Shares { range, mask } = self.shares;
            return Err(Box::new(Exhausted { range, mask, node: key.name.clone() }));
        };
        let text = range.to_string();
        let patch = Patch::Merge(json!({ "spec": { "podCIDR": text, "podCIDRs": [text] } }));
        let api: Api<Node> = Api::all(self.client.clone());
        let call = api.patch(&key.name, &PATCH, &patch);
        if tolerant(format!("give node {key} a pod range"), call).await?.is_some() {
            info!(node = %key, range = text, "pod range given");
        }
        Ok(Next::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Range {
        Range::parse(text).unwrap()
    }

    #[test]
    fn first_share_that_nobody_has_is_given() {
        let shares = Shares::new("10.132.0.0/14", 24).unwrap();
        for (taken, expected) in [
            (vec![], "10.132.0.0/24"),
            (vec!["10.132.0.0/24", "10.132.2.0/24"], "10.132.1.0/24"),
            (vec!["10.132.0.0/23"], "10.132.2.0/24"),
            (vec!["10.9.0.0/16"], "10.132.0.0/24"),
        ] {
            let taken: Vec<_> = taken.into_iter().map(range).collect();
            assert_eq!(shares.free(&taken).unwrap().to_string(), expected);
        }
        let small = Shares::new("10.0.0.0/24", 25).unwrap();
        assert_eq!(small.free(&[range("10.0.0.0/25"), range("10.0.0.128/25")]), None);
    }

    #[test]
    fn unusable_ranges_are_refused_with_a_reason() {
        for (text, mask, expected) in [
            ("10.0.0.0", 24, "has no prefix length"),
            ("10.0.0.0/99", 24, "has no usable prefix length"),
            ("10.0.0.1/14", 24, "does not begin where its prefix says"),
            ("fd00::/48", 64, "is not an IPv4 range"),
            ("10.0.0.0/25", 24, "must lie between"),
            ("10.0.0.0/14", 31, "must lie between"),
        ] {
            let error = Shares::new(text, mask).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(Shares::new("0.0.0.0/0", 8).is_ok());
    }
}
