//! Paths, methods, versions, pages: what is refused before anybody looks at a body.

use http::Method;

use super::row::{Row, bare, get, in_ready, patch, post, put};
use crate::bodies::{GROUP, LOCATION, SUBSCRIPTION, cluster, cluster_id, external_auth, node_pool};
use serde_json::json;

pub(super) fn rows() -> Vec<Row> {
    [nowhere(), methods(), versions(), pages(), absent()].concat()
}

fn provider(rest: &str) -> String {
    format!("/subscriptions/{SUBSCRIPTION}/providers/Microsoft.RedHatOpenShift/{rest}")
}

fn location(rest: &str) -> String {
    provider(&format!("locations/{LOCATION}/{rest}"))
}

fn nowhere() -> Vec<Row> {
    let group = format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}");
    let paths = [
        ("the root", "/".to_owned()),
        ("a path that nobody knows", "/nothing".to_owned()),
        ("a resource group", group.clone()),
        ("the provider without a type", provider("")),
        ("a type of another provider", format!("{group}/providers/Microsoft.Compute/virtualMachines/one")),
        (
            "a type of the classic service",
            format!("{group}/providers/Microsoft.RedHatOpenShift/openShiftClusters/one"),
        ),
        ("a type that does not exist", in_ready("machines/one")),
        ("something below a node pool", in_ready("nodePools/workers/nodes")),
        ("a cluster without a group", provider("hcpOpenShiftClusters/ready")),
        ("a location without a type", location("")),
        ("a type of a location that does not exist", location("hcpOpenShiftColours")),
        (
            "an empty segment",
            format!("{group}//providers/Microsoft.RedHatOpenShift/hcpOpenShiftClusters/ready"),
        ),
        ("a slash inside a name", cluster_id("rea%2Fdy")),
    ];
    paths.iter().map(|(what, path)| get(what, path).is(404, "NotFound")).collect()
}

fn methods() -> Vec<Row> {
    let clusters = cluster_id("").trim_end_matches('/').to_owned();
    let subscription = format!("/subscriptions/{SUBSCRIPTION}");
    let preflight = format!(
        "{subscription}/resourceGroups/{GROUP}/providers/Microsoft.RedHatOpenShift/deployments/one/preflight"
    );
    let calls = [
        (Method::POST, cluster_id("ready")),
        (Method::OPTIONS, cluster_id("ready")),
        (Method::PUT, clusters.clone()),
        (Method::DELETE, clusters),
        (Method::PATCH, provider("hcpOpenShiftClusters")),
        (Method::PUT, in_ready("nodePools")),
        (Method::POST, in_ready("nodePools/workers")),
        (Method::DELETE, in_ready("externalAuths")),
        (Method::GET, in_ready("requestAdminCredential")),
        (Method::PUT, in_ready("requestAdminCredential")),
        (Method::GET, in_ready("revokeCredentials")),
        (Method::PUT, location("hcpOpenShiftVersions/4.20.8")),
        (Method::DELETE, location("hcpOperatorIdentityRoleSets/4.20")),
        (Method::POST, location("hcpOperationStatuses/0b1f6471-1bf0-4dda-aec3-cb9272f09591")),
        (Method::DELETE, subscription.clone()),
        (Method::PATCH, subscription),
        (Method::GET, preflight.clone()),
        (Method::PUT, preflight),
        (Method::POST, "/providers/Microsoft.RedHatOpenShift/operations".to_owned()),
    ];
    calls
        .into_iter()
        .map(|(method, path)| {
            let what = format!("{method} is not for {}", path.rsplit('/').next().unwrap());
            super::row::request(&what, method, &path).is(404, "NotFound")
        })
        .collect()
}

fn versions() -> Vec<Row> {
    let ready = cluster_id("ready");
    let operation = "0b1f6471-1bf0-4dda-aec3-cb9272f09591";
    let without = |what: &str, method, path: &str| bare(what, method, path).is(400, "InvalidParameter");
    let unknown = |version: &str| {
        bare(&format!("the version {version:?}"), Method::GET, &format!("{ready}?api-version={version}"))
            .is(400, "InvalidResourceType")
    };
    vec![
        without("a cluster without a version", Method::GET, &ready),
        without("a list without a version", Method::GET, &provider("hcpOpenShiftClusters")),
        without("pools without a version", Method::GET, &in_ready("nodePools")),
        without("an external auth without a version", Method::GET, &in_ready("externalAuths/entra")),
        without("the versions without a version", Method::GET, &location("hcpOpenShiftVersions")),
        without(
            "a status without a version",
            Method::GET,
            &location(&format!("hcpOperationStatuses/{operation}")),
        ),
        without(
            "a result without a version",
            Method::GET,
            &location(&format!("hcpOperationResults/{operation}")),
        ),
        without("a deletion without a version", Method::DELETE, &ready),
        without("a change without a version", Method::PATCH, &ready).json(&json!({"tags": {}})),
        without("a revocation without a version", Method::POST, &in_ready("revokeCredentials")),
        without("a version that says nothing", Method::GET, &format!("{ready}?api-version=")),
        without("a parameter in another case", Method::GET, &format!("{ready}?Api-Version=2026-10-01")),
        without("a parameter of another name", Method::GET, &format!("{ready}?version=2026-10-01")),
        unknown("2023-11-22"),
        unknown("2026-10-01-preview"),
        unknown("2026-09-01"),
        unknown("2026-13-01"),
        unknown("latest"),
        unknown("2.0"),
        bare(
            "a new cluster of a version nobody has",
            Method::PUT,
            &format!("{}?api-version=2030-01-01", cluster_id("fresh")),
        )
        .json(&cluster("fresh"))
        .is(400, "InvalidResourceType"),
    ]
}

fn pages() -> Vec<Row> {
    let list = provider("hcpOpenShiftClusters");
    let wrong = |what: &str, query: &str, target: &str| {
        get(what, &format!("{list}?{query}")).at(400, "InvalidParameter", target)
    };
    vec![
        wrong("a page of nothing", "$top=0", "$top"),
        wrong("a page of less than nothing", "$top=-1", "$top"),
        wrong("a page of a word", "$top=many", "$top"),
        wrong("a page of one and a half", "$top=1.5", "$top"),
        wrong("a page beyond 32 bits", "$top=2147483648", "$top"),
        wrong("a place in the list that nobody gave out", "$skipToken=somewhere", "$skipToken"),
        wrong("an escaped place in the list that nobody gave out", "%24skipToken=%00", "$skipToken"),
        get("a place in the list of pools that nobody gave out", &in_ready("nodePools?$skipToken=x")).at(
            400,
            "InvalidParameter",
            "$skipToken",
        ),
        get("a page of no external auths", &in_ready("externalAuths?$top=0")).at(
            400,
            "InvalidParameter",
            "$top",
        ),
    ]
}

fn absent() -> Vec<Row> {
    let absent = cluster_id("absent");
    let missing = |row: Row, id: &str| row.at(404, "ResourceNotFound", id);
    let tags = json!({"tags": {}});
    let version = location("hcpOpenShiftVersions/4.99.99");
    let roles = location("hcpOperatorIdentityRoleSets/4.99");
    let operation = "0b1f6471-1bf0-4dda-aec3-cb9272f09591";
    let result = location(&format!("hcpOperationResults/{operation}"));
    let pool = in_ready("nodePools/absent");
    let auth = in_ready("externalAuths/absent");
    vec![
        missing(get("a cluster that is absent", &absent), &absent),
        missing(get("a name that no cluster can have", &cluster_id("no_name")), &cluster_id("no_name")),
        missing(patch("a change of what is absent", &absent, &tags), &absent),
        missing(get("pools of what is absent", &format!("{absent}/nodePools")), &absent),
        missing(get("external auths of what is absent", &format!("{absent}/externalAuths")), &absent),
        missing(
            get("a pool of what is absent", &format!("{absent}/nodePools/one")),
            &format!("{absent}/nodePools/one"),
        ),
        missing(
            put("a new pool in what is absent", &format!("{absent}/nodePools/one"), &node_pool()),
            &absent,
        ),
        missing(
            put(
                "a new external auth in what is absent",
                &format!("{absent}/externalAuths/one"),
                &external_auth(),
            ),
            &absent,
        ),
        missing(
            post(
                "a credential of what is absent",
                &format!("{absent}/requestAdminCredential"),
                &super::credentials::right(),
            ),
            &absent,
        ),
        missing(
            super::row::request(
                "a revocation at what is absent",
                Method::POST,
                &format!("{absent}/revokeCredentials"),
            ),
            &absent,
        ),
        missing(get("a pool that is absent", &pool), &pool),
        missing(
            patch("a change of a pool that is absent", &pool, &json!({"properties": {"replicas": 1}})),
            &pool,
        ),
        missing(get("an external auth that is absent", &auth), &auth),
        missing(
            patch("a change of an external auth that is absent", &auth, &json!({"properties": {}})),
            &auth,
        ),
        missing(get("a release that does not exist", &version), &version),
        missing(get("roles of a release that does not exist", &roles), &roles),
        missing(get("the result of nothing", &result), &result),
        // Nothing is said about operations that one may not see, not even that they are none.
        get("the status of nothing", &location(&format!("hcpOperationStatuses/{operation}"))).is(404, ""),
        get("a status whose id is none", &location("hcpOperationStatuses/one")).is(404, ""),
    ]
}
