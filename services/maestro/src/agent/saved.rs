//! What survives a restart of the agent.

use std::sync::Arc;

use pilothouse_crds::{ManifestWorkSpec, ManifestWorkStatus};
use pilothouse_runtime::Chain;
use pilothouse_store::{Catalog, Container, DocumentId, Error, Partition, Precondition, Query, Store};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::{info, warn};

use crate::agent::held::{Held, Works};
use crate::sequence::Sequence;

/// A bundle, by its id: what is wanted, and what came of it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Document {
    pub(super) name: String,
    pub(super) generation: i32,
    pub(super) metadata: Value,
    pub(super) spec: Arc<ManifestWorkSpec>,
    /// Whether all of it was applied.
    pub(super) is_applied: bool,
    /// Otherwise what was before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) applied: Option<Arc<ManifestWorkSpec>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) deleted_at: Option<String>,
    #[serde(default)]
    pub(super) status: ManifestWorkStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reported: Option<(i32, String)>,
    pub(super) source: String,
    pub(super) tracing: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) correlation: Option<String>,
    /// The last number of a report by then.
    pub(super) sequence: String,
}

/// The container in a store. A cheap handle.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    store: Store,
    partition: Partition,
    works: Container,
}

/// What the agent's store must be opened with. It has secrets, so the store needs a keyring.
pub fn catalog() -> Catalog {
    // The name is valid, and there is nothing else that could be wrong.
    Catalog::try_new([works()]).unwrap_or_default()
}

fn works() -> Container {
    Container::new("works").sealed()
}

impl Saved {
    pub(super) fn try_new(store: Store) -> Result<Self, Error> {
        Ok(Self { store, partition: Partition::try_new("maestro-agent")?, works: works() })
    }

    /// Reads everything there is.
    pub(super) async fn load(&self, into: &Works, sequence: &Sequence) -> Result<(), Error> {
        let mut next = None;
        let mut count = 0_usize;
        loop {
            let mut query = Query::partition(&self.works, &self.partition);
            if let Some(next) = next {
                query = query.from(next);
            }
            let page = self.store.list(query).await?;
            for document in page.documents {
                let id = document.id.as_str().to_owned();
                match document.parse::<Document>() {
                    Ok(known) => {
                        sequence.resume(&known.sequence);
                        into.restore(Held::from_document(id, known));
                        count += 1;
                    }
                    // Not knowing it is no harm: the server sends it again.
                    Err(error) => warn!(resource = id, error = %Chain(&error), "a bundle cannot be read"),
                }
            }
            next = page.next;
            if next.is_none() {
                info!(works = count, "remembered what was applied before");
                return Ok(());
            }
        }
    }

    pub(super) async fn put(&self, held: &Held, sequence: String) -> Result<(), Error> {
        let id = DocumentId::try_new(&held.id)?;
        let document = held.to_document(sequence);
        self.store.put(&self.works, &self.partition, id, Precondition::Any, &document).await.map(drop)
    }

    pub(super) async fn remove(&self, id: &str) -> Result<(), Error> {
        let id = DocumentId::try_new(id)?;
        self.store.delete(&self.works, &self.partition, id, Precondition::Any).await.map(drop)
    }
}
