//! An issuer whose every claim can be bent, and a service behind the gate.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::routing::any;
use axum::{Extension, Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue, StatusCode};
use jiff::Timestamp;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, crypto};
use pilothouse_access::{
    Access, Audit, AuditConfig, Callers, Config, Denial, Gate, Jwt, Principal, Role, TenantFuture, Tenants,
    Through,
};
use pilothouse_arm::SubscriptionId;
use pilothouse_http::{Metrics, Stack};
use pilothouse_pki::{KeyAlgorithm, PrivateKey};
use pilothouse_runtime::{Clock, ManualClock};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt as _;

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const NOW: i64 = 1_800_000_000;
pub(crate) const ISSUER: &str = "https://issuer.test/";
pub(crate) const AUDIENCE: &str = "https://pilothouse.test";
pub(crate) const TENANT: &str = "11111111-1111-1111-1111-111111111111";
pub(crate) const ARM: &str = "aaaaaaaa-0000-0000-0000-000000000001";
pub(crate) const SUPPORT: &str = "aaaaaaaa-0000-0000-0000-000000000002";
pub(crate) const OURS: &str = "0b1f6471-1bf0-4dda-aec3-cb9272f09590";
pub(crate) const THEIRS: &str = "0b1f6471-1bf0-4dda-aec3-cb9272f09591";

/// A key pair of an issuer.
pub(crate) struct SigningKey {
    pub(crate) id: String,
    key: EncodingKey,
}

impl SigningKey {
    pub(crate) fn new(id: &str) -> Self {
        let key = PrivateKey::generate(KeyAlgorithm::EcdsaP256).unwrap();
        Self { id: id.to_owned(), key: EncodingKey::from_ec_der(key.to_der().secret_der()) }
    }

    pub(crate) fn public(&self) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.key, Algorithm::ES256).unwrap();
        jwk.common.key_id = Some(self.id.clone());
        serde_json::to_value(jwk).unwrap()
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_with(&json!({"alg": "ES256", "typ": "JWT", "kid": self.id}), claims)
    }

    pub(crate) fn sign_with(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", part(header), part(claims));
        let signature = crypto::sign(message.as_bytes(), &self.key, Algorithm::ES256).unwrap();
        format!("{message}.{signature}")
    }
}

pub(crate) fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

/// What a good token of somebody at home in our tenant says.
pub(crate) fn claims() -> Value {
    json!({
        "iss": ISSUER, "aud": AUDIENCE, "exp": NOW + 600, "nbf": NOW - 10, "iat": NOW - 10,
        "tid": TENANT, "oid": "22222222-2222-2222-2222-222222222222", "azp": "some-app",
        "preferred_username": "ada@team.test",
    })
}

pub(crate) fn with(changes: Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

/// One tenant for one subscription.
#[derive(Debug)]
pub(crate) struct Directory(pub(crate) BTreeMap<SubscriptionId, String>);

impl Tenants for Directory {
    fn tenant_of<'a>(&'a self, subscription: SubscriptionId) -> TenantFuture<'a> {
        Box::pin(async move { Ok(self.0.get(&subscription).cloned()) })
    }
}

/// Access with an issuer whose keys are in a file.
pub(crate) struct Rig {
    pub(crate) folder: TempDir,
    pub(crate) key: SigningKey,
    pub(crate) clock: Clock,
    pub(crate) time: ManualClock,
    pub(crate) registry: Registry,
    pub(crate) config: Config,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = SigningKey::new("first");
        let (clock, time) = Clock::manual(Timestamp::from_second(NOW).unwrap());
        let only = |app_id: &str| Callers { app_ids: vec![app_id.to_owned()], ..Callers::default() };
        let config = Config {
            jwt: Some(Jwt::with_keys_file(ISSUER, AUDIENCE, folder.path().join("keys.json"))),
            arm: only(ARM),
            administrators: only("administrators"),
            roles: vec![Role {
                callers: only(SUPPORT),
                subscriptions: vec![THEIRS.parse().unwrap()],
                all_subscriptions: false,
            }],
            ..Config::default()
        };
        let rig = Self { folder, key, clock, time, registry: Registry::default(), config };
        rig.publish(&[rig.key.public()]);
        rig
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn publish(&self, keys: &[Value]) {
        std::fs::write(self.path("keys.json"), json!({ "keys": keys }).to_string()).unwrap();
    }

    pub(crate) fn access(&mut self) -> Access {
        Access::build(self.config.clone(), self.clock.clone(), &mut self.registry).unwrap()
    }

    /// A service that answers with what it was told.
    pub(crate) fn service(&mut self, audit: &AuditConfig) -> Service {
        let tenants = Directory(BTreeMap::from([(OURS.parse().unwrap(), TENANT.to_uppercase())]));
        self.behind(audit, Through::Callers(Arc::new(tenants)))
    }

    pub(crate) fn behind(&mut self, audit: &AuditConfig, through: Through) -> Service {
        let audit = Audit::open(audit, &mut self.registry).unwrap();
        let gate = Gate::new(self.access(), audit.clone(), through).with_open_paths(&["/healthz"]);
        let echo = Router::new().fallback(any(echo));
        let stack = Stack::new(Metrics::new(&mut self.registry));
        Service { router: stack.around(gate.around(echo)), gate, audit }
    }

    pub(crate) fn numbers(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }
}

async fn echo(principal: Option<Extension<Principal>>, request: Request) -> Json<Value> {
    let headers: BTreeMap<_, _> = request
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap().to_owned()))
        .collect();
    let principal = principal.map(|Extension(principal)| principal);
    Json(json!({
        "headers": headers,
        "name": principal.as_ref().map(Principal::name),
        "how": principal.as_ref().map(Principal::how),
    }))
}

pub(crate) struct Service {
    pub(crate) router: Router,
    pub(crate) gate: Gate,
    pub(crate) audit: Audit,
}

pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Service {
    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&'static str, &str)]) -> Reply {
        send(&self.router, method, path, headers).await
    }

    pub(crate) async fn get_as(&self, token: &str, path: &str) -> Reply {
        self.send("GET", path, &[("authorization", &format!("Bearer {token}"))]).await
    }
}

pub(crate) async fn send(
    router: &Router,
    method: &str,
    path: &str,
    headers: &[(&'static str, &str)],
) -> Reply {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, 1 << 20).await.unwrap();
    Reply {
        status: parts.status,
        headers: parts.headers,
        body: serde_json::from_slice(&bytes).unwrap_or_default(),
    }
}

impl Reply {
    pub(crate) fn code(&self) -> &str {
        self.body["error"]["code"].as_str().unwrap_or_default()
    }

    pub(crate) fn message(&self) -> &str {
        self.body["error"]["message"].as_str().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

/// Who has this token.
pub(crate) async fn identify(access: &Access, token: &str) -> Result<Principal, Denial> {
    let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
    let headers = HeaderMap::from_iter([(http::header::AUTHORIZATION, value)]);
    access.identify(&headers, None).await
}
