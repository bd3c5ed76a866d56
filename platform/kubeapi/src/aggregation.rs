//! Cluster roles that gather the rules of others.
//!
//! One task looks whenever a cluster role has changed, and writes the gathered rules into each role that has an
//! `aggregationRule`. Whoever reads or checks such a role sees its rules like those of any other.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_runtime::TaskError;
use serde_json::{Value, json};

use crate::follow::follow;
use crate::patch::managed_fields;
use crate::selector::LabelSelector;
use crate::server::Server;
use crate::status::Failure;
use crate::storage::WriteError;

const GROUP: &str = "rbac.authorization.k8s.io";
const COLLECTION: &str = "clusterroles.rbac.authorization.k8s.io";
const MANAGER: &str = "clusterrole-aggregation-controller";

/// Keeps the gathered rules up to date until shutdown.
pub(crate) async fn run(server: Arc<Server>) -> Result<(), TaskError> {
    let (through, shutdown) = (server.storage.cache().subscribe(), server.shutdown.clone());
    let stamp = || server.storage.cache().touched(COLLECTION);
    follow("aggregated cluster roles", through, shutdown, Duration::ZERO, stamp, || pass(&server)).await
}

async fn pass(server: &Arc<Server>) -> Result<(), Failure> {
    let resource = server.built_in(GROUP, "clusterroles")?;
    let snapshot = server.storage.cache().snapshot(&format!("{COLLECTION}/"));
    let mut roles: Vec<Value> =
        snapshot.objects.iter().filter_map(|(_, bytes)| serde_json::from_slice(bytes).ok()).collect();
    roles.sort_by_cached_key(|role| role["metadata"]["name"].as_str().unwrap_or_default().to_owned());
    for role in roles.iter().filter(|role| !role["aggregationRule"].is_null()) {
        let rules = gathered(role, &roles);
        if same(&role["rules"], &rules) {
            continue;
        }
        let name = role["metadata"]["name"].as_str().unwrap_or_default();
        let Some(stored) = server.storage.get(&resource, "", name).await? else { continue };
        let mut wanted = stored.value.clone();
        wanted["rules"] = json!(rules);
        let now = server.clock.now();
        managed_fields::track(&resource, None, Some(&stored.value), &mut wanted, MANAGER, now);
        match server.storage.replace(&resource, &stored, &wanted).await {
            // One that was changed meanwhile has woken this task again.
            Ok(_) | Err(WriteError::Changed | WriteError::Exists | WriteError::NamespaceChanged) => {}
            Err(WriteError::Failed(failure)) => return Err(failure),
        }
    }
    Ok(())
}

/// The rules of all roles that a role selects, each once.
pub(crate) fn gathered(role: &Value, roles: &[Value]) -> Vec<Value> {
    let mut rules: Vec<Value> = Vec::new();
    for selector in role["aggregationRule"]["clusterRoleSelectors"].as_array().into_iter().flatten() {
        let Some(selector) = LabelSelector::from_object(selector) else { continue };
        let others = roles.iter().filter(|one| one["metadata"]["name"] != role["metadata"]["name"]);
        for other in others.filter(|one| selector.matches(one)) {
            for rule in other["rules"].as_array().into_iter().flatten() {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    rules
}

fn same(current: &Value, wanted: &[Value]) -> bool {
    match current.as_array() {
        Some(current) => current.as_slice() == wanted,
        None => wanted.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_gathers_what_its_selectors_match_and_nothing_twice() {
        let role = |name: &str, group: &str, rules: Value| json!({ "metadata": { "name": name, "labels": { "for": group } }, "rules": rules });
        let (one, two) = (json!({ "verbs": ["get"] }), json!({ "verbs": ["list"] }));
        let mut all = vec![
            role("a", "view", json!([one, two])),
            role("b", "view", json!([two])),
            role("c", "edit", json!([{ "verbs": ["delete"] }])),
        ];
        let view = json!({
            "metadata": { "name": "view", "labels": { "for": "view" } },
            "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { "for": "view" } }] },
            "rules": [{ "verbs": ["old"] }],
        });
        all.push(view.clone());
        assert_eq!(gathered(&view, &all), [one, two]);
    }
}
