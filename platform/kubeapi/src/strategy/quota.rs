//! Resource quotas.

use pilothouse_cel::Quantity;
use serde_json::Value;

use crate::status::Cause;

/// Amounts that only come in whole numbers.
const WHOLE: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

pub(super) fn validate(new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (name, amount) in new["spec"]["hard"].as_object().into_iter().flatten() {
        let Some(Ok(parsed)) = amount.as_str().map(Quantity::parse) else { continue };
        let field = format!("spec.hard[{name}]");
        if parsed.zero().exceeds(parsed) {
            causes.push(Cause::invalid(field.clone(), amount, "must be greater than or equal to 0"));
        }
        let counted = WHOLE.contains(&name.as_str()) || name.starts_with("count/");
        if counted && !parsed.is_whole() {
            causes.push(Cause::invalid(field, amount, "must be an integer"));
        }
    }
    causes
}
