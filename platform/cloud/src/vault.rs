//! Vaults and the secrets in them.
//!
//! A vault is a resource, and so is a secret in it; but what a secret says is nowhere in the resource manager's answers. It is kept
//! sealed, in a container of its own and under the same key, written and deleted in the transaction that writes and deletes the
//! resource, and is told at the vault's own address only: `<vaultUri>secrets/<name>`. That is at this server as well, with the
//! vault's whole id in it, because two groups may have vaults of one name.

use std::fmt;

use http::header::HOST;
use http::{HeaderMap, Uri};
use jiff::Timestamp;
use pilothouse_arm::{Caller, ResourceId};
use pilothouse_store::Container;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use url::Url;
use uuid::Uuid;

use crate::refusal::Refusal;

pub(crate) const VAULTS: &str = "Microsoft.KeyVault/vaults";
pub(crate) const SECRETS: &str = "Microsoft.KeyVault/vaults/secrets";
/// What the paths of vaults' own addresses begin with; the vault's id follows.
pub(crate) const ADDRESSES: &str = "/keyvault";

const CONTAINER: &str = "vault-secrets";
/// The members of a secret that say where it is told: whatever it says then, and what it says now.
const UNVERSIONED: &str = "secretUri";
const VERSIONED: &str = "secretUriWithVersion";
const LONGEST_NAME: usize = 127;
/// What one secret may say, in bytes.
const LONGEST_VALUE: usize = 25_000;

/// Where what secrets say is kept.
pub(crate) fn container() -> Container {
    Container::new(CONTAINER).with_secret("/value")
}

/// What a secret says. Its `Debug` does not.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Sealed {
    /// Tells it from what the secret said before.
    pub(crate) version: String,
    pub(crate) value: String,
}

/// Where vaults are, as whoever asks knows this server.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    base: String,
}

// === impl Sealed ===

impl Sealed {
    /// Takes what a secret is to say out of what was put. Nothing of it is left there but which version it is.
    pub(crate) fn take(id: &ResourceId, body: &mut Map<String, Value>) -> Result<Self, Refusal> {
        let properties = body.entry("properties").or_insert_with(|| json!({}));
        let value = match properties.as_object_mut().and_then(|properties| properties.remove("value")) {
            Some(Value::String(value)) => value,
            _ => {
                let problem = "`properties.value` is required: the text that is to be kept";
                return Err(Refusal::Body(problem.to_owned()));
            }
        };
        if value.len() > LONGEST_VALUE {
            return Err(Refusal::Body(format!(
                "`properties.value` may have {LONGEST_VALUE} bytes; split it"
            )));
        }
        let sealed = Self { version: Uuid::new_v4().simple().to_string(), value };
        properties[VERSIONED] = json!(sealed.address(id.name()));
        Ok(sealed)
    }

    /// Where it is told, as seen from its vault.
    fn address(&self, name: &str) -> String {
        format!("{}/{}", address(name), self.version)
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sealed").field("version", &self.version).finish_non_exhaustive()
    }
}

// === impl Addresses ===

impl Addresses {
    /// From what a request was sent to. `own` is where this server listens.
    pub(crate) fn of(scheme: &str, headers: &HeaderMap, uri: &Uri, own: &str) -> Self {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = host.or_else(|| uri.authority().map(|authority| authority.as_str()));
        Self { base: format!("{scheme}://{}", host.unwrap_or(own)) }
    }

    /// The base of links to what follows in a list.
    pub(crate) fn caller(&self, uri: &Uri) -> Option<Caller> {
        let path = uri.path_and_query().map(|path| path.as_str()).unwrap_or_default();
        Caller::of_referer(&format!("{}{path}", self.base))
    }

    /// Adds where it is to a vault, or a secret, that is shown; it is not kept, because it is only known then.
    pub(crate) fn complete(&self, shown: &mut Value) {
        let Ok(id) = shown["id"].as_str().unwrap_or_default().parse::<ResourceId>() else { return };
        if id.is_a(VAULTS) {
            shown["properties"]["vaultUri"] = json!(self.of_vault(&id));
        } else if id.is_a(SECRETS) {
            let vault = id.parent().map(|vault| self.of_vault(&vault)).unwrap_or_default();
            for member in [UNVERSIONED, VERSIONED] {
                if let Some(relative) = shown["properties"][member].as_str() {
                    shown["properties"][member] = json!(format!("{vault}{relative}"));
                }
            }
        }
    }

    /// What a secret says, as its vault tells it.
    pub(crate) fn told(&self, vault: &ResourceId, name: &str, sealed: &Sealed) -> Value {
        let id = format!("{}{}", self.of_vault(vault), sealed.address(name));
        json!({"id": id, "value": sealed.value, "attributes": {"enabled": true}})
    }

    fn of_vault(&self, id: &ResourceId) -> String {
        // A name may have characters in it that have to be written otherwise in an address.
        let text = format!("{}{ADDRESSES}{id}/", self.base);
        Url::parse(&text).map_or(text, Into::into)
    }
}

pub(crate) fn check_vault(id: &ResourceId, body: &Map<String, Value>) -> Result<(), Refusal> {
    let name = id.name();
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    if !(3..=24).contains(&name.len()) || !first || !is_plain(name) || name.ends_with('-') {
        return Err(Refusal::VaultName(name.to_owned()));
    }
    let properties = body.get("properties").unwrap_or(&Value::Null);
    if !properties["tenantId"].is_string() || !properties["sku"].is_object() {
        return Err(Refusal::Body("`properties.tenantId` and `properties.sku` are required".to_owned()));
    }
    Ok(())
}

pub(crate) fn check_secret(id: &ResourceId, body: &Map<String, Value>) -> Result<(), Refusal> {
    let name = id.name();
    if !(1..=LONGEST_NAME).contains(&name.len()) || !is_plain(name) {
        return Err(Refusal::VaultName(name.to_owned()));
    }
    if body.get("properties").is_some_and(|properties| properties.get("attributes").is_some()) {
        let problem = "`properties.attributes` cannot be said: secrets are good until they go; leave it out";
        return Err(Refusal::Body(problem.to_owned()));
    }
    Ok(())
}

/// What the cloud says of a secret. `former`: what it said of the one that this takes the place of.
pub(crate) fn decided(id: &ResourceId, former: Option<&Value>, now: Timestamp) -> [(&'static str, Value); 2] {
    let now = json!(now.as_second());
    let created = former.map_or_else(|| now.clone(), |attributes| attributes["created"].clone());
    [
        ("attributes", json!({"enabled": true, "created": created, "updated": now})),
        (UNVERSIONED, json!(address(id.name()))),
    ]
}

fn address(name: &str) -> String {
    format!("secrets/{name}")
}

fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}
