//! The names that lead to the customer's resources. They become parts of paths in the cloud, so each has to look as ARM has it
//! before anything is asked of anybody.

use pilothouse_arm::SubscriptionId;
use pilothouse_clusters_service_api::Azure;

use crate::refusal::Refusal;

/// How long ARM lets the name of a group be, and that of a cluster.
const LONGEST_GROUP: usize = 90;
const LONGEST_CLUSTER: usize = 54;

/// Checks the names of the ARM resource and of the group that is made for it.
pub(super) fn names(azure: &Azure) -> Result<(), Refusal> {
    if azure.subscription_id.parse::<SubscriptionId>().is_err() {
        let problem = "it has to be a UUID such as `11111111-2222-3333-4444-555555555555`";
        return Err(Refusal::field("azure.subscription_id", problem));
    }
    for (field, name) in [
        ("azure.resource_group_name", &azure.resource_group_name),
        ("azure.managed_resource_group_name", &azure.managed_resource_group_name),
    ] {
        if !is_group(name) {
            let problem = format!(
                "use at most {LONGEST_GROUP} letters, digits and `_`, `-`, `.`, `(`, `)`, and no `.` at the end"
            );
            return Err(Refusal::field(field, problem));
        }
    }
    if !is_cluster(&azure.resource_name) {
        let problem = format!(
            "use at most {LONGEST_CLUSTER} letters, digits and hyphens, beginning with a letter and not ending with a hyphen"
        );
        return Err(Refusal::field("azure.resource_name", problem));
    }
    Ok(())
}

fn is_group(name: &str) -> bool {
    (1..=LONGEST_GROUP).contains(&name.chars().count())
        && !name.ends_with('.')
        && name.chars().all(|character| character.is_alphanumeric() || "_-.()".contains(character))
}

fn is_cluster(name: &str) -> bool {
    name.len() <= LONGEST_CLUSTER
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && !name.ends_with('-')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}
