//! Requests for a certificate, and what is handed out.

use pilothouse_api::{Minor, Version, hub};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::json;

use crate::{cluster_id, problems};

const ADMIN: &str = "system:customer-break-glass:system-admin";

fn request(common_names: &[&str], organisations: &[&str]) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    for name in common_names {
        params.distinguished_name.push(DnType::CommonName, *name);
    }
    for name in organisations {
        params.distinguished_name.push(DnType::OrganizationName, *name);
    }
    params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
}

fn ask(pem: &str) -> Result<hub::CredentialRequest, pilothouse_api::Invalid> {
    Version::V20261001.credential_request(json!({"certificateSigningRequest": pem}).to_string().as_bytes())
}

/// The same request with one bit of its signature turned.
fn forged() -> String {
    let pem = request(&[ADMIN], &["system:masters"]);
    let mut lines: Vec<String> = pem.lines().map(str::to_owned).collect();
    let last = lines.len() - 2;
    let turned = if lines[last].starts_with('A') { "B" } else { "A" };
    lines[last].replace_range(..1, turned);
    lines.join("\n")
}

#[test]
fn a_request_is_for_the_administrator_and_nobody_else() {
    let good = request(&[ADMIN], &["system:masters"]);
    assert_eq!(ask(&good).unwrap().certificate_signing_request, Some(good.clone()));
    let name = format!("must have the common name '{ADMIN}'");
    let organisation = "must have the organisation 'system:masters' and no other";
    let certificate = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap().cert.pem();
    for (pem, why) in [
        (request(&["system:admin"], &["system:masters"]), name.as_str()),
        (request(&[], &["system:masters"]), name.as_str()),
        (request(&[ADMIN], &["system:nobody"]), organisation),
        (request(&[ADMIN], &[]), organisation),
        (certificate, "must be a CERTIFICATE REQUEST, not a CERTIFICATE"),
        ("nonsense".to_owned(), "must be one PKCS#10 request as PEM"),
        (format!("{good}{good}"), "must be one PKCS#10 request as PEM"),
        (forged(), "must be signed with the key that it is for"),
    ] {
        let message = format!("Invalid value: \"(request)\": {why}");
        assert_eq!(problems(ask(&pem)), [("certificateSigningRequest".to_owned(), message)], "{pem}");
    }
}

#[test]
fn only_versions_that_have_a_request_ask_for_one() {
    for version in Version::ALL {
        let found = version.credential_request(b"");
        if version < Version::V20260901Preview {
            assert_eq!(found.unwrap(), hub::CredentialRequest::default());
        } else {
            let required = ("certificateSigningRequest".to_owned(), "Required value".to_owned());
            for found in [found, version.credential_request(b"{}")] {
                assert_eq!(problems(found), std::slice::from_ref(&required));
            }
            assert_eq!(problems(version.credential_request(b"[]"))[0].0, "");
        }
    }
}

#[test]
fn a_credential_is_shown_to_callers_and_not_in_logs() {
    let credential = hub::Credential {
        kubeconfig: "very secret".to_owned(),
        expiration: "2026-11-16T00:00:00Z".parse().unwrap(),
    };
    assert_eq!(
        Version::V20261001.credential_write(&credential),
        json!({"kubeconfig": "very secret", "expirationTimestamp": "2026-11-16T00:00:00Z"})
    );
    assert!(!format!("{credential:?}").contains("secret"));
}

#[test]
fn what_can_be_looked_up_has_the_form_of_a_resource() {
    let location = cluster_id("x").parent().unwrap().parent().unwrap().provider(
        "Microsoft.RedHatOpenShift",
        "locations",
        "here",
    );
    let version = hub::OpenShiftVersion {
        id: location.child("hcpOpenShiftVersions", "4.20.8"),
        channel_group: "stable".to_owned(),
        enabled: false,
        end_of_life: None,
    };
    let shown = Version::V20261001.open_shift_version_write(&version);
    assert_eq!(shown["type"], "Microsoft.RedHatOpenShift/locations/hcpOpenShiftVersions");
    assert_eq!(shown["properties"], json!({"channelGroup": "stable", "enabled": false}));
    let first = Version::V20240610Preview.open_shift_version_write(&version);
    assert_eq!(first["properties"], json!({"channelGroup": "stable"}));

    let id = location.child("hcpOperatorIdentityRoleSets", "4.20");
    let set = hub::OperatorRoleSet::of_minor(id.clone(), Minor::DEFAULT).unwrap();
    let shown = Version::V20261001.role_set_write(&set);
    assert_eq!(shown["name"], "4.20");
    assert_eq!(shown["properties"]["controlPlaneOperators"].as_array().unwrap().len(), 9);
    assert_eq!(shown["properties"]["dataPlaneOperators"][0]["name"], "disk-csi-driver");
    assert_eq!(shown["properties"]["controlPlaneOperators"][8]["required"], "OnEnablement");
    assert_eq!(hub::OperatorRoleSet::of_minor(id, Minor { major: 4, minor: 19 }), None);
}
