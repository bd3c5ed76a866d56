use pilothouse_clusters_service_api::{
    Autoscaling, AzureUpdate, BreakGlassCredential, Change, CidrBlockAccess, Cluster, ClusterUpdate, Event,
    GracePeriod, NewCluster, NewNodePool, NodePool, NodePoolUpdate, ReleaseVersion, Secret,
};
use serde_json::{Value, json};

const ID: &str = "0123456789abcdefghijklmnopqrstuv";

/// Everything that can be said of a cluster, as it is sent.
fn whole_cluster() -> Value {
    let identity = json!({"resource_id": "/identity", "client_id": "c", "principal_id": "p"});
    json!({
        "id": ID, "name": "first", "region": {"id": "here"}, "cloud_provider": {"id": "azure"}, "product": {"id": "aro"},
        "hypershift": {"enabled": true}, "ccs": {"enabled": true}, "fips": true, "domain_prefix": "first",
        "version": {"id": "openshift-v4.20.3-candidate", "channel_group": "candidate"},
        "network": {"type": "OVNKubernetes", "pod_cidr": "10.128.0.0/14", "service_cidr": "172.30.0.0/16",
                    "machine_cidr": "10.0.0.0/16", "host_prefix": 23},
        "api": {"listening": "internal",
                "cidr_block_access": {"allow": {"mode": "allow_list", "values": ["203.0.113.0/24"]}}},
        "ingresses": {"items": [{"default": true, "listening": "external"}]},
        "image_registry": {"state": "disabled"},
        "registry_config": {"image_digest_mirrors": [{"source": "a.test", "mirrors": ["b.test"]}]},
        "autoscaler": {"max_node_provision_time": "15m", "max_pod_grace_period": 600, "pod_priority_threshold": -10,
                       "resource_limits": {"max_nodes_total": 0}},
        "node_drain_grace_period": {"value": 5, "unit": "minutes"},
        "properties": {"hosted_cluster_single_replica": "true"},
        "azure": {
            "subscription_id": "s", "resource_group_name": "g", "resource_name": "first", "tenant_id": "t",
            "managed_resource_group_name": "m", "subnet_resource_id": "/subnet",
            "network_security_group_resource_id": "/nsg", "vnet_integration_subnet_resource_id": "/integration",
            "oidc_issuer_url": "https://issuer.test",
            "container_registry": {"credentials": {"type": "ManagedIdentity", "managed_identity": identity}},
            "nodes_outbound_connectivity": {"outbound_type": "load_balancer"},
            "etcd_encryption": {"data_encryption": {"key_management_mode": "customer_managed",
                "customer_managed": {"encryption_type": "kms", "kms": {"visibility": "private",
                    "active_key": {"key_vault_name": "v", "key_name": "k", "key_version": "1"}}}}},
            "operators_authentication": {"managed_identities": {
                "managed_identities_data_plane_identity_url": "https://identities.test",
                "control_plane_operators_managed_identities": {"ingress": identity},
                "data_plane_operators_managed_identities": {"file-csi-driver": {"resource_id": "/other"}},
                "service_managed_identity": identity}},
        },
    })
}

#[test]
fn a_cluster_is_asked_for_with_every_member_the_original_knows() {
    let read: NewCluster = serde_json::from_value(whole_cluster()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), whole_cluster());
    // What is not said is not written: empty texts are refused by the original.
    let small = NewCluster { name: "first".into(), ..NewCluster::default() };
    let written = serde_json::to_value(small).unwrap();
    for member in ["domain_prefix", "fips", "ingresses", "autoscaler", "node_drain_grace_period"] {
        assert_eq!(written.get(member), None, "{member}");
    }
    assert_eq!(written["azure"].get("network_security_group_resource_id"), None);
}

#[test]
fn a_node_pool_is_asked_for_with_every_member_the_original_knows() {
    let whole = json!({
        "id": "workers", "autoscaling": {"min_replica": 1, "max_replica": 3}, "auto_repair": true,
        "availability_zone": "2", "subnet": "/subnet", "version": {"id": "openshift-v4.20.8", "channel_group": "stable"},
        "labels": {"tier": "web"}, "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
        "node_drain_grace_period": {"value": 7, "unit": "minutes"}, "tuning_configs": ["t"], "kubelet_configs": ["k"],
        "management_upgrade": {"type": "Replace", "max_unavailable": "0", "max_surge": "10%"},
        "azure_node_pool": {"resource_name": "workers", "vm_size": "Standard_D8s_v3",
            "encryption_at_host": {"state": "enabled"},
            "os_disk": {"size_gibibytes": 64, "storage_account_type": "Premium_LRS", "persistence": "ephemeral",
                        "sse_encryption_set_resource_id": "/set"}},
    });
    let read: NewNodePool = serde_json::from_value(whole.clone()).unwrap();
    assert_eq!(read.autoscaling, Some(Autoscaling { min_replica: 1, max_replica: 3 }));
    assert_eq!(serde_json::to_value(read).unwrap(), whole);
}

#[test]
fn what_a_former_service_wrote_is_still_read_and_what_a_later_one_adds_is_passed_over() {
    let cluster = json!({
        "kind": "Cluster", "id": ID, "href": "", "name": "first", "creation_timestamp": "2026-01-01T00:00:00Z",
        "region": {"id": "here"}, "cloud_provider": {"id": "azure"}, "product": {"id": "aro"},
        "hypershift": {"enabled": true}, "domain_prefix": "first", "dns": {"base_domain": "x.test"},
        "version": {"id": "openshift-v4.20.3"}, "network": {}, "api": {"listening": "external"}, "azure": {},
        "state": "hibernating", "status": {"state": "ready", "later": 1}, "later": {"a": 1},
    });
    let read: Cluster = serde_json::from_value(cluster).unwrap();
    assert_eq!((read.fips, read.autoscaler, read.api.cidr_block_access), (None, None, None));
    assert_eq!(format!("{:?}", read.state), "Unknown");
    let node_pool = json!({
        "kind": "NodePool", "id": "workers", "href": "", "cluster_id": ID, "creation_timestamp": "2026-01-01T00:00:00Z",
        "replicas": 2, "auto_repair": true, "version": {"id": "openshift-v4.20.3"}, "azure_node_pool": {"vm_size": "x"},
        "status": {"state": {"value": "recoverable_error", "last_updated_timestamp": "2026-01-01T00:00:00Z"}},
    });
    let read: NodePool = serde_json::from_value(node_pool).unwrap();
    assert_eq!((read.replicas, read.autoscaling), (Some(2), None));
    let version: ReleaseVersion =
        serde_json::from_value(json!({"id": "openshift-v4.20.3", "rosa_enabled": true})).unwrap();
    assert!(!version.enabled);
    let later = json!({"cursor": "r2", "kind": "MachinePool", "id": "x", "resource": {"a": 1}});
    let event: Event = serde_json::from_value(later).unwrap();
    assert_eq!(event.change, Change::Unknown);
}

#[test]
fn a_change_says_only_what_changes_and_knows_nothing_else() {
    let update = ClusterUpdate {
        node_drain_grace_period: Some(GracePeriod::minutes(10)),
        azure: Some(AzureUpdate::of_key_version("2")),
        ..ClusterUpdate::default()
    };
    let written = serde_json::to_value(&update).unwrap();
    let key = json!({"customer_managed": {"kms": {"active_key": {"key_version": "2"}}}});
    assert_eq!(
        written,
        json!({"node_drain_grace_period": {"value": 10, "unit": "minutes"},
               "azure": {"etcd_encryption": {"data_encryption": key}}})
    );
    assert_eq!(update.azure.unwrap().key_version(), Some("2"));
    assert!(ClusterUpdate::default().is_empty());
    let everybody = serde_json::to_value(CidrBlockAccess::all()).unwrap();
    assert_eq!(everybody, json!({"allow": {"mode": "allow_all", "values": []}}));

    for unknown in [json!({"name": "x"}), json!({"api": {"listening": "internal"}})] {
        assert!(serde_json::from_value::<ClusterUpdate>(unknown.clone()).is_err(), "{unknown}");
    }
    assert!(serde_json::from_value::<NodePoolUpdate>(json!({"auto_repair": true})).is_err());
}

#[test]
fn a_period_that_is_taken_back_is_told_from_one_that_was_not_named() {
    let read = |body: Value| serde_json::from_value::<NodePoolUpdate>(body).unwrap();
    assert_eq!(read(json!({})).node_drain_grace_period, None);
    let taken_back = read(json!({"node_drain_grace_period": null}));
    assert_eq!(taken_back.node_drain_grace_period, Some(None));
    assert_eq!(serde_json::to_value(taken_back).unwrap(), json!({"node_drain_grace_period": null}));
    let named = read(json!({"node_drain_grace_period": {"value": 3}}));
    assert_eq!(named.node_drain_grace_period, Some(Some(GracePeriod::minutes(3))));
}

#[test]
fn a_watch_never_carries_a_kubeconfig() {
    let credential: BreakGlassCredential = serde_json::from_value(json!({
        "kind": "BreakGlassCredential", "id": "0011", "href": "", "cluster_id": ID, "status": "issued",
        "kubeconfig": "very secret",
    }))
    .unwrap();
    assert_eq!(credential.kubeconfig, Some(Secret::new("very secret")));
    assert!(!format!("{credential:?}").contains("very secret"));
    let change = Change::BreakGlassCredential(ID.parse().unwrap(), Box::new(credential));
    let line = serde_json::to_string(&Event { cursor: None, change }).unwrap();
    assert!(!line.contains("very secret"), "{line}");
    let read: Event = serde_json::from_str(&line).unwrap();
    assert!(
        matches!(read.change, Change::BreakGlassCredential(_, credential) if credential.kubeconfig.is_none())
    );
}
