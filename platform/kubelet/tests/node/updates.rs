//! Settings change while pods run.

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::{Cluster, is_ready, run, shell, until};

fn api<K>(cluster: &Cluster) -> Api<K>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    Api::namespaced(cluster.client.clone(), "default")
}

async fn create<K>(cluster: &Cluster, object: Value)
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + serde::Serialize
        + std::fmt::Debug,
{
    let object = serde_json::from_value(object).unwrap();
    api::<K>(cluster).create(&PostParams::default(), &object).await.unwrap();
}

async fn patch<K>(cluster: &Cluster, name: &str, patch: Value)
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    api::<K>(cluster).patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

pub(crate) fn changes_reach_running_pods() {
    run(async {
        let cluster = Cluster::start().await;
        create::<ServiceAccount>(&cluster, json!({"metadata": {"name": "worker"}})).await;
        let root = json!({"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "none"}});
        create::<ConfigMap>(&cluster, root).await;
        create::<ConfigMap>(
            &cluster,
            json!({"metadata": {"name": "settings"}, "data": {"color": "green", "shape": "round"}}),
        )
        .await;
        create::<ConfigMap>(
            &cluster,
            json!({"metadata": {"name": "fixed"}, "immutable": true, "data": {"word": "constant"}}),
        )
        .await;
        // What the pod sees, again and again, in one line.
        let mut container = shell(
            "while :; do echo $(for file in /all/color /all/shape /one/color /later/password /fixed/word /me/labels; do \
             cat $file 2>/dev/null; echo; done) > /out/new; mv /out/new /out/seen; sleep 0.02; done",
        );
        container["volumeMounts"] = json!([
            {"name": "all", "mountPath": "/all"}, {"name": "all", "mountPath": "/one/color", "subPath": "color"},
            {"name": "later", "mountPath": "/later"}, {"name": "fixed", "mountPath": "/fixed"},
            {"name": "me", "mountPath": "/me"}, {"name": "out", "mountPath": "/out"}]);
        let pod = json!({"metadata": {"name": "reader", "labels": {"age": "one"}}, "spec": {"nodeName": crate::support::NODE,
            "serviceAccountName": "worker", "terminationGracePeriodSeconds": 0, "containers": [container], "volumes": [
            {"name": "all", "configMap": {"name": "settings"}}, {"name": "fixed", "configMap": {"name": "fixed"}},
            {"name": "later", "secret": {"secretName": "later", "optional": true}}, {"name": "out", "emptyDir": {}},
            {"name": "me", "projected": {"sources": [
                {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}]}}]}});
        create::<Pod>(&cluster, pod).await;
        let pod = cluster.until_ready("reader").await;
        let volumes = cluster.pod_folder(&pod).join("volumes");
        let seen = |expected: &'static str| {
            let file = volumes.join("out/seen");
            async move {
                let file = file.as_path();
                until(|| async { std::fs::read_to_string(file).is_ok_and(|text| text.trim() == expected) })
                    .await;
            }
        };
        seen("green round green constant age=\"one\"").await;
        let token = || std::fs::read_to_string(volumes.join("me/token")).unwrap();
        let first = token();

        // Changed, added and removed keys; a file that was mounted alone stays what it was.
        patch::<ConfigMap>(
            &cluster,
            "settings",
            json!({"data": {"color": "blue", "shape": null, "size": "big"}}),
        )
        .await;
        seen("blue green constant age=\"one\"").await;
        assert_eq!(std::fs::read_to_string(volumes.join("all/size")).unwrap(), "big");
        // What may be missing is there once it comes.
        create::<Secret>(
            &cluster,
            json!({"metadata": {"name": "later"}, "stringData": {"password": "swordfish"}}),
        )
        .await;
        seen("blue green swordfish constant age=\"one\"").await;
        patch::<Pod>(&cluster, "reader", json!({"metadata": {"labels": {"age": "two"}}})).await;
        seen("blue green swordfish constant age=\"two\"").await;
        // All this was no reason to ask for another token.
        assert_eq!(token(), first);
        api::<Secret>(&cluster).delete("later", &Default::default()).await.unwrap();
        seen("blue green constant age=\"two\"").await;
    });
}

pub(crate) fn what_was_missing_wakes_who_waits_for_it() {
    run(async {
        let cluster = Cluster::start().await;
        let mut container = shell("echo $COLOR; exec sleep 600");
        container["env"] =
            json!([{"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": "absent", "key": "color"}}}]);
        cluster.create("waits", json!({"containers": [container]})).await;
        let waiting = |pod: &Pod| {
            let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
            statuses[0].state.as_ref()?.waiting.clone()
        };
        let says = |words: &'static str| {
            move |pod: &Pod| {
                let message = waiting(pod).and_then(|waiting| waiting.message);
                message.is_some_and(|message| message.contains(words))
            }
        };
        let pod = cluster.until_pod("waits", says("ConfigMap `absent` does not exist")).await;
        assert_eq!(waiting(&pod).unwrap().reason.as_deref(), Some("CreateContainerConfigError"));
        create::<ConfigMap>(&cluster, json!({"metadata": {"name": "absent"}, "data": {"shape": "round"}}))
            .await;
        cluster.until_pod("waits", says("has no key `color`")).await;
        patch::<ConfigMap>(&cluster, "absent", json!({"data": {"color": "green"}})).await;
        cluster.until_ready("waits").await;
        let printed = || async { cluster.pods().logs("waits", &Default::default()).await.unwrap() };
        until(|| async { printed().await == "green\n" }).await;
    });
}

pub(crate) fn a_pod_that_was_taken_for_lost_is_said_to_be_ready_again() {
    run(async {
        let cluster = Cluster::start().await;
        cluster.create("patient", json!({"containers": [shell("while :; do sleep 1; done")]})).await;
        cluster.until_ready("patient").await;
        // As whoever looks after nodes does with the pods of one that is silent.
        let lost = json!({"status": {"conditions": [
            {"type": "Ready", "status": "False", "reason": "NodeNotReady", "lastTransitionTime": "2100-01-01T00:00:00Z"},
        ]}});
        let marking = (PatchParams::default(), Patch::Strategic(&lost));
        let marked = cluster.pods().patch_status("patient", &marking.0, &marking.1).await.unwrap();
        assert!(!is_ready(&marked));
        cluster.until_ready("patient").await;
    });
}
