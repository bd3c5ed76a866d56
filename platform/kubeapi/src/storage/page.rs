//! Pages of lists.
//!
//! The first page is of the cache's present state. Later ones stay at its version, and are read from the store, which
//! can still see it; once it cannot, the client is told so, with a token that goes on at whatever is there by then.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use pilothouse_store::{Continue, Error, Query, Revision};
use serde::{Deserialize, Serialize};

use super::{Storage, encoding, failed, topic};
use crate::catalogue::Resource;
use crate::status::Failure;

/// What a list is to show.
#[derive(Clone, Debug)]
pub(crate) struct Listing<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) namespace: Option<&'a str>,
    /// If only objects of this name can be wanted.
    pub(crate) name: Option<&'a str>,
    /// Zero: all of it.
    pub(crate) limit: usize,
    pub(crate) continue_token: Option<&'a str>,
    /// At exactly this version.
    pub(crate) exactly: Option<u64>,
}

/// Some objects and where to go on.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) objects: Vec<Bytes>,
    pub(crate) revision: u64,
    pub(crate) next: Option<String>,
    /// How many are behind this page, where that is known and no selector makes it a guess.
    pub(crate) remaining: Option<usize>,
}

/// Opaque to clients.
#[derive(Debug, Serialize, Deserialize)]
struct Token {
    v: String,
    /// Negative: whatever is there now.
    rv: i64,
    start: String,
}

const TOKEN_VERSION: &str = "meta.k8s.io/v1";

impl Storage {
    /// A page of those objects that `wanted` lets through.
    pub(crate) async fn page(
        &self,
        listing: &Listing<'_>,
        wanted: impl Fn(&Bytes) -> bool,
    ) -> Result<Page, Failure> {
        let Listing { resource, namespace, name, continue_token, exactly, .. } = *listing;
        let prefix = topic(resource, namespace, name);
        match (continue_token.map(Token::parse).transpose()?, exactly) {
            (Some(token), _) => match u64::try_from(token.rv) {
                Ok(revision) => self.page_at(listing, &prefix, revision, Some(&token.start), wanted).await,
                Err(_) => Ok(self.page_now(listing, &prefix, &token.start, wanted)),
            },
            (None, Some(revision)) => self.page_at(listing, &prefix, revision, None, wanted).await,
            (None, None) => Ok(self.page_now(listing, &prefix, "", wanted)),
        }
    }

    fn page_now(
        &self,
        listing: &Listing<'_>,
        prefix: &str,
        behind: &str,
        wanted: impl Fn(&Bytes) -> bool,
    ) -> Page {
        let Listing { resource, name, limit, .. } = *listing;
        let mut snapshot = self.cache.snapshot_from(prefix, behind);
        if let Some(name) = name {
            // Told by their keys: in a collection over all namespaces all others would have to be read to find one.
            snapshot.objects.retain(|(key, _)| is_named(key, name));
        }
        let total = snapshot.objects.len();
        let mut objects = Vec::new();
        let mut last: Option<Arc<str>> = None;
        for (index, (key, bytes)) in snapshot.objects.into_iter().enumerate() {
            if limit > 0 && objects.len() == limit {
                let next = last.map(|last| Token::of(snapshot.revision, &last));
                return Page { objects, revision: snapshot.revision, next, remaining: Some(total - index) };
            }
            let bytes = encoding::converted(resource, &bytes);
            if wanted(&bytes) {
                objects.push(bytes);
            }
            last = Some(key);
        }
        Page { objects, revision: snapshot.revision, next: None, remaining: None }
    }

    async fn page_at(
        &self,
        listing: &Listing<'_>,
        prefix: &str,
        revision: u64,
        behind: Option<&str>,
        wanted: impl Fn(&Bytes) -> bool,
    ) -> Result<Page, Failure> {
        let at = Revision::from_number(revision);
        let container = self.containers.of(listing.resource);
        let mut next = behind.map(|start| self.continuation(revision, start)).transpose()?;
        let mut objects = Vec::new();
        loop {
            let mut query = Query::partition(container, &self.partition).prefix(prefix).at(at);
            if listing.limit > 0 {
                query = query.limit(listing.limit - objects.len());
            }
            if let Some(next) = next.take() {
                query = query.from(next);
            }
            let page = match self.store.list(query).await {
                Ok(page) => page,
                Err(Error::TooOld { .. }) => return Err(expired(behind)),
                Err(Error::NotYet { .. }) => return Err(self.too_large(revision)),
                Err(error) => return Err(failed(error)),
            };
            let last = page.documents.last().map(|document| document.id.as_str().to_owned());
            for document in &page.documents {
                let bytes = encoding::encode(document.text(), document.revision.number());
                let bytes = encoding::converted(listing.resource, &bytes);
                if wanted(&bytes) {
                    objects.push(bytes);
                }
            }
            let full = listing.limit > 0 && objects.len() >= listing.limit;
            match (page.next, last) {
                (Some(_), Some(last)) if full => {
                    let next = Some(Token::of(revision, &last));
                    return Ok(Page { objects, revision, next, remaining: None });
                }
                (Some(more), _) => next = Some(more),
                (None, _) => return Ok(Page { objects, revision, next: None, remaining: None }),
            }
        }
    }

    /// The store's own mark for "behind this key, at this version".
    fn continuation(&self, revision: u64, start: &str) -> Result<Continue, Failure> {
        let mark = serde_json::json!({ "r": revision, "p": self.partition.as_str(), "i": start });
        serde_json::from_value(mark).map_err(|_| Token::refused())
    }
}

impl Token {
    fn of(revision: u64, behind: &str) -> String {
        Self {
            v: TOKEN_VERSION.to_owned(),
            rv: i64::try_from(revision).unwrap_or(i64::MAX),
            start: behind.to_owned(),
        }
        .to_text()
    }

    fn to_text(&self) -> String {
        // Two strings and a number: there is nothing in it that could not be written.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    fn parse(text: &str) -> Result<Self, Failure> {
        let json = URL_SAFE_NO_PAD.decode(text).map_err(|_| Self::refused())?;
        let token: Self = serde_json::from_slice(&json).map_err(|_| Self::refused())?;
        if token.v == TOKEN_VERSION { Ok(token) } else { Err(Self::refused()) }
    }

    fn refused() -> Failure {
        Failure::bad_request("continue key is not valid: it was not made by this server")
    }
}

/// Whether a key is of an object of this name: the last part of it is the name.
fn is_named(key: &str, name: &str) -> bool {
    key.rsplit_once('/').is_some_and(|(_, last)| last == name)
}

fn expired(behind: Option<&str>) -> Failure {
    let Some(start) = behind else {
        return Failure::expired("The resourceVersion for the provided list is too old.");
    };
    let token = Token { v: TOKEN_VERSION.to_owned(), rv: -1, start: start.to_owned() };
    Failure::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
         results. Continuing with the provided token results in an inconsistent list - objects that were created, \
         modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    )
    .with_continue(token.to_text())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use pilothouse_runtime::Shutdown;
    use pilothouse_store::{Keyring, Location, Options, Store};

    use super::*;
    use crate::catalogue::Catalogue;
    use crate::metrics::Metrics;

    #[tokio::test]
    async fn whoever_asks_for_one_name_has_nobody_elses_objects_read() {
        let mut options = Options::new(Location::memory(), super::super::catalog(), Shutdown::new());
        options.keyring = Some(Keyring::ephemeral().unwrap());
        let store = Store::open(options).await.unwrap();
        let storage = Storage::load(store, "here", Metrics::default()).await.unwrap();
        let catalogue = Catalogue::built_in(33);
        let secrets = catalogue.resources().find(|resource| resource.is("", "secrets")).unwrap();
        let keys = (0..100)
            .flat_map(|number| [format!("secrets/n{number}/key"), format!("secrets/n{number}/a-key")]);
        let keys = keys.chain(["secrets/n7/other".to_owned()]);
        let changes = keys.map(|key| (1, Arc::from(key), Some(Bytes::from_static(b"{}")))).collect();
        storage.cache.apply(changes, 1);
        for (namespace, name, expected) in [
            (None, Some("other"), 1),
            (None, Some("key"), 100),
            (Some("n7"), Some("key"), 1),
            (Some("n7"), None, 3),
            (None, None, 201),
        ] {
            let listing =
                Listing { resource: secrets, namespace, name, limit: 0, continue_token: None, exactly: None };
            let read = Cell::new(0);
            let page = storage.page(&listing, |_| {
                read.set(read.get() + 1);
                true
            });
            assert_eq!(page.await.unwrap().objects.len(), expected, "{namespace:?} {name:?}");
            assert_eq!(read.get(), expected, "{namespace:?} {name:?}");
        }
    }
}
