//! Bodies that cannot be read, and headers that say the wrong thing.

use http::Method;
use serde_json::json;

use super::row::{Row, in_ready, patch, put, request};
use crate::bodies::{cluster, cluster_id, external_auth, node_pool};

/// One byte more than a body may have.
const TOO_LARGE: usize = 4 * 1024 * 1024 + 1;

pub(super) fn rows() -> Vec<Row> {
    [media_types(), bodies(), headers()].concat()
}

fn media_types() -> Vec<Row> {
    let fresh = cluster_id("fresh");
    let body = cluster("fresh").to_string();
    let typed = |kind: &str| {
        request(&format!("a body of {kind}"), Method::PUT, &fresh)
            .raw(body.clone())
            .header("content-type", kind)
            .is(415, "UnsupportedMediaType")
    };
    vec![
        typed("text/plain"),
        typed("application/xml"),
        typed("application/jsonp"),
        typed("application/json-patch+json"),
        typed("application/x-www-form-urlencoded"),
        typed("json"),
        request("a body of no kind", Method::PUT, &fresh).raw(body.clone()).is(415, "UnsupportedMediaType"),
        request("a change of no kind", Method::PATCH, &cluster_id("ready"))
            .raw(r#"{"tags": {}}"#)
            .is(415, "UnsupportedMediaType"),
        request("a pool as text", Method::PUT, &in_ready("nodePools/fresh"))
            .raw(node_pool().to_string())
            .header("content-type", "text/plain")
            .is(415, "UnsupportedMediaType"),
        request("an external auth as text", Method::PUT, &in_ready("externalAuths/entra"))
            .raw(external_auth().to_string())
            .header("content-type", "text/plain")
            .is(415, "UnsupportedMediaType"),
        request("a request for a credential as text", Method::POST, &in_ready("requestAdminCredential"))
            .raw(super::credentials::right().to_string())
            .header("content-type", "text/plain")
            .is(415, "UnsupportedMediaType"),
    ]
}

fn bodies() -> Vec<Row> {
    let fresh = cluster_id("fresh");
    let raw = |what: &str, body: Vec<u8>| {
        request(what, Method::PUT, &fresh)
            .raw(body)
            .header("content-type", "application/json")
            .is(400, "InvalidRequestContent")
    };
    let large = |what: &str, method, path: &str| {
        request(what, method, path)
            .raw(vec![b' '; TOO_LARGE])
            .header("content-type", "application/json")
            .is(400, "InvalidResource")
    };
    let mut broken_text = cluster("fresh").to_string().into_bytes();
    broken_text.extend([b' ', 0xff]);
    vec![
        raw("no body", Vec::new()),
        raw("half a body", b"{\"properties\": {".to_vec()),
        raw("a list", b"[]".to_vec()),
        raw("a word", b"\"cluster\"".to_vec()),
        raw("nothing, said aloud", b"null".to_vec()),
        raw("a number", b"1".to_vec()),
        raw("two bodies", b"{} {}".to_vec()),
        raw("bytes that are no text", broken_text),
        raw("a comment", b"// a cluster\n{}".to_vec()),
        raw("ten thousand lists in one another", [b"[".repeat(10_000), b"]".repeat(10_000)].concat()),
        large("a new cluster of more than 4 MiB", Method::PUT, &fresh),
        large("a change of more than 4 MiB", Method::PATCH, &cluster_id("ready")),
        large("a new pool of more than 4 MiB", Method::PUT, &in_ready("nodePools/fresh")),
        large("a credential of more than 4 MiB", Method::POST, &in_ready("requestAdminCredential")),
        request("a change that is a list", Method::PATCH, &cluster_id("ready"))
            .json(&json!([]))
            .is(400, "InvalidRequestContent"),
        request("a change that is half a body", Method::PATCH, &in_ready("nodePools/workers"))
            .json(&json!({}))
            .raw("{\"properties\":")
            .is(400, "InvalidRequestContent"),
    ]
}

fn headers() -> Vec<Row> {
    let fresh = |what: &str| put(what, &cluster_id("fresh"), &cluster("fresh"));
    let tags = json!({"tags": {"one": "two"}});
    let stale = "\"not-the-etag-of-anything\"";
    vec![
        fresh("system data that is not JSON").header("x-ms-arm-resource-system-data", "somebody").at(
            400,
            "InvalidParameter",
            "x-ms-arm-resource-system-data",
        ),
        fresh("system data that is a list").header("x-ms-arm-resource-system-data", "[]").at(
            400,
            "InvalidParameter",
            "x-ms-arm-resource-system-data",
        ),
        fresh("a call-back that is no address").header("azure-asyncnotificationuri", "call me").at(
            400,
            "InvalidParameter",
            "azure-asyncnotificationuri",
        ),
        patch("a change of what it was before", &cluster_id("ready"), &tags).header("if-match", stale).at(
            412,
            "PreconditionFailed",
            "if-match",
        ),
        request("a deletion of what it was before", Method::DELETE, &cluster_id("ready"))
            .header("if-match", stale)
            .at(412, "PreconditionFailed", "if-match"),
        put("a cluster that is there, if there is none", &cluster_id("ready"), &cluster("ready"))
            .header("if-none-match", "*")
            .at(412, "PreconditionFailed", "if-none-match"),
        fresh("a cluster that is not there, if it is as before").header("if-match", stale).at(
            412,
            "PreconditionFailed",
            "if-match",
        ),
        patch("a pool of before", &in_ready("nodePools/workers"), &json!({"properties": {"replicas": 1}}))
            .header("if-match", stale)
            .at(412, "PreconditionFailed", "if-match"),
        request("an external auth of before", Method::DELETE, &in_ready("externalAuths/entra"))
            .header("if-match", stale)
            .at(412, "PreconditionFailed", "if-match"),
        request("a condition that is none", Method::DELETE, &in_ready("externalAuths/entra"))
            .header("if-match", "yesterday")
            .at(400, "InvalidParameter", "if-match"),
    ]
}
