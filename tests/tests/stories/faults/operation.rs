//! What is asked for in the life of a cluster, and how it is known to have come about.

use serde_json::{Value, json};

use crate::first_light::{cluster_body, node_pool_body};
use crate::flow::Flow;
use crate::region::Region;

/// The same name every time: the next life begins when the one before has just ended.
const NAME: &str = "phoenix";
/// The version of the node pool, before and after.
const POOL: [&str; 2] = ["4.20.8", "4.21.0"];
/// The minor version of Kubernetes that is in the cluster's, before and after.
const MINOR: [&str; 2] = ["33", "34"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Create,
    Scale,
    Upgrade,
    Delete,
}

pub(super) const LIFE: [Operation; 4] =
    [Operation::Create, Operation::Scale, Operation::Upgrade, Operation::Delete];

/// Something that is asked for, and how it is known to have come about.
pub(super) struct Step {
    pub(super) method: &'static str,
    pub(super) id: String,
    pub(super) body: Option<Value>,
    wanted: Wanted,
}

/// What there is to see in the end.
enum Wanted {
    /// The API of this minor version answers.
    Api {
        minor: &'static str,
    },
    /// So many nodes are ready, with a kubelet of this minor version.
    Nodes {
        number: usize,
        minor: &'static str,
    },
    Nothing,
}

// === impl Operation ===

impl Operation {
    pub(super) fn steps(self) -> Vec<Step> {
        let cluster = Region::cluster_id(NAME);
        let pool = format!("{cluster}/nodePools/workers");
        let step = |method, id: &String, body, wanted| Step { method, id: id.clone(), body, wanted };
        let version = |id: &str| json!({ "properties": { "version": { "id": id } } });
        let ([before, after], [old, new]) = (POOL.map(version), MINOR);
        match self {
            Self::Create => {
                let mut workers = node_pool_body(1);
                workers["properties"]["version"] = before["properties"]["version"].clone();
                vec![
                    step("PUT", &cluster, Some(cluster_body()), Wanted::Api { minor: old }),
                    step("PUT", &pool, Some(workers), Wanted::Nodes { number: 1, minor: old }),
                ]
            }
            Self::Scale => {
                vec![step("PUT", &pool, Some(node_pool_body(2)), Wanted::Nodes { number: 2, minor: old })]
            }
            Self::Upgrade => vec![
                step("PATCH", &cluster, Some(version("4.21")), Wanted::Api { minor: new }),
                step("PATCH", &pool, Some(after), Wanted::Nodes { number: 2, minor: new }),
            ],
            Self::Delete => vec![step("DELETE", &cluster, None, Wanted::Nothing)],
        }
    }
}

// === impl Step ===

impl Step {
    pub(super) fn accepts(&self, status: u16) -> bool {
        matches!(status, 200..=202) || (self.method == "DELETE" && matches!(status, 204 | 404))
    }

    /// Whether it has come about, as far as anybody can see; else what is seen instead.
    pub(super) fn outcome(&self, flow: &impl Flow) -> Result<(), String> {
        let (status, body) = flow.provider().arm("GET", &self.id, None);
        if let Wanted::Nothing = self.wanted {
            return if status == 404 { nothing_left(flow) } else { Err(format!("{status} {body}")) };
        }
        let state = &body["properties"]["provisioningState"];
        assert!(*state != "Failed", "{} {} failed: {body}", self.method, self.id);
        if *state != "Succeeded" {
            return Err(format!("{status} {body}"));
        }
        match self.wanted {
            Wanted::Api { minor } => api_is(flow, minor)?,
            Wanted::Nodes { number, minor } => nodes_are(flow, number, minor)?,
            Wanted::Nothing => {}
        }
        // Whatever was done twice over is not there twice.
        flow.provider().only_once(NAME, |arguments| flow.kubectl(arguments))
    }
}

/// The name leads somewhere, and who comes in there meets this version.
fn api_is(flow: &impl Flow, wanted: &str) -> Result<(), String> {
    let found = flow.dig(&name(flow));
    if !found.contains(" IN A ") {
        return Err(found);
    }
    flow.kubectl_in(NAME, &["get", "--raw", "/readyz"])?;
    let version = flow.kubectl_in(NAME, &["version", "-o", "json"])?;
    let version: Value = serde_json::from_str(&version).map_err(|error| error.to_string())?;
    let minor = &version["serverVersion"]["minor"];
    if *minor == wanted { Ok(()) } else { Err(format!("it runs 1.{minor}")) }
}

fn nodes_are(flow: &impl Flow, number: usize, minor: &str) -> Result<(), String> {
    let nodes = flow.kubectl_in(NAME, &["get", "nodes", "--no-headers"])?;
    let version = format!("v1.{minor}.");
    let right = nodes.lines().filter(|node| node.contains(" Ready ") && node.contains(&version)).count();
    if (nodes.lines().count(), right) == (number, number) { Ok(()) } else { Err(nodes) }
}

/// Nobody knows the cluster any more, and the node has neither files nor processes of it.
fn nothing_left(flow: &impl Flow) -> Result<(), String> {
    flow.provider().nothing_left(|arguments| flow.kubectl(arguments))?;
    let left = flow.left_on_node();
    if !left.is_empty() {
        return Err(format!("on the node there are still {left:?}"));
    }
    let found = flow.dig(&name(flow));
    if found.contains("status: NXDOMAIN") { Ok(()) } else { Err(found) }
}

/// What the API server is called.
fn name(flow: &impl Flow) -> String {
    format!("api.{NAME}.{}", flow.provider().domain)
}
