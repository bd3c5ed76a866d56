//! Under which identities operators act.

use pilothouse_api::{Rules, Target, Version, hub};
use pilothouse_arm::ResourceId;
use serde_json::{Value, json};

use crate::{cluster_body, identity, problems, target};

const PATH: &str = "properties.platform.operatorsAuthentication.userAssignedIdentities";

fn body(control_plane: Value, data_plane: Value, assigned: &[&str]) -> String {
    let mut body = cluster_body();
    let identities = &mut body["properties"]["platform"]["operatorsAuthentication"]["userAssignedIdentities"];
    identities["controlPlaneOperators"] = control_plane;
    identities["dataPlaneOperators"] = data_plane;
    for name in assigned {
        body["identity"]["userAssignedIdentities"][identity(name)] = json!({});
    }
    body.to_string()
}

fn put(body: &str) -> Result<hub::Cluster, pilothouse_api::Invalid> {
    Version::V20261001.cluster_put(body.as_bytes(), &target("First"))
}

#[test]
fn every_identity_has_one_use_and_its_place() {
    let good = body(
        json!({"ingress": identity("a").to_uppercase().replace("/SUBSCRIPTIONS", "/subscriptions")}),
        json!({"disk-csi-driver": identity("b")}),
        &["a"],
    );
    assert!(put(&good).is_ok(), "{:?}", put(&good));
    let (a, b) = (identity("a"), identity("b"));
    for (body, field, why) in [
        (
            body(json!({"ingress": a}), json!({}), &[]),
            format!("{PATH}.controlPlaneOperators[ingress]"),
            format!("Invalid value: {a:?}: must be assigned to the cluster in identity.userAssignedIdentities"),
        ),
        (
            body(json!({}), json!({"disk-csi-driver": b}), &["b"]),
            format!("{PATH}.dataPlaneOperators[disk-csi-driver]"),
            format!("Invalid value: {b:?}: must not be assigned to the cluster in identity.userAssignedIdentities"),
        ),
        (
            body(json!({}), json!({}), &["a"]),
            format!("identity.userAssignedIdentities[{a}]"),
            format!("Invalid value: {a:?}: must be used by an operator"),
        ),
        (
            body(json!({}), json!({"disk-csi-driver": b, "image-registry": b}), &[]),
            format!("{PATH}.dataPlaneOperators[image-registry]"),
            format!("Duplicate value: {b:?}"),
        ),
        (
            body(json!({}), json!({"kms": b}), &[]),
            format!("{PATH}.dataPlaneOperators[kms]"),
            "Unsupported value: \"kms\": supported values: \"disk-csi-driver\", \"file-csi-driver\", \"image-registry\""
                .to_owned(),
        ),
        (
            body(json!({"ingress": "nothing"}), json!({}), &["a"]),
            format!("{PATH}.controlPlaneOperators[ingress]"),
            "Invalid value: \"nothing\": it does not begin with a slash".to_owned(),
        ),
    ] {
        assert_eq!(problems(put(&body)), [(field, why)], "{body}");
    }
}

#[test]
fn a_missing_operator_leaves_its_identity_without_use() {
    let mut body = cluster_body();
    body["properties"]["platform"]["operatorsAuthentication"]["userAssignedIdentities"]["serviceManagedIdentity"] =
        json!(null);
    let service = identity("service");
    assert_eq!(
        problems(put(&body.to_string())),
        [
            (format!("{PATH}.serviceManagedIdentity"), "Required value".to_owned()),
            (
                format!("identity.userAssignedIdentities[{service}]"),
                format!("Invalid value: {service:?}: must be used by an operator")
            ),
        ]
    );
}

#[test]
fn the_kind_of_identity_is_said() {
    let mut body = cluster_body();
    body["identity"]["type"] = json!(null);
    assert_eq!(problems(put(&body.to_string())), [("identity.type".to_owned(), "Required value".to_owned())]);
    body["identity"]["type"] = json!("None ");
    let names = "\"None\", \"SystemAssigned\", \"SystemAssigned,UserAssigned\", \"UserAssigned\"";
    assert_eq!(
        problems(put(&body.to_string())),
        [("identity.type".to_owned(), format!("Unsupported value: \"None \": supported values: {names}"))]
    );
    body["identity"]["type"] = json!("SystemAssigned,UserAssigned");
    let made = put(&body.to_string()).unwrap();
    assert_eq!(Version::V20261001.cluster_write(&made)["identity"]["type"], "SystemAssigned,UserAssigned");
}

#[test]
fn what_the_service_learnt_of_identities_stays_and_callers_cannot_say_it() {
    let mut existing = put(&cluster_body().to_string()).unwrap();
    let id: ResourceId = identity("service").parse().unwrap();
    let known = hub::AssignedIdentity { client_id: Some("c".to_owned()), principal_id: Some("p".to_owned()) };
    existing.identity.as_mut().unwrap().user_assigned.insert(id.clone(), known.clone());
    let mut body = cluster_body();
    body["identity"]["userAssignedIdentities"][identity("service")] = json!({"clientId": "evil"});
    let target = Target { existing: Some(&existing), ..target("First") };
    let changed = Version::V20261001.cluster_put(body.to_string().as_bytes(), &target).unwrap();
    assert_eq!(changed.identity.unwrap().user_assigned[&id], known);
}

#[test]
fn a_region_that_needs_no_identities_takes_clusters_without() {
    let mut body = cluster_body();
    body["identity"] = json!(null);
    body["properties"]["platform"]["operatorsAuthentication"] = json!(null);
    let required = ("properties.platform.operatorsAuthentication".to_owned(), "Required value".to_owned());
    for version in Version::ALL {
        let found = version.cluster_put(body.to_string().as_bytes(), &target("First"));
        assert_eq!(problems(found), std::slice::from_ref(&required));
        let rules = Rules { operator_identities: false, ..Rules::default() };
        let made =
            version.cluster_put(body.to_string().as_bytes(), &Target { rules, ..target("First") }).unwrap();
        assert_eq!(made.spec.platform.operators, hub::OperatorIdentities::default());
        let shown = version.cluster_write(&made);
        assert_eq!(shown.pointer("/properties/platform/operatorsAuthentication"), None);
        let target = Target { existing: Some(&made), rules, ..target("First") };
        assert_eq!(version.cluster_put(shown.to_string().as_bytes(), &target).unwrap(), made);
    }
}
