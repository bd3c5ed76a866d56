//! Whom a hosted cluster is to trust for its users' tokens.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilothouse_clusters_service_api::{ExternalAuth, PrefixPolicy, TokenClient};
use serde_json::{Value, json};

use super::{Names, NotWritten, metadata};
use crate::record::ClusterRecord;

/// `HostedCluster.spec.configuration.authentication`; none if nobody is to be trusted beside the cluster itself.
pub(super) fn authentication(record: &ClusterRecord, names: &Names) -> Option<Value> {
    let providers: Vec<_> = staying(record).map(|external_auth| provider(external_auth, names)).collect();
    (!providers.is_empty()).then(|| json!({"type": "OIDC", "oidcProviders": providers}))
}

/// The authorities that the issuers' own certificates are signed by, where they are nobody everybody trusts.
pub(super) fn authorities(record: &ClusterRecord, names: &Names) -> Result<Vec<Value>, NotWritten> {
    let own =
        staying(record).filter_map(|external_auth| Some((external_auth, external_auth.issuer.ca.as_ref()?)));
    own.map(|(external_auth, authority)| {
        let name = names.issuer_authority(&external_auth.id);
        serde_json::to_value(ConfigMap {
            metadata: ObjectMeta {
                namespace: Some(names.namespace.clone()),
                ..metadata(&name, record, &record.origin)
            },
            data: Some(BTreeMap::from([("ca-bundle.crt".to_owned(), authority.clone())])),
            ..ConfigMap::default()
        })
    })
    .collect()
}

fn staying(record: &ClusterRecord) -> impl Iterator<Item = &ExternalAuth> {
    record.external_auths.iter().filter(|auth| auth.deletion.is_none()).map(|auth| &auth.external_auth)
}

fn provider(external_auth: &ExternalAuth, names: &Names) -> Value {
    let ExternalAuth { id, issuer, clients, claim, .. } = external_auth;
    let mut provider = json!({
        "name": id,
        "issuer": {"issuerURL": issuer.url, "audiences": issuer.audiences},
        "claimMappings": {"username": {"claim": claim.mappings.username.claim, "prefixPolicy": ""}},
    });
    if issuer.ca.is_some() {
        provider["issuer"]["issuerCertificateAuthority"] = json!({"name": names.issuer_authority(id)});
    }
    let username = &mut provider["claimMappings"]["username"];
    match (claim.mappings.username.prefix_policy, &claim.mappings.username.prefix) {
        (PrefixPolicy::Prefix, Some(prefix)) => {
            username["prefixPolicy"] = json!("Prefix");
            username["prefix"] = json!({"prefixString": prefix});
        }
        (PrefixPolicy::NoPrefix, _) => username["prefixPolicy"] = json!("NoPrefix"),
        _ => {}
    }
    if let Some(groups) = &claim.mappings.groups {
        let prefix = groups.prefix.as_deref().unwrap_or_default();
        provider["claimMappings"]["groups"] = json!({"claim": groups.claim, "prefix": prefix});
    }
    if !clients.is_empty() {
        provider["oidcClients"] = clients.iter().map(client).collect();
    }
    let rules = claim.validation_rules.iter().map(|rule| {
        let required = json!({"claim": rule.claim, "requiredValue": rule.required_value});
        json!({"type": "RequiredClaim", "requiredClaim": required})
    });
    let rules: Vec<_> = rules.collect();
    if !rules.is_empty() {
        provider["claimValidationRules"] = json!(rules);
    }
    provider
}

fn client(client: &TokenClient) -> Value {
    json!({
        "componentName": client.component.name,
        "componentNamespace": client.component.namespace,
        "clientID": client.id,
        "extraScopes": client.extra_scopes,
    })
}
