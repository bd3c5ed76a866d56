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
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, crypto};
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
/// The largest document that is read. Issuers have a handful of keys.
const LARGEST: usize = 1 << 20;

/// What tokens for our own services are signed with: one algorithm for each kind of key.
const USUAL: &[Algorithm] = &[Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];
/// What issuers of OpenID Connect sign with, as far as Kubernetes accepts it and we can verify it.
const OF_DISCOVERED: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
];
/// How old the keys of such an issuer become, and the pause between two attempts to read them.
const AGE: Duration = Duration::from_secs(60 * 60);
const PAUSE: Duration = Duration::from_secs(10);

/// The keys of one issuer. A cheap handle.
#[derive(Clone, Debug)]
pub struct Keys(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    place: Place,
    current: ArcSwap<Set>,
    /// When they were last asked for. Held while they are read, so that one read serves all who wait.
    attempted_at: Mutex<Option<Instant>>,
    failure: ArcSwap<Option<String>>,
    age: Duration,
    pause: Duration,
    /// What a token may be signed with at all.
    accepted: &'static [Algorithm],
    metrics: Metrics,
}

#[derive(Debug)]
enum Place {
    Url(Url, Client),
    File(PathBuf),
    /// Where the issuer says, in the document of this address, which has to be that issuer's.
    Discovered {
        issuer: String,
        document: Url,
        client: Client,
    },
}

/// What was read.
#[derive(Debug, Default)]
struct Set {
    /// None before the first success.
    read: bool,
    by_id: HashMap<String, Key>,
}

/// A key, and the algorithms it is good for: what the token says is compared with them, never the other way round.
#[derive(Clone, Debug)]
struct Key {
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions that must be understood. We understand none.
    crit: Option<Value>,
}

/// What an issuer says of itself, as far as it matters here.
#[derive(Deserialize)]
struct Document {
    issuer: String,
    jwks_uri: Url,
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
    #[error("the answer has more than {LARGEST} bytes")]
    TooLarge,
    #[error("the discovery document is that of `{0}`, another issuer")]
    Issuer(String),
    #[error("the discovery document says that the keys are at `{0}`, which is no `https` address")]
    InTheClear(String),
    #[error("what was read is not a set of keys, nor a document that says where they are")]
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
            accepted: USUAL,
            metrics,
        })))
    }

    /// The keys of an issuer of OpenID Connect, which says where they are in a document at this address. They are read when
    /// the first token comes, or by [`watch`](Self::watch).
    pub fn discovered(issuer: impl Into<String>, document: Url, client: Client) -> Self {
        Self(Arc::new(Inner {
            place: Place::Discovered { issuer: issuer.into(), document, client },
            current: ArcSwap::default(),
            attempted_at: Mutex::new(None),
            failure: ArcSwap::default(),
            age: AGE,
            pause: PAUSE,
            accepted: OF_DISCOVERED,
            metrics: Metrics::default(),
        }))
    }

    /// Reads them by age, as a task that may be stopped anywhere.
    pub fn watch(&self, tasks: &Tasks) {
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

    /// What a token says that one of the keys has signed. Nothing of it has been looked at.
    ///
    /// # Errors
    ///
    /// When it is no token, or none that the issuer signed.
    pub async fn open(&self, token: &str) -> Result<Vec<u8>, Denial> {
        let mut parts = token.split('.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(Denial::Token(Fault::Malformed));
        };
        let malformed = Denial::Token(Fault::Malformed);
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| malformed.clone());
        let Header { alg, kid, crit } =
            serde_json::from_slice(&decode(header)?).map_err(|_| malformed.clone())?;
        if crit.is_some() {
            return Err(malformed);
        }
        let algorithm = alg.parse().ok().filter(|algorithm| self.0.accepted.contains(algorithm));
        let algorithm = algorithm.ok_or(Denial::Token(Fault::Algorithm))?;
        let kid = kid.ok_or(Denial::Token(Fault::NoKeyId))?;
        let key = self.find(&kid).await?;
        // Otherwise a public key could be passed off as another kind of key.
        if !key.algorithms.contains(&algorithm) {
            return Err(Denial::Token(Fault::Signature));
        }
        let signed = &token[..header.len() + 1 + payload.len()];
        match crypto::verify(signature, signed.as_bytes(), &key.key, algorithm) {
            Ok(true) => decode(payload),
            Ok(false) | Err(_) => Err(Denial::Token(Fault::Signature)),
        }
    }

    /// The key of this id.
    async fn find(&self, id: &str) -> Result<Key, Denial> {
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
            Place::Url(url, client) => fetch(client, url).await?,
            Place::Discovered { issuer, document, client } => {
                let document: Document = serde_json::from_slice(&fetch(client, document).await?)?;
                if document.issuer != *issuer {
                    return Err(ReadError::Issuer(document.issuer));
                }
                if document.jwks_uri.scheme() != "https" {
                    return Err(ReadError::InTheClear(document.jwks_uri.into()));
                }
                fetch(client, &document.jwks_uri).await?
            }
        };
        let Published { keys } = serde_json::from_slice(&text)?;
        // One key of a kind that we do not know does not spoil the others.
        let by_id: HashMap<_, _> = keys.into_iter().filter_map(|key| usable(key, self.accepted)).collect();
        if by_id.is_empty() {
            return Err(ReadError::Unusable);
        }
        Ok(Set { read: true, by_id })
    }
}

async fn fetch(client: &Client, url: &Url) -> Result<Vec<u8>, ReadError> {
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
    Ok(text)
}

/// A key for signatures that are accepted.
fn usable(key: Value, accepted: &[Algorithm]) -> Option<(String, Key)> {
    use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
    let jwk: Jwk = serde_json::from_value(key).ok()?;
    if jwk.common.public_key_use.as_ref().is_some_and(|what| *what != PublicKeyUse::Signature) {
        return None;
    }
    let of_kind: &[Algorithm] = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => &[RS256, RS384, RS512, PS256, PS384, PS512],
        AlgorithmParameters::EllipticCurve(curve) if curve.curve == EllipticCurve::P256 => &[ES256],
        AlgorithmParameters::EllipticCurve(curve) if curve.curve == EllipticCurve::P384 => &[ES384],
        AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => &[EdDSA],
        _ => return None,
    };
    // A key that says what it is for is for nothing else.
    let said = |algorithm: Algorithm| jwk.common.key_algorithm.is_none_or(|said| said == algorithm.into());
    let algorithms: Vec<_> = of_kind
        .iter()
        .copied()
        .filter(|algorithm| accepted.contains(algorithm) && said(*algorithm))
        .collect();
    if algorithms.is_empty() {
        return None;
    }
    let key = DecodingKey::from_jwk(&jwk).ok()?;
    Some((jwk.common.key_id?, Key { algorithms, key }))
}
