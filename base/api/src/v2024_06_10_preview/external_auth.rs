use pilothouse_arm::ProvisioningState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::hub;
use crate::invalid::Problems;
use crate::wire::Properties;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExternalAuthProperties {
    #[serde(flatten)]
    common: ExternalAuthCommon,
    /// What was observed.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    condition: Option<hub::Condition>,
}

/// What is the same in every version.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExternalAuthCommon {
    /// What it is at.
    #[serde(skip_deserializing)]
    provisioning_state: Option<ProvisioningState>,
    /// Who issues the tokens.
    #[schemars(required)]
    issuer: Option<Issuer>,
    /// Which programs log in with it.
    #[schemars(length(max = 20))]
    clients: Option<Vec<Client>>,
    /// What is read from a token.
    #[schemars(required)]
    claim: Option<Claim>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Issuer {
    /// Its address, which every token names.
    #[schemars(required, regex(pattern = r"^https://"))]
    url: Option<String>,
    /// For whom a token may be issued.
    #[schemars(required, length(min = 1, max = 10), inner(length(min = 1)))]
    audiences: Option<Vec<String>>,
    /// The certificates to know its address by, as PEM; the system's if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    ca: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Client {
    /// Which component it is.
    #[schemars(required)]
    component: Option<Component>,
    /// What the issuer calls it; one of its audiences.
    #[schemars(required, length(min = 1))]
    client_id: Option<String>,
    /// What it asks for beyond the usual.
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_scopes: Option<Vec<String>>,
    /// Whether it can keep a secret.
    #[serde(rename = "type")]
    #[schemars(required)]
    kind: Option<hub::ClientType>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Component {
    /// Its name.
    #[schemars(required, length(min = 1, max = 256))]
    name: Option<String>,
    /// Its namespace.
    #[schemars(required, length(min = 1, max = 63))]
    auth_client_namespace: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Claim {
    /// Where the user is in it.
    #[schemars(required)]
    mappings: Option<Mappings>,
    /// What must be in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    validation_rules: Option<Vec<Rule>>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Mappings {
    /// Where the user's name is.
    #[schemars(required)]
    username: Option<Username>,
    /// Where the user's groups are.
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<Groups>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Username {
    /// The claim.
    #[schemars(required, length(min = 1, max = 256))]
    claim: Option<String>,
    /// What is put before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<String>,
    /// Whether something is put before it.
    #[schemars(extend("default" = "None"))]
    prefix_policy: Option<hub::PrefixPolicy>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Groups {
    /// The claim.
    #[schemars(required, length(min = 1, max = 256))]
    claim: Option<String>,
    /// What is put before each.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Rule {
    /// What kind of rule it is.
    #[serde(rename = "type")]
    #[schemars(extend("default" = "RequiredClaim"))]
    kind: Option<RuleKind>,
    /// The claim that is required.
    required_claim: Option<Required>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
enum RuleKind {
    RequiredClaim,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Required {
    /// The claim.
    #[schemars(required, length(min = 1))]
    claim: Option<String>,
    /// Its value.
    #[schemars(required, length(min = 1))]
    required_value: Option<String>,
}

// === impl ExternalAuthProperties ===

impl Properties for ExternalAuthProperties {
    type Hub = hub::ExternalAuth;

    fn read(self, _: Option<&hub::ExternalAuthSpec>, problems: &mut Problems) -> hub::ExternalAuthSpec {
        let Self { common, condition: _ } = self;
        common.read(problems)
    }

    fn write(spec: &hub::ExternalAuthSpec, status: &hub::ExternalAuthStatus) -> Self {
        Self {
            common: ExternalAuthCommon::write(spec, status),
            condition: status.conditions.first().cloned(),
        }
    }
}

// === impl parts ===

impl ExternalAuthCommon {
    pub(crate) fn read(self, problems: &mut Problems) -> hub::ExternalAuthSpec {
        let Self { provisioning_state: _, issuer, clients, claim } = self;
        let Issuer { url, audiences, ca } = issuer.unwrap_or_default();
        hub::ExternalAuthSpec {
            issuer: hub::TokenIssuer {
                url: url.unwrap_or_default(),
                audiences: audiences.unwrap_or_default(),
                ca,
            },
            clients: clients.unwrap_or_default().into_iter().map(Client::read).collect(),
            claims: claim.unwrap_or_default().read(problems),
        }
    }

    pub(crate) fn write(spec: &hub::ExternalAuthSpec, status: &hub::ExternalAuthStatus) -> Self {
        let hub::ExternalAuthSpec { issuer, clients, claims } = spec.clone();
        let hub::TokenIssuer { url, audiences, ca } = issuer;
        // Where a version has them, conditions are beside this.
        let hub::ExternalAuthStatus { provisioning_state, conditions: _ } = status;
        Self {
            provisioning_state: Some(*provisioning_state),
            issuer: Some(Issuer { url: Some(url), audiences: Some(audiences), ca }),
            clients: Some(clients.into_iter().map(Client::write).collect()),
            claim: Some(Claim::write(claims)),
        }
    }
}

impl Client {
    fn read(self) -> hub::TokenClient {
        let Self { component, client_id, extra_scopes, kind } = self;
        let Component { name, auth_client_namespace } = component.unwrap_or_default();
        hub::TokenClient {
            component_name: name.unwrap_or_default(),
            component_namespace: auth_client_namespace.unwrap_or_default(),
            client_id: client_id.unwrap_or_default(),
            extra_scopes: extra_scopes.unwrap_or_default(),
            client_type: kind.unwrap_or_default(),
        }
    }

    fn write(client: hub::TokenClient) -> Self {
        let hub::TokenClient { component_name, component_namespace, client_id, extra_scopes, client_type } =
            client;
        Self {
            component: Some(Component {
                name: Some(component_name),
                auth_client_namespace: Some(component_namespace),
            }),
            client_id: Some(client_id),
            extra_scopes: Some(extra_scopes).filter(|scopes| !scopes.is_empty()),
            kind: Some(client_type),
        }
    }
}

impl Claim {
    fn read(self, problems: &mut Problems) -> hub::Claims {
        let Self { mappings, validation_rules } = self;
        let Mappings { username, groups } = mappings.unwrap_or_default();
        let Username { claim, prefix, prefix_policy } = username.unwrap_or_default();
        let mut rule = |(index, Rule { kind: _, required_claim }): (usize, Rule)| {
            if required_claim.is_none() {
                let target = format!("properties.claim.validationRules[{index}].requiredClaim");
                problems.required_because(target, "the type is 'RequiredClaim'");
            }
            let Required { claim, required_value } = required_claim.unwrap_or_default();
            hub::RequiredClaim {
                claim: claim.unwrap_or_default(),
                required_value: required_value.unwrap_or_default(),
            }
        };
        hub::Claims {
            username: hub::UsernameClaim {
                claim: claim.unwrap_or_default(),
                prefix_policy: prefix_policy.unwrap_or_default(),
                prefix,
            },
            groups: groups.map(|Groups { claim, prefix }| hub::GroupsClaim {
                claim: claim.unwrap_or_default(),
                prefix,
            }),
            validation_rules: validation_rules
                .unwrap_or_default()
                .into_iter()
                .enumerate()
                .map(&mut rule)
                .collect(),
        }
    }

    fn write(claims: hub::Claims) -> Self {
        let hub::Claims { username, groups, validation_rules } = claims;
        let hub::UsernameClaim { claim, prefix_policy, prefix } = username;
        let group = |groups| {
            let hub::GroupsClaim { claim, prefix } = groups;
            Groups { claim: Some(claim), prefix }
        };
        let rule = |rule| {
            let hub::RequiredClaim { claim, required_value } = rule;
            let required = Required { claim: Some(claim), required_value: Some(required_value) };
            Rule { kind: Some(RuleKind::RequiredClaim), required_claim: Some(required) }
        };
        Self {
            mappings: Some(Mappings {
                username: Some(Username { claim: Some(claim), prefix, prefix_policy: Some(prefix_policy) }),
                groups: groups.map(group),
            }),
            validation_rules: (!validation_rules.is_empty())
                .then(|| validation_rules.into_iter().map(rule).collect()),
        }
    }
}
