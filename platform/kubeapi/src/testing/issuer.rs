//! An issuer of OpenID Connect on the loopback: a discovery document and keys, over TLS, and tokens that say whatever a test
//! wants them to.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use axum::Router;
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pilothouse_http::{Exposure, Listener, ListenerConfig, Metrics, TlsFiles};
use pilothouse_pki::{Authority, AuthorityRequest, KeyAlgorithm, LeafRequest, PrivateKey, Subject};
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, Tasks};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Result;

/// An issuer that answers. It is asked to stop when dropped.
pub struct TokenIssuer {
    address: SocketAddr,
    authority: Authority,
    keys: Arc<Mutex<Vec<Key>>>,
    tasks: Tasks,
    /// The serving certificate is read again while it runs.
    _directory: TempDir,
}

struct Key {
    id: String,
    pair: EcdsaKeyPair,
}

impl TokenIssuer {
    /// Starts one, with one key.
    ///
    /// # Errors
    ///
    /// When anything of it cannot be made.
    pub async fn start() -> Result<Self> {
        let clock = Clock::system();
        let directory = tempfile::tempdir()?;
        let authority =
            Authority::self_signed(&AuthorityRequest::new(Subject::try_new("test issuer")?), &clock)?;
        let request = LeafRequest::server(Subject::try_new("issuer")?, ["127.0.0.1".parse()?]);
        let (certificate, key) = (directory.path().join("tls.crt"), directory.path().join("tls.key"));
        authority.issue(&request, &clock)?.write(&certificate, &key)?;
        let config = ListenerConfig {
            address: ([127, 0, 0, 1], 0).into(),
            tls: Some(TlsFiles { certificate, key, client_authorities: None }),
            exposure: Exposure::Loopback,
        };
        let listener = Listener::bind("the issuer", &config, &clock).await?;
        let address = listener.local_address();
        let keys = Arc::new(Mutex::new(vec![Key::new("first")?]));
        let document = json!({
            "issuer": format!("https://{address}"),
            "jwks_uri": format!("https://{address}/keys"),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        });
        let published = Arc::clone(&keys);
        let router = Router::new()
            .route(
                "/.well-known/openid-configuration",
                get(move || std::future::ready(axum::Json(document.clone()))),
            )
            .route(
                "/keys",
                get(move || {
                    let keys = published.lock().unwrap_or_else(PoisonError::into_inner);
                    let keys: Vec<_> = keys.iter().map(Key::public).collect();
                    std::future::ready(axum::Json(json!({ "keys": keys })))
                }),
            );
        let tasks = Tasks::new("issuer", Shutdown::new());
        let (own, metrics) = (tasks.clone(), Metrics::new(&mut Registry::default()));
        tasks.spawn("issuer", OnExit::LogError, async move { listener.serve(router, metrics, &own).await });
        Ok(Self { address, authority, keys, tasks, _directory: directory })
    }

    /// What its tokens say of who issued them.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Who signed its certificate, in PEM.
    pub fn authority_pem(&self) -> String {
        self.authority.identity().chain_pem()
    }

    /// An `AuthenticationConfiguration` that believes it, for the audience `test`: names are the claim `sub`, groups the
    /// claim `groups`, both behind `oidc:`.
    pub fn configuration(&self) -> Value {
        json!({
            "apiVersion": "apiserver.config.k8s.io/v1beta1",
            "kind": "AuthenticationConfiguration",
            "jwt": [{
                "issuer": {
                    "url": self.url(), "audiences": ["test"], "certificateAuthority": self.authority_pem(),
                },
                "claimMappings": {
                    "username": { "claim": "sub", "prefix": "oidc:" },
                    "groups": { "claim": "groups", "prefix": "oidc:" },
                },
            }],
        })
    }

    /// A token for the audience `test`, good for ten minutes, that says this beside or instead of what is usual.
    ///
    /// # Errors
    ///
    /// When the key signs nothing.
    pub fn token(&self, claims: &Value) -> Result<String> {
        let header = json!({ "alg": "ES256", "kid": self.key_id() });
        self.sign(&header, claims)
    }

    /// The same with a header of the test's choice.
    ///
    /// # Errors
    ///
    /// When the key signs nothing.
    pub fn sign(&self, header: &Value, claims: &Value) -> Result<String> {
        let now = Clock::system().now().as_second();
        let mut all = json!({ "iss": self.url(), "aud": "test", "iat": now, "exp": now + 600 });
        for (name, value) in claims.as_object().into_iter().flatten() {
            all[name] = value.clone();
        }
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", encode(header), encode(&all));
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let key = keys.last().ok_or("the issuer has no key")?;
        let signature = key.pair.sign(&SystemRandom::new(), text.as_bytes())?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Signs with a new key from now on, and no longer publishes the former ones.
    ///
    /// # Errors
    ///
    /// When there is no making one.
    pub fn rotate(&self, id: &str) -> Result<()> {
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = vec![Key::new(id)?];
        Ok(())
    }

    fn key_id(&self) -> String {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.last().map(|key| key.id.clone()).unwrap_or_default()
    }
}

impl Key {
    fn new(id: &str) -> Result<Self> {
        let key = PrivateKey::generate(KeyAlgorithm::EcdsaP256)?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.to_der().secret_der())?;
        Ok(Self { id: id.to_owned(), pair })
    }

    fn public(&self) -> Value {
        let point = self.pair.public_key().as_ref().get(1..).unwrap_or_default();
        let (x, y) = point.split_at(point.len() / 2);
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.id,
            "x": encode(x), "y": encode(y),
        })
    }
}

impl Drop for TokenIssuer {
    fn drop(&mut self) {
        self.tasks.shutdown().request(Reason::Asked("the test is over".to_owned()));
    }
}

impl fmt::Debug for TokenIssuer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TokenIssuer").field("address", &self.address).finish_non_exhaustive()
    }
}
