//! Who may use which topics, by what certificates say.
//!
//! A rule names identities, and the topics that they may use. In topics and client ids `{identity}` stands for the name in the
//! certificate, so that one rule is enough for a thousand clients each of which has topics of its own.

use pilothouse_http::PeerIdentity;
use serde::{Deserialize, Serialize};

use crate::access::{Access, Authorizer, Client};
use crate::error::Error;
use crate::topics::{self, Filter};

const IDENTITY: &str = "{identity}";

/// What some identities may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    /// Whom it is about: the common name of a certificate; one that ends in `*` is about all that begin so.
    pub identity: String,
    /// Under which ids they may connect, the same way; `{identity}` and whatever begins with `{identity}-` if nothing is
    /// said. Whoever is connected under the same id is put out, so nobody should have another's.
    pub client_ids: Vec<String>,
    /// Filters of the topics that they may send to.
    pub publish: Vec<String>,
    /// Filters of the topics that they may be sent.
    pub subscribe: Vec<String>,
}

impl Authorizer {
    /// Goes by rules: the first that is about an identity says everything about it. Whoever shows no certificate, or one
    /// that no rule is about, may do nothing.
    pub fn by_rules(rules: Vec<Rule>) -> Self {
        Self::new(move |client, access| {
            let Some(identity) = client.identity.as_ref().map(PeerIdentity::common_name) else {
                return false;
            };
            let rule = rules.iter().find(|rule| is_like(&rule.identity, identity));
            rule.is_some_and(|rule| is_plain(identity) && rule.allows(client, identity, access))
        })
    }
}

impl Rule {
    /// Whether it means something.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = |problem: String| Err(Error::Rule { identity: self.identity.clone(), problem });
        if self.identity.is_empty() {
            return wrong("name the identity that it is about, or `*` for all".to_owned());
        }
        for filter in self.publish.iter().chain(&self.subscribe) {
            // Any name that is put in is one level.
            let meant = filter.replace(IDENTITY, "name");
            if meant.starts_with("$share/") || Filter::parse(&meant).is_none() {
                return wrong(format!(
                    "`{filter}` is no filter of topics; such as `sources/maestro/consumers/{IDENTITY}/agentevents`"
                ));
            }
            if let Some(other) = meant.split('/').find(|level| level.contains(['{', '}'])) {
                return wrong(format!(
                    "`{other}` in `{filter}` stands for nothing; `{IDENTITY}` is the name in the certificate"
                ));
            }
        }
        if self.publish.is_empty() && self.subscribe.is_empty() {
            return wrong("it allows nothing; name topics in `publish` or `subscribe`".to_owned());
        }
        Ok(())
    }

    fn allows(&self, client: &Client, identity: &str, access: Access<'_>) -> bool {
        let meant = |pattern: &String| pattern.replace(IDENTITY, identity);
        match access {
            Access::Connect if self.client_ids.is_empty() => {
                client.id.strip_prefix(identity).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            }
            Access::Connect => self.client_ids.iter().any(|pattern| is_like(&meant(pattern), &client.id)),
            Access::Publish(topic) => self.publish.iter().any(|filter| topics::covers(&meant(filter), topic)),
            Access::Subscribe(filter) => {
                self.subscribe.iter().any(|allowed| topics::covers(&meant(allowed), filter))
            }
        }
    }
}

fn is_like(pattern: &str, text: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => text.starts_with(beginning),
        None => pattern == text,
    }
}

/// Whether a name means nothing else when it is put into a topic.
fn is_plain(identity: &str) -> bool {
    !identity.is_empty() && !identity.contains(['/', '+', '#', '*', '$', '{', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn rules_that_mean_nothing_are_refused() {
        let rule = |identity: &str, publish: &str| Rule {
            identity: identity.to_owned(),
            publish: vec![publish.to_owned()],
            ..Rule::default()
        };
        assert!(rule("*", "consumers/{identity}/#").check().is_ok());
        for odd in ["", "a/#/b", "a+", "$share/group/a", "consumers/{name}/a"] {
            let refused = rule("one", odd).check().unwrap_err().to_string();
            assert!(refused.contains("the rule about `one`"), "{odd}: {refused}");
        }
        assert!(rule("", "a").check().is_err());
        assert!(Rule { identity: "one".to_owned(), ..Rule::default() }.check().is_err());
    }

    #[test]
    fn rules_need_names_and_names_need_rules() {
        let tls = pilothouse_http::TlsFiles {
            certificate: "a".into(),
            key: "b".into(),
            client_authorities: Some("c".into()),
        };
        let rules = vec![Rule { identity: "*".to_owned(), publish: vec!["a".to_owned()], ..Rule::default() }];
        let config = |tls, rules| Config { tls, rules, ..Config::default() };
        assert!(config(None, Vec::new()).authorizer().is_ok());
        assert!(config(Some(tls.clone()), rules.clone()).authorizer().is_ok());
        let refused = config(Some(tls), Vec::new()).authorizer().unwrap_err();
        assert!(matches!(refused, Error::NoRules), "{refused}");
        let refused = config(None, rules).authorizer().unwrap_err();
        assert!(matches!(refused, Error::NobodyIsKnown), "{refused}");
    }

    #[test]
    fn rule_is_about_one_identity_or_all_that_begin_alike() {
        assert!(is_like("maestro", "maestro") && !is_like("maestro", "maestro-1"));
        assert!(is_like("maestro-*", "maestro-1") && is_like("*", "anybody"));
        for odd in ["", "a/b", "+", "#", "a*", "$SYS"] {
            assert!(!is_plain(odd), "{odd}");
        }
    }

    #[test]
    fn topics_of_others_are_not_covered() {
        let own = "sources/maestro/consumers/one/sourceevents";
        assert!(topics::covers(own, own));
        for other in [
            "sources/maestro/consumers/two/sourceevents",
            "sources/maestro/consumers/+/sourceevents",
            "sources/maestro/consumers/one/#",
            "sources/maestro/consumers/one",
            "sources/#",
            "#",
        ] {
            assert!(!topics::covers(own, other), "{other}");
        }
        assert!(topics::covers("a/+/c", "a/b/c") && topics::covers("a/+/c", "a/+/c"));
        assert!(!topics::covers("a/+/c", "a/#") && !topics::covers("a/+", "a/b/c"));
        assert!(topics::covers("a/#", "a/b/c") && topics::covers("a/#", "a/#") && topics::covers("a/#", "a"));
        assert!(!topics::covers("#", "$SYS/broker") && topics::covers("$SYS/#", "$SYS/broker"));
    }
}
