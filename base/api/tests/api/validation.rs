//! Clusters: every rule with a value that keeps it and one that does not.

use pilothouse_api::{Rules, Target, Version};
use serde_json::{Value, json};

use crate::{Row, check, cluster, cluster_body, network, problems, target};

fn put(body: &[u8]) -> Result<pilothouse_api::hub::Cluster, pilothouse_api::Invalid> {
    Version::V20261001.cluster_put(body, &target("First"))
}

const RANGE: &str = "must be an IPv4 range in network form, such as 10.128.0.0/14";

#[test]
fn numbers_texts_and_choices_have_their_limits() {
    let long = "x".repeat(256);
    let network = "properties.network";
    let rows: &[Row<'_>] = &[
        ("/properties/network/hostPrefix", json!(26), None),
        (
            "/properties/network/hostPrefix",
            json!(27),
            Some(("properties.network.hostPrefix", "Invalid value: 27: must be between 23 and 26")),
        ),
        (
            "/properties/network/hostPrefix",
            json!("23"),
            Some((
                "properties.network.hostPrefix",
                "The request content could not be deserialised: expected a whole number, found a text.",
            )),
        ),
        (
            "/properties/network/hostPrefix",
            json!(23.5),
            Some((
                "properties.network.hostPrefix",
                "The request content could not be deserialised: expected a whole number, found a fraction.",
            )),
        ),
        ("/properties/network/networkType", json!("Other"), None),
        (
            "/properties/network/networkType",
            json!("other"),
            Some((
                "properties.network.networkType",
                "Unsupported value: \"other\": supported values: \"OVNKubernetes\", \"Other\"",
            )),
        ),
        (
            "/properties/network",
            json!([]),
            Some((
                network,
                "The request content could not be deserialised: expected an object, found a list.",
            )),
        ),
        ("/properties/autoscaling/maxNodesTotal", json!(500), None),
        (
            "/properties/autoscaling/maxNodesTotal",
            json!(501),
            Some(("properties.autoscaling.maxNodesTotal", "Invalid value: 501: must be between 0 and 500")),
        ),
        ("/properties/autoscaling/maxPodGracePeriodSeconds", json!(1), None),
        (
            "/properties/autoscaling/maxPodGracePeriodSeconds",
            json!(0),
            Some(("properties.autoscaling.maxPodGracePeriodSeconds", "Invalid value: 0: must be at least 1")),
        ),
        (
            "/properties/autoscaling/maxNodeProvisionTimeSeconds",
            json!(4_294_967_296_u64),
            Some((
                "properties.autoscaling.maxNodeProvisionTimeSeconds",
                "Invalid value: 4294967296: must be at most 2147483647",
            )),
        ),
        ("/properties/autoscaling/podPriorityThreshold", json!(0), None),
        ("/properties/nodeDrainTimeoutMinutes", json!(10080), None),
        (
            "/properties/nodeDrainTimeoutMinutes",
            json!(10081),
            Some(("properties.nodeDrainTimeoutMinutes", "Invalid value: 10081: must be between 0 and 10080")),
        ),
        ("/properties/dns/baseDomainPrefix", json!("first-1"), None),
        (
            "/properties/dns/baseDomainPrefix",
            json!("First"),
            Some((
                "properties.dns.baseDomainPrefix",
                "Invalid value: \"First\": must match '^[a-z]([-a-z0-9]*[a-z0-9])?$'",
            )),
        ),
        (
            "/properties/dns/baseDomainPrefix",
            json!("x".repeat(16)),
            Some(("properties.dns.baseDomainPrefix", "Too long: may not be more than 15 characters")),
        ),
        ("/properties/ingress/type", json!("Private"), None),
        (
            "/properties/ingress/type",
            json!("Disabled"),
            Some((
                "properties.ingress.type",
                "Unsupported value: \"Disabled\": supported values: \"Private\", \"Public\"",
            )),
        ),
        ("/properties/cryptoRestrictions", json!("FIPS"), None),
        ("/properties/clusterImageRegistry/state", json!("Disabled"), None),
        (
            "/properties/imageDigestMirrors",
            json!([{"source": long, "mirrors": ["b.test"]}]),
            Some((
                "properties.imageDigestMirrors[0].source",
                "Too long: may not be more than 255 characters",
            )),
        ),
        (
            "/properties/imageDigestMirrors",
            json!([{"source": "a.test", "mirrors": []}]),
            Some(("properties.imageDigestMirrors[0].mirrors", "Invalid value: 0: must have at least 1 item")),
        ),
        (
            "/properties/imageDigestMirrors",
            json!([{"source": "*.a.test", "mirrors": ["b.test:5000/c"]}]),
            None,
        ),
        (
            "/properties/imageDigestMirrors",
            json!([{"source": "a.test", "mirrors": ["*.b.test"]}]),
            Some((
                "properties.imageDigestMirrors[0].mirrors[0]",
                "Invalid value: \"*.b.test\": must be a registry: host[:port][/path] in lower case, without a scheme",
            )),
        ),
        (
            "/properties/imageDigestMirrors",
            json!(vec![json!({"source": "a.test", "mirrors": ["b.test"]}); 241]),
            Some(("properties.imageDigestMirrors", "Too many: 241: must have at most 240 items")),
        ),
        ("/name", json!("first"), None),
        (
            "/name",
            json!("second"),
            Some(("name", "Invalid value: \"second\": must be 'First', as in the path")),
        ),
    ];
    check(cluster_body, rows, put);
}

#[test]
fn addresses_are_ipv4_in_network_form_and_do_not_overlap() {
    let own = "properties.network.podCidr";
    let invalid = |text: &str| format!("Invalid value: {text:?}: {RANGE}");
    let of_callers = "must be an IPv4 address or a range in network form";
    let rows: &[Row<'_>] = &[
        ("/properties/network/podCidr", json!("10.64.0.0/10"), None),
        ("/properties/network/podCidr", json!("10.128.0.1/14"), Some((own, &invalid("10.128.0.1/14")))),
        ("/properties/network/podCidr", json!("fd00::/64"), Some((own, &invalid("fd00::/64")))),
        (
            "/properties/network/podCidr",
            json!("172.30.0.0/17"),
            Some((own, "Invalid value: \"172.30.0.0/17\": must not overlap with serviceCidr")),
        ),
        ("/properties/api/authorizedCidrs", json!(["10.0.0.0/8", "192.0.2.1"]), None),
        (
            "/properties/api/authorizedCidrs",
            json!(["10.0.0.0/8", " 192.0.2.1"]),
            Some((
                "properties.api.authorizedCidrs[1]",
                &format!("Invalid value: \" 192.0.2.1\": {of_callers}"),
            )),
        ),
        (
            "/properties/api/authorizedCidrs",
            json!([]),
            Some(("properties.api.authorizedCidrs", "Invalid value: 0: must have at least 1 item")),
        ),
        (
            "/properties/api/authorizedCidrs",
            json!(vec!["10.0.0.0/8"; 501]),
            Some(("properties.api.authorizedCidrs", "Too many: 501: must have at most 500 items")),
        ),
        (
            "/properties/api/authorizedCidrs",
            json!(["10.0.0.0/8", null]),
            Some(("properties.api.authorizedCidrs[1]", "Required value: field cannot be null")),
        ),
    ];
    check(cluster_body, rows, put);
}

#[test]
fn other_resources_are_named_by_ids_of_the_right_type_and_place() {
    let elsewhere = network("networkSecurityGroups", "x").replace("0b1f6471", "11111111");
    let other_network = network("virtualNetworks", "other/subnets/control");
    let group = network("networkSecurityGroups", "rules");
    let path = |name: &str| format!("properties.platform.{name}");
    let subnet_type = "must be the id of a resource of type Microsoft.Network/virtualNetworks/subnets";
    let rows: &[Row<'_>] = &[
        (
            "/properties/platform/subnetId",
            json!("nodes"),
            Some((&path("subnetId"), "Invalid value: \"nodes\": it does not begin with a slash")),
        ),
        (
            "/properties/platform/subnetId",
            json!(group),
            Some((&path("subnetId"), &format!("Invalid value: {group:?}: {subnet_type}"))),
        ),
        ("/properties/platform/subnetId", json!(null), Some((&path("subnetId"), "Required value"))),
        (
            "/properties/platform/networkSecurityGroupId",
            json!(elsewhere),
            Some((
                &path("networkSecurityGroupId"),
                &format!("Invalid value: {elsewhere:?}: must be in the subscription of the cluster"),
            )),
        ),
        (
            "/properties/platform/vnetIntegrationSubnetId",
            json!(other_network),
            Some((
                &path("vnetIntegrationSubnetId"),
                &format!("Invalid value: {other_network:?}: must be in the same virtual network as subnetId"),
            )),
        ),
        ("/properties/platform/managedResourceGroup", json!("managed_(1)"), None),
        (
            "/properties/platform/managedResourceGroup",
            json!("managed."),
            Some((
                &path("managedResourceGroup"),
                "Invalid value: \"managed.\": must be the name of a resource group",
            )),
        ),
        (
            "/properties/platform/managedResourceGroup",
            json!("TEAM"),
            Some((
                &path("managedResourceGroup"),
                "Invalid value: \"TEAM\": must not be the resource group of the cluster itself",
            )),
        ),
        ("/properties/platform", json!(null), Some(("properties.platform", "Required value"))),
    ];
    // Without a platform the identity of the body is not used.
    let body = || {
        let mut body = cluster_body();
        body["identity"] = json!(null);
        body["properties"]["platform"]["operatorsAuthentication"] = json!(null);
        body
    };
    let rules = Rules { operator_identities: false, ..Rules::default() };
    check(body, rows, |body| Version::V20261001.cluster_put(body, &Target { rules, ..target("First") }));
    let mut body = cluster_body();
    body["properties"]["platform"]["managedResourceGroup"] = json!("managed");
    let inside = network("networkSecurityGroups", "rules").replace("/team/", "/Managed/");
    body["properties"]["platform"]["networkSecurityGroupId"] = json!(inside);
    assert_eq!(
        problems(put(body.to_string().as_bytes())),
        [(
            path("networkSecurityGroupId"),
            format!("Invalid value: {inside:?}: must not be in the managed resource group")
        )]
    );
}

#[test]
fn encryption_is_said_completely_or_not_at_all() {
    let path = "properties.etcd.dataEncryption";
    let right = json!({"keyManagementMode": "CustomerManaged", "customerManaged": {"kms": {
        "vaultName": "v", "visibility": "Public", "activeKey": {"name": "k", "version": "1"}}}});
    let body = || {
        let mut body = cluster_body();
        body["properties"]["etcd"]["dataEncryption"] = right.clone();
        body
    };
    let at = |field: &str| format!("{path}.{field}");
    let pointer = |field: &str| format!("/{}", at(field).replace('.', "/"));
    let rows: &[Row<'_>] = &[
        (&pointer("keyManagementMode"), json!("CustomerManaged"), None),
        (
            &pointer("keyManagementMode"),
            json!("PlatformManaged"),
            Some((
                &at("keyManagementMode"),
                "Unsupported value: \"PlatformManaged\": supported values: \"CustomerManaged\"",
            )),
        ),
        (&pointer("keyManagementMode"), json!(null), Some((&at("keyManagementMode"), "Required value"))),
        (
            &pointer("customerManaged"),
            json!(null),
            Some((&at("customerManaged"), "Required value: keyManagementMode is 'CustomerManaged'")),
        ),
        (
            &pointer("customerManaged.kms"),
            json!(null),
            Some((&at("customerManaged.kms"), "Required value: encryptionType is 'KMS'")),
        ),
        (
            &pointer("customerManaged.kms.visibility"),
            json!(null),
            Some((&at("customerManaged.kms.visibility"), "Required value")),
        ),
        (
            &pointer("customerManaged.kms.vaultName"),
            json!(""),
            Some((&at("customerManaged.kms.vaultName"), "Required value")),
        ),
        (
            &pointer("customerManaged.kms.activeKey.version"),
            json!("v".repeat(256)),
            Some((
                &at("customerManaged.kms.activeKey.version"),
                "Too long: may not be more than 255 characters",
            )),
        ),
        (&pointer("customerManaged.kms.keyVaultType"), json!("ManagedHSM"), None),
        (
            &pointer("customerManaged.kms.keyVaultType"),
            json!("Drawer"),
            Some((
                &at("customerManaged.kms.keyVaultType"),
                "Unsupported value: \"Drawer\": supported values: \"KeyVault\", \"ManagedHSM\"",
            )),
        ),
    ];
    check(body, rows, put);
}

#[test]
fn tags_have_their_limits() {
    let many: Value =
        (0..51).map(|number| (format!("t{number}"), json!(""))).collect::<serde_json::Map<_, _>>().into();
    let rows: &[Row<'_>] = &[
        ("/tags", json!({"team": "a"}), None),
        ("/tags", many, Some(("tags", "Too many: 51: must have at most 50 items"))),
        (
            "/tags",
            json!({"a/b": "1"}),
            Some((
                "tags[a/b]",
                "Invalid value: \"a/b\": a tag's name must not contain `/`; none may have any of <>%&\\?/",
            )),
        ),
        (
            "/tags",
            json!({"a": "v".repeat(257)}),
            Some(("tags[a]", "Too long: may not be more than 256 characters")),
        ),
        ("/tags", json!({"A": "1", "a": "2"}), Some(("tags[a]", "Duplicate value: \"a\""))),
        (
            "/tags",
            json!({"a": 1}),
            Some((
                "tags[a]",
                "The request content could not be deserialised: expected a text, found a number.",
            )),
        ),
        ("/tags", json!({"aro-hcp.experimental.cluster.nonsense": "x"}), None),
        ("/tags", json!({"Pilothouse.payload": "upstream"}), None),
        ("/tags", json!({"Pilothouse.availability": "HighlyAvailable"}), None),
        (
            "/tags",
            json!({"pilothouse.availability": "Always"}),
            Some((
                "tags[pilothouse.availability]",
                "Unsupported value: \"Always\": supported values: \"HighlyAvailable\", \"SingleReplica\"",
            )),
        ),
        (
            "/tags",
            json!({"pilothouse.payload": "heavy"}),
            Some((
                "tags[pilothouse.payload]",
                "Unsupported value: \"heavy\": supported values: \"light\", \"upstream\"",
            )),
        ),
    ];
    check(cluster_body, rows, put);
}

/// What one payload keeps, the other cannot read; nor are there members to be added to a store that has one.
#[test]
fn what_was_chosen_when_a_cluster_was_made_stays() {
    stays("pilothouse.payload", "Pilothouse.Payload", "upstream", "light");
    stays("pilothouse.availability", "Pilothouse.Availability", "HighlyAvailable", "SingleReplica");
}

fn stays(tag: &str, cased: &str, chosen: &str, other: &str) {
    let mut existing = cluster();
    existing.tags.insert(tag.to_owned(), chosen.to_owned());
    for (tags, allowed) in [
        (json!({(cased): chosen, "other": "x"}), true),
        (json!({(tag): other}), false),
        (json!({"other": "x"}), false),
    ] {
        let mut body = cluster_body();
        body["tags"] = tags.clone();
        let target = Target { existing: Some(&existing), ..target("First") };
        let found = Version::V20261001.cluster_put(body.to_string().as_bytes(), &target);
        match allowed {
            true => assert!(found.is_ok(), "{tags}: {found:?}"),
            false => {
                let problems = problems(found);
                assert_eq!(problems[0].0, format!("tags[{tag}]"), "{tags}");
                let expected = format!("'{chosen}' since the cluster was made");
                assert!(problems[0].1.contains(&expected), "{problems:?}");
            }
        }
    }
}

#[test]
fn experimental_tags_are_held_against_their_meaning_where_they_have_one() {
    let tag = |name: &str| format!("aro-hcp.experimental.cluster.{name}");
    let rules = Rules { experimental: true, ..Rules::default() };
    let names = "\"control-plane-exact-version\", \"control-plane-operator-image-override\", \
                 \"max-creation-duration\", \"max-deletion-duration\", \"single-replica\", \"size-override\"";
    for (name, value, expected) in [
        ("single-replica", "SingleReplica", None),
        (
            "single-replica",
            "true",
            Some("Unsupported value: \"true\": supported values: \"SingleReplica\"".to_owned()),
        ),
        ("size-override", "Minimal", None),
        (
            "size-override",
            "Tiny",
            Some("Unsupported value: \"Tiny\": supported values: \"Minimal\"".to_owned()),
        ),
        ("control-plane-exact-version", "4.20.8-rc.1", None),
        (
            "control-plane-exact-version",
            "4.20",
            Some("Invalid value: \"4.20\": must be a full version, such as 4.20.8".to_owned()),
        ),
        ("control-plane-operator-image-override", "quay.test/a:b", None),
        ("control-plane-operator-image-override", "", Some("Required value".to_owned())),
        ("max-creation-duration", "1h30m", None),
        ("max-creation-duration", "59s", Some("Invalid value: \"59s\": must be at least 1m".to_owned())),
        (
            "max-deletion-duration",
            "long",
            Some("Invalid value: \"long\": must be a duration, such as 1h30m".to_owned()),
        ),
        ("nonsense", "x", Some(format!("Unsupported value: \"nonsense\": supported values: {names}"))),
    ] {
        let mut body = cluster_body();
        body["tags"] = json!({(tag(name)): value});
        let found =
            Version::V20261001.cluster_put(body.to_string().as_bytes(), &Target { rules, ..target("First") });
        match expected {
            None => assert!(found.is_ok(), "{name}: {found:?}"),
            Some(message) => {
                assert_eq!(problems(found), [(format!("tags[{}]", tag(name)), message)], "{name}");
            }
        }
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let mut body = cluster_body();
    body["properties"]["version"]["id"] = json!("3.11");
    body["properties"]["network"] = json!({"hostPrefix": 1, "networkType": 7, "podCidr": "x"});
    body["properties"]["platform"] = json!({});
    body["identity"] = json!(null);
    let found = problems(Version::V20261001.cluster_put(body.to_string().as_bytes(), &target("1st")));
    let targets: Vec<_> = found.into_iter().map(|(target, _)| target).collect();
    assert_eq!(
        targets,
        [
            "properties.network.hostPrefix",
            "properties.network.networkType",
            "properties.platform.networkSecurityGroupId",
            "properties.platform.operatorsAuthentication",
            "properties.platform.subnetId",
            "properties.platform.vnetIntegrationSubnetId",
            "id",
            "properties.version.id",
            "properties.network.podCidr",
        ]
    );
}

#[test]
fn what_stands_in_the_place_of_a_field_without_form_is_not_judged() {
    let mut existing = cluster();
    existing.spec.network.host_prefix = 24;
    let target = Target { existing: Some(&existing), ..target("First") };
    let patch = json!({"properties": {"network": {"hostPrefix": "wide"}}}).to_string();
    let found = problems(Version::V20261001.cluster_patch(patch.as_bytes(), &target));
    assert_eq!(found.len(), 1, "not also that it must not become the default: {found:?}");
    let mut body = crate::external_auth_body();
    body["properties"]["issuer"] = json!("https://login.test");
    let target = crate::external_auth_target("sso");
    let found = problems(Version::V20261001.external_auth_put(body.to_string().as_bytes(), &target));
    let targets: Vec<_> = found.iter().map(|(target, _)| target.as_str()).collect();
    assert_eq!(targets, ["properties.issuer"], "{found:?}");
}

#[test]
fn the_first_version_asks_for_less() {
    let mut body = cluster_body();
    body["properties"]["version"] = json!(null);
    body["properties"]["platform"]["vnetIntegrationSubnetId"] = json!(null);
    let version = Version::V20240610Preview;
    let cluster = version.cluster_put(body.to_string().as_bytes(), &target("First")).unwrap();
    assert_eq!(cluster.spec.version.id, None);
    let shown = version.cluster_write(&cluster);
    assert_eq!(shown["properties"]["etcd"]["dataEncryption"]["keyManagementMode"], "PlatformManaged");
    assert_eq!(shown["properties"]["ingress"], json!(null));
    // A later version can still change what it may, though it would have asked for more.
    let existing = Target { existing: Some(&cluster), ..target("First") };
    assert!(Version::V20261001.cluster_patch(b"{\"tags\":{\"a\":\"b\"}}", &existing).is_ok());
    body["properties"]["api"]["visibility"] = json!("Private");
    assert_eq!(
        problems(version.cluster_put(body.to_string().as_bytes(), &target("First"))),
        [(
            "properties.api.visibility".to_owned(),
            "Invalid value: \"Private\": needs vnetIntegrationSubnetId, which later versions of the API have"
                .to_owned()
        )]
    );
}

#[test]
fn a_body_that_is_no_object_is_refused_as_a_whole() {
    for body in ["{", "", "[]", "5", "null", "\"x\"", "\u{0}"] {
        let found = problems(put(body.as_bytes()));
        assert_eq!(found.len(), 1, "{body}: {found:?}");
        assert_eq!(found[0].0, "", "{body}: {found:?}");
        assert!(found[0].1.starts_with("The request content could not be deserialised"), "{found:?}");
        let existing = cluster();
        let target = Target { existing: Some(&existing), ..target("First") };
        assert_eq!(problems(Version::V20261001.cluster_patch(body.as_bytes(), &target)).len(), 1, "{body}");
    }
}
