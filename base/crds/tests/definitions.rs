//! The definitions as files, and objects that go through the types unharmed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use kube::ResourceExt as _;
use pilothouse_crds::{HostedCluster, ManifestWork, NodePool, Route};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[test]
fn every_definition_is_the_one_on_file() {
    for definition in pilothouse_crds::all() {
        let text = serde_saphyr::to_string(&definition).unwrap();
        insta::assert_snapshot!(definition.name_any(), text);
    }
}

/// What the API server would keep: schemas may not lose what the types keep, nor the other way round.
fn through<T: Serialize + DeserializeOwned>(object: Value) -> Value {
    serde_json::to_value(serde_json::from_value::<T>(object).unwrap()).unwrap()
}

#[test]
fn fields_nobody_models_survive_reading_and_writing() {
    let cluster = json!({
        "apiVersion": "hypershift.openshift.io/v1beta1",
        "kind": "HostedCluster",
        "metadata": { "name": "first", "namespace": "ocm-local-1" },
        "spec": {
            "release": { "image": "pilothouse/release:4.20.0" },
            "platform": { "type": "Azure", "azure": { "location": "westeurope", "vnetID": "/x" } },
            "controllerAvailabilityPolicy": "SingleReplica",
            "infrastructureAvailabilityPolicy": "SingleReplica",
            "clusterID": "a", "infraID": "b",
            "networking": {
                "clusterNetwork": [{ "cidr": "10.132.0.0/14" }], "serviceNetwork": [{ "cidr": "172.31.0.0/16" }],
                "networkType": "Other", "allocateNodeCIDRs": "Enabled",
            },
            "etcd": { "managementType": "Managed", "managed": { "storage": {
                "type": "PersistentVolume", "persistentVolume": { "size": "8Gi" }, "restoreSnapshotURL": ["s3://x"],
            } } },
            "services": [], "pullSecret": { "name": "pull" }, "issuerURL": "https://kubernetes.default.svc",
            "secretEncryption": { "type": "aescbc" },
            "capabilities": { "disabled": ["Console"] },
        },
    });
    assert_eq!(through::<HostedCluster>(cluster.clone()), cluster);

    let pool = json!({
        "apiVersion": "hypershift.openshift.io/v1beta1",
        "kind": "NodePool",
        "metadata": { "name": "workers", "namespace": "ocm-local-1" },
        "spec": {
            "clusterName": "first", "release": { "image": "pilothouse/release:4.20.0" }, "arch": "amd64",
            "platform": { "type": "Azure", "azure": { "vmSize": "Standard_D4s" } }, "replicas": 2,
            "management": { "upgradeType": "Replace", "autoRepair": true, "replace": { "strategy": "OnDelete" } },
            "nodeDrainTimeout": "30s",
        },
    });
    assert_eq!(through::<NodePool>(pool.clone()), pool);

    let work = json!({
        "apiVersion": "work.open-cluster-management.io/v1",
        "kind": "ManifestWork",
        "metadata": { "name": "first", "namespace": "local-cluster" },
        "spec": {
            "workload": { "manifests": [{ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "x" }, "data": {} }] },
            "deleteOption": { "propagationPolicy": "Foreground", "ttlSecondsAfterFinished": 3 },
            "executor": { "subject": { "type": "ServiceAccount" } },
        },
    });
    assert_eq!(through::<ManifestWork>(work.clone()), work);

    let route = json!({
        "apiVersion": "route.openshift.io/v1",
        "kind": "Route",
        "metadata": { "name": "kube-apiserver", "namespace": "ocm-local-1-first" },
        "spec": {
            "host": "api.first.pilothouse.test", "to": { "kind": "Service", "name": "kube-apiserver", "weight": 100 },
            "port": { "targetPort": 6443 }, "tls": { "termination": "passthrough", "key": "k" }, "wildcardPolicy": "None",
        },
    });
    assert_eq!(through::<Route>(route.clone()), route);
}
