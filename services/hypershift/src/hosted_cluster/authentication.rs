//! Whose tokens a hosted cluster's API server believes: `spec.configuration.authentication`, and the file that tells the API
//! server.
//!
//! The file is an `AuthenticationConfiguration`, which kube-apiserver reads as well as ours. Whatever the specification asks
//! for beyond what is written here is refused: an API server that leaves out a rule lets in whom it should not.

use serde::Deserialize;
use serde_json::{Value, json};

use super::references::Sources;
use super::refusal::Refusal;

/// The ConfigMap with the file, in the namespace of the control plane.
pub(crate) const CONFIG_MAP: &str = "auth-config";
/// The file in it.
pub(crate) const FILE: &str = "auth.json";
/// Where the specification speaks of it.
const FIELD: &str = "spec.configuration.authentication";

/// Those who issue tokens that are to be believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Providers(Vec<Provider>);

/// `spec.configuration.authentication`, as far as it is carried out here.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Authentication {
    #[serde(rename = "type")]
    type_: String,
    oidc_providers: Vec<Provider>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Provider {
    #[serde(default)]
    name: String,
    issuer: Issuer,
    claim_mappings: ClaimMappings,
    #[serde(default)]
    claim_validation_rules: Vec<ClaimValidationRule>,
    /// Who asks for tokens; the API server has nothing to do with that.
    #[serde(default)]
    oidc_clients: Vec<Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Issuer {
    #[serde(rename = "issuerURL")]
    issuer_url: String,
    audiences: Vec<String>,
    #[serde(default)]
    issuer_certificate_authority: Named,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimMappings {
    username: Username,
    #[serde(default)]
    groups: Option<Groups>,
    #[serde(default)]
    uid: Option<Uid>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Username {
    claim: String,
    #[serde(default)]
    prefix_policy: String,
    #[serde(default)]
    prefix: Option<Prefix>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Prefix {
    prefix_string: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Groups {
    claim: String,
    #[serde(default)]
    prefix: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Uid {
    claim: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ClaimValidationRule {
    #[serde(rename = "type")]
    type_: String,
    #[serde(default)]
    required_claim: Option<RequiredClaim>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RequiredClaim {
    claim: String,
    required_value: String,
}

// === impl Providers ===

impl Providers {
    /// Reads `spec.configuration`. None if nobody is to be believed beside the cluster itself.
    pub(crate) fn read(configuration: &Value, own_issuer: &str) -> Result<Option<Self>, Refusal> {
        let authentication = &configuration["authentication"];
        if authentication.is_null() {
            return Ok(None);
        }
        let Authentication { type_, oidc_providers } = Authentication::deserialize(authentication)
            .map_err(|error| Refusal::invalid(format!("{FIELD}: {error}")))?;
        match (type_.as_str(), oidc_providers.is_empty()) {
            ("OIDC", false) => {}
            ("OIDC", true) => {
                return Err(refused("oidcProviders", "type OIDC needs at least one"));
            }
            (_, true) => return Ok(None),
            (other, false) => {
                return Err(refused("oidcProviders", &format!("go with type OIDC, not with `{other}`")));
            }
        }
        for (index, provider) in oidc_providers.iter().enumerate() {
            let field = format!("oidcProviders[{index}]");
            provider.check(&field, own_issuer)?;
            let others = &oidc_providers[..index];
            if others.iter().any(|other| other.issuer.issuer_url == provider.issuer.issuer_url) {
                return Err(refused(&format!("{field}.issuer.issuerURL"), "is another provider's, too"));
            }
            if others.iter().any(|other| other.name == provider.name) {
                return Err(refused(&format!("{field}.name"), "is another provider's, too"));
            }
        }
        Ok(Some(Self(oidc_providers)))
    }

    /// What people read about them.
    pub(crate) fn urls(&self) -> String {
        let urls: Vec<_> = self.0.iter().map(|provider| provider.issuer.issuer_url.as_str()).collect();
        urls.join(", ")
    }

    /// The file. None as long as the authorities of one of the issuers are not known.
    pub(crate) fn file(&self, sources: &Sources) -> Option<String> {
        let jwt: Option<Vec<_>> = self.0.iter().map(|provider| provider.to_file(sources)).collect();
        let file = json!({
            "apiVersion": "apiserver.config.k8s.io/v1beta1",
            "kind": "AuthenticationConfiguration",
            "jwt": jwt?,
        });
        Some(file.to_string())
    }
}

// === impl Provider ===

impl Provider {
    fn check(&self, field: &str, own_issuer: &str) -> Result<(), Refusal> {
        let wrong = |name: &str, problem: &str| Err(refused(&format!("{field}.{name}"), problem));
        let url = &self.issuer.issuer_url;
        let is_address = url.parse::<url::Url>().is_ok_and(|url| {
            let plain = url.username().is_empty() && url.password().is_none();
            url.scheme() == "https" && url.query().is_none() && url.fragment().is_none() && plain
        });
        if !is_address {
            return wrong(
                "issuer.issuerURL",
                &format!("`{url}` is no `https` address without user, query and fragment"),
            );
        }
        if url == own_issuer {
            return wrong(
                "issuer.issuerURL",
                "is spec.issuerURL, which issues the tokens of service accounts",
            );
        }
        if self.issuer.audiences.is_empty() || self.issuer.audiences.iter().any(String::is_empty) {
            return wrong("issuer.audiences", "needs at least one, and none that is empty");
        }
        let Username { claim, prefix_policy, prefix } = &self.claim_mappings.username;
        if claim.is_empty() {
            return wrong("claimMappings.username.claim", "is empty");
        }
        let has_prefix = prefix.as_ref().is_some_and(|prefix| !prefix.prefix_string.is_empty());
        match (prefix_policy.as_str(), has_prefix) {
            ("Prefix", true) | ("NoPrefix" | "", false) => {}
            ("Prefix", false) => {
                return wrong("claimMappings.username.prefix", "prefixPolicy Prefix needs prefixString");
            }
            ("NoPrefix" | "", true) => {
                return wrong("claimMappings.username.prefix", "goes with prefixPolicy Prefix only");
            }
            (other, _) => {
                let problem = format!("`{other}` is neither Prefix nor NoPrefix, nor empty");
                return wrong("claimMappings.username.prefixPolicy", &problem);
            }
        }
        for (index, rule) in self.claim_validation_rules.iter().enumerate() {
            let named = rule.required_claim.as_ref().is_some_and(|required| !required.claim.is_empty());
            if rule.type_ != "RequiredClaim" || !named {
                let name = format!("claimValidationRules[{index}]");
                return wrong(
                    &name,
                    "only type RequiredClaim, with requiredClaim.claim, is carried out here",
                );
            }
        }
        Ok(())
    }

    fn to_file(&self, sources: &Sources) -> Option<Value> {
        let Issuer { issuer_url, audiences, issuer_certificate_authority } = &self.issuer;
        let mut issuer = json!({
            "url": issuer_url, "audiences": audiences, "audienceMatchPolicy": "MatchAny",
        });
        if !issuer_certificate_authority.name.is_empty() {
            issuer["certificateAuthority"] =
                json!(sources.issuer_authority(&issuer_certificate_authority.name)?);
        }
        let username = &self.claim_mappings.username;
        let mut mappings =
            json!({ "username": { "claim": username.claim, "prefix": self.username_prefix() } });
        if let Some(groups) = self.claim_mappings.groups.as_ref().filter(|groups| !groups.claim.is_empty()) {
            mappings["groups"] = json!({ "claim": groups.claim, "prefix": groups.prefix });
        }
        if let Some(uid) = &self.claim_mappings.uid {
            mappings["uid"] = json!({ "claim": uid.claim });
        }
        let required = self.claim_validation_rules.iter().filter_map(|rule| rule.required_claim.as_ref());
        let rules: Vec<_> = required
            .map(|required| json!({ "claim": required.claim, "requiredValue": required.required_value }))
            .collect();
        Some(json!({
            "issuer": issuer,
            "claimMappings": mappings,
            "claimValidationRules": rules,
            // Whoever writes an issuer's groups would otherwise be the administrator of every cluster that believes it.
            "userValidationRules": [
                {
                    "expression": "!user.username.startsWith('system:')",
                    "message": "users of `system:` are Kubernetes' own",
                },
                {
                    "expression": "user.groups.all(group, !group.startsWith('system:'))",
                    "message": "groups of `system:` are Kubernetes' own",
                },
            ],
        }))
    }

    /// As OpenShift has it: where nothing is said, names are told apart by their issuer, except addresses of mail.
    fn username_prefix(&self) -> String {
        let Username { claim, prefix_policy, prefix } = &self.claim_mappings.username;
        match prefix_policy.as_str() {
            "Prefix" => prefix.as_ref().map(|prefix| prefix.prefix_string.clone()).unwrap_or_default(),
            "NoPrefix" => String::new(),
            _ if claim == "email" => String::new(),
            _ => format!("{}#", self.issuer.issuer_url),
        }
    }
}

fn refused(field: &str, problem: &str) -> Refusal {
    Refusal::invalid(format!("{FIELD}.{field}: {problem}"))
}

#[cfg(test)]
mod tests;
