//! A store of each kind, made for one test.

use std::time::Duration;

use camino::Utf8PathBuf;
use jiff::Timestamp;
use pilothouse_runtime::{Clock, ManualClock, Shutdown};
use pilothouse_store::{
    Catalog, Container, DocumentId, Keyring, Location, Options, Page, Partition, Query, Retention, Store,
};
use pilothouse_test_support::postgres;
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Memory,
    Sqlite,
    Postgres,
}

/// A place for a store, and the clock it goes by where it has none of its own.
pub(crate) struct Fixture {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) location: Location,
    pub(crate) keyring: Keyring,
    pub(crate) clock: Clock,
    manual: Option<ManualClock>,
}

impl Fixture {
    /// None, after saying so, if the machine lacks the engine.
    pub(crate) fn new(kind: Kind) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let (clock, manual) = match kind {
            // PostgreSQL has a clock of its own, which nobody can move.
            Kind::Postgres => (Clock::system(), None),
            Kind::Memory | Kind::Sqlite => {
                let (clock, manual) = Clock::manual("2026-11-15T00:00:00Z".parse::<Timestamp>().unwrap());
                (clock, Some(manual))
            }
        };
        let location = match kind {
            Kind::Memory => Location::memory(),
            Kind::Sqlite => Location::sqlite(path(&folder, "store.db")),
            Kind::Postgres => {
                format!("{}?schema=documents", postgres::shared()?.fresh_database()).parse().unwrap()
            }
        };
        let keyring = Keyring::open_or_create(path(&folder, "store.key")).unwrap();
        Some(Self { folder, location, keyring, clock, manual })
    }

    pub(crate) fn options(&self, containers: impl IntoIterator<Item = Container>) -> Options {
        Options {
            keyring: Some(self.keyring.clone()),
            clock: self.clock.clone(),
            // Out of the way, except where a test is about it.
            retention: Retention { keep: Duration::from_secs(86_400), every: Duration::from_secs(86_400) },
            ..Options::new(self.location.clone(), Catalog::try_new(containers).unwrap(), Shutdown::new())
        }
    }

    pub(crate) async fn open(&self, containers: impl IntoIterator<Item = Container>) -> Store {
        Store::open(self.options(containers)).await.unwrap()
    }

    /// The common case: one test, one store, the containers below.
    pub(crate) async fn store(&self) -> Store {
        self.open([notes(), tokens(), vault()]).await
    }

    pub(crate) fn path(&self, name: &str) -> Utf8PathBuf {
        path(&self.folder, name)
    }

    /// Lets time pass for the database: at once where its clock can be moved, otherwise by waiting.
    pub(crate) async fn pass(&self, duration: Duration) {
        match &self.manual {
            Some(manual) => manual.advance(duration),
            None => tokio::time::sleep(duration).await,
        }
    }

    /// A time that is long for a test and short for the one who waits for it.
    pub(crate) fn a_while(&self) -> Duration {
        match self.manual {
            Some(_) => Duration::from_secs(3600),
            None => Duration::from_secs(2),
        }
    }
}

fn path(folder: &tempfile::TempDir, name: &str) -> Utf8PathBuf {
    Utf8PathBuf::from_path_buf(folder.path().join(name)).unwrap()
}

/// Documents with two indexes.
pub(crate) fn notes() -> Container {
    Container::new("notes").with_index("colour", "/colour").with_index("label", "/labels/*")
}

/// Documents of which a part is secret.
pub(crate) fn tokens() -> Container {
    Container::new("tokens").with_secret("/data/*").with_index("owner", "/owner")
}

/// Documents that are secret as a whole.
pub(crate) fn vault() -> Container {
    Container::new("vault").sealed()
}

pub(crate) fn ada() -> Partition {
    Partition::try_new("ada").unwrap()
}

pub(crate) fn bob() -> Partition {
    Partition::try_new("bob").unwrap()
}

pub(crate) fn id(text: &str) -> DocumentId {
    DocumentId::try_new(text).unwrap()
}

/// All pages of a list, as ids, with the size of each page checked.
pub(crate) async fn all_pages(store: &Store, query: Query, limit: usize) -> Vec<Page> {
    let mut pages = Vec::new();
    let mut next = None;
    loop {
        let mut query = query.clone().limit(limit);
        if let Some(next) = next {
            query = query.from(next);
        }
        let page = store.list(query).await.unwrap();
        next = page.next.clone();
        assert!(page.documents.len() <= limit);
        assert!(next.is_none() || page.documents.len() == limit, "only the last page may be short");
        pages.push(page);
        if next.is_none() {
            return pages;
        }
    }
}

pub(crate) fn ids(pages: &[Page]) -> Vec<String> {
    pages
        .iter()
        .flat_map(|page| &page.documents)
        .map(|document| format!("{}/{}", document.partition, document.id))
        .collect()
}

pub(crate) fn value(document: &pilothouse_store::Document) -> Value {
    document.parse().unwrap()
}

/// No problem anywhere in the store.
pub(crate) async fn assert_sound(store: &Store) {
    let report = store.check().await.unwrap();
    assert_eq!(report.problems, [], "the store does not fit together");
}
