//! Who is asking.
//!
//! A client certificate that TLS has verified names user and groups; a bearer token is one of a file, a service account's,
//! one that lets a new node in, or one of an issuer that is believed. Who shows neither is `system:anonymous`, where the configuration lets them be. A credential
//! that is shown and not good is refused: falling back to anonymous would hide the mistake.

use std::collections::BTreeMap;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use pilothouse_http::{Peer, PeerIdentity};
use serde_json::{Value, json};
use tracing::debug;

use crate::authorization::{Attributes, ResourceAttributes};
use crate::bootstrap_tokens;
use crate::server::Server;
use crate::status::Failure;
use crate::tokens::Claims;

/// Whoever is asking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

const AUTHENTICATED: &str = "system:authenticated";
/// What of a user's says by which credential they came.
pub(crate) const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

impl User {
    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|one| one == group)
    }

    fn anonymous() -> Self {
        let groups = vec!["system:unauthenticated".to_owned()];
        Self { name: "system:anonymous".to_owned(), groups, ..Self::default() }
    }

    pub(crate) fn authenticated(mut self) -> Self {
        if !self.is_in(AUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// As reviews show it.
    pub(crate) fn to_value(&self) -> Value {
        let mut value = json!({ "username": self.name, "groups": self.groups });
        if !self.uid.is_empty() {
            value["uid"] = json!(self.uid);
        }
        if !self.extra.is_empty() {
            value["extra"] = json!(self.extra);
        }
        value
    }
}

/// The user behind a request, or the one it is allowed to act for.
pub(crate) async fn authenticate(
    server: &Server,
    peer: Option<&Peer>,
    headers: &HeaderMap,
    path: &str,
) -> Result<User, Failure> {
    let user = match (peer.and_then(Peer::identity), bearer(headers)) {
        (Some(identity), _) => User {
            name: identity.common_name().to_owned(),
            groups: identity.organizations().to_vec(),
            extra: BTreeMap::from([(CREDENTIAL.to_owned(), vec![credential(identity)])]),
            ..User::default()
        }
        .authenticated(),
        (None, Some(token)) => match by_fixed_token(server, token) {
            Some(user) => user,
            None => match by_issued_token(server, token).await {
                Some(user) => user?,
                None => by_token(server, token, &[server.tokens.issuer().to_owned()])?.0,
            },
        },
        (None, None) if headers.contains_key(AUTHORIZATION) => return Err(Failure::unauthorized()),
        (None, None) if server.config.anonymous.admits(path) => User::anonymous(),
        (None, None) => return Err(Failure::unauthorized()),
    };
    impersonated(server, user, headers)
}

fn credential(identity: &PeerIdentity) -> String {
    format!("X509SHA256={}", identity.fingerprint())
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

/// The user of a token that is for no audience in particular: one of the file, or one of a new node.
pub(crate) fn by_fixed_token(server: &Server, token: &str) -> Option<User> {
    let of_file = server.static_tokens.find(token);
    of_file.or_else(|| bootstrap_tokens::find(server.storage.cache(), token, server.clock.now()))
}

/// The user of a token that names an issuer who is believed; nothing if it names none of them.
pub(crate) async fn by_issued_token(server: &Server, token: &str) -> Option<Result<User, Failure>> {
    let issuer = server.token_issuers.of(token)?;
    let user = issuer.user(token, server.clock.now()).await;
    Some(user.map_err(|problem| {
        // Whoever shows a token is not told what is wrong with it; whoever runs the server may look.
        debug!(problem, "a token was refused");
        Failure::unauthorized()
    }))
}

/// The service account that a token speaks for.
pub(crate) fn by_token(
    server: &Server,
    token: &str,
    audiences: &[String],
) -> Result<(User, Claims), Failure> {
    let claims = server.tokens.verify_for(token, audiences, server.clock.now());
    let claims = claims.map_err(|_| Failure::unauthorized())?;
    // A token outlives neither its account nor the object it was bound to.
    let current = |key: String, uid: &str| {
        let object = server.storage.cache().get(&key)?;
        let object: Value = serde_json::from_slice(&object).ok()?;
        (object["metadata"]["uid"] == uid).then_some(())
    };
    let (namespace, name) = (&claims.namespace, &claims.service_account.name);
    let account = current(format!("serviceaccounts/{namespace}/{name}"), &claims.service_account.uid);
    let bound = match &claims.bound {
        None => Some(()),
        Some((kind, object)) => match kind.as_str() {
            "Pod" => current(format!("pods/{namespace}/{}", object.name), &object.uid),
            "Secret" => current(format!("secrets/{namespace}/{}", object.name), &object.uid),
            "Node" => current(format!("nodes//{}", object.name), &object.uid),
            _ => None,
        },
    };
    account.and(bound).ok_or_else(Failure::unauthorized)?;
    let mut extra = BTreeMap::new();
    if let Some((kind, object)) = &claims.bound
        && kind == "Pod"
    {
        extra.insert("authentication.kubernetes.io/pod-name".to_owned(), vec![object.name.clone()]);
        extra.insert("authentication.kubernetes.io/pod-uid".to_owned(), vec![object.uid.clone()]);
    }
    let user = User {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        uid: claims.service_account.uid.clone(),
        groups: vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")],
        extra,
    };
    Ok((user.authenticated(), claims))
}

/// Acting for somebody else, as far as the one who really asks may.
fn impersonated(server: &Server, user: User, headers: &HeaderMap) -> Result<User, Failure> {
    let text = |value: &http::HeaderValue| value.to_str().map(str::to_owned).ok();
    let wanted = headers.get("impersonate-user").and_then(text);
    let groups: Vec<_> = headers.get_all("impersonate-group").iter().filter_map(text).collect();
    let Some(name) = wanted else {
        return if groups.is_empty() {
            Ok(user)
        } else {
            Err(Failure::bad_request("requested groups to impersonate without impersonating a user"))
        };
    };
    let may = |resource: &str, name: &str| {
        let attributes = Attributes::Resource(ResourceAttributes {
            verb: "impersonate",
            resource,
            name: Some(name),
            ..ResourceAttributes::default()
        });
        server.authorizer.allows(server.storage.cache(), &user, &attributes)
    };
    let refused = |resource: &str, name: &str| {
        Failure::new(
            403,
            "Forbidden",
            format!("{resource} \"{name}\" is forbidden: User \"{}\" cannot impersonate it", user.name),
        )
    };
    if !may("users", &name) {
        return Err(refused("users", &name));
    }
    if let Some(group) = groups.iter().find(|group| !may("groups", group)) {
        return Err(refused("groups", group));
    }
    Ok(User { name, groups, ..User::default() }.authenticated())
}
