//! The public keys of an issuer, kept up to date.
//!
//! Issuers rotate their keys, and tell by publishing a new set. It is read again by age, and when a token names a key
//! that is not in it. The second is in strangers' hands, who could make us call the issuer as often as they like; so
//! there is a pause between two attempts, whatever they bring. If the set cannot be read, the last one stays in use.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use pilothouse_http::{CallError, Client, ClientBuildError, ClientBuilder, Verdict};
use pilothouse_pki::Bundle;
use pilothouse_runtime::{Chain, OnExit, Tasks};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::{info, warn};
use url::Url;

use crate::config::Jwt;
use crate::denial::{Denial, Fault};
use crate::metrics::Metrics;

/// How long reading the keys may take: requests wait for it.
const LIMIT: Duration = Duration::from_secs(5);
/// The largest set that is read. Issuers have a handful of keys.
const LARGEST: usize = 1 << 20;

/// The keys of one issuer. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Keys(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    place: Place,
    current: ArcSwap<Set>,
    /// When they were last asked for. Held while they are read, so that one read serves all who wait.
    attempted_at: Mutex<Option<Instant>>,
    failure: ArcSwap<Option<String>>,
    age: Duration,
    pause: Duration,
    metrics: Metrics,
}

#[derive(Debug)]
enum Place {
    Url(Url, Client),
    File(PathBuf),
}

/// What was read.
#[derive(Debug, Default)]
struct Set {
    /// None before the first success.
    read: bool,
    by_id: HashMap<String, Key>,
}

/// A key, and the one algorithm it is good for: what the token says is compared with it, never the other way round.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) algorithm: Algorithm,
    pub(crate) key: DecodingKey,
}

#[derive(Deserialize)]
struct Published {
    keys: Vec<Value>,
}

/// Why keys could not be read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("the keys' file `{}` cannot be read", .0.display())]
    File(PathBuf, #[source] std::io::Error),
    #[error("the keys cannot be fetched")]
    Call(#[from] CallError),
    #[error("the keys' server answered {0}")]
    Status(http::StatusCode),
    #[error("the set of keys has more than {LARGEST} bytes")]
    TooLarge,
    #[error("what was read is not a set of keys")]
    Malformed(#[from] serde_json::Error),
    #[error("none of the keys in the set can be used")]
    Unusable,
}

/// Why the keys could not even be asked for.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The authorities of the keys' server cannot be used.
    #[error("the authorities in `jwt.keys_authorities` cannot be used")]
    Authorities(#[from] pilothouse_pki::Error),
    /// There is no client to fetch them with.
    #[error("the client for `jwt.keys_url` cannot be built")]
    Client(#[from] ClientBuildError),
}

impl Keys {
    /// Does not read them yet: an issuer that is down is no reason not to start.
    pub(crate) fn try_new(config: &Jwt, metrics: Metrics) -> Result<Self, KeysError> {
        let place = match (&config.keys_url, &config.keys_file) {
            (Some(url), _) => {
                let builder = ClientBuilder::new(LIMIT);
                let builder = match &config.keys_authorities {
                    Some(file) => builder.with_authorities(Bundle::load(file)?),
                    None if url.scheme() == "https" => builder.with_system_authorities(),
                    None => builder,
                };
                Place::Url(url.clone(), builder.build()?)
            }
            (None, file) => Place::File(file.clone().unwrap_or_default()),
        };
        Ok(Self(Arc::new(Inner {
            place,
            current: ArcSwap::default(),
            attempted_at: Mutex::new(None),
            failure: ArcSwap::default(),
            age: config.keys_age.0,
            pause: config.keys_pause.0,
            metrics,
        })))
    }

    /// Reads them by age, as a task that may be stopped anywhere.
    pub(crate) fn watch(&self, tasks: &Tasks) {
        let keys = self.clone();
        tasks.spawn("issuer's keys", OnExit::Expendable, async move {
            loop {
                keys.refresh().await;
                // While there are none, every request would have to wait for them.
                let rest = if keys.0.current.load().read { keys.0.age } else { keys.0.pause };
                tokio::time::sleep(rest).await;
            }
        });
    }

    /// The key of this id.
    pub(crate) async fn find(&self, id: &str) -> Result<Key, Denial> {
        if let Some(key) = self.0.current.load().by_id.get(id) {
            return Ok(key.clone());
        }
        self.refresh().await;
        let current = self.0.current.load();
        match current.by_id.get(id) {
            Some(key) => Ok(key.clone()),
            None if current.read => Err(Denial::Token(Fault::UnknownKey)),
            None => Err(Denial::KeysUnavailable),
        }
    }

    /// What the readiness page says.
    pub(crate) fn verdict(&self) -> Verdict {
        let current = self.0.current.load();
        match (&**self.0.failure.load(), current.read) {
            (Some(failure), true) => Verdict::warning(format!("the last keys are in use: {failure}")),
            (Some(failure), false) => Verdict::failed(failure.clone()),
            (None, true) => Verdict::ready(format!("{} keys", current.by_id.len())),
            (None, false) => Verdict::failed("the issuer's keys have not been read yet"),
        }
    }

    async fn refresh(&self) {
        let asked_at = Instant::now();
        let mut attempted_at = self.0.attempted_at.lock().await;
        // Somebody has just tried, perhaps while we waited for the lock.
        if attempted_at.is_some_and(|last| last >= asked_at || last.elapsed() < self.0.pause) {
            return;
        }
        let outcome = self.0.read().await;
        *attempted_at = Some(Instant::now());
        match outcome {
            Ok(set) => {
                let former = self.0.current.load();
                if former.by_id.len() != set.by_id.len()
                    || !former.by_id.keys().all(|id| set.by_id.contains_key(id))
                {
                    info!(keys = set.by_id.len(), "the issuer has other keys");
                }
                self.0.failure.store(Arc::new(None));
                self.0.current.store(Arc::new(set));
            }
            Err(error) => {
                let failure = Chain(&error).to_string();
                warn!(error = failure, "the issuer's keys could not be read; those of before stay in use");
                self.0.metrics.key_reads_failed.inc();
                self.0.failure.store(Arc::new(Some(failure)));
            }
        }
    }
}

impl Inner {
    async fn read(&self) -> Result<Set, ReadError> {
        self.metrics.key_reads.inc();
        let text = match &self.place {
            Place::File(path) => {
                tokio::fs::read(path).await.map_err(|source| ReadError::File(path.clone(), source))?
            }
            Place::Url(url, client) => {
                let mut response = client.get(url.clone()).send().await?;
                if !response.status().is_success() {
                    return Err(ReadError::Status(response.status()));
                }
                let mut text = Vec::new();
                while let Some(chunk) = response.chunk().await? {
                    text.extend_from_slice(&chunk);
                    if text.len() > LARGEST {
                        return Err(ReadError::TooLarge);
                    }
                }
                text
            }
        };
        let Published { keys } = serde_json::from_slice(&text)?;
        // One key of a kind that we do not know does not spoil the others.
        let by_id: HashMap<_, _> = keys.into_iter().filter_map(usable).collect();
        if by_id.is_empty() {
            return Err(ReadError::Unusable);
        }
        Ok(Set { read: true, by_id })
    }
}

/// A key for signatures of one of the three kinds.
fn usable(key: Value) -> Option<(String, Key)> {
    let jwk: Jwk = serde_json::from_value(key).ok()?;
    if jwk.common.public_key_use.as_ref().is_some_and(|what| *what != PublicKeyUse::Signature) {
        return None;
    }
    let (algorithm, name) = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => (Algorithm::RS256, KeyAlgorithm::RS256),
        AlgorithmParameters::EllipticCurve(curve) if curve.curve == EllipticCurve::P256 => {
            (Algorithm::ES256, KeyAlgorithm::ES256)
        }
        AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => {
            (Algorithm::EdDSA, KeyAlgorithm::EdDSA)
        }
        _ => return None,
    };
    if jwk.common.key_algorithm.is_some_and(|said| said != name) {
        return None;
    }
    let key = DecodingKey::from_jwk(&jwk).ok()?;
    Some((jwk.common.key_id?, Key { algorithm, key }))
}
