//! The definitions of a management cluster on both servers: served, with rules that refuse what they should and nothing else.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{conditions, wait};
use kube::{Api, Client, ResourceExt as _};
use pilothouse_crds::{HostedCluster, NodePool};
use pilothouse_kubeapi::Config;
use pilothouse_kubeapi::testing::{Cluster, Options};
use pilothouse_test_support::upstream::{self as programs, Upstream};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::ALONE;
use crate::upstream::Real;

/// How long a server may take until a kind is served.
const LIMIT: Duration = Duration::from_secs(60);

/// A cluster or a pool that differs from a good one, and what is said about it.
struct Case {
    /// What differs from the good one, as a merge patch.
    change: Value,
    /// Whether the good one is made first, and changed then.
    later: bool,
    /// What the refusal says; nothing if there must be none.
    refusal: Option<&'static str>,
}

fn made(change: Value, refusal: &'static str) -> Case {
    Case { change, later: false, refusal: Some(refusal) }
}

fn changed(change: Value, refusal: &'static str) -> Case {
    Case { change, later: true, refusal: Some(refusal) }
}

fn fine(change: Value) -> Case {
    Case { change, later: false, refusal: None }
}

fn fine_later(change: Value) -> Case {
    Case { change, later: true, refusal: None }
}

/// What `hcp create cluster kubevirt` makes, with a few settings more.
fn good_cluster() -> Value {
    let by = |service: &str, way: &str| json!({ "service": service, "servicePublishingStrategy": { "type": way } });
    json!({
        "apiVersion": "hypershift.openshift.io/v1beta1",
        "kind": "HostedCluster",
        "spec": {
            "autoscaling": {},
            "capabilities": {},
            "configuration": { "apiServer": { "audit": { "profile": "Default" } } },
            "controllerAvailabilityPolicy": "HighlyAvailable",
            "clusterID": "0b5a1c4e-0000-4000-8000-3f1e2d4c5b6a",
            "dns": { "baseDomain": "example.test" },
            "etcd": {
                "managementType": "Managed",
                "managed": { "storage": {
                    "type": "PersistentVolume",
                    "persistentVolume": { "size": "8Gi", "storageClassName": "fast" },
                } },
            },
            "fips": false,
            "infraID": "guest-cluster-0-x7k2p",
            "networking": {
                "clusterNetwork": [{ "cidr": "10.132.0.0/14" }],
                "networkType": "OVNKubernetes",
                "serviceNetwork": [{ "cidr": "172.31.0.0/16" }],
            },
            "olmCatalogPlacement": "management",
            "platform": { "type": "KubeVirt", "kubevirt": { "baseDomainPassthrough": true, "generateID": "abcdefghij" } },
            "pullSecret": { "name": "pull-secret" },
            "release": { "image": "quay.io/openshift-release-dev/ocp-release:4.17.0-multi" },
            "secretEncryption": { "type": "aescbc", "aescbc": { "activeKey": { "name": "key" } } },
            "services": [
                by("APIServer", "LoadBalancer"), by("Ignition", "Route"), by("Konnectivity", "Route"),
                by("OAuthServer", "Route"),
            ],
            "sshKey": {},
        },
        "status": { "controlPlaneEndpoint": { "host": "", "port": 0 } },
    })
}

fn good_pool() -> Value {
    json!({
        "apiVersion": "hypershift.openshift.io/v1beta1",
        "kind": "NodePool",
        "spec": {
            "arch": "amd64",
            "clusterName": "guest-cluster-0",
            "management": { "autoRepair": false, "upgradeType": "Replace" },
            "nodeDrainTimeout": "0s",
            "nodeVolumeDetachTimeout": "0s",
            "platform": {
                "type": "KubeVirt",
                "kubevirt": {
                    "attachDefaultNetwork": true,
                    "compute": { "cores": 8, "memory": "10Gi" },
                    "networkInterfaceMultiqueue": "Enable",
                    "rootVolume": { "persistent": { "size": "32Gi" }, "type": "Persistent" },
                },
            },
            "release": { "image": "quay.io/openshift-release-dev/ocp-release:4.17.0-multi" },
            "replicas": 3,
        },
        "status": { "replicas": 0 },
    })
}

fn clusters() -> Vec<Case> {
    let with_host = |service: &str, host: &str| {
        let way = json!({ "type": "Route", "route": { "hostname": host } });
        json!({ "service": service, "servicePublishingStrategy": way })
    };
    let by = |service: &str, way: &str| json!({ "service": service, "servicePublishingStrategy": { "type": way } });
    vec![
        fine(json!({})),
        fine(json!({ "spec": { "pausedUntil": "2030-01-31T00:00:00Z" } })),
        fine(json!({ "spec": { "pausedUntil": "True" } })),
        fine(json!({ "spec": { "platform": { "type": "None", "kubevirt": null } } })),
        fine(json!({ "spec": { "networking": { "networkType": "Other", "allocateNodeCIDRs": "Enabled" } } })),
        fine(
            json!({ "spec": { "etcd": { "managed": { "storage": { "persistentVolume": { "size": 8589934592_i64 } } } } } }),
        ),
        fine_later(
            json!({ "spec": { "release": { "image": "quay.io/openshift-release-dev/ocp-release:4.17.1-multi" } } }),
        ),
        fine_later(
            json!({ "spec": { "secretEncryption": { "aescbc": { "backupKey": { "name": "old" } } } } }),
        ),
        fine_later(
            json!({ "spec": { "nodeSelector": { "a": "b" }, "tolerations": [{ "key": "a", "operator": "Exists" }] } }),
        ),
        // What has to be there.
        made(json!({ "spec": { "release": null } }), "spec.release: Required value"),
        made(json!({ "spec": { "services": null } }), "spec.services: Required value"),
        made(json!({ "spec": { "pullSecret": null } }), "spec.pullSecret: Required value"),
        made(json!({ "spec": { "platform": null } }), "spec.platform: Required value"),
        // What it may be.
        made(
            json!({ "spec": { "release": { "image": "two words" } } }),
            "spec.release.image in body should match",
        ),
        made(json!({ "spec": { "infraID": "Upper" } }), "spec.infraID in body should match"),
        made(json!({ "spec": { "clusterID": "no-uuid" } }), "spec.clusterID in body should match"),
        made(json!({ "spec": { "platform": { "type": "Mainframe" } } }), "Unsupported value: \"Mainframe\""),
        made(
            json!({ "spec": { "networking": { "networkType": "Pigeons" } } }),
            "Unsupported value: \"Pigeons\"",
        ),
        made(
            json!({ "spec": { "networking": { "clusterNetwork": [] } } }),
            "spec.networking.clusterNetwork in body should have at least 1 items",
        ),
        made(json!({ "spec": { "pausedUntil": "nonsense" } }), "pausedUntil is a time such as"),
        made(json!({ "spec": { "channel": "" } }), "spec.channel in body should be at least 1 chars long"),
        made(
            json!({ "spec": { "kubeAPIServerDNSName": "a_b" } }),
            "spec.kubeAPIServerDNSName in body should match",
        ),
        made(
            json!({ "spec": { "etcd": { "managed": { "storage": { "restoreSnapshotURL": ["ftp://a"] } } } } }),
            "spec.etcd.managed.storage.restoreSnapshotURL[0] in body should match",
        ),
        made(
            json!({ "spec": { "etcd": { "managed": { "storage": { "persistentVolume": { "size": "lots" } } } } } }),
            "spec.etcd.managed.storage.persistentVolume.size in body should match",
        ),
        // What goes together.
        made(
            json!({ "spec": { "services": [by("APIServer", "Route")] } }),
            "services has at least 4 entries, or 3 on IBMCloud",
        ),
        made(
            json!({ "spec": { "services": [
                with_host("APIServer", "a.example.test"), with_host("OAuthServer", "a.example.test"),
                by("Konnectivity", "Route"), by("Ignition", "Route"),
            ] } }),
            "services have host names of their own",
        ),
        made(
            json!({ "spec": {
                "platform": { "type": "Azure", "kubevirt": null },
                "services": [
                    by("APIServer", "Route"), by("OAuthServer", "Route"), by("Konnectivity", "NodePort"),
                    by("Ignition", "Route"),
                ],
            } }),
            "Konnectivity and Ignition are published by Route on Azure",
        ),
        made(
            json!({ "spec": {
                "platform": { "type": "Azure", "kubevirt": null },
                "services": [
                    by("APIServer", "Route"), by("OAuthServer", "NodePort"), by("Konnectivity", "Route"),
                    by("Ignition", "Route"),
                ],
            } }),
            "OAuthServer is published by Route or LoadBalancer on Azure",
        ),
        made(
            json!({ "spec": { "networking": { "allocateNodeCIDRs": "Enabled" } } }),
            "allocateNodeCIDRs can be Enabled only if networkType is Other",
        ),
        made(
            json!({ "spec": { "etcd": { "managed": null } } }),
            "etcd.managed is set when managementType is Managed",
        ),
        made(
            json!({ "spec": { "etcd": { "managementType": "Unmanaged", "managed": null } } }),
            "etcd.unmanaged is set when managementType is Unmanaged",
        ),
        made(
            json!({ "spec": { "secretEncryption": { "aescbc": null } } }),
            "aescbc is set when type is aescbc",
        ),
        made(
            json!({ "spec": { "serviceAccountSigningKey": { "name": "key" }, "issuerURL": "" } }),
            "serviceAccountSigningKey requires issuerURL",
        ),
        made(
            json!({ "spec": { "capabilities": { "disabled": ["Ingress"] } } }),
            "Ingress can be disabled only with Console disabled",
        ),
        made(
            json!({ "spec": { "capabilities": { "enabled": ["baremetal"], "disabled": ["baremetal"] } } }),
            "a capability is not both enabled and disabled",
        ),
        // What stays.
        changed(
            json!({ "spec": { "clusterID": "0b5a1c4e-0000-4000-8000-000000000000" } }),
            "clusterID is immutable",
        ),
        changed(json!({ "spec": { "clusterID": null } }), "clusterID cannot be removed"),
        changed(json!({ "spec": { "infraID": "other" } }), "infraID is immutable"),
        changed(json!({ "spec": { "infraID": null } }), "infraID cannot be removed"),
        changed(json!({ "spec": { "platform": { "type": "None" } } }), "platform.type is immutable"),
        changed(
            json!({ "spec": { "controllerAvailabilityPolicy": "SingleReplica" } }),
            "controllerAvailabilityPolicy is immutable",
        ),
        changed(
            json!({ "spec": { "infrastructureAvailabilityPolicy": "HighlyAvailable" } }),
            "infrastructureAvailabilityPolicy is immutable",
        ),
        changed(
            json!({ "spec": { "dns": { "baseDomain": "other.test" } } }),
            "dns.baseDomain is immutable once it is set",
        ),
        changed(
            json!({ "spec": { "networking": { "clusterNetwork": [{ "cidr": "10.0.0.0/14" }] } } }),
            "networking.clusterNetwork is immutable",
        ),
        changed(
            json!({ "spec": { "networking": { "serviceNetwork": [{ "cidr": "10.0.0.0/16" }] } } }),
            "networking.serviceNetwork is immutable",
        ),
        changed(
            json!({ "spec": { "networking": { "networkType": "Calico" } } }),
            "networking.networkType is immutable",
        ),
        changed(
            json!({ "spec": { "etcd": {
                "managementType": "Unmanaged", "managed": null,
                "unmanaged": { "endpoint": "https://a", "tls": { "clientSecret": { "name": "a" } } },
            } } }),
            "etcd.managementType is immutable",
        ),
        changed(
            json!({ "spec": { "etcd": { "managed": { "storage": { "persistentVolume": { "size": "9Gi" } } } } } }),
            "etcd.managed.storage.persistentVolume.size is immutable",
        ),
        changed(
            json!({ "spec": { "etcd": { "managed": { "storage": { "persistentVolume": { "storageClassName": "slow" } } } } } }),
            "etcd.managed.storage.persistentVolume.storageClassName is immutable",
        ),
        changed(
            json!({ "spec": { "services": [
            by("APIServer", "Route"), by("Ignition", "Route"), by("Konnectivity", "Route"), by("OAuthServer", "Route"),
        ] } }),
            "services is immutable",
        ),
        changed(json!({ "spec": { "issuerURL": "https://other.test" } }), "issuerURL is immutable"),
        changed(json!({ "spec": { "fips": true } }), "fips is immutable"),
        changed(json!({ "spec": { "olmCatalogPlacement": "guest" } }), "olmCatalogPlacement is immutable"),
        changed(
            json!({ "spec": { "capabilities": { "disabled": ["Console"] } } }),
            "capabilities is immutable",
        ),
        changed(json!({ "spec": { "secretEncryption": null } }), "secretEncryption cannot be removed"),
        changed(
            json!({ "spec": { "platform": { "kubevirt": { "baseDomainPassthrough": false } } } }),
            "platform.kubevirt.baseDomainPassthrough is immutable",
        ),
        changed(
            json!({ "spec": { "platform": { "kubevirt": { "generateID": null } } } }),
            "generateID cannot be removed",
        ),
    ]
}

fn pools() -> Vec<Case> {
    let scaled = |min: i32, max: i32| json!({ "min": min, "max": max });
    vec![
        fine(json!({})),
        fine(json!({ "spec": { "replicas": null, "autoScaling": scaled(1, 3) } })),
        fine(
            json!({ "spec": { "management": { "replace": { "strategy": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%" } } } } }),
        ),
        fine(json!({ "spec": {
            "replicas": null, "autoScaling": scaled(0, 3), "platform": { "type": "Azure", "kubevirt": null, "azure": {} },
        } })),
        fine_later(json!({ "spec": { "replicas": 5, "pausedUntil": "true", "nodeLabels": { "a": "b" } } })),
        made(json!({ "spec": { "clusterName": null } }), "spec.clusterName: Required value"),
        made(json!({ "spec": { "management": null } }), "spec.management: Required value"),
        made(
            json!({ "spec": { "management": { "upgradeType": null } } }),
            "spec.management.upgradeType: Required value",
        ),
        made(
            json!({ "spec": { "replicas": -1 } }),
            "spec.replicas in body should be greater than or equal to 0",
        ),
        made(json!({ "spec": { "arch": "vax" } }), "Unsupported value: \"vax\""),
        made(json!({ "spec": { "nodeDrainTimeout": "soon" } }), "spec.nodeDrainTimeout in body should match"),
        made(
            json!({ "spec": { "taints": [{ "key": "a", "effect": "Maybe" }] } }),
            "Unsupported value: \"Maybe\"",
        ),
        made(
            json!({ "spec": { "platform": { "kubevirt": { "compute": { "memory": "lots" } } } } }),
            "spec.platform.kubevirt.compute.memory in body should match",
        ),
        made(
            json!({ "spec": { "platform": { "kubevirt": { "compute": { "cores": 0 } } } } }),
            "spec.platform.kubevirt.compute.cores in body should be greater than or equal to 1",
        ),
        made(
            json!({ "spec": { "autoScaling": scaled(1, 3) } }),
            "replicas and autoScaling exclude each other",
        ),
        made(
            json!({ "spec": { "replicas": null, "autoScaling": scaled(4, 3) } }),
            "autoScaling.max is at least autoScaling.min",
        ),
        made(
            json!({ "spec": { "replicas": null, "autoScaling": scaled(0, 3) } }),
            "autoScaling.min can be 0 only on AWS and Azure",
        ),
        made(json!({ "spec": { "pausedUntil": "nonsense" } }), "pausedUntil is a time such as"),
        changed(json!({ "spec": { "clusterName": "other" } }), "clusterName is immutable"),
        changed(json!({ "spec": { "arch": "s390x" } }), "arch is immutable"),
        changed(
            json!({ "spec": { "management": { "upgradeType": "InPlace" } } }),
            "management.upgradeType is immutable",
        ),
        changed(json!({ "spec": { "platform": { "type": "None" } } }), "platform.type is immutable"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rules_of_a_management_cluster_hold_on_our_server() {
    let ours = Cluster::start(Options::default()).await.unwrap();
    let verdict = judge(ours.admin().await.unwrap()).await;
    ours.stop().await.unwrap();
    assert_eq!(verdict, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rules_of_a_management_cluster_hold_on_the_real_server() {
    let Some(programs) = Upstream::find() else { return };
    let _alone = ALONE.lock().await;
    let options = Options {
        config: Config { version: programs::version().to_owned(), ..Config::default() },
        ..Options::default()
    };
    let ours = Cluster::start(options).await.unwrap();
    let real = Real::start(&programs, &ours).await;
    let kubeconfig = ours.kubeconfig("admin", &["system:masters"]).unwrap();
    let mut kubeconfig = Kubeconfig::from_yaml(&kubeconfig).unwrap();
    for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        cluster.server = Some(real.url());
    }
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let verdict = judge(Client::try_from(config).unwrap()).await;
    drop(real);
    ours.stop().await.unwrap();
    assert_eq!(verdict, Vec::<String>::new());
}

/// What is wrong with a server: which definitions it does not serve, and which objects it judges otherwise.
async fn judge(client: Client) -> Vec<String> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in pilothouse_crds::all() {
        let name = definition.name_any();
        if let Err(error) = definitions.create(&PostParams::default(), &definition).await {
            return vec![format!("{name}: {error}")];
        }
        let served = wait::await_condition(definitions.clone(), &name, conditions::is_crd_established());
        if timeout(LIMIT, served).await.is_err() {
            return vec![format!("{name} is not established")];
        }
    }
    let of_clusters = kube::api::ApiResource::erase::<HostedCluster>(&());
    let of_pools = kube::api::ApiResource::erase::<NodePool>(&());
    let mut wrong = Vec::new();
    for (resource, good, cases) in
        [(of_clusters, good_cluster(), clusters()), (of_pools, good_pool(), pools())]
    {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
        for (number, case) in cases.into_iter().enumerate() {
            let name = format!("case-{number}");
            let said = ask(&api, &name, &good, &case).await;
            let right = match (case.refusal, &said) {
                (None, None) => true,
                (Some(expected), Some(refusal)) => refusal.contains(expected),
                _ => false,
            };
            if !right {
                wrong.push(format!(
                    "{} {}: expected {:?}, got {said:?}",
                    resource.kind, case.change, case.refusal
                ));
            }
        }
    }
    wrong
}

/// What the server has to object to a case.
async fn ask(api: &Api<DynamicObject>, name: &str, good: &Value, case: &Case) -> Option<String> {
    let mut object = good.clone();
    object["metadata"] = json!({ "name": name });
    if !case.later {
        json_patch::merge(&mut object, &case.change);
    }
    let object = serde_json::from_value(object).unwrap();
    let answer = match api.create(&PostParams::default(), &object).await {
        Ok(_) if case.later => api.patch(name, &PatchParams::default(), &Patch::Merge(&case.change)).await,
        answer => answer,
    };
    match answer {
        Ok(_) => None,
        Err(kube::Error::Api(status)) if status.code == 422 => Some(status.message),
        Err(error) => Some(format!("not a refusal of its content: {error}")),
    }
}
