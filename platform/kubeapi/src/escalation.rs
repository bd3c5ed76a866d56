//! Nobody grants what they do not have: the check on roles and bindings.
//!
//! `system:masters` may do everything; so may, for a role, who has the verb `escalate` on it, and, for a binding, who has the
//! verb `bind` on its role.

use serde_json::{Value, json};

use crate::authentication::User;
use crate::authorization::{Attributes, ResourceAttributes, quoted};
use crate::catalogue::Resource;
use crate::server::Server;
use crate::status::Failure;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Whether this user may write this role or binding. Everything else passes.
pub(crate) fn admit(
    server: &Server,
    user: &User,
    resource: &Resource,
    namespace: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), Failure> {
    if resource.group.as_ref() != GROUP || user.is_in("system:masters") {
        return Ok(());
    }
    if old.is_some_and(|old| only_collected(old, new)) {
        return Ok(());
    }
    let check = Check {
        server,
        user,
        resource,
        namespace,
        name: new["metadata"]["name"].as_str().unwrap_or_default(),
    };
    match resource.plural.ends_with("bindings") {
        true => check.binding(&new["roleRef"]),
        false => check.role(new, old),
    }
}

struct Check<'a> {
    server: &'a Server,
    user: &'a User,
    resource: &'a Resource,
    namespace: &'a str,
    name: &'a str,
}

impl Check<'_> {
    fn role(&self, new: &Value, old: Option<&Value>) -> Result<(), Failure> {
        // On creation the name is not part of what is asked for.
        let name = old.is_some().then_some(self.name);
        if self.allows("escalate", &self.resource.plural, name) {
            return Ok(());
        }
        self.covered(&new["rules"])?;
        let aggregation = &new["aggregationRule"];
        let has = aggregation["clusterRoleSelectors"].as_array().is_some_and(|all| !all.is_empty());
        let same = old.is_some_and(|old| old["aggregationRule"] == *aggregation);
        if has && !same {
            // It can gather anything.
            let everything = json!([
                { "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] },
                { "nonResourceURLs": ["*"], "verbs": ["*"] },
            ]);
            if !self.missing(&everything).is_empty() {
                let why = "must have cluster-admin privileges to use the aggregationRule";
                return Err(Failure::forbidden(self.resource, self.name, why));
            }
        }
        Ok(())
    }

    fn binding(&self, reference: &Value) -> Result<(), Failure> {
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let (plural, namespace) = match text("kind") {
            "ClusterRole" => ("clusterroles", ""),
            "Role" => ("roles", self.namespace),
            // Refused for what it says, elsewhere.
            _ => return Ok(()),
        };
        if self.allows("bind", plural, Some(text("name"))) {
            return Ok(());
        }
        let key = format!("{plural}.{GROUP}/{namespace}/{}", text("name"));
        let role = self.server.storage.cache().get(&key);
        let Some(role) = role.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok()) else {
            // Under the name of what was asked for, as clients know it.
            return Err(Failure::not_found(self.resource, text("name")));
        };
        self.covered(&role["rules"])
    }

    fn covered(&self, rules: &Value) -> Result<(), Failure> {
        let missing = self.missing(rules);
        if missing.is_empty() {
            return Ok(());
        }
        let why = format!(
            "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            self.user.name,
            quoted(&self.user.groups),
            missing.join("\n")
        );
        Err(Failure::forbidden(self.resource, self.name, why))
    }

    fn missing(&self, rules: &Value) -> Vec<String> {
        let cache = self.server.storage.cache();
        self.server.authorizer.missing(cache, self.user, self.namespace, rules)
    }

    fn allows(&self, verb: &str, plural: &str, name: Option<&str>) -> bool {
        let attributes = Attributes::Resource(ResourceAttributes {
            verb,
            group: GROUP,
            resource: plural,
            subresource: None,
            namespace: Some(self.namespace).filter(|namespace| !namespace.is_empty()),
            name,
            fields: None,
        });
        self.server.authorizer.allows(self.server.storage.cache(), self.user, &attributes)
    }
}

/// Whether only what the garbage collector needs was changed.
fn only_collected(old: &Value, new: &Value) -> bool {
    let bare = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for field in ["ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation"] {
                metadata.remove(field);
            }
        }
        object
    };
    bare(old) == bare(new)
}
