use std::collections::BTreeSet;

use url::Url;
use x509_parser::pem::Pem;

use crate::hub;
use crate::invalid::Problems;
use crate::name::ExternalAuthName;

/// The one component that can keep a secret.
const CONSOLE: (&str, &str) = ("console", "openshift-console");

/// Checks an external authentication.
pub(crate) fn external_auth(external_auth: &hub::ExternalAuth, is_new: bool, problems: &mut Problems) {
    let hub::ExternalAuth { id, system_data: _, spec, status: _ } = external_auth;
    if is_new && ExternalAuthName::try_new(id.name()).is_none() {
        problems.invalid("id", id.name(), ExternalAuthName::RULE);
    }
    let hub::ExternalAuthSpec { issuer, clients, claims } = spec;
    token_issuer(issuer, problems);
    all_clients(clients, issuer, problems);
    let hub::Claims { username, groups: _, validation_rules: _ } = claims;
    user_name(username, problems);
}

fn token_issuer(issuer: &hub::TokenIssuer, problems: &mut Problems) {
    let hub::TokenIssuer { url, audiences: _, ca } = issuer;
    if Url::parse(url).ok().is_none_or(|url| url.query().is_some() || url.fragment().is_some()) {
        let why = "must be an address without a query and a fragment";
        problems.invalid("properties.issuer.url", url, why);
    }
    if let Some(ca) = ca
        && !is_certificates(ca)
    {
        problems.invalid("properties.issuer.ca", "(certificates)", "must be certificates as PEM");
    }
}

fn is_certificates(text: &str) -> bool {
    let mut count = 0;
    for block in Pem::iter_from_buffer(text.as_bytes()) {
        match block {
            Ok(block) if block.label == "CERTIFICATE" && block.parse_x509().is_ok() => count += 1,
            _ => return false,
        }
    }
    count > 0
}

fn all_clients(clients: &[hub::TokenClient], issuer: &hub::TokenIssuer, problems: &mut Problems) {
    let mut seen = BTreeSet::new();
    for (index, client) in clients.iter().enumerate() {
        let hub::TokenClient { component_name, component_namespace, client_id, extra_scopes: _, client_type } =
            client;
        let path = format!("properties.clients[{index}]");
        if !issuer.audiences.contains(client_id) && !problems.is_malformed("properties.issuer.audiences") {
            problems.invalid(
                format!("{path}.clientId"),
                client_id,
                "must be one of properties.issuer.audiences",
            );
        }
        if problems.is_known(&format!("{path}.component")) {
            continue;
        }
        let component = (component_name.as_str(), component_namespace.as_str());
        if !seen.insert(component) {
            problems
                .duplicate(format!("{path}.component"), &format!("{component_namespace}/{component_name}"));
        }
        match client_type {
            hub::ClientType::Public if component == CONSOLE => problems.invalid(
                format!("{path}.type"),
                client_type,
                "must be 'Confidential' for the component console in openshift-console",
            ),
            hub::ClientType::Confidential if component != CONSOLE => problems.invalid(
                format!("{path}.type"),
                client_type,
                "may be 'Confidential' only for the component console in openshift-console",
            ),
            hub::ClientType::Public | hub::ClientType::Confidential => {}
        }
    }
}

fn user_name(username: &hub::UsernameClaim, problems: &mut Problems) {
    let hub::UsernameClaim { claim: _, prefix_policy, prefix } = username;
    let target = "properties.claim.mappings.username.prefix";
    let prefix = prefix.as_ref().filter(|prefix| !prefix.is_empty());
    match (prefix_policy, prefix) {
        (hub::PrefixPolicy::Prefix, None) => {
            problems.required_because(target, "prefixPolicy is 'Prefix'");
        }
        (hub::PrefixPolicy::None | hub::PrefixPolicy::NoPrefix, Some(_)) => {
            problems.forbidden(target, "may only be given when prefixPolicy is 'Prefix'");
        }
        _ => {}
    }
}
