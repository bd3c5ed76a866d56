use std::collections::BTreeMap;

use pilothouse_arm::{ApiVersion, ResourceId, SystemData};
use serde::Serialize;
use serde_json::Value;

use crate::invalid::{FieldError, Invalid, Problems};
use crate::{hub, merge, v2024_06_10_preview, v2026_10_01, validate, wire};

/// A version of the contract that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// `2024-06-10-preview`.
    V20240610Preview,
    /// `2026-10-01`.
    V20261001,
}

/// What a request is about, and what is there already.
#[derive(Debug)]
pub struct Target<'a, T> {
    /// The resource, as the request spells it.
    pub id: ResourceId,
    /// The region of the service; what a body says about it is ignored.
    pub location: String,
    /// What is stored.
    pub existing: Option<&'a T>,
}

impl Version {
    /// All that are served, oldest first.
    pub const ALL: [Self; 2] = [Self::V20240610Preview, Self::V20261001];

    /// The version of this date, if it is served.
    pub fn of(version: ApiVersion) -> Option<Self> {
        Self::ALL.into_iter().find(|served| served.api_version() == version)
    }

    /// Its date.
    pub const fn api_version(self) -> ApiVersion {
        match self {
            Self::V20240610Preview => ApiVersion::preview(2024, 6, 10),
            Self::V20261001 => ApiVersion::release(2026, 10, 1),
        }
    }

    /// A cluster from the body of a PUT.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn cluster_put(
        self,
        body: &[u8],
        target: &Target<'_, hub::Cluster>,
    ) -> Result<hub::Cluster, Invalid> {
        let mut problems = Problems::default();
        let cluster = match self {
            Self::V20240610Preview => {
                wire::parse::<v2024_06_10_preview::Cluster>(body)?.read(target, &mut problems)
            }
            Self::V20261001 => wire::parse::<v2026_10_01::Cluster>(body)?.read(target, &mut problems),
        };
        validate::cluster(self, &cluster, target.existing, &mut problems);
        problems.finish(cluster)
    }

    /// A cluster from the body of a PATCH: a merge patch on what this version shows of it.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn cluster_patch(self, body: &[u8], existing: &hub::Cluster) -> Result<hub::Cluster, Invalid> {
        let patched = patch(body, self.cluster_write(existing), validate::CLUSTER_NEVER_NULL)?;
        self.cluster_put(&patched, &Target::of_cluster(existing))
    }

    /// A cluster as this version shows it.
    pub fn cluster_write(self, cluster: &hub::Cluster) -> Value {
        match self {
            Self::V20240610Preview => json(&v2024_06_10_preview::Cluster::write(cluster)),
            Self::V20261001 => json(&v2026_10_01::Cluster::write(cluster)),
        }
    }

    /// A node pool from the body of a PUT. `cluster` is the one it belongs to.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn node_pool_put(
        self,
        body: &[u8],
        target: &Target<'_, hub::NodePool>,
        cluster: &hub::Cluster,
    ) -> Result<hub::NodePool, Invalid> {
        let mut problems = Problems::default();
        let node_pool = match self {
            Self::V20240610Preview => {
                wire::parse::<v2024_06_10_preview::NodePool>(body)?.read(target, &mut problems)
            }
            Self::V20261001 => wire::parse::<v2026_10_01::NodePool>(body)?.read(target, &mut problems),
        };
        validate::node_pool(&node_pool, target.existing, cluster, &mut problems);
        problems.finish(node_pool)
    }

    /// A node pool from the body of a PATCH: a merge patch on what this version shows of it.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn node_pool_patch(
        self,
        body: &[u8],
        existing: &hub::NodePool,
        cluster: &hub::Cluster,
    ) -> Result<hub::NodePool, Invalid> {
        let patched = patch(body, self.node_pool_write(existing), validate::NODE_POOL_NEVER_NULL)?;
        self.node_pool_put(&patched, &Target::of_node_pool(existing), cluster)
    }

    /// A node pool as this version shows it.
    pub fn node_pool_write(self, node_pool: &hub::NodePool) -> Value {
        match self {
            Self::V20240610Preview => json(&v2024_06_10_preview::NodePool::write(node_pool)),
            Self::V20261001 => json(&v2026_10_01::NodePool::write(node_pool)),
        }
    }
}

impl<'a> Target<'a, hub::Cluster> {
    fn of_cluster(existing: &'a hub::Cluster) -> Self {
        Self { id: existing.id.clone(), location: existing.location.clone(), existing: Some(existing) }
    }

    /// The cluster as it is to be, with what only the service sets taken from what is stored.
    pub(crate) fn cluster(
        &self,
        tags: Option<BTreeMap<String, String>>,
        identity: Option<hub::Identity>,
        spec: hub::ClusterSpec,
    ) -> hub::Cluster {
        let existing = self.existing;
        hub::Cluster {
            id: existing.map_or_else(|| self.id.clone(), |cluster| cluster.id.clone()),
            location: existing.map_or_else(|| self.location.clone(), |cluster| cluster.location.clone()),
            tags: tags.or_else(|| existing.map(|cluster| cluster.tags.clone())).unwrap_or_default(),
            system_data: existing.map_or_else(SystemData::default, |cluster| cluster.system_data.clone()),
            identity: identity.map(|identity| identity.keeping(existing.and_then(|c| c.identity.as_ref()))),
            spec,
            status: existing.map(|cluster| cluster.status.clone()).unwrap_or_default(),
        }
    }
}

impl<'a> Target<'a, hub::NodePool> {
    fn of_node_pool(existing: &'a hub::NodePool) -> Self {
        Self { id: existing.id.clone(), location: existing.location.clone(), existing: Some(existing) }
    }

    /// The node pool as it is to be, with what only the service sets taken from what is stored.
    pub(crate) fn node_pool(
        &self,
        tags: Option<BTreeMap<String, String>>,
        identity: Option<hub::Identity>,
        spec: hub::NodePoolSpec,
    ) -> hub::NodePool {
        let existing = self.existing;
        hub::NodePool {
            id: existing.map_or_else(|| self.id.clone(), |pool| pool.id.clone()),
            location: existing.map_or_else(|| self.location.clone(), |pool| pool.location.clone()),
            tags: tags.or_else(|| existing.map(|pool| pool.tags.clone())).unwrap_or_default(),
            system_data: existing.map_or_else(SystemData::default, |pool| pool.system_data.clone()),
            identity: identity.map(|identity| identity.keeping(existing.and_then(|p| p.identity.as_ref()))),
            spec,
            status: existing.map(|pool| pool.status.clone()).unwrap_or_default(),
        }
    }
}

fn json(value: &impl Serialize) -> Value {
    // Cannot fail: the wire types have text as keys of maps and nothing that writes can refuse.
    serde_json::to_value(value).unwrap_or_default()
}

/// Tags are replaced as a whole, as ARM wants it; everything else merges.
fn patch(body: &[u8], mut view: Value, never_null: &[&str]) -> Result<Vec<u8>, Invalid> {
    let patch: Value = wire::parse(body)?;
    if !patch.is_object() {
        let message = "The request content could not be deserialised: a patch is an object.".to_owned();
        return Err(Invalid(vec![FieldError { target: String::new(), message }]));
    }
    let mut problems = Problems::default();
    for path in never_null {
        let pointer = format!("/{}", path.replace('.', "/"));
        if patch.pointer(&pointer).is_some_and(Value::is_null) {
            problems.null(*path);
        }
    }
    merge::merge(&mut view, &patch);
    if let Some(tags) = patch.get("tags") {
        // `null` removes all of them; left out, they would be kept.
        view["tags"] = if tags.is_null() { Value::Object(serde_json::Map::new()) } else { tags.clone() };
    }
    problems.finish(view.to_string().into_bytes())
}
