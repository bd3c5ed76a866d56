use jiff::Timestamp;
use pilothouse_clusters_service_api::{NewCluster, NewExternalAuth, NewNodePool};
use serde_json::{Value, json};

use super::*;
use crate::admission;
use crate::config::Config;
use crate::record::ExternalAuthRecord;

fn cluster(settings: Value) -> ClusterRecord {
    let mut body = json!({"name": "first", "domain_prefix": "first", "version": {"id": "openshift-v4.20.3"},
        "azure": {"subscription_id": "11111111-2222-3333-4444-555555555555", "resource_group_name": "g", "resource_name": "first",
                  "managed_resource_group_name": "m"}});
    for (name, value) in settings.as_object().unwrap() {
        match (name.as_str(), value.as_object()) {
            ("azure", Some(members)) => body["azure"].as_object_mut().unwrap().extend(members.clone()),
            _ => body[name] = value.clone(),
        }
    }
    let new: NewCluster = serde_json::from_value(body).unwrap();
    let id = "0123456789abcdefghijklmnopqrstuv".parse().unwrap();
    let cluster = admission::cluster(new, id, &Config::default(), Timestamp::UNIX_EPOCH).unwrap();
    ClusterRecord::new(cluster, Origin::default())
}

/// What is inside the work, by kind.
fn inside(work: &Work, kind: &str) -> Vec<Value> {
    let inner = work.bundle.manifests[0]["spec"]["workload"]["manifests"].as_array().unwrap();
    inner.iter().filter(|manifest| manifest["kind"] == kind).cloned().collect()
}

fn hosted_cluster(record: &ClusterRecord) -> (Value, Work) {
    let config = Config::default();
    let work = cluster_work(record, &config.shards[0], &Settings::of(&config, "{}".into())).unwrap();
    (inside(&work, "HostedCluster")[0]["spec"].clone(), work)
}

#[test]
fn every_part_runs_once_unless_it_was_asked_for_otherwise() {
    let policies = |body: Value| {
        let (spec, _) = hosted_cluster(&cluster(body));
        [spec["controllerAvailabilityPolicy"].clone(), spec["infrastructureAvailabilityPolicy"].clone()]
    };
    let chosen = |value: &str| json!({"properties": {"hosted_cluster_single_replica": value}});
    assert_eq!(policies(json!({})), [json!("SingleReplica"), json!("SingleReplica")]);
    assert_eq!(policies(chosen("true")), [json!("SingleReplica"), json!("SingleReplica")]);
    assert_eq!(policies(chosen("false")), [json!("HighlyAvailable"), json!("HighlyAvailable")]);
}

#[test]
fn the_payload_is_an_annotation_where_it_was_chosen() {
    let annotation = |settings: Value| {
        let (_, work) = hosted_cluster(&cluster(settings));
        inside(&work, "HostedCluster")[0]["metadata"]["annotations"]["pilothouse.dev/payload"].clone()
    };
    assert_eq!(annotation(json!({})), Value::Null);
    assert_eq!(annotation(json!({"properties": {"payload": "upstream"}})), json!("upstream"));
}

#[test]
fn settings_of_a_cluster_are_written_where_they_were_asked_for_and_nowhere_else() {
    let (plain, _) = hosted_cluster(&cluster(json!({})));
    for member in ["autoscaling", "imageContentSources", "capabilities", "secretEncryption", "configuration"]
    {
        assert_eq!(plain.get(member), None, "{member}");
    }
    assert_eq!(plain["networking"].get("apiServer"), None);
    assert_eq!(plain["platform"]["azure"].get("topology"), None);
    let (private, _) = hosted_cluster(&cluster(json!({"api": {"listening": "internal"}})));
    assert_eq!(private["platform"]["azure"]["topology"], "Private");
    let kms = json!({"active_key": {"key_vault_name": "v", "key_name": "k", "key_version": "1"}});
    let (spec, _) = hosted_cluster(&cluster(json!({
        "autoscaler": {"max_node_provision_time": "15m", "max_pod_grace_period": 600, "pod_priority_threshold": -10,
                       "resource_limits": {"max_nodes_total": 0}},
        "registry_config": {"image_digest_mirrors": [{"source": "a.test", "mirrors": ["b.test"]}]},
        "image_registry": {"state": "disabled"},
        "api": {"cidr_block_access": {"allow": {"mode": "allow_list", "values": ["203.0.113.7"]}}},
        "azure": {"etcd_encryption": {"data_encryption": {"key_management_mode": "customer_managed",
                  "customer_managed": {"encryption_type": "kms", "kms": kms}}}},
    })));
    assert_eq!(
        spec["autoscaling"],
        json!({"maxNodeProvisionTime": "15m", "maxPodGracePeriod": 600, "podPriorityThreshold": -10})
    );
    assert_eq!(spec["imageContentSources"], json!([{"source": "a.test", "mirrors": ["b.test"]}]));
    assert_eq!(spec["capabilities"], json!({"disabled": ["ImageRegistry"]}));
    assert_eq!(spec["networking"]["apiServer"], json!({"allowedCIDRBlocks": ["203.0.113.7"]}));
    let key = json!({"keyVaultName": "v", "keyName": "k", "keyVersion": "1"});
    assert_eq!(spec["secretEncryption"]["kms"]["azure"]["activeKey"], key);
}

#[test]
fn an_external_auth_is_part_of_the_hosted_cluster_until_it_is_to_go() {
    let mut record = cluster(json!({}));
    let new: NewExternalAuth = serde_json::from_value(json!({
        "id": "entra", "issuer": {"url": "https://issuer.test", "audiences": ["a"], "ca": "PEM"},
        "clients": [{"id": "a", "component": {"name": "console", "namespace": "openshift-console"},
                     "extra_scopes": ["email"], "type": "confidential"}],
        "claim": {"mappings": {"username": {"claim": "sub", "prefix": "p:", "prefix_policy": "Prefix"},
                               "groups": {"claim": "groups"}},
                  "validation_rules": [{"claim": "tid", "required_value": "t"}]},
    }))
    .unwrap();
    let external_auth = admission::external_auth(new, &record.cluster, Timestamp::UNIX_EPOCH).unwrap();
    record.external_auths.push(ExternalAuthRecord::new(external_auth, Origin::default()));
    let (spec, work) = hosted_cluster(&record);
    assert_eq!(
        spec["configuration"]["authentication"],
        json!({"type": "OIDC", "oidcProviders": [{
            "name": "entra",
            "issuer": {"issuerURL": "https://issuer.test", "audiences": ["a"],
                       "issuerCertificateAuthority": {"name": "first-issuer-entra"}},
            "oidcClients": [{"componentName": "console", "componentNamespace": "openshift-console", "clientID": "a",
                             "extraScopes": ["email"]}],
            "claimMappings": {"username": {"claim": "sub", "prefixPolicy": "Prefix", "prefix": {"prefixString": "p:"}},
                              "groups": {"claim": "groups", "prefix": ""}},
            "claimValidationRules": [{"type": "RequiredClaim",
                                      "requiredClaim": {"claim": "tid", "requiredValue": "t"}}],
        }]})
    );
    let authorities = inside(&work, "ConfigMap");
    assert_eq!(authorities[0]["metadata"]["name"], "first-issuer-entra");
    assert_eq!(authorities[0]["data"]["ca-bundle.crt"], "PEM");

    record.external_auths[0].deletion = Some(crate::record::Deletion { requested_at: Timestamp::UNIX_EPOCH });
    let (spec, work) = hosted_cluster(&record);
    assert_eq!((spec.get("configuration"), inside(&work, "ConfigMap").len()), (None, 0));
}

#[test]
fn machines_are_described_as_far_as_they_were() {
    let record = cluster(json!({}));
    let pool = |body: Value| {
        let new: NewNodePool = serde_json::from_value(body).unwrap();
        let pool =
            admission::node_pool(new, &record.cluster, &Config::default(), Timestamp::UNIX_EPOCH).unwrap();
        let config = Config::default();
        let settings = Settings::of(&config, "{}".into());
        let pool = NodePoolRecord::new(pool, Origin::default());
        let work = node_pool_work(&record, &pool, &config.shards[0], &settings).unwrap();
        inside(&work, "NodePool")[0]["spec"].clone()
    };
    let plain =
        pool(json!({"id": "workers", "replicas": 1, "azure_node_pool": {"vm_size": "Standard_D8s_v3"}}));
    assert_eq!(plain["platform"]["azure"], json!({"vmSize": "Standard_D8s_v3"}));
    let whole = pool(json!({"id": "workers", "replicas": 1, "availability_zone": "2", "subnet": "/subnet",
        "azure_node_pool": {"vm_size": "Standard_D8s_v3", "encryption_at_host": {"state": "enabled"},
            "os_disk": {"size_gibibytes": 64, "storage_account_type": "Premium_LRS", "persistence": "ephemeral",
                        "sse_encryption_set_resource_id": "/set"}}}));
    let disk = json!({"sizeGiB": 64, "diskStorageAccountType": "Premium_LRS", "persistence": "Ephemeral",
                      "encryptionSetID": "/set"});
    assert_eq!(
        whole["platform"]["azure"],
        json!({"vmSize": "Standard_D8s_v3", "availabilityZone": "2", "subnetID": "/subnet",
               "encryptionAtHost": "Enabled", "osDisk": disk})
    );
}
