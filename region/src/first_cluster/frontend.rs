//! The resource provider as a client sees it.

use http::{Method, StatusCode};
use jiff::Timestamp;
use pilothouse_http::{Call, Client};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use url::Url;

use super::{FirstClusterError, accepted};

/// The frontend, and what it is shown.
pub(super) struct Frontend {
    client: Client,
    token: Option<SecretString>,
}

// === impl Frontend ===

impl Frontend {
    pub(super) fn new(client: Client, token: Option<SecretString>) -> Self {
        Self { client, token }
    }

    pub(super) async fn get(&self, url: Url) -> Result<(StatusCode, Value), FirstClusterError> {
        let response = self.call(Method::GET, url).send().await?;
        let status = response.status();
        Ok((status, serde_json::from_slice(&response.bytes().await?).unwrap_or_default()))
    }

    /// Every entry of a list, page by page.
    pub(super) async fn list(&self, url: Url) -> Result<Vec<Value>, FirstClusterError> {
        let (mut found, mut next) = (Vec::new(), Some(url));
        while let Some(url) = next.take() {
            let (status, mut page) = self.get(url.clone()).await?;
            accepted("a list", status, &page)?;
            if let Value::Array(values) = page["value"].take() {
                found.extend(values);
            }
            next = page["nextLink"].as_str().and_then(|link| url.join(link).ok());
        }
        Ok(found)
    }

    pub(super) async fn put(&self, url: Url, body: &Value) -> Result<(StatusCode, Value), FirstClusterError> {
        let response = self.call(Method::PUT, url).json(body).send().await?;
        let status = response.status();
        Ok((status, serde_json::from_slice(&response.bytes().await?).unwrap_or_default()))
    }

    fn call(&self, method: Method, url: Url) -> Call {
        let call = self.client.call(method, url);
        match &self.token {
            Some(token) => call.bearer(token.expose_secret()),
            None => call,
        }
    }
}

/// Of these operations the one that ended like this and was begun last.
pub(super) fn newest<'a>(operations: &'a [Value], state: &str) -> Option<&'a Value> {
    let begun = |operation: &&Value| text(operation, "/startedAt").parse::<Timestamp>().ok();
    operations.iter().filter(|operation| operation["state"] == state).max_by_key(begun)
}

pub(super) fn text(answer: &Value, pointer: &str) -> String {
    answer.pointer(pointer).and_then(Value::as_str).unwrap_or("(nothing)").to_owned()
}
