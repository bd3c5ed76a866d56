//! What pods find on their disk.

use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolume, PersistentVolumeClaim, Secret, ServiceAccount,
};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::{Cluster, run, shell, until, wait_for};

async fn create<K>(cluster: &Cluster, object: Value) -> K
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + serde::Serialize
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(cluster.client.clone(), "default");
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

pub(crate) fn what_pods_refer_to_is_there() {
    run(async {
        let cluster = Cluster::start().await;
        create::<ConfigMap>(
            &cluster,
            json!({"metadata": {"name": "settings"}, "data": {"color": "green", "shape": "round"}}),
        )
        .await;
        create::<ConfigMap>(
            &cluster,
            json!({"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "none"}}),
        )
        .await;
        create::<ServiceAccount>(&cluster, json!({"metadata": {"name": "worker"}})).await;
        let mut container = shell(
            "cat /secret/password /settings/hue /all/token.fake /all/name /one/shape; echo; echo $PASSWORD $color; \
            test $(wc -c < /all/token) -gt 100 && echo token; touch /secret/x 2>/dev/null || echo read-only; cat /etc/hostname",
        );
        container["volumeMounts"] = json!([
            {"name": "secret", "mountPath": "/secret"}, {"name": "settings", "mountPath": "/settings"},
            {"name": "all", "mountPath": "/all"}, {"name": "whole", "mountPath": "/one/shape", "subPath": "shape"}]);
        container["env"] = json!([{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}}]);
        container["envFrom"] = json!([{"configMapRef": {"name": "settings"}}]);
        let spec = json!({"restartPolicy": "Never", "serviceAccountName": "worker", "hostname": "named", "containers": [container], "volumes": [
            {"name": "secret", "secret": {"secretName": "login", "defaultMode": 256}},
            {"name": "settings", "configMap": {"name": "settings", "items": [{"key": "color", "path": "hue"}]}},
            {"name": "whole", "configMap": {"name": "settings"}},
            {"name": "all", "projected": {"sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
                {"configMap": {"name": "settings", "items": [{"key": "shape", "path": "token.fake"}]}},
                {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}}]});
        cluster.create("reader", spec).await;
        // The Secret is not there yet: the pod says so, and goes on when it comes.
        cluster
            .until_pod("reader", |pod| {
                let status = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
                let waiting = status.and_then(|status| status[0].state.as_ref().unwrap().waiting.clone());
                waiting
                    .and_then(|waiting| waiting.message)
                    .is_some_and(|message| message.contains("Secret `login` does not exist"))
            })
            .await;
        create::<Secret>(
            &cluster,
            json!({"metadata": {"name": "login"}, "stringData": {"password": "swordfish"}}),
        )
        .await;
        cluster.until_phase("reader", "Succeeded").await;
        let output = cluster.pods().logs("reader", &Default::default()).await.unwrap();
        assert_eq!(output, "swordfishgreenroundreaderround\nswordfish green\ntoken\nread-only\nnamed\n");
    });
}

pub(crate) fn released_volume_is_removed_with_its_folder() {
    run(async {
        let cluster = Cluster::start().await;
        let path = cluster.config.volume_root.clone().unwrap().join("pv-1");
        let volumes: Api<PersistentVolume> = Api::all(cluster.client.clone());
        let volume = json!({"metadata": {"name": "pv-1"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete", "hostPath": {"path": path}}});
        volumes.create(&PostParams::default(), &serde_json::from_value(volume).unwrap()).await.unwrap();
        create::<PersistentVolumeClaim>(
            &cluster,
            json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "volumeName": "pv-1", "resources": {"requests": {"storage": "1Gi"}}}}),
        )
        .await;
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(cluster.client.clone(), "default");
        let bound = json!({"status": {"phase": "Bound"}});
        claims.patch_status("data", &PatchParams::default(), &Patch::Merge(&bound)).await.unwrap();

        let mut writer = shell("echo kept > /data/file");
        writer["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
        let spec = json!({"restartPolicy": "Never", "containers": [writer],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]});
        cluster.create("writer", spec).await;
        cluster.until_phase("writer", "Succeeded").await;
        cluster.delete("writer").await;
        assert_eq!(std::fs::read_to_string(path.join("file")).unwrap(), "kept\n");

        let released = json!({"status": {"phase": "Released"}});
        volumes.patch_status("pv-1", &PatchParams::default(), &Patch::Merge(&released)).await.unwrap();
        until(|| async { !path.exists() }).await;
        wait_for(volumes, "pv-1", |volume: Option<&PersistentVolume>| volume.is_none()).await;
    });
}
