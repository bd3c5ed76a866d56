//! Tokens with which nodes join: they end at their moment, and sign what a joining node reads first.
//!
//! The config map `cluster-info` in `kube-public` says where the API server is and how it is recognised. A joining node that
//! knows nothing but its token can read it before it trusts anybody: beside the text there is a signature for every token, made
//! with the token's secret (`jws-kubeconfig-ID`, a JWS without its content).

use std::collections::BTreeMap;
use std::fmt;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};
use serde_json::json;
use tracing::info;

use crate::calls::{CallError, POST, tolerant};
use crate::ownership::is_deleting;
use crate::watches::Caches;

#[cfg(test)]
mod tests;

/// Where tokens are.
pub(crate) const NAMESPACE: &str = "kube-system";
/// The type of their Secrets.
pub(crate) const TYPE: &str = "bootstrap.kubernetes.io/token";

/// Where the cluster introduces itself.
pub(crate) const PUBLIC: &str = "kube-public";
/// The config map that does.
pub(crate) const CLUSTER_INFO: &str = "cluster-info";

const TOKEN_PREFIX: &str = "bootstrap-token-";
const SIGNATURE_PREFIX: &str = "jws-kubeconfig-";
const KUBECONFIG: &str = "kubeconfig";
/// On a config map that we made, and so may correct.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "pilothouse");

pub(crate) struct BootstrapTokens {
    client: Client,
    caches: Caches,
    clock: Clock,
    /// The way to the API server, if the cluster is to introduce itself.
    introduction: Option<String>,
}

/// What a pass is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Token(ObjectKey),
    ClusterInfo,
}

/// What to do with `cluster-info`.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    Create(BTreeMap<String, String>),
    Replace(BTreeMap<String, String>),
}

// === planning ===

/// The text that tells a joining node where the API server is: a kubeconfig without user and context.
pub(crate) fn introduction(server: &str, authorities_pem: &str) -> String {
    let cluster = json!({ "certificate-authority-data": STANDARD.encode(authorities_pem), "server": server });
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "", "cluster": cluster }],
        "contexts": [],
        "current-context": "",
        "preferences": {},
        "users": [],
    });
    format!("{document:#}\n")
}

fn plan(found: Option<&ConfigMap>, introduction: Option<&str>, tokens: &[(&str, &str)]) -> Plan {
    let Some(found) = found else {
        let Some(text) = introduction else { return Plan::Nothing };
        let mut data = BTreeMap::from([(KUBECONFIG.to_owned(), text.to_owned())]);
        sign(&mut data, tokens);
        return Plan::Create(data);
    };
    let present = found.data.clone().unwrap_or_default();
    let mut data = present.clone();
    if let Some(text) = introduction
        && found.labels().get(MANAGED_BY.0).is_some_and(|by| by == MANAGED_BY.1)
    {
        data.insert(KUBECONFIG.to_owned(), text.to_owned());
    }
    data.retain(|key, _| !key.starts_with(SIGNATURE_PREFIX));
    sign(&mut data, tokens);
    if data == present { Plan::Nothing } else { Plan::Replace(data) }
}

/// Adds a signature of every token, if there is anything to be signed.
fn sign(data: &mut BTreeMap<String, String>, tokens: &[(&str, &str)]) {
    let Some(text) = data.get(KUBECONFIG).cloned() else { return };
    for (id, secret) in tokens {
        data.insert(format!("{SIGNATURE_PREFIX}{id}"), signature(id, secret, &text));
    }
}

/// A JWS of `text` without the text.
fn signature(id: &str, secret: &str, text: &str) -> String {
    let header = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"HS256","kid":"{id}"}}"#));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, format!("{header}.{}", URL_SAFE_NO_PAD.encode(text)).as_bytes());
    format!("{header}..{}", URL_SAFE_NO_PAD.encode(tag))
}

/// The token of a Secret, as id and secret, if it may sign.
fn signing(secret: &Secret, now: Timestamp) -> Option<(&str, &str)> {
    let id = data(secret, "token-id")?;
    let usable = !is_deleting(&secret.metadata)
        && end_of(secret).is_none_or(|end| end > now)
        && data(secret, "usage-bootstrap-signing") == Some("true")
        && secret.metadata.name.as_deref().and_then(|name| name.strip_prefix(TOKEN_PREFIX)) == Some(id);
    usable.then_some((id, data(secret, "token-secret").filter(|secret| !secret.is_empty())?))
}

/// When a token ends. A time that cannot be read is over.
fn end_of(secret: &Secret) -> Option<Timestamp> {
    let text = data(secret, "expiration").filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or(Timestamp::MIN))
}

fn data<'a>(secret: &'a Secret, key: &str) -> Option<&'a str> {
    std::str::from_utf8(&secret.data.as_ref()?.get(key)?.0).ok()
}

// === impl BootstrapTokens ===

impl BootstrapTokens {
    pub(crate) fn new(client: Client, caches: Caches, clock: Clock, introduction: Option<String>) -> Self {
        Self { client, caches, clock, introduction }
    }

    async fn token(&self, key: &ObjectKey) -> Result<Next, CallError> {
        let Some(secret) = self.caches.bootstrap_tokens.get(key) else { return Ok(Next::Done) };
        let Some(end) = end_of(&secret) else { return Ok(Next::Done) };
        if end > self.clock.now() {
            return Ok(Next::After(self.clock.until(end)));
        }
        let preconditions = Preconditions { uid: secret.uid(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let api: Api<Secret> = Api::namespaced(self.client.clone(), NAMESPACE);
        if tolerant("remove a token that has ended", api.delete(&key.name, &params)).await?.is_some() {
            info!(token = key.name, "removed a token that has ended");
        }
        Ok(Next::Done)
    }

    async fn cluster_info(&self) -> Result<Next, CallError> {
        let found = self.caches.cluster_info.get(&ObjectKey::namespaced(PUBLIC, CLUSTER_INFO));
        let secrets = self.caches.bootstrap_tokens.list();
        let now = self.clock.now();
        let tokens: Vec<_> = secrets.iter().filter_map(|secret| signing(secret, now)).collect();
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), PUBLIC);
        match plan(found.as_deref(), self.introduction.as_deref(), &tokens) {
            Plan::Nothing => {}
            Plan::Create(data) => {
                let labels = BTreeMap::from([(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned())]);
                let metadata = ObjectMeta {
                    name: Some(CLUSTER_INFO.to_owned()),
                    labels: Some(labels),
                    ..ObjectMeta::default()
                };
                let map = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
                tolerant("introduce the cluster", api.create(&POST, &map)).await?;
            }
            Plan::Replace(data) => {
                let mut map = found.map(|found| (*found).clone()).unwrap_or_default();
                map.data = Some(data);
                tolerant("sign the cluster's introduction", api.replace(CLUSTER_INFO, &POST, &map)).await?;
            }
        }
        // A token's signature ends with the token: its Secret is removed then, which wakes this pass.
        Ok(Next::Done)
    }
}

impl Reconcile for BootstrapTokens {
    type Key = Key;

    async fn list(&self) -> Result<Vec<Key>, TaskError> {
        let tokens = self.caches.bootstrap_tokens.keys().into_iter().map(Key::Token);
        Ok(tokens.chain([Key::ClusterInfo]).collect())
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, TaskError> {
        Ok(match key {
            Key::Token(key) => self.token(key).await?,
            Key::ClusterInfo => self.cluster_info().await?,
        })
    }
}

// === impl Key ===

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The name of its Secret holds the public half of a token only.
            Self::Token(key) => key.fmt(formatter),
            Self::ClusterInfo => formatter.write_str(CLUSTER_INFO),
        }
    }
}
