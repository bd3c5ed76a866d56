//! The cluster's vault: what of a cluster is secret and has to outlive whoever makes it.
//!
//! What a secret says is not in the resource manager's answers. Who makes one that is there already asks the vault itself, so
//! that a key that was put a moment before a crash is found again, and no second one is made.

use futures::future::{join, join_all};
use http::{Method, StatusCode};
use pilothouse_clusters_service_api::Secret;
use pilothouse_http::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::{CloudFailure, OPERATORS, Paths, VAULTS, Work, directory, refused};
use crate::manifests::CLUSTER_ID_LABEL;
use crate::record::{ClusterRecord, Prepared, key_bytes, new_key};

/// The version of the vaults' own interface.
const VALUES: &str = "7.4";

/// What the cluster pulls with: its own copy.
pub(super) const PULL_SECRET: &str = "pull-secret";
/// What its secrets are encrypted with where they are stored.
pub(super) const ENCRYPTION_KEY: &str = "etcd-encryption-key";

/// A vault that is there.
pub(super) struct Vault {
    path: String,
    /// Where it tells what its secrets say.
    address: Url,
}

/// What a vault tells.
#[derive(Deserialize)]
struct Told {
    value: Secret,
}

impl Vault {
    pub(super) fn new(path: &str, shown: &Value) -> Result<Self, CloudFailure> {
        let address = shown["properties"]["vaultUri"].as_str().and_then(|address| address.parse().ok());
        let unknown = || CloudFailure::Incomplete(path.to_owned(), "its address");
        Ok(Self { path: path.to_owned(), address: address.ok_or_else(unknown)? })
    }

    fn secret(&self, name: &str) -> String {
        format!("{}/secrets/{name}", self.path)
    }
}

impl Work<'_> {
    /// Makes sure of the identities, the vault and what is in it. Answers nothing for a cluster that was prepared before there
    /// were vaults: what it has stays as it is.
    pub(super) async fn ensure_secrets(
        &self,
        paths: &Paths,
        record: &ClusterRecord,
    ) -> Result<Option<Prepared>, CloudFailure> {
        let identities = join_all(paths.identities.iter().map(|path| self.ensure_identity(path)));
        if !has_vault(record) {
            for identity in identities.await {
                identity?;
            }
            return Ok(None);
        }
        let (client_ids, vault) = join(identities, self.ensure_vault(&paths.vault)).await;
        let client_ids = client_ids.into_iter().collect::<Result<Vec<_>, _>>()?;
        let vault = vault?;
        let credentials = OPERATORS.iter().zip(&client_ids).map(|(operator, client_id)| {
            let name = format!("{}-{operator}", self.cluster.domain_prefix);
            self.ensure_credential(&vault, name, client_id)
        });
        let pull_secret = Secret::new(self.cloud.pull_secret());
        let (pull_secret, credentials, encryption_key) = futures::join!(
            self.ensure_secret(&vault, PULL_SECRET, &pull_secret),
            join_all(credentials),
            self.ensure_encryption_key(&vault, record),
        );
        pull_secret?;
        credentials.into_iter().collect::<Result<Vec<()>, _>>()?;
        let name = paths.vault.rsplit('/').next().unwrap_or_default();
        Ok(Some(Prepared {
            vault: name.to_owned(),
            client_ids: OPERATORS.map(str::to_owned).into_iter().zip(client_ids).collect(),
            encryption_key: encryption_key?,
        }))
    }

    async fn ensure_vault(&self, path: &str) -> Result<Vault, CloudFailure> {
        let tenant = directory(self.cluster);
        let body = json!({"location": self.cluster.region.id, "tags": self.tags(),
                          "properties": {"tenantId": tenant, "enableRbacAuthorization": true,
                                         "sku": {"family": "A", "name": "standard"}}});
        let made = self.ensure(path, VAULTS, &body).await?;
        Vault::new(path, &made)
    }

    /// Which key the cluster has: the recorded one, the one in the vault, or a new one, in this order.
    async fn ensure_encryption_key(
        &self,
        vault: &Vault,
        record: &ClusterRecord,
    ) -> Result<Option<Secret>, CloudFailure> {
        let recorded = record.prepared.as_ref().map(|prepared| prepared.encryption_key.as_ref());
        match recorded {
            Some(Some(key)) => {
                self.ensure_secret(vault, ENCRYPTION_KEY, key).await?;
                return Ok(Some(key.clone()));
            }
            Some(None) => return Ok(None),
            None if record.has_a_key_of_the_customer() => return Ok(None),
            None => {}
        }
        let key = new_key();
        if self.make_secret(vault, ENCRYPTION_KEY, &key).await? {
            return Ok(Some(key));
        }
        let key = self.read_secret(vault, ENCRYPTION_KEY).await?;
        let unusable = || CloudFailure::Incomplete(vault.secret(ENCRYPTION_KEY), "a key of 32 bytes");
        key_bytes(&key).ok_or_else(unusable)?;
        Ok(Some(key))
    }

    /// What an identity proves itself with. Nobody but the vault keeps it. It says whose it is: that of an identity which is
    /// there no more proves nothing, and another one takes its place.
    async fn ensure_credential(
        &self,
        vault: &Vault,
        name: String,
        client_id: &str,
    ) -> Result<(), CloudFailure> {
        let tenant = directory(self.cluster);
        let secret = new_key();
        let text = json!({"client_id": client_id, "tenant_id": tenant, "client_secret": secret.expose()});
        let value = Secret::new(text.to_string());
        if self.make_secret(vault, &name, &value).await?
            || is_of(&self.read_secret(vault, &name).await?, client_id)
        {
            return Ok(());
        }
        self.replace(&vault.secret(&name), VAULTS, &self.secret_body(&value)).await.map(drop)
    }

    /// A secret that says this, whatever it said before.
    async fn ensure_secret(&self, vault: &Vault, name: &str, value: &Secret) -> Result<(), CloudFailure> {
        if self.make_secret(vault, name, value).await? || self.read_secret(vault, name).await? == *value {
            return Ok(());
        }
        self.replace(&vault.secret(name), VAULTS, &self.secret_body(value)).await.map(drop)
    }

    /// Makes a secret; false if the cluster has one of that name.
    async fn make_secret(&self, vault: &Vault, name: &str, value: &Secret) -> Result<bool, CloudFailure> {
        let path = vault.secret(name);
        if self.create(&path, VAULTS, &self.secret_body(value)).await?.is_some() {
            return Ok(true);
        }
        let Some(found) = self.get(&path, VAULTS).await? else {
            return Err(CloudFailure::Changed(path));
        };
        self.own_etag(&path, &found)?;
        Ok(false)
    }

    /// What a secret says, from the vault itself.
    pub(super) async fn read_secret(&self, vault: &Vault, name: &str) -> Result<Secret, CloudFailure> {
        let unknown = |_| CloudFailure::Incomplete(vault.path.clone(), "its address");
        let mut url = vault.address.join(&format!("secrets/{name}")).map_err(unknown)?;
        url.query_pairs_mut().append_pair("api-version", VALUES);
        let path = url.path().to_owned();
        let answer: Response = self.send(Method::GET, url, None, None).await?;
        match answer.status() {
            StatusCode::OK => Ok(answer.json::<Told>().await?.value),
            StatusCode::NOT_FOUND => Err(CloudFailure::Changed(path)),
            _ => Err(refused(Method::GET, path, answer).await),
        }
    }

    fn secret_body(&self, value: &Secret) -> Value {
        json!({"tags": {CLUSTER_ID_LABEL: self.cluster.id}, "properties": {"value": value.expose()}})
    }
}

/// Whether a credential is that of this identity.
fn is_of(credential: &Secret, client_id: &str) -> bool {
    let said: Value = serde_json::from_str(credential.expose()).unwrap_or_default();
    said["client_id"] == client_id
}

/// Whether a cluster has, or is to have, a vault: all but those that were prepared before there were any.
pub(super) fn has_vault(record: &ClusterRecord) -> bool {
    !record.cloud_prepared || record.prepared.is_some()
}
