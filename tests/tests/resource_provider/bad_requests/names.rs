//! Names that resources cannot have.

use super::row::{Row, in_ready, put};
use crate::bodies::{SUBSCRIPTION, cluster, cluster_id, external_auth, node_pool, with};

pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let common = [
        ("begins with a digit", "1st"),
        ("begins with a dash", "-first"),
        ("ends with a dash", "first-"),
        ("has an underscore", "fir_st"),
        ("has a dot", "fir.st"),
        ("has a blank", "fir%20st"),
        ("has a letter beyond ASCII", "f%C3%BCr"),
    ];
    let long = "a".repeat(55);
    for (what, name) in common.into_iter().chain([("has 55 letters", long.as_str())]) {
        rows.push(
            put(&format!("the name of a cluster {what}"), &cluster_id(name), &cluster("fresh")).wrong("id"),
        );
    }
    let long = "a".repeat(16);
    for (what, name) in common.into_iter().chain([("has 16 letters", long.as_str())]) {
        let pool = in_ready(&format!("nodePools/{name}"));
        rows.push(put(&format!("the name of a pool {what}"), &pool, &node_pool()).wrong("id"));
        let auth = format!("{}/externalAuths/{name}", cluster_id("bare"));
        rows.push(put(&format!("the name of an external auth {what}"), &auth, &external_auth()).wrong("id"));
    }
    let group = |group: &str| {
        format!(
            "/subscriptions/{SUBSCRIPTION}/resourceGroups/{group}/providers/Microsoft.RedHatOpenShift/hcpOpenShiftClusters/fresh"
        )
    };
    let other = |name: &str| with(cluster("fresh"), "name", name);
    rows.extend([
        put("a body of another name", &cluster_id("fresh"), &other("other")).wrong("name"),
        put("a body of no name", &cluster_id("fresh"), &other("")).wrong("name"),
        put("a name that is a number", &cluster_id("fresh"), &with(cluster("fresh"), "name", 1))
            .wrong("name"),
        put("a pool of another name", &in_ready("nodePools/fresh"), &with(node_pool(), "name", "other"))
            .wrong("name"),
        put(
            "an external auth of another name",
            &in_ready("externalAuths/entra"),
            &with(external_auth(), "name", "other"),
        )
        .wrong("name"),
        put("a group that ends with a dot", &group("Team."), &cluster("fresh")).wrong("id"),
        put("a group with a star", &group("Te*m"), &cluster("fresh")).wrong("id"),
        put("a group of 91 letters", &group(&"g".repeat(91)), &cluster("fresh")).wrong("id"),
    ]);
    rows
}
