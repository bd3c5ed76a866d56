//! Secrets and ConfigMaps that a cluster names.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use pilothouse_crds::{HostedCluster, Reference};
use pilothouse_pki::{Authority, AuthorityRequest, KeyAlgorithm, PrivateKey, Subject};
use pilothouse_runtime::Clock;
use pilothouse_test_support::eventually;
use serde_json::{Value, json};

use crate::support::{CONTROL_PLANE, NAMESPACE, PATIENCE, Region, create};

const IMAGE: &str = "pilothouse/release:4.20.0";

#[tokio::test]
async fn what_a_cluster_names_is_awaited_copied_and_followed() {
    let region = Region::start().await;
    region
        .create_cluster_with(IMAGE, |cluster| {
            cluster.spec.pull_secret = Reference::to("my-pull-secret");
            cluster.spec.ssh_key = Reference::to("my-ssh-key");
            cluster.spec.service_account_signing_key = Some(Reference::to("my-signing-key"));
            cluster.spec.additional_trust_bundle = Some(Reference::to("my-bundle"));
        })
        .await;
    let refused = region.eventually_condition("ValidConfiguration", "False").await;
    for missing in ["spec.pullSecret", "spec.sshKey", "my-signing-key", "ConfigMap ocm-local-1/my-bundle"] {
        assert!(refused.message.contains(missing), "{}", refused.message);
    }
    let namespaces = Api::<Namespace>::all(region.client.clone()).list(&ListParams::default()).await.unwrap();
    assert!(!namespaces.iter().any(|namespace| namespace.name_any() == CONTROL_PLANE));

    // Each that comes is one complaint less, and one that is no use is said to be.
    region.create_secret("my-pull-secret", ".dockerconfigjson", b"nonsense").await;
    region.create_secret("my-ssh-key", "id_rsa.pub", b"ssh-ed25519 AAAA ada").await;
    let key = PrivateKey::generate(KeyAlgorithm::EcdsaP256).unwrap();
    region.create_secret("my-signing-key", "key", key.to_pem().as_bytes()).await;
    let request = AuthorityRequest::new(Subject::try_new("a registry").unwrap());
    let authority = Authority::self_signed(&request, &Clock::system()).unwrap().identity().chain_pem();
    let config_maps: Api<ConfigMap> = region.api(NAMESPACE);
    let bundle = json!({ "metadata": { "name": "my-bundle" }, "data": { "ca-bundle.crt": authority } });
    create(&config_maps, bundle).await;
    eventually("only the pull secret is left", PATIENCE, async || {
        let message = region.eventually_condition("ValidConfiguration", "False").await.message;
        let expected = "spec.pullSecret: Secret ocm-local-1/my-pull-secret: `.dockerconfigjson` is no Docker \
                        configuration in JSON";
        if message == expected { Ok(()) } else { Err(message) }
    })
    .await;
    let originals: Api<Secret> = region.api(NAMESPACE);
    change(&originals, "my-pull-secret", ".dockerconfigjson", "{}").await;
    region.eventually_condition("ValidConfiguration", "True").await;
    eventually_holds(&region, "pull-secret", ".dockerconfigjson", b"{}").await;
    eventually_holds(&region, "ssh-key", "id_rsa.pub", b"ssh-ed25519 AAAA ada").await;
    eventually_holds(&region, "sa-signing-key", "service-account.key", key.to_pem().as_bytes()).await;
    let copy = region
        .eventually_there(&region.api::<ConfigMap>(CONTROL_PLANE), "user-ca-bundle")
        .await
        .data
        .unwrap();
    assert_eq!(copy["ca-bundle.crt"], authority);
    let mark = "referenced-resource.hypershift.openshift.io/first";
    eventually("the original says whom it concerns", PATIENCE, async || {
        let annotations = originals.get("my-ssh-key").await.unwrap().metadata.annotations.unwrap_or_default();
        if annotations.contains_key(mark) { Ok(()) } else { Err(format!("{annotations:?}")) }
    })
    .await;

    // A change of the original arrives; a copy that was changed or deleted is back.
    region.run_control_plane().await;
    region.eventually_condition("Available", "True").await;
    change(&originals, "my-ssh-key", "id_rsa.pub", "ssh-ed25519 BBBB bob").await;
    eventually_holds(&region, "ssh-key", "id_rsa.pub", b"ssh-ed25519 BBBB bob").await;
    let copies: Api<Secret> = region.api(CONTROL_PLANE);
    change(&copies, "ssh-key", "id_rsa.pub", "nobody").await;
    eventually_holds(&region, "ssh-key", "id_rsa.pub", b"ssh-ed25519 BBBB bob").await;
    let _ = copies.delete("pull-secret", &DeleteParams::default()).await.unwrap();
    region.eventually_there(&copies, "pull-secret").await;

    // Without its original a cluster that runs goes on, and says so.
    let _ = originals.delete("my-pull-secret", &DeleteParams::default()).await.unwrap();
    let complaint = region.eventually_condition("ValidConfiguration", "False").await;
    assert!(complaint.message.contains("my-pull-secret does not exist"), "{}", complaint.message);
    assert_eq!(complaint.reason, "MissingReference");
    region.eventually_condition("Available", "True").await;
    eventually_holds(&region, "pull-secret", ".dockerconfigjson", b"{}").await;

    // What the user made stays, and forgets the cluster.
    let clusters: Api<HostedCluster> = region.api(NAMESPACE);
    let _ = clusters.delete("first", &DeleteParams::default()).await.unwrap();
    region.empty_namespace().await;
    region.eventually_gone(&clusters, "first").await;
    let kept = originals.get("my-ssh-key").await.unwrap();
    assert!(!kept.annotations().contains_key(mark));
    region.stop().await;
}

#[tokio::test]
async fn a_key_is_rotated_by_naming_another_and_the_former_is_forgotten_when_nothing_needs_it() {
    let region = Region::start().await;
    region.create_cluster(IMAGE).await;
    region.run_control_plane().await;
    region.eventually_condition("EtcdDataEncryptionUpToDate", "True").await;
    let cluster = region.cluster().await;
    let named = serde_json::to_value(cluster.spec.secret_encryption).unwrap();
    assert_eq!(named["aescbc"]["activeKey"]["name"], "first-etcd-encryption-key");
    let made = region.api::<Secret>(NAMESPACE).get("first-etcd-encryption-key").await.unwrap();
    assert_eq!(made.data.unwrap()["key"].0.len(), 32);
    assert_eq!(ids(&region).await, ["first-etcd-encryption-key"]);

    // A key that is not there is not used.
    let active = |name: &str| json!({ "spec": { "secretEncryption": { "aescbc": { "activeKey": { "name": name } } } } });
    region.change_cluster(active("second")).await;
    let complaint = region.eventually_condition("ValidConfiguration", "False").await;
    assert!(complaint.message.contains("Secret ocm-local-1/second does not exist"), "{}", complaint.message);
    region.eventually_condition("Available", "True").await;
    region.create_secret("second", "key", &[7; 32]).await;
    eventually("the new key is the last", PATIENCE, async || {
        let ids = ids(&region).await;
        if ids == ["first-etcd-encryption-key", "second"] { Ok(()) } else { Err(format!("{ids:?}")) }
    })
    .await;
    region.eventually_condition("EtcdDataEncryptionUpToDate", "False").await;

    // What the StatefulSet's controller and the kubelet would do.
    region.replace_pod().await;
    region.eventually_condition("EtcdDataEncryptionUpToDate", "True").await;
    eventually("the former key is forgotten", PATIENCE, async || {
        let ids = ids(&region).await;
        if ids == ["second"] { Ok(()) } else { Err(format!("{ids:?}")) }
    })
    .await;
    let status = serde_json::to_value(region.cluster().await.status.unwrap()).unwrap();
    assert_eq!(status["secretEncryption"]["activeKey"]["name"], "second");
    let history = status["secretEncryption"]["history"].as_array().unwrap();
    assert!(history.iter().all(|entry| entry["state"] == "Completed") && history.len() == 2, "{history:?}");
    region.stop().await;
}

/// The keys in the file that the control plane reads.
async fn ids(region: &Region) -> Vec<String> {
    let file = region.secret("kas-secret-encryption-config", "keys.json").await;
    let file: Value = serde_json::from_slice(&file).unwrap();
    file["keys"].as_array().unwrap().iter().map(|key| key["id"].as_str().unwrap().to_owned()).collect()
}

async fn change(secrets: &Api<Secret>, name: &str, key: &str, text: &str) {
    let patch = json!({ "stringData": { key: text } });
    secrets.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn eventually_holds(region: &Region, name: &str, key: &str, value: &[u8]) {
    let secrets: Api<Secret> = region.api(CONTROL_PLANE);
    eventually(&format!("Secret {name} holds what it should"), PATIENCE, async || {
        let data = secrets.get(name).await.map_err(|error| error.to_string())?.data.unwrap_or_default();
        match data.get(key) {
            Some(found) if found.0 == value => Ok(()),
            other => Err(format!("{:?}", other.map(|found| String::from_utf8_lossy(&found.0).into_owned()))),
        }
    })
    .await;
}
