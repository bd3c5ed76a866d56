//! What a user may do: what a node needs, for nodes (`nodes`), and role-based access control over the stored roles and
//! bindings, for everybody.
//!
//! Rules only ever allow; what no rule allows is denied. Roles are compiled once and again when one of the four
//! collections has changed, so a decision costs a walk over the bindings that apply and no parsing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use pilothouse_runtime::TaskError;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::references::References;
use crate::authentication::User;
use crate::follow::follow;
use crate::server::Server;
use crate::storage::Cache;

mod coverage;
mod nodes;
mod references;

pub(crate) use coverage::quoted;
pub(crate) use nodes::{LEASES, node_name, reason as reason_for_node};

/// Beyond all rules, so that nobody can lock the administrator out.
const MASTERS: &str = "system:masters";
/// How long what nodes need may wait before it is brought up to date without anybody asking.
const REST: Duration = Duration::from_millis(200);
const COLLECTIONS: [&str; 4] = [
    "clusterroles.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
];

/// What somebody wants to do.
#[derive(Clone, Debug)]
pub(crate) enum Attributes<'a> {
    Resource(ResourceAttributes<'a>),
    Path { verb: &'a str, path: &'a str },
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ResourceAttributes<'a> {
    pub(crate) verb: &'a str,
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: Option<&'a str>,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    /// The field selector of a list or watch.
    pub(crate) fields: Option<&'a str>,
}

#[derive(Debug, Default)]
pub(crate) struct Authorizer {
    compiled: ArcSwap<Compiled>,
    references: References,
}

#[derive(Debug, Default)]
struct Compiled {
    /// The versions of the four collections it was made from.
    of: [u64; 4],
    cluster: Vec<Grant>,
    namespaces: HashMap<String, Vec<Grant>>,
}

/// What somebody may do in a namespace, as reviews show it.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) resources: Vec<Value>,
    pub(crate) paths: Vec<Value>,
}

/// Somebody's permission.
#[derive(Debug)]
struct Grant {
    subjects: Vec<Subject>,
    rules: Arc<Vec<Rule>>,
}

#[derive(Debug, Deserialize)]
struct Subject {
    kind: String,
    name: String,
    #[serde(default)]
    namespace: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rule {
    verbs: Vec<String>,
    api_groups: Vec<String>,
    resources: Vec<String>,
    resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    paths: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Role {
    metadata: Metadata,
    #[serde(default)]
    rules: Option<Vec<Rule>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Binding {
    metadata: Metadata,
    #[serde(default)]
    subjects: Option<Vec<Subject>>,
    role_ref: RoleReference,
}

#[derive(Debug, Deserialize)]
struct RoleReference {
    kind: String,
    name: String,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
}

/// Keeps what is known of nodes from falling behind, until shutdown.
pub(crate) async fn run(server: Arc<Server>) -> Result<(), TaskError> {
    let (through, shutdown) = (server.storage.cache().subscribe(), server.shutdown.clone());
    let stamp = || server.storage.cache().through();
    let pass = async || {
        server.authorizer.references.keep_up(server.storage.cache());
        Ok(())
    };
    follow("what nodes need", through, shutdown, REST, stamp, pass).await
}

impl Authorizer {
    pub(crate) fn allows(&self, cache: &Cache, user: &User, attributes: &Attributes<'_>) -> bool {
        if user.is_in(MASTERS) {
            return true;
        }
        if let Some(node) = node_name(user)
            && nodes::allows(&self.references, cache, node, attributes)
        {
            return true;
        }
        let compiled = self.current(cache);
        let namespace = match attributes {
            Attributes::Resource(ResourceAttributes { namespace: Some(namespace), .. }) => *namespace,
            _ => "",
        };
        let within = compiled.namespaces.get(namespace).into_iter().flatten();
        // Most requests are allowed by a rule for the whole cluster, if at all; so those first.
        compiled
            .cluster
            .iter()
            .chain(within)
            .any(|grant| grant.concerns(user) && grant.rules.iter().any(|rule| rule.allows(attributes)))
    }

    /// Every rule that applies to a user in a namespace, those for the whole cluster first.
    pub(crate) fn rules(&self, cache: &Cache, user: &User, namespace: &str) -> Rules {
        let mut rules = Rules::default();
        if user.is_in(MASTERS) {
            rules.add_resources(&Rule::everything());
            rules.add_paths(&Rule::everything());
        }
        let compiled = self.current(cache);
        let concerning = |grant: &&Grant| grant.concerns(user);
        for rule in compiled.cluster.iter().filter(concerning).flat_map(|grant| grant.rules.iter()) {
            rules.add_resources(rule);
            rules.add_paths(rule);
        }
        let within = compiled.namespaces.get(namespace).into_iter().flatten().filter(concerning);
        for rule in within.flat_map(|grant| grant.rules.iter()) {
            // Paths lie in no namespace, so a role that is bound in one does not open any.
            rules.add_resources(rule);
        }
        rules
    }

    fn current(&self, cache: &Cache) -> Arc<Compiled> {
        let of = COLLECTIONS.map(|collection| cache.touched(collection));
        let compiled = self.compiled.load_full();
        if compiled.of == of {
            return compiled;
        }
        let compiled = Arc::new(Compiled::new(cache, of));
        self.compiled.store(Arc::clone(&compiled));
        compiled
    }
}

impl Compiled {
    fn new(cache: &Cache, of: [u64; 4]) -> Self {
        let [cluster_roles, cluster_bindings, roles, bindings] = COLLECTIONS;
        let rules: HashMap<(String, String), Arc<Vec<Rule>>> = [cluster_roles, roles]
            .into_iter()
            .flat_map(|collection| read::<Role>(cache, collection))
            .map(|role| {
                let Metadata { name, namespace } = role.metadata;
                ((namespace, name), Arc::new(role.rules.unwrap_or_default()))
            })
            .collect();
        let grant = |binding: Binding| {
            let RoleReference { kind, name } = binding.role_ref;
            let namespace = if kind == "Role" { binding.metadata.namespace } else { String::new() };
            // A binding to a role that does not exist grants nothing, until it does.
            let rules = rules.get(&(namespace, name))?;
            Some(Grant { subjects: binding.subjects.unwrap_or_default(), rules: Arc::clone(rules) })
        };
        let cluster = read(cache, cluster_bindings).into_iter().filter_map(grant).collect();
        let mut namespaces: HashMap<String, Vec<Grant>> = HashMap::new();
        for binding in read::<Binding>(cache, bindings) {
            let namespace = binding.metadata.namespace.clone();
            if let Some(grant) = grant(binding) {
                namespaces.entry(namespace).or_default().push(grant);
            }
        }
        Self { of, cluster, namespaces }
    }
}

fn read<T: DeserializeOwned>(cache: &Cache, collection: &str) -> Vec<T> {
    let snapshot = cache.snapshot(&format!("{collection}/"));
    snapshot.objects.iter().filter_map(|(_, bytes)| serde_json::from_slice(bytes).ok()).collect()
}

impl Grant {
    fn concerns(&self, user: &User) -> bool {
        self.subjects.iter().any(|subject| match subject.kind.as_str() {
            "User" => subject.name == user.name,
            "Group" => user.is_in(&subject.name),
            "ServiceAccount" => user
                .name
                .strip_prefix("system:serviceaccount:")
                .and_then(|account| account.split_once(':'))
                .is_some_and(|(namespace, name)| namespace == subject.namespace && name == subject.name),
            _ => false,
        })
    }
}

impl Rules {
    fn add_resources(&mut self, rule: &Rule) {
        if rule.resources.is_empty() {
            return;
        }
        let mut shown = json!({
            "verbs": rule.verbs,
            "apiGroups": rule.api_groups,
            "resources": rule.resources,
        });
        if !rule.resource_names.is_empty() {
            shown["resourceNames"] = json!(rule.resource_names);
        }
        self.resources.push(shown);
    }

    fn add_paths(&mut self, rule: &Rule) {
        if !rule.paths.is_empty() {
            self.paths.push(json!({ "verbs": rule.verbs, "nonResourceURLs": rule.paths }));
        }
    }
}

impl Rule {
    fn everything() -> Self {
        let all = || vec!["*".to_owned()];
        Self { verbs: all(), api_groups: all(), resources: all(), resource_names: Vec::new(), paths: all() }
    }

    fn allows(&self, attributes: &Attributes<'_>) -> bool {
        let any = |allowed: &[String], wanted: &str| allowed.iter().any(|one| one == "*" || one == wanted);
        match attributes {
            Attributes::Path { verb, path } => {
                any(&self.verbs, verb) && self.paths.iter().any(|allowed| covers(allowed, path))
            }
            Attributes::Resource(wanted) => {
                any(&self.verbs, wanted.verb)
                    && any(&self.api_groups, wanted.group)
                    && self.resources.iter().any(|allowed| wanted.is(allowed))
                    && (self.resource_names.is_empty()
                        || wanted.name.is_some_and(|name| self.resource_names.iter().any(|one| one == name)))
            }
        }
    }
}

/// Whether a path is the allowed one, or below it if that ends in a star.
fn covers(allowed: &str, path: &str) -> bool {
    allowed.strip_suffix('*').map_or(allowed == path, |start| path.starts_with(start))
}

impl ResourceAttributes<'_> {
    /// Whether a rule's word for resources means this one.
    fn is(&self, allowed: &str) -> bool {
        match (allowed.split_once('/'), self.subresource) {
            _ if allowed == "*" => true,
            (None, None) => allowed == self.resource,
            (Some((resource, subresource)), Some(wanted)) => {
                (resource == "*" || resource == self.resource) && subresource == wanted
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> Rule {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Rule {
            verbs: owned(verbs),
            api_groups: owned(groups),
            resources: owned(resources),
            resource_names: owned(names),
            paths: Vec::new(),
        }
    }

    fn wanted<'a>(
        verb: &'a str,
        resource: &'a str,
        subresource: Option<&'a str>,
        name: Option<&'a str>,
    ) -> Attributes<'a> {
        Attributes::Resource(ResourceAttributes {
            verb,
            resource,
            subresource,
            name,
            ..ResourceAttributes::default()
        })
    }

    #[test]
    fn a_rule_allows_what_it_names_and_nothing_beside() {
        let pods = rule(&["get"], &[""], &["pods"], &[]);
        assert!(pods.allows(&wanted("get", "pods", None, Some("a"))));
        assert!(!pods.allows(&wanted("list", "pods", None, None)));
        assert!(!pods.allows(&wanted("get", "pods", Some("log"), Some("a"))));
        assert!(rule(&["*"], &["*"], &["pods/log"], &[]).allows(&wanted("get", "pods", Some("log"), None)));
        assert!(rule(&["*"], &["*"], &["*/log"], &[]).allows(&wanted("get", "pods", Some("log"), None)));
        assert!(!rule(&["get"], &["apps"], &["*"], &[]).allows(&wanted("get", "pods", None, None)));
    }

    #[test]
    fn a_rule_for_names_does_not_allow_what_has_none() {
        let one = rule(&["*"], &[""], &["secrets"], &["mine"]);
        assert!(one.allows(&wanted("get", "secrets", None, Some("mine"))));
        assert!(!one.allows(&wanted("get", "secrets", None, Some("yours"))));
        assert!(!one.allows(&wanted("create", "secrets", None, None)));
        assert!(!one.allows(&wanted("list", "secrets", None, None)));
    }

    #[test]
    fn a_star_at_the_end_of_a_path_covers_what_is_below() {
        for (allowed, path, expected) in [
            ("/healthz", "/healthz", true),
            ("/healthz", "/healthz/a", false),
            ("/apis/*", "/apis/a", true),
            ("*", "/x", true),
        ] {
            assert_eq!(covers(allowed, path), expected, "{allowed} {path}");
        }
    }
}
