//! Requests that come at the wrong time.

use http::Method;
use serde_json::json;

use super::row::{Row, delete, in_ready, patch, post, put, request};
use crate::bodies::{cluster, cluster_id, external_auth, node_pool, with};

pub(super) fn rows() -> Vec<Row> {
    let (making, leaving) = (cluster_id("making"), cluster_id("leaving"));
    let tags = json!({"tags": {"one": "two"}});
    let busy = |row: Row, id: &str| row.at(409, "Conflict", id);
    let mut rows = vec![
        busy(
            put(
                "another cluster while it is made",
                &making,
                &with(cluster("making"), "properties.nodeDrainTimeoutMinutes", 7),
            ),
            &making,
        ),
        busy(patch("a change while it is made", &making, &tags), &making),
        busy(put("the same cluster while it is deleted", &leaving, &cluster("leaving")), &leaving),
        busy(patch("a change while it is deleted", &leaving, &tags), &leaving),
        busy(delete("a deletion while it is deleted", &leaving), &leaving),
        delete("the last pool of a cluster", &in_ready("nodePools/workers")).wrong("name"),
    ];
    for (state, id) in [("made", &making), ("deleted", &leaving)] {
        rows.extend([
            busy(
                put(
                    &format!("a pool while the cluster is {state}"),
                    &format!("{id}/nodePools/one"),
                    &node_pool(),
                ),
                id,
            ),
            busy(
                put(
                    &format!("an external auth while the cluster is {state}"),
                    &format!("{id}/externalAuths/one"),
                    &external_auth(),
                ),
                id,
            ),
            busy(
                post(
                    &format!("a credential while the cluster is {state}"),
                    &format!("{id}/requestAdminCredential"),
                    &super::credentials::right(),
                ),
                id,
            ),
            busy(
                request(
                    &format!("a revocation while the cluster is {state}"),
                    Method::POST,
                    &format!("{id}/revokeCredentials"),
                ),
                id,
            ),
        ]);
    }
    rows
}
