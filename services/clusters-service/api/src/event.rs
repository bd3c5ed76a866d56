use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{BreakGlassCredential, Cluster, ClusterId, ExternalAuth, ExternalAuthId, NodePool, NodePoolId};

/// One line of a watch.
///
/// Without a cursor to begin at, a watch first gives everything there is, each without a cursor, and then a
/// [`Change::Bookmark`] with the first one. From there on every event has a cursor: whoever has dealt with the event
/// may come back with it and misses nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Line", into = "Line")]
pub struct Event {
    /// Where to come back to; `None` while everything there is is being told.
    pub cursor: Option<Cursor>,
    /// What happened.
    pub change: Change,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// A cluster was made or changed.
    Cluster(Box<Cluster>),
    /// A cluster is gone.
    ClusterDeleted(ClusterId),
    /// A node pool was made or changed.
    NodePool(Box<NodePool>),
    /// A node pool is gone.
    NodePoolDeleted(ClusterId, NodePoolId),
    /// An external auth was made or changed.
    ExternalAuth(Box<ExternalAuth>),
    /// An external auth is gone.
    ExternalAuthDeleted(ClusterId, ExternalAuthId),
    /// A credential was made or changed. Its kubeconfig is never part of a watch.
    BreakGlassCredential(ClusterId, Box<BreakGlassCredential>),
    /// Something about a kind of resource that this build does not know.
    Unknown,
    /// Nothing, but the watch stands here now. What was not told before the first one does not exist.
    Bookmark,
}

/// Where a watch stands. Opaque: keep it, hand it back.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(String);

/// An event as it is written.
#[derive(Serialize, Deserialize)]
struct Line {
    cursor: Option<Cursor>,
    kind: Kind,
    #[serde(default)]
    id: String,
    #[serde(default)]
    cluster_id: String,
    #[serde(default)]
    deleted: bool,
    #[serde(default)]
    resource: Option<Value>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
enum Kind {
    Cluster,
    NodePool,
    ExternalAuth,
    BreakGlassCredential,
    Bookmark,
    /// Of a newer service.
    #[serde(other)]
    Unknown,
}

/// Why a line is no event.
#[derive(Debug, thiserror::Error)]
enum InvalidLine {
    #[error("its id is not valid")]
    Id(#[from] crate::InvalidId),
    #[error("its resource does not have the form of its kind")]
    Resource(#[from] serde_json::Error),
}

impl Cursor {
    /// A cursor that was kept as text.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The cursor as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Event {
    /// The cluster it is about, its own or that of what belongs to it; none for a bookmark.
    pub fn cluster_id(&self) -> Option<&ClusterId> {
        self.change.cluster_id()
    }
}

impl Change {
    /// The cluster it is about, its own or that of what belongs to it; none for a bookmark.
    pub fn cluster_id(&self) -> Option<&ClusterId> {
        match self {
            Self::Cluster(cluster) => Some(&cluster.id),
            Self::NodePool(node_pool) => Some(&node_pool.cluster_id),
            Self::ExternalAuth(external_auth) => Some(&external_auth.cluster_id),
            Self::ClusterDeleted(id)
            | Self::NodePoolDeleted(id, _)
            | Self::ExternalAuthDeleted(id, _)
            | Self::BreakGlassCredential(id, _) => Some(id),
            Self::Unknown | Self::Bookmark => None,
        }
    }
}

impl From<Event> for Line {
    fn from(event: Event) -> Self {
        let line = |kind, id: String, cluster_id: String, resource: Option<Value>| Self {
            cursor: event.cursor,
            kind,
            id,
            cluster_id,
            deleted: resource.is_none() && !matches!(kind, Kind::Bookmark | Kind::Unknown),
            resource,
        };
        // Our own types always have a JSON form: their maps have text as keys.
        let value = |resource: Result<Value, serde_json::Error>| resource.ok();
        match event.change {
            Change::Cluster(cluster) => line(
                Kind::Cluster,
                cluster.id.to_string(),
                cluster.id.to_string(),
                value(serde_json::to_value(cluster)),
            ),
            Change::ClusterDeleted(id) => line(Kind::Cluster, id.to_string(), id.to_string(), None),
            Change::NodePool(node_pool) => line(
                Kind::NodePool,
                node_pool.id.to_string(),
                node_pool.cluster_id.to_string(),
                value(serde_json::to_value(node_pool)),
            ),
            Change::NodePoolDeleted(cluster, id) => {
                line(Kind::NodePool, id.to_string(), cluster.to_string(), None)
            }
            Change::ExternalAuth(external_auth) => line(
                Kind::ExternalAuth,
                external_auth.id.to_string(),
                external_auth.cluster_id.to_string(),
                value(serde_json::to_value(external_auth)),
            ),
            Change::ExternalAuthDeleted(cluster, id) => {
                line(Kind::ExternalAuth, id.to_string(), cluster.to_string(), None)
            }
            Change::BreakGlassCredential(cluster, credential) => line(
                Kind::BreakGlassCredential,
                credential.id.to_string(),
                cluster.to_string(),
                value(serde_json::to_value(credential.without_kubeconfig())),
            ),
            Change::Unknown => line(Kind::Unknown, String::new(), String::new(), None),
            Change::Bookmark => line(Kind::Bookmark, String::new(), String::new(), None),
        }
    }
}

impl TryFrom<Line> for Event {
    type Error = InvalidLine;

    fn try_from(line: Line) -> Result<Self, InvalidLine> {
        let change = match (line.kind, line.resource) {
            (Kind::Cluster, Some(resource)) => Change::Cluster(serde_json::from_value(resource)?),
            (Kind::Cluster, None) => Change::ClusterDeleted(line.id.parse()?),
            (Kind::NodePool, Some(resource)) => Change::NodePool(serde_json::from_value(resource)?),
            (Kind::NodePool, None) => Change::NodePoolDeleted(line.cluster_id.parse()?, line.id.parse()?),
            (Kind::ExternalAuth, Some(resource)) => Change::ExternalAuth(serde_json::from_value(resource)?),
            (Kind::ExternalAuth, None) => {
                Change::ExternalAuthDeleted(line.cluster_id.parse()?, line.id.parse()?)
            }
            (Kind::BreakGlassCredential, Some(resource)) => {
                Change::BreakGlassCredential(line.cluster_id.parse()?, serde_json::from_value(resource)?)
            }
            // Credentials are kept for as long as their cluster; that they go with it needs no telling.
            (Kind::BreakGlassCredential, None) | (Kind::Unknown, _) => Change::Unknown,
            (Kind::Bookmark, _) => Change::Bookmark,
        };
        Ok(Self { cursor: line.cursor, change })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdefghijklmnopqrstuv";

    #[test]
    fn a_deletion_is_written_with_its_ids_and_read_back() {
        let event = Event {
            cursor: Some(Cursor::from_text("r1f")),
            change: Change::NodePoolDeleted(ID.parse().unwrap(), "workers".parse().unwrap()),
        };
        let line = serde_json::to_value(&event).unwrap();
        assert_eq!(
            line,
            serde_json::json!({"cursor": "r1f", "kind": "NodePool", "id": "workers", "cluster_id": ID,
                               "deleted": true, "resource": null})
        );
        assert_eq!(serde_json::from_value::<Event>(line).unwrap(), event);
    }
}
