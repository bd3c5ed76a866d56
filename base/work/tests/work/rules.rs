//! Conditions that works ask for.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use pilothouse_crds::{ConditionStatus, ManifestWorkStatus, find_condition};
use pilothouse_test_support::eventually;
use pilothouse_work::Work;
use serde_json::{Value, json};

use crate::cluster::{Cluster, PATIENCE};
use crate::engine::{Agent, config_map, work};

fn rules(group: &str, resource: &str, name: &str, rules: Value) -> Value {
    json!([{"resourceIdentifier": {"group": group, "resource": resource, "name": name, "namespace": "default"},
        "conditionRules": rules}])
}

fn said(status: &ManifestWorkStatus, type_: &str) -> Option<(ConditionStatus, String)> {
    find_condition(&status.conditions, type_).map(|found| (found.status, found.reason.clone()))
}

#[tokio::test]
async fn expressions_over_an_object_are_conditions_of_its_work() {
    let cluster = Cluster::start().await;
    let agent = Agent::of(&cluster);
    let rule = json!([
        {"condition": "Ready", "type": "CEL", "celExpressions": ["object.data.k == '2'"],
            "messageExpression": "'k is ' + object.data.k"},
        {"condition": "Odd", "type": "CEL", "celExpressions": ["object.data.k +"]},
    ]);
    let mut wanted = work(json!([config_map("a", "1")]), rules("", "configmaps", "a", rule));
    let status = agent.apply(&wanted).await;
    let aggregated = "ConditionRulesAggregated".to_owned();
    assert_eq!(said(&status, "Ready"), Some((ConditionStatus::False, aggregated.clone())));
    assert_eq!(said(&status, "Odd"), Some((ConditionStatus::False, aggregated.clone())));
    let of_manifest = &status.resource_status.manifests[0].conditions;
    let ready = find_condition(of_manifest, "Ready").unwrap();
    assert_eq!((ready.reason.as_str(), ready.message.as_str()), ("ConditionRuleEvaluated", "k is 1"));
    assert_eq!(find_condition(of_manifest, "Odd").unwrap().reason, "ConditionRuleExpressionError");

    wanted.generation = 2;
    Arc::make_mut(&mut wanted.spec).workload.manifests = vec![config_map("a", "2")];
    let status = agent.engine.apply(&wanted, &status).await.unwrap();
    assert_eq!(said(&status, "Ready"), Some((ConditionStatus::True, aggregated)));
}

/// A job, which is never changed in what it runs.
fn job(image: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": image}]}}}})
}

/// The job ends well. Answers the status of its work once that is known.
async fn finish(jobs: &Api<Job>, agent: &Agent, wanted: &Work) -> ManifestWorkStatus {
    let done = json!({"status": {"startTime": "2026-01-02T03:04:05Z", "completionTime": "2026-01-02T03:04:06Z",
        "succeeded": 1, "conditions": [
            {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": "2026-01-02T03:04:06Z"},
            {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-02T03:04:06Z"}]}});
    jobs.patch_status("j", &PatchParams::default(), &Patch::Merge(&done)).await.unwrap();
    eventually("the job is seen to be done", PATIENCE, || async {
        let status = agent.apply(wanted).await;
        let found = said(&status, "Complete");
        if found.as_ref().is_some_and(|found| found.0 == ConditionStatus::True) {
            Ok(status)
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await
}

#[tokio::test]
async fn complete_work_is_left_alone_until_there_is_another_version() {
    let cluster = Cluster::start().await;
    let agent = Agent::of(&cluster);
    let jobs: Api<Job> = Api::namespaced(cluster.client.clone(), "default");
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "default");
    let rule = json!([{"condition": "Complete", "type": "WellKnownConditions"}]);
    let mut wanted = work(json!([job("i"), config_map("a", "1")]), rules("batch", "jobs", "j", rule));
    let status = agent.apply(&wanted).await;
    assert_eq!(said(&status, "Complete").unwrap().0, ConditionStatus::False, "{status:?}");

    let status = finish(&jobs, &agent, &wanted).await;

    // Whoever tidies up afterwards is not undone.
    jobs.delete("j", &DeleteParams::background()).await.unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let after = agent.engine.apply(&wanted, &status).await.unwrap();
    assert_eq!(after, status);
    assert!(maps.get_opt("a").await.unwrap().is_none());
    wanted.generation = 2;
    agent.engine.apply(&wanted, &status).await.unwrap();
    assert!(maps.get_opt("a").await.unwrap().is_some());
}

/// What the rules say of the object as it is was said of a former version.
#[tokio::test]
async fn version_that_could_not_be_applied_is_not_complete_because_the_one_before_was() {
    let cluster = Cluster::start().await;
    let agent = Agent::of(&cluster);
    let jobs: Api<Job> = Api::namespaced(cluster.client.clone(), "default");
    let rule = json!([{"condition": "Complete", "type": "WellKnownConditions"}]);
    let mut wanted = work(json!([job("old")]), rules("batch", "jobs", "j", rule));
    agent.apply(&wanted).await;
    let status = finish(&jobs, &agent, &wanted).await;

    wanted.generation = 2;
    Arc::make_mut(&mut wanted.spec).workload.manifests = vec![job("new")];
    let status = agent.engine.apply(&wanted, &status).await.unwrap();
    assert_eq!(said(&status, "Applied").unwrap().0, ConditionStatus::False, "{status:?}");
    assert_eq!(said(&status, "Complete").unwrap().0, ConditionStatus::True, "{status:?}");

    // Whoever removes the one in the way has the other made.
    jobs.delete("j", &DeleteParams::background()).await.unwrap();
    let status = agent.engine.apply(&wanted, &status).await.unwrap();
    assert_eq!(said(&status, "Applied").unwrap().0, ConditionStatus::True, "{status:?}");
    let made = jobs.get("j").await.unwrap().spec.unwrap().template.spec.unwrap();
    assert_eq!(made.containers[0].image.as_deref(), Some("new"));
}
