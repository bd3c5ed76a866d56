//! From kinds to resources.
//!
//! The answers are kept, kind by kind. What is not known is asked for again every time: a kind may become known at any
//! moment, and its manifest is waiting for just that.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use kube::Client;
use kube::core::GroupVersionKind;
use kube::core::discovery::Scope;

use crate::Error;
use crate::object::{ResourceId, Served};

#[derive(Debug, Default)]
pub(crate) struct Mapper {
    known: RwLock<HashMap<GroupVersionKind, Served>>,
}

impl Mapper {
    /// The resource of a kind.
    pub(crate) async fn by_kind(
        &self,
        client: &Client,
        kind: &GroupVersionKind,
    ) -> Result<Served, kube::Error> {
        if let Some(known) = self.read(|known| known.get(kind).cloned()) {
            return Ok(known);
        }
        let (resource, capabilities) = kube::discovery::pinned_kind(client, kind).await?;
        let served = Served { resource, namespaced: capabilities.scope == Scope::Namespaced };
        self.write(|known| known.insert(kind.clone(), served.clone()));
        Ok(served)
    }

    /// The resource of this name: for objects of which nothing else was written down.
    pub(crate) async fn by_name(&self, client: &Client, id: &ResourceId) -> Result<Option<Served>, Error> {
        let known = self.read(|known| known.values().find(|served| served.id() == *id).cloned());
        if known.is_some() {
            return Ok(known);
        }
        let failed = |source| Error::Discover { resource: id.to_string(), source: Box::new(source) };
        let version =
            if id.group.is_empty() { id.version.clone() } else { format!("{}/{}", id.group, id.version) };
        let listed = if id.group.is_empty() {
            client.list_core_api_resources(&version).await
        } else {
            client.list_api_group_resources(&version).await
        };
        let listed = match listed {
            Ok(listed) => listed,
            // The whole group is gone, and all of its objects with it.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let Some(found) = listed.resources.into_iter().find(|resource| resource.name == id.resource) else {
            return Ok(None);
        };
        let kind = GroupVersionKind::gvk(&id.group, &id.version, &found.kind);
        self.by_kind(client, &kind).await.map(Some).map_err(failed)
    }

    /// Forgets a kind whose resource turned out to be gone.
    pub(crate) fn forget(&self, kind: &GroupVersionKind) {
        self.write(|known| known.remove(kind));
    }

    fn read<R>(&self, look: impl FnOnce(&HashMap<GroupVersionKind, Served>) -> R) -> R {
        look(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<R>(&self, change: impl FnOnce(&mut HashMap<GroupVersionKind, Served>) -> R) -> R {
        change(&mut self.known.write().unwrap_or_else(PoisonError::into_inner))
    }
}
