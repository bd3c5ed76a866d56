//! New external auths and their changes.

use std::collections::BTreeSet;

use jiff::Timestamp;
use pilothouse_clusters_service_api::{
    Claim, Cluster, ExternalAuth, ExternalAuthState, ExternalAuthStateValue, ExternalAuthStatus,
    ExternalAuthUpdate, NewExternalAuth, PrefixPolicy, TokenClient, TokenIssuer,
};
use url::Url;

use crate::refusal::Refusal;

/// As in ARM.
const MOST_AUDIENCES: usize = 10;

/// Checks a new external auth of a cluster and fills in what was left out.
pub(crate) fn external_auth(
    new: NewExternalAuth,
    cluster: &Cluster,
    now: Timestamp,
) -> Result<ExternalAuth, Refusal> {
    check(&new.issuer, &new.clients, &new.claim)?;
    let NewExternalAuth { id, issuer, clients, claim, properties } = new;
    Ok(ExternalAuth {
        kind: "ExternalAuth".to_owned(),
        href: format!("{}/external_auth_config/external_auths/{id}", cluster.href),
        id,
        cluster_id: cluster.id.clone(),
        creation_timestamp: now,
        issuer,
        clients,
        claim,
        properties,
        status: ExternalAuthStatus {
            state: ExternalAuthState {
                value: ExternalAuthStateValue::Validating,
                last_updated_timestamp: now,
            },
            message: "accepted".to_owned(),
        },
    })
}

/// Checks what an external auth would be after a change.
pub(crate) fn external_auth_update(
    update: &ExternalAuthUpdate,
    existing: &ExternalAuth,
) -> Result<(), Refusal> {
    let issuer = update.issuer.as_ref().unwrap_or(&existing.issuer);
    let clients = update.clients.as_ref().unwrap_or(&existing.clients);
    check(issuer, clients, update.claim.as_ref().unwrap_or(&existing.claim))
}

fn check(issuer: &TokenIssuer, clients: &[TokenClient], claim: &Claim) -> Result<(), Refusal> {
    let secure =
        issuer.url.starts_with("https://") && Url::parse(&issuer.url).is_ok_and(|url| url.has_host());
    if !secure {
        return Err(Refusal::field(
            "issuer.url",
            format!("`{}` is not an address that begins with `https://`", issuer.url),
        ));
    }
    let audiences = &issuer.audiences;
    if audiences.is_empty() || audiences.len() > MOST_AUDIENCES || audiences.iter().any(String::is_empty) {
        let problem = format!("between 1 and {MOST_AUDIENCES} are required, none of them empty");
        return Err(Refusal::field("issuer.audiences", problem));
    }
    let mut components = BTreeSet::new();
    for client in clients {
        if !audiences.contains(&client.id) {
            let problem = format!("`{}` is not one of the issuer's audiences", client.id);
            return Err(Refusal::field("clients.id", problem));
        }
        let component = &client.component;
        if component.name.is_empty() || component.namespace.is_empty() {
            return Err(Refusal::field("clients.component", "its name and namespace are required"));
        }
        if !components.insert((&component.name, &component.namespace)) {
            let problem = format!("`{}/{}` is named twice", component.namespace, component.name);
            return Err(Refusal::field("clients.component", problem));
        }
        if client.secret.is_some() {
            let problem = "clients' secrets are not kept; leave it out";
            return Err(Refusal::not_yet("clients.secret", problem));
        }
    }
    let username = &claim.mappings.username;
    if username.claim.is_empty() {
        return Err(Refusal::field("claim.mappings.username.claim", "it is required"));
    }
    let prefixed = username.prefix.as_ref().is_some_and(|prefix| !prefix.is_empty());
    if prefixed != (username.prefix_policy == PrefixPolicy::Prefix) {
        let problem = "a prefix and the policy `Prefix` are given together, or neither is";
        return Err(Refusal::field("claim.mappings.username.prefix", problem));
    }
    if claim.mappings.groups.as_ref().is_some_and(|groups| groups.claim.is_empty()) {
        return Err(Refusal::field("claim.mappings.groups.claim", "it is required"));
    }
    if claim.validation_rules.iter().any(|rule| rule.claim.is_empty() || rule.required_value.is_empty()) {
        return Err(Refusal::field("claim.validation_rules", "a claim and its value are required"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pilothouse_clusters_service_api::Secret;

    use super::super::tests::admitted;
    use super::*;

    fn auth(change: impl FnOnce(&mut NewExternalAuth)) -> Result<ExternalAuth, Refusal> {
        let mut new: NewExternalAuth = serde_json::from_value(serde_json::json!({
            "id": "entra", "issuer": {"url": "https://issuer.test/v2", "audiences": ["a", "b"]},
            "clients": [{"id": "a", "component": {"name": "console", "namespace": "openshift-console"}}],
            "claim": {"mappings": {"username": {"claim": "sub"}}},
        }))
        .unwrap();
        change(&mut new);
        external_auth(new, &admitted(|_| {}).unwrap(), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn what_could_not_work_is_refused_with_its_field() {
        assert!(auth(|_| {}).unwrap().href.ends_with("/external_auth_config/external_auths/entra"));
        type Change = fn(&mut NewExternalAuth);
        for (field, change) in [
            ("issuer.url", (|new| new.issuer.url = "http://issuer.test".into()) as Change),
            ("issuer.url", |new| new.issuer.url = "https://".into()),
            ("issuer.audiences", |new| new.issuer.audiences.clear()),
            ("clients.id", |new| new.clients[0].id = "c".into()),
            ("clients.component", |new| new.clients.push(new.clients[0].clone())),
            ("clients.secret", |new| new.clients[0].secret = Some(Secret::new("s"))),
            ("claim.mappings.username.claim", |new| new.claim.mappings.username.claim.clear()),
            ("claim.mappings.username.prefix", |new| new.claim.mappings.username.prefix = Some("p".into())),
            ("claim.mappings.username.prefix", |new| {
                new.claim.mappings.username.prefix_policy = PrefixPolicy::Prefix;
            }),
        ] {
            let refusal = auth(change).unwrap_err().to_string();
            assert!(refusal.starts_with(&format!("field `{field}`")), "{field}: {refusal}");
        }
    }
}
