//! The definitions as files, and objects that go through the types unharmed.
//!
//! With `PILOTHOUSE_WRITE_REFERENCE` set, as `cargo xtask crds` does, the files are written instead of compared.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

use kube::ResourceExt as _;
use pilothouse_crds::{HostedCluster, ManifestWork, NodePool, Route};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[test]
fn what_is_checked_in_is_what_the_code_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/crds");
    let files: BTreeMap<String, String> = pilothouse_crds::all()
        .iter()
        .map(|definition| {
            (format!("{}.yaml", definition.name_any()), serde_saphyr::to_string(definition).unwrap())
        })
        .collect();
    if env::var_os("PILOTHOUSE_WRITE_REFERENCE").is_some() {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in &files {
            fs::write(folder.join(name), text).unwrap();
        }
        return;
    }
    let found: BTreeMap<String, String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap()))
        .collect();
    assert!(found.keys().eq(files.keys()), "run `cargo xtask crds`: {:?}", found.keys());
    for (name, text) in &files {
        assert!(found[name] == *text, "{name} is stale: run `cargo xtask crds`");
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
