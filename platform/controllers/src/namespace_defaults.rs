//! What every namespace has: an account for its pods, and the authority that they trust.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{Next, Reconcile, TaskError};

use crate::calls::{POST, tolerant};
use crate::ownership::is_deleting;
use crate::watches::Caches;

/// The account that pods run as when they name none.
pub(crate) const ACCOUNT: &str = "default";

/// The config map with the authority that signs for the API server.
pub(crate) const ROOT_AUTHORITY: &str = "kube-root-ca.crt";

const KEY: &str = "ca.crt";

pub(crate) struct NamespaceDefaults {
    client: Client,
    caches: Caches,
    authority: String,
}

/// What is missing in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    CreateAccount,
    CreateAuthority,
    CorrectAuthority,
}

// === planning ===

fn plan(namespace: &Namespace, has_account: bool, found: Option<&ConfigMap>, authority: &str) -> Vec<Action> {
    if is_deleting(&namespace.metadata) {
        return Vec::new();
    }
    let mut actions = Vec::new();
    if !has_account {
        actions.push(Action::CreateAccount);
    }
    match found.map(|found| found.data.as_ref().and_then(|data| data.get(KEY))) {
        None => actions.push(Action::CreateAuthority),
        Some(Some(text)) if text == authority => {}
        Some(_) => actions.push(Action::CorrectAuthority),
    }
    actions
}

// === impl NamespaceDefaults ===

impl NamespaceDefaults {
    pub(crate) fn new(client: Client, caches: Caches, authority: String) -> Self {
        Self { client, caches, authority }
    }

    fn config_map(&self, namespace: &str, version: Option<String>) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(ROOT_AUTHORITY.to_owned()),
                namespace: Some(namespace.to_owned()),
                resource_version: version,
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([(KEY.to_owned(), self.authority.clone())])),
            ..ConfigMap::default()
        }
    }
}

impl Reconcile for NamespaceDefaults {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        Ok(self.caches.namespaces.keys())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let Some(namespace) = self.caches.namespaces.get(key) else { return Ok(Next::Done) };
        let account = self.caches.service_accounts.get(&ObjectKey::namespaced(&key.name, ACCOUNT));
        let found = self.caches.root_authorities.get(&ObjectKey::namespaced(&key.name, ROOT_AUTHORITY));
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &key.name);
        for action in plan(&namespace, account.is_some(), found.as_deref(), &self.authority) {
            match action {
                Action::CreateAccount => {
                    let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &key.name);
                    let metadata = ObjectMeta { name: Some(ACCOUNT.to_owned()), ..ObjectMeta::default() };
                    let account = ServiceAccount { metadata, ..ServiceAccount::default() };
                    tolerant("create a service account", api.create(&POST, &account)).await?;
                }
                Action::CreateAuthority => {
                    let map = self.config_map(&key.name, None);
                    tolerant("publish the root authority", maps.create(&POST, &map)).await?;
                }
                Action::CorrectAuthority => {
                    let version = found.as_ref().and_then(|found| found.metadata.resource_version.clone());
                    let map = self.config_map(&key.name, version);
                    let call = maps.replace(ROOT_AUTHORITY, &POST, &map);
                    tolerant("correct the root authority", call).await?;
                }
            }
        }
        Ok(Next::Done)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    #[test]
    fn namespace_gets_what_it_lacks_unless_it_is_on_its_way_out() {
        let map = |text: &str| ConfigMap {
            data: Some([(KEY.to_owned(), text.to_owned())].into()),
            ..ConfigMap::default()
        };
        let namespace = Namespace::default();
        assert_eq!(plan(&namespace, false, None, "pem"), [Action::CreateAccount, Action::CreateAuthority]);
        assert_eq!(plan(&namespace, true, Some(&map("pem")), "pem"), []);
        assert_eq!(plan(&namespace, true, Some(&map("old")), "pem"), [Action::CorrectAuthority]);
        assert_eq!(plan(&namespace, true, Some(&ConfigMap::default()), "pem"), [Action::CorrectAuthority]);
        let mut ending = namespace;
        ending.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(plan(&ending, false, None, "pem"), []);
    }
}
