//! `pods/eviction`: a deletion that asks first. A disruption budget that covers the pod has to have one left.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use crate::catalogue::Resource;
use crate::patch::managed_fields;
use crate::selector::LabelSelector;
use crate::server::Call;
use crate::status::{Cause, Details, Failure};
use crate::storage::{Stored, WriteError};
use crate::verbs::{self, delete};
use crate::{admission, answer, pods, strategy};

/// Who takes from a budget.
const MANAGER: &str = "kube-apiserver";
/// How many evictions may be under way before the budget's controller has seen them.
const MOST_UNCONFIRMED: usize = 2000;
/// When to ask again while a budget is not counted yet.
const SOON: u32 = 10;

pub(crate) async fn evict(call: &Call) -> Result<Response, Failure> {
    let eviction = call.body_value()?;
    let named = eviction["metadata"]["name"].as_str().unwrap_or_default();
    if named != call.name() {
        return Err(Failure::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut options = delete::Options::of(&call.info.query, &eviction["deleteOptions"])?;
    options.dry_run |= call.dry_run()?;
    let mut stored = verbs::existing(call).await?;
    admission::nodes::admit_eviction(&call.user, &call.resource, &stored.value)?;
    if !is_over(&stored.value) {
        take_from_budget(call, &stored.value, options.dry_run).await?;
        if !options.dry_run {
            stored = marked(call, stored).await?;
        }
    }
    delete::delete(&call.server, &call.resource, stored, &options).await?;
    let status =
        json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 });
    Ok(answer::json(StatusCode::CREATED, &status))
}

/// A pod that does no work yet or any more is nobody's loss.
fn is_over(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Pending") | None)
        || delete::is_deleting(pod)
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// The pod says why it goes.
async fn marked(call: &Call, mut stored: Stored) -> Result<Stored, Failure> {
    for _ in 0..verbs::ATTEMPTS {
        let mut pod = stored.value.clone();
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastProbeTime": null,
            "lastTransitionTime": strategy::timestamp(call.server.clock.now()),
        });
        pods::set_condition(&mut pod, condition);
        match call.server.storage.replace(&call.resource, &stored, &pod).await {
            Ok(_) => return verbs::existing(call).await,
            Err(WriteError::Failed(failure)) => return Err(failure),
            Err(_) => stored = verbs::existing(call).await?,
        }
    }
    Err(Failure::modified(&call.resource, call.name()))
}

async fn take_from_budget(call: &Call, pod: &Value, dry_run: bool) -> Result<(), Failure> {
    let budgets = call.server.built_in("policy", "poddisruptionbudgets")?;
    let storage = &call.server.storage;
    storage.consistent().await?;
    let prefix = crate::storage::prefix(&budgets, Some(call.namespace()));
    let covering: Vec<String> = storage
        .cache()
        .snapshot(&prefix)
        .objects
        .iter()
        .filter_map(|(_, bytes)| serde_json::from_slice::<Value>(bytes).ok())
        .filter(|budget| covers(budget, pod))
        .filter_map(|budget| Some(budget["metadata"]["name"].as_str()?.to_owned()))
        .collect();
    let name = match covering.as_slice() {
        [] => return Ok(()),
        [only] => only,
        _ => {
            let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(Failure::internal(why));
        }
    };
    for _ in 0..verbs::ATTEMPTS {
        let Some(stored) = storage.get(&budgets, call.namespace(), name).await? else { return Ok(()) };
        if !is_ready(pod) && may_go_unready(&stored.value) {
            return Ok(());
        }
        let mut budget = stored.value.clone();
        decrement(&budgets, &mut budget, call.name(), &strategy::timestamp(call.server.clock.now()))?;
        if dry_run {
            return Ok(());
        }
        let (old, now) = (&stored.value, call.server.clock.now());
        managed_fields::track(&budgets, Some("status"), Some(old), &mut budget, MANAGER, now);
        match storage.replace(&budgets, &stored, &budget).await {
            Ok(_) => return Ok(()),
            Err(WriteError::Failed(failure)) => return Err(failure),
            Err(_) => {}
        }
    }
    Err(Failure::modified(&budgets, name))
}

fn covers(budget: &Value, pod: &Value) -> bool {
    let selector = LabelSelector::from_object(&budget["spec"]["selector"]);
    selector.is_some_and(|selector| selector.matches_labels(&pod["metadata"]["labels"]))
}

/// A pod that is not ready counts for nothing, so long as enough others do.
fn may_go_unready(budget: &Value) -> bool {
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or_default();
    budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        || (number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0)
}

/// One disruption less, or why there is none.
fn decrement(budgets: &Resource, budget: &mut Value, pod: &str, now: &str) -> Result<(), Failure> {
    let name = budget["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let generation = budget["metadata"]["generation"].as_i64().unwrap_or_default();
    let status = &mut budget["status"];
    let number = |status: &Value, field: &str| status[field].as_i64().unwrap_or_default();
    if number(status, "observedGeneration") < generation {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(refused(why).with_retry_after(SOON));
    }
    let allowed = number(status, "disruptionsAllowed");
    if allowed < 0 {
        return Err(Failure::forbidden(budgets, &name, "pdb disruptions allowed is negative"));
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MOST_UNCONFIRMED) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(Failure::forbidden(budgets, &name, why));
    }
    if allowed == 0 {
        return Err(refused(format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            number(status, "desiredHealthy"),
            number(status, "currentHealthy")
        )));
    }
    status["disruptionsAllowed"] = json!(allowed - 1);
    if !status["disruptedPods"].is_object() {
        status["disruptedPods"] = json!({});
    }
    status["disruptedPods"][pod] = json!(now);
    if allowed == 1 {
        let condition = json!({
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": "InsufficientPods",
            "message": "",
            "observedGeneration": status["observedGeneration"],
            "lastTransitionTime": now,
        });
        pods::set_condition(budget, condition);
    }
    Ok(())
}

fn refused(why: String) -> Failure {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let causes = vec![Cause::new("DisruptionBudget", why, "")];
    Failure::new(429, "TooManyRequests", message).with_details(Details { causes, ..Details::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::built_in;

    fn budget(allowed: i64, observed: i64) -> Value {
        json!({
            "metadata": { "name": "all", "generation": 2 },
            "spec": { "selector": { "matchLabels": { "app": "web" } } },
            "status": {
                "observedGeneration": observed, "disruptionsAllowed": allowed, "desiredHealthy": 1, "currentHealthy": 2,
            },
        })
    }

    fn decremented(budget: &mut Value) -> Result<(), (u16, String, Option<u32>)> {
        let resource = built_in("policy", "poddisruptionbudgets");
        decrement(&resource, budget, "one", "2026-01-01T00:00:00Z").map_err(|failure| {
            let details = failure.details.unwrap();
            (failure.code, details.causes[0].message.clone(), details.retry_after_seconds)
        })
    }

    #[test]
    fn a_budget_gives_what_it_has_and_then_refuses() {
        let mut all = budget(1, 2);
        decremented(&mut all).unwrap();
        assert_eq!(all["status"]["disruptionsAllowed"], 0);
        assert_eq!(all["status"]["disruptedPods"], json!({ "one": "2026-01-01T00:00:00Z" }));
        assert_eq!(all["status"]["conditions"][0]["reason"], "InsufficientPods");
        let (code, why, _) = decremented(&mut all).unwrap_err();
        assert_eq!(
            (code, why.as_str()),
            (429, "The disruption budget all needs 1 healthy pods and has 2 currently")
        );
    }

    #[test]
    fn a_budget_that_was_not_counted_again_gives_nothing_yet() {
        let (code, why, again) = decremented(&mut budget(5, 1)).unwrap_err();
        assert_eq!((code, again), (429, Some(SOON)));
        assert_eq!(why, "The disruption budget all is still being processed by the server.");
    }

    #[test]
    fn a_budget_covers_the_pods_it_selects() {
        let pod = |app: &str| json!({ "metadata": { "labels": { "app": app } } });
        assert!(covers(&budget(1, 2), &pod("web")));
        assert!(!covers(&budget(1, 2), &pod("other")));
    }
}
