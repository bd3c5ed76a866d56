//! The REST side: what the server knows.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use http::{Method, StatusCode};
use pilothouse_http::{Client, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use crate::Error;
use crate::rest::{Consumer, ErrorBody, List, ResourceBundle};

/// How many bundles are asked for at a time.
const PAGE: usize = 400;
/// Pages that are asked for while others are read.
const AHEAD: usize = 2;

/// Reads what the server knows. A cheap handle.
#[derive(Clone, Debug)]
pub struct RestClient {
    client: Client,
    base: Url,
}

impl RestClient {
    /// Of the server at `url`, such as `http://127.0.0.1:8002`.
    pub fn try_new(client: Client, url: &str) -> Result<Self, Error> {
        let refused = || Error::Address(url.to_owned());
        let base = Url::parse(url).map_err(|_| refused())?;
        let base = base.join("/api/maestro/v1/").map_err(|_| refused())?;
        Ok(Self { client, base })
    }

    /// One bundle; `None` if there is none by that id.
    pub async fn resource_bundle_get(&self, id: &str) -> Result<Option<ResourceBundle>, Error> {
        let answer = self.send(Method::GET, &format!("resource-bundles/{id}"), &[]).await?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        read(answer).await.map(Some)
    }

    /// One page of the bundles that a search finds; all of them if it is empty.
    pub async fn resource_bundle_list(
        &self,
        search: &str,
        page: usize,
        size: usize,
    ) -> Result<List<ResourceBundle>, Error> {
        let (page, size) = (page.to_string(), size.to_string());
        let mut query = vec![("page", page.as_str()), ("size", size.as_str())];
        if !search.is_empty() {
            query.push(("search", search));
        }
        read(self.send(Method::GET, "resource-bundles", &query).await?).await
    }

    /// All bundles that a search finds.
    pub async fn resource_bundle_search(&self, search: &str) -> Result<Vec<ResourceBundle>, Error> {
        let first = self.resource_bundle_list(search, 1, PAGE).await?;
        let pages = first.total.div_ceil(PAGE).max(1);
        let mut found = first.items;
        let mut further = futures::stream::iter(2..=pages)
            .map(|page| self.resource_bundle_list(search, page, PAGE))
            .buffered(AHEAD);
        while let Some(list) = further.next().await {
            found.extend(list?.items);
        }
        // A server whose pages are not of one moment may have more by now.
        for page in pages + 1.. {
            if found.len() < (page - 1) * PAGE {
                break;
            }
            found.extend(self.resource_bundle_list(search, page, PAGE).await?.items);
        }
        Ok(found)
    }

    /// The values that a label has on bundles, each once. Nothing else of the bundles is asked for.
    pub async fn resource_bundle_labels(&self, label: &str) -> Result<BTreeSet<String>, Error> {
        let mut values = BTreeSet::new();
        let size = PAGE.to_string();
        for page in 1.. {
            let page = page.to_string();
            let query = [("page", page.as_str()), ("size", size.as_str()), ("fields", "metadata")];
            let list: List<Value> = read(self.send(Method::GET, "resource-bundles", &query).await?).await?;
            let labels = list.items.iter().filter_map(|item| item["metadata"]["labels"][label].as_str());
            values.extend(labels.map(str::to_owned));
            if list.items.len() < PAGE {
                break;
            }
        }
        Ok(values)
    }

    /// Asks for a bundle to be removed. Also well if there is none.
    pub async fn resource_bundle_delete(&self, id: &str) -> Result<(), Error> {
        let answer = self.send(Method::DELETE, &format!("resource-bundles/{id}"), &[]).await?;
        if answer.status().is_success() { Ok(()) } else { Err(refusal(answer).await) }
    }

    /// All consumers.
    pub async fn consumer_list(&self) -> Result<Vec<Consumer>, Error> {
        let query = [("size", "65500")];
        let list: List<Consumer> = read(self.send(Method::GET, "consumers", &query).await?).await?;
        Ok(list.items)
    }

    /// Makes a consumer. [`Error::Conflict`] if there is one by that name.
    pub async fn consumer_create(&self, consumer: &Consumer) -> Result<Consumer, Error> {
        let url = self.url("consumers", &[])?;
        let answer = self.client.call(Method::POST, url).json(consumer).send().await?;
        if answer.status() == StatusCode::CONFLICT {
            return Err(Error::Conflict(consumer.name.clone()));
        }
        read(answer).await
    }

    async fn send(&self, method: Method, path: &str, query: &[(&str, &str)]) -> Result<Response, Error> {
        Ok(self.client.call(method, self.url(path, query)?).send().await?)
    }

    fn url(&self, path: &str, query: &[(&str, &str)]) -> Result<Url, Error> {
        let mut url = self.base.join(path).map_err(|_| Error::Address(path.to_owned()))?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }
}

async fn read<T: DeserializeOwned>(answer: Response) -> Result<T, Error> {
    if answer.status().is_success() { Ok(answer.json().await?) } else { Err(refusal(answer).await) }
}

async fn refusal(answer: Response) -> Error {
    let status = answer.status();
    match answer.json::<ErrorBody>().await {
        Ok(body) => Error::Refused(format!("{}: {}", body.code, body.reason)),
        Err(_) => Error::Refused(status.to_string()),
    }
}
