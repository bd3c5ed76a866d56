//! A namespace goes with all there is in it, and not before.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::World;
use crate::support::{processes_with, shell, wait_for};

pub(super) async fn goes(world: &mut World) {
    let mark =
        format!("namespace-{}-{}", std::process::id(), world.nodes[0].config.pod_range.as_ref().unwrap());
    let spec = json!({"containers": [shell(&format!("trap 'exit 0' TERM; while :; do sleep 0.05; done; : {mark}"))]});
    world
        .apply(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": world.pod(spec)}}}))
        .await;
    world
        .apply(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "held", "finalizers": ["example.com/hold"]}}))
        .await;
    world.printed(&["rollout", "status", "deployment/web", "--timeout=120s"]).await;
    assert!(!processes_with(&mark).is_empty());

    world.printed(&["delete", "namespace", &world.namespace, "--wait=false"]).await;
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let condition = |namespace: Option<&Namespace>, kind: &str, status: &str| {
        let conditions = namespace.and_then(|namespace| namespace.status.as_ref()?.conditions.as_deref());
        conditions.unwrap_or_default().iter().any(|one| one.type_ == kind && one.status == status)
    };
    wait_for(namespaces.clone(), &world.namespace, |namespace: Option<&Namespace>| {
        condition(namespace, "NamespaceFinalizersRemaining", "True")
    })
    .await;
    // All else goes meanwhile; what is held stays.
    world.until_printed(&["get", "pods,deployments,replicasets", "-o", "name"], &[]).await;
    pilothouse_test_support::eventually(
        "only what is held is left",
        2 * crate::support::PATIENCE,
        || async {
            let left = world.printed(&["get", "pods,deployments,replicasets,configmaps", "-o", "name"]).await;
            if left == "configmap/held\n" { Ok(()) } else { Err(left) }
        },
    )
    .await;
    assert!(processes_with(&mark).is_empty());
    let described = world.printed(&["describe", "namespace", &world.namespace]).await;
    assert!(
        described.contains("Terminating") && described.contains("example.com/hold in 1 resource instances"),
        "{described}"
    );
    let refused = world.kubectl_run(&["create", "configmap", "late"]).await;
    assert!(!refused.status.success(), "{refused:?}");
    let refused = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.contains("because it is being terminated"), "{refused}");

    let held = world.api::<ConfigMap>();
    let free = json!({"metadata": {"finalizers": null}});
    held.patch("held", &PatchParams::default(), &Patch::Merge(free)).await.unwrap();
    wait_for(namespaces, &world.namespace, |namespace: Option<&Namespace>| namespace.is_none()).await;
}
