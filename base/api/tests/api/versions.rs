//! Which versions of OpenShift may be asked for, and which may follow which.

use pilothouse_api::{Rules, Target, Version, hub};
use serde_json::json;

use crate::{
    Row, check, cluster, cluster_body, node_pool, node_pool_body, node_pool_target, problems, target,
};

const ID: &str = "properties.version.id";
const EXPERIMENTAL: Rules = Rules { operator_identities: true, experimental: true };

#[test]
fn a_cluster_names_a_minor_that_is_offered() {
    let rows: &[Row<'_>] = &[
        ("/properties/version/id", json!("4.22"), None),
        (
            "/properties/version/id",
            json!("4.19"),
            Some((ID, "Invalid value: \"4.19\": must be at least 4.20")),
        ),
        (
            "/properties/version/id",
            json!("4.20.8"),
            Some((ID, "Invalid value: \"4.20.8\": must be a minor version, such as 4.20")),
        ),
        (
            "/properties/version/id",
            json!("5.0"),
            Some((ID, "Invalid value: \"5.0\": must be a version of OpenShift 4")),
        ),
        ("/properties/version/id", json!(""), Some((ID, "Required value"))),
        ("/properties/version", json!({}), Some((ID, "Required value"))),
        ("/properties/version", json!(null), Some(("properties.version", "Required value"))),
        ("/properties/version/channelGroup", json!("fast"), None),
        (
            "/properties/version/channelGroup",
            json!("nightly"),
            Some((
                "properties.version.channelGroup",
                "Unsupported value: \"nightly\": supported values: \"fast\", \"stable\"",
            )),
        ),
    ];
    for version in [Version::V20251223Preview, Version::V20261001] {
        check(cluster_body, rows, |body| version.cluster_put(body, &target("First")));
    }
    let rows: &[Row<'_>] = &[
        ("/properties/version/id", json!("4.20.8-rc.1"), None),
        ("/properties/version/id", json!("5.0"), None),
        ("/properties/version/channelGroup", json!("nightly"), None),
        (
            "/properties/version/id",
            json!("newest"),
            Some((ID, "Invalid value: \"newest\": must be a minor version, such as 4.20")),
        ),
        (
            "/properties/version/channelGroup",
            json!("weekly"),
            Some((
                "properties.version.channelGroup",
                "Unsupported value: \"weekly\": supported values: \"candidate\", \"fast\", \"nightly\", \"stable\"",
            )),
        ),
    ];
    check(cluster_body, rows, |body| {
        Version::V20261001.cluster_put(body, &Target { rules: EXPERIMENTAL, ..target("First") })
    });
}

#[test]
fn clusters_go_up_one_minor_at_a_time_and_not_behind_what_runs() {
    for (before, active, after, rules, expected) in [
        ("4.21", vec![], "4.21", Rules::default(), None),
        ("4.21", vec![], "4.22", Rules::default(), None),
        ("4.21", vec![], "4.20", Rules::default(), Some("must not be older than 4.21, which it is now")),
        ("4.21", vec![], "4.23", Rules::default(), Some("must not skip a minor version; it is 4.21 now")),
        (
            "4.20",
            vec!["4.22"],
            "4.21",
            Rules::default(),
            Some("must not be older than 4.22, which runs already"),
        ),
        ("4.22", vec![], "5.0", EXPERIMENTAL, None),
        ("4.21", vec![], "5.0", EXPERIMENTAL, Some("must not skip a minor version; it is 4.21 now")),
    ] {
        let mut existing = cluster();
        existing.spec.version.id = Some(before.to_owned());
        existing.status.active_versions = active.into_iter().map(str::to_owned).collect();
        let target = Target { existing: Some(&existing), rules, ..target("First") };
        let body = json!({"properties": {"version": {"id": after}}}).to_string();
        let found = Version::V20261001.cluster_patch(body.as_bytes(), &target);
        match expected {
            None => assert_eq!(found.unwrap().spec.version.id.as_deref(), Some(after)),
            Some(why) => {
                let message = format!("Invalid value: {after:?}: {why}");
                assert_eq!(problems(found), [(ID.to_owned(), message)], "{before} to {after}");
            }
        }
    }
}

#[test]
fn a_key_is_exchanged_where_the_contract_and_the_control_plane_can() {
    let target_of_key = "properties.etcd.dataEncryption.customerManaged.kms.activeKey.version";
    let mut existing = cluster();
    existing.spec.version.id = Some("4.22".to_owned());
    existing.spec.etcd.customer_key = Some(hub::CustomerKey {
        encryption_type: hub::EncryptionType::Kms,
        vault_type: hub::KeyVaultType::KeyVault,
        vault_name: "vault".to_owned(),
        visibility: hub::Visibility::Public,
        name: "key".to_owned(),
        version: "1".to_owned(),
    });
    let patch = json!({"properties": {"etcd": {"dataEncryption": {"customerManaged": {"kms": {
        "activeKey": {"version": "2"}}}}}}})
    .to_string();
    let mut mixed = existing.clone();
    mixed.status.active_versions = vec!["4.21".to_owned(), "4.22".to_owned()];
    let late = "Forbidden: may only be changed when the control plane runs 4.22 or later";
    for (version, cluster, expected) in [
        (Version::V20240610Preview, &existing, Some("Forbidden: field is immutable")),
        (Version::V20251223Preview, &existing, Some("Forbidden: field is immutable")),
        (Version::V20260630Preview, &existing, None),
        (Version::V20261001, &existing, None),
        (Version::V20261001, &mixed, Some(late)),
    ] {
        let target = Target { existing: Some(cluster), ..target("First") };
        let found = version.cluster_patch(patch.as_bytes(), &target);
        match expected {
            None => assert_eq!(found.unwrap().spec.etcd.customer_key.unwrap().version, "2"),
            Some(message) => {
                assert_eq!(problems(found), [(target_of_key.to_owned(), message.to_owned())], "{version:?}");
            }
        }
    }
}

#[test]
fn a_node_pool_names_a_release_that_its_cluster_takes() {
    let rows: &[Row<'_>] = &[
        ("/properties/version/id", json!("4.20.9"), None),
        (
            "/properties/version/id",
            json!("4.20"),
            Some((ID, "Invalid value: \"4.20\": must be a full version, such as 4.20.8")),
        ),
        (
            "/properties/version/id",
            json!("4.20.7"),
            Some((ID, "Invalid value: \"4.20.7\": must be at least 4.20.8")),
        ),
        (
            "/properties/version/id",
            json!("4.20.8-rc.1"),
            Some((ID, "Invalid value: \"4.20.8-rc.1\": must be a release, not what comes before it")),
        ),
        (
            "/properties/version/id",
            json!("4.21.9"),
            Some((ID, "Invalid value: \"4.21.9\": must not be newer than the cluster, which is 4.20")),
        ),
        (
            "/properties/version/id",
            json!("5.0.9"),
            Some((ID, "Invalid value: \"5.0.9\": must be of the major version of the cluster, 4.20")),
        ),
        ("/properties/version", json!(null), Some(("properties.version", "Required value"))),
        ("/properties/version/id", json!(null), Some((ID, "Required value"))),
    ];
    check(node_pool_body, rows, |body| {
        Version::V20261001.node_pool_put(body, &node_pool_target("workers"), &cluster())
    });
    let mut body = node_pool_body();
    body["properties"]["version"] = json!(null);
    let first = Version::V20240610Preview.node_pool_put(
        body.to_string().as_bytes(),
        &node_pool_target("workers"),
        &cluster(),
    );
    assert_eq!(first.unwrap().spec.version.id, None);
}

#[test]
fn node_pools_stay_within_two_minors_of_their_cluster_and_of_themselves() {
    let mut cluster = cluster();
    cluster.spec.version.id = Some("4.23".to_owned());
    cluster.status.active_versions = vec!["4.22".to_owned(), "4.23".to_owned()];
    let mut pool = node_pool();
    pool.spec.version.id = Some("4.20.8".to_owned());
    pool.status.active_versions = vec!["4.20.8".to_owned()];
    for (after, expected) in [
        ("4.22.1", None),
        ("4.21.1", None),
        ("4.23.1", Some("must not be newer than the cluster, which is 4.22")),
        ("4.20.9", Some("must be within two minors of the cluster, 4.23")),
    ] {
        let target = Target { existing: Some(&pool), ..node_pool_target("workers") };
        let body = json!({"properties": {"version": {"id": after}}}).to_string();
        let found = Version::V20261001.node_pool_patch(body.as_bytes(), &target, &cluster);
        match expected {
            None => assert!(found.is_ok(), "{after}: {found:?}"),
            Some(why) => {
                assert_eq!(problems(found), [(ID.to_owned(), format!("Invalid value: {after:?}: {why}"))]);
            }
        }
    }
    cluster.status.active_versions = vec!["4.23".to_owned()];
    let target = Target { existing: Some(&pool), ..node_pool_target("workers") };
    let found = Version::V20261001.node_pool_patch(
        b"{\"properties\":{\"version\":{\"id\":\"4.23.1\"}}}",
        &target,
        &cluster,
    );
    let why = "Invalid value: \"4.23.1\": must be within two minors of its nodes, which run 4.20";
    assert_eq!(problems(found), [(ID.to_owned(), why.to_owned())]);
    pool.spec.version.id = Some("4.22.3".to_owned());
    let target = Target { existing: Some(&pool), ..node_pool_target("workers") };
    let down = Version::V20261001.node_pool_patch(
        b"{\"properties\":{\"version\":{\"id\":\"4.21.1\"}}}",
        &target,
        &cluster,
    );
    assert!(down.is_ok(), "nodes are replaced, so they may go down: {down:?}");
}
