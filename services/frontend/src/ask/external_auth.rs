use pilothouse_api::hub;
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_clusters_service_api::{ExternalAuthId, ExternalAuthUpdate, NewExternalAuth};

use super::Work;

/// An external authentication as it is asked for, under the operation that asks.
pub(crate) fn external_auth_new(
    work: Work<'_>,
    id: ExternalAuthId,
    spec: &hub::ExternalAuthSpec,
) -> NewExternalAuth {
    let hub::ExternalAuthSpec { issuer: by, clients, claims } = spec;
    NewExternalAuth {
        issuer: issuer(by),
        clients: clients.iter().map(client).collect(),
        claim: claim(claims),
        properties: work.properties(),
        ..NewExternalAuth::new(id)
    }
}

/// What of an external authentication is to be another. Compared with nothing, everything is said.
pub(crate) fn external_auth_update(
    work: Work<'_>,
    stored: Option<&hub::ExternalAuthSpec>,
    wanted: &hub::ExternalAuthSpec,
) -> ExternalAuthUpdate {
    let hub::ExternalAuthSpec { issuer: by, clients, claims } = wanted;
    ExternalAuthUpdate {
        issuer: stored.is_none_or(|stored| stored.issuer != *by).then(|| issuer(by)),
        clients: stored
            .is_none_or(|stored| stored.clients != *clients)
            .then(|| clients.iter().map(client).collect()),
        claim: stored.is_none_or(|stored| stored.claims != *claims).then(|| claim(claims)),
        properties: work.properties(),
    }
}

fn issuer(hub::TokenIssuer { url, audiences, ca }: &hub::TokenIssuer) -> clusters_service::TokenIssuer {
    clusters_service::TokenIssuer { url: url.clone(), audiences: audiences.clone(), ca: ca.clone() }
}

fn client(client: &hub::TokenClient) -> clusters_service::TokenClient {
    let hub::TokenClient { component_name, component_namespace, client_id, extra_scopes, client_type } =
        client;
    clusters_service::TokenClient {
        id: client_id.clone(),
        component: clusters_service::TokenClientComponent {
            name: component_name.clone(),
            namespace: component_namespace.clone(),
        },
        extra_scopes: extra_scopes.clone(),
        client_type: match client_type {
            hub::ClientType::Confidential => clusters_service::TokenClientType::Confidential,
            hub::ClientType::Public => clusters_service::TokenClientType::Public,
        },
        secret: None,
    }
}

fn claim(hub::Claims { username, groups, validation_rules }: &hub::Claims) -> clusters_service::Claim {
    let rule = |hub::RequiredClaim { claim, required_value }: &hub::RequiredClaim| {
        clusters_service::ClaimRule { claim: claim.clone(), required_value: required_value.clone() }
    };
    clusters_service::Claim {
        mappings: clusters_service::ClaimMappings {
            username: clusters_service::UsernameClaim {
                claim: username.claim.clone(),
                prefix: username.prefix.clone(),
                prefix_policy: match username.prefix_policy {
                    hub::PrefixPolicy::None => clusters_service::PrefixPolicy::Unset,
                    hub::PrefixPolicy::Prefix => clusters_service::PrefixPolicy::Prefix,
                    hub::PrefixPolicy::NoPrefix => clusters_service::PrefixPolicy::NoPrefix,
                },
            },
            groups: groups.as_ref().map(|hub::GroupsClaim { claim, prefix }| clusters_service::GroupsClaim {
                claim: claim.clone(),
                prefix: prefix.clone(),
            }),
        },
        validation_rules: validation_rules.iter().map(rule).collect(),
    }
}
