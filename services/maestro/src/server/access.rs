//! Who may speak for whom.
//!
//! A caller of either gRPC interface says for whom it speaks: a source names itself in its events, an agent its consumer.
//! Where callers are told apart, that has to be true. By certificate, the common name is the one it may speak for. By
//! token, Kubernetes says who the caller is and what it may do; it may also decide about certificates. Its answers are
//! good for a few seconds.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use pilothouse_http::{ListenerConfig, Peer};
use pilothouse_runtime::Chain;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tracing::{info, warn};

/// How long an answer of Kubernetes is good for.
const GOOD_FOR: Duration = Duration::from_secs(10);
/// Answers that are remembered.
const REMEMBERED: usize = 10_000;
/// How long Kubernetes may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How callers of a gRPC interface are told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccessConfig {
    /// By what.
    pub authentication: Authentication,
    /// The cluster that knows tokens and permissions. Needed for tokens; without it, a certificate may speak for its common
    /// name.
    pub kubeconfig: Option<PathBuf>,
}

/// What a caller is known by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Authentication {
    /// Nothing: everybody may say everything. For this machine, or where something in front knows its callers.
    #[default]
    None,
    /// A client certificate; the interface needs mutual TLS.
    Mtls,
    /// A token in the header `authorization`.
    Token,
}

/// Why callers cannot be told apart as configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// Certificates are not asked for.
    #[error(
        "{0} knows its callers by certificate, but asks for none; name `client_authorities` in its TLS files"
    )]
    NoCertificates(&'static str),
    /// There is nobody to ask.
    #[error("{0} knows its callers by token, but nobody to ask about them; name a `kubeconfig`")]
    NobodyToAsk(&'static str),
    /// The cluster's client cannot be set up.
    #[error("the kubeconfig `{}` cannot be used", .file.display())]
    Kubeconfig {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Decides. A cheap handle.
#[derive(Clone)]
pub(super) struct Access(Arc<Inner>);

struct Inner {
    authentication: Authentication,
    cluster: Option<kube::Client>,
    tokens: Remembered<String, User>,
    allowed: Remembered<(User, String, &'static str), ()>,
}

/// What came with a call.
#[derive(Clone, Debug, Default)]
pub(super) struct Credentials {
    peer: Option<Peer>,
    token: Option<String>,
}

/// For whom a caller speaks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Claim<'a> {
    Source(&'a str),
    Consumer(&'a str),
}

/// What a caller does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verb {
    Publish,
    Subscribe,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct User {
    name: String,
    groups: Vec<String>,
}

struct Remembered<K, V>(Mutex<HashMap<K, (V, Instant)>>);

// === impl Credentials ===

impl Credentials {
    pub(super) fn of<T>(request: &tonic::Request<T>) -> Self {
        let header = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        let bearer = header.and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            (scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty())
                .then(|| token.trim().to_owned())
        });
        Self { peer: request.extensions().get::<Peer>().cloned(), token: bearer }
    }
}

// === impl Access ===

impl Access {
    /// For a listener. `name` is what it is called when something does not fit.
    pub(super) async fn try_new(
        config: &AccessConfig,
        listener: &ListenerConfig,
        name: &'static str,
    ) -> Result<Self, AccessError> {
        let asks = listener.tls.as_ref().is_some_and(|tls| tls.client_authorities.is_some());
        match config.authentication {
            Authentication::Mtls if !asks => return Err(AccessError::NoCertificates(name)),
            Authentication::Token if config.kubeconfig.is_none() => {
                return Err(AccessError::NobodyToAsk(name));
            }
            _ => {}
        }
        let cluster = match &config.kubeconfig {
            Some(file) => {
                let refused = |source| AccessError::Kubeconfig { file: file.clone(), source };
                Some(client(file).await.map_err(refused)?)
            }
            None => None,
        };
        Ok(Self(Arc::new(Inner {
            authentication: config.authentication,
            cluster,
            tokens: Remembered::new(),
            allowed: Remembered::new(),
        })))
    }

    /// Whether callers are told apart.
    pub(super) fn is_on(&self) -> bool {
        self.0.authentication != Authentication::None
    }

    /// Whether a caller may speak for whom it says.
    pub(super) async fn check(
        &self,
        credentials: &Credentials,
        claim: Claim<'_>,
        verb: Verb,
    ) -> Result<(), tonic::Status> {
        let user = match self.0.authentication {
            Authentication::None => return Ok(()),
            Authentication::Mtls => by_certificate(credentials)?,
            Authentication::Token => self.by_token(credentials).await?,
        };
        let allowed = match &self.0.cluster {
            Some(cluster) => self.reviewed(cluster, &user, claim, verb).await?,
            None => user.name == claim.name(),
        };
        if allowed {
            return Ok(());
        }
        let refusal = format!("`{}` may not {} as {}", user.name, verb.word(), claim.described());
        info!(user = user.name, "{refusal}");
        Err(tonic::Status::permission_denied(refusal))
    }

    async fn by_token(&self, credentials: &Credentials) -> Result<User, tonic::Status> {
        let unauthenticated = tonic::Status::unauthenticated;
        let token = credentials.token.as_ref().ok_or_else(|| {
            unauthenticated("there is no token; send it in the header `authorization`, after `Bearer`")
        })?;
        if let Some(user) = self.0.tokens.get(token) {
            return Ok(user);
        }
        let cluster = self.0.cluster.as_ref().ok_or_else(|| unauthenticated("nobody knows tokens here"))?;
        let review = TokenReview {
            spec: TokenReviewSpec { token: Some(token.clone()), ..TokenReviewSpec::default() },
            ..TokenReview::default()
        };
        let reviews: Api<TokenReview> = Api::all(cluster.clone());
        let answer = in_time(reviews.create(&PostParams::default(), &review)).await?;
        let status = answer.status.filter(|status| status.authenticated == Some(true));
        let user = status.and_then(|status| status.user).ok_or_else(|| {
            unauthenticated("the token is not good: expired, revoked, or of another cluster; get a new one")
        })?;
        let user = User { name: user.username.unwrap_or_default(), groups: user.groups.unwrap_or_default() };
        self.0.tokens.put(token.clone(), user.clone());
        Ok(user)
    }

    async fn reviewed(
        &self,
        cluster: &kube::Client,
        user: &User,
        claim: Claim<'_>,
        verb: Verb,
    ) -> Result<bool, tonic::Status> {
        let path = claim.path();
        let asked = (user.clone(), path.clone(), verb.of_rules());
        if self.0.allowed.get(&asked).is_some() {
            return Ok(true);
        }
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.name.clone()),
                groups: Some(user.groups.clone()),
                non_resource_attributes: Some(NonResourceAttributes {
                    path: Some(path),
                    verb: Some(verb.of_rules().to_owned()),
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(cluster.clone());
        let answer = in_time(reviews.create(&PostParams::default(), &review)).await?;
        let allowed = answer.status.is_some_and(|status| status.allowed);
        if allowed {
            self.0.allowed.put(asked, ());
        }
        Ok(allowed)
    }
}

impl std::fmt::Debug for Access {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Access")
            .field("authentication", &self.0.authentication)
            .finish_non_exhaustive()
    }
}

fn by_certificate(credentials: &Credentials) -> Result<User, tonic::Status> {
    let identity = credentials.peer.as_ref().and_then(Peer::identity);
    let identity = identity.filter(|identity| !identity.common_name().is_empty()).ok_or_else(|| {
        tonic::Status::unauthenticated("there is no client certificate with a common name; show one")
    })?;
    Ok(User { name: identity.common_name().to_owned(), groups: identity.organizations().to_vec() })
}

async fn client(file: &std::path::Path) -> Result<kube::Client, Box<dyn std::error::Error + Send + Sync>> {
    let kubeconfig = Kubeconfig::read_from(file)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(pilothouse_informer::client(&config)?)
}

async fn in_time<T>(asking: impl Future<Output = Result<T, kube::Error>>) -> Result<T, tonic::Status> {
    let unavailable = || tonic::Status::unavailable("it cannot be told who calls at the moment; try again");
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => {
            warn!(error = %Chain(&error), "the cluster that knows the callers does not answer");
            Err(unavailable())
        }
        Err(_) => {
            warn!("the cluster that knows the callers does not answer in time");
            Err(unavailable())
        }
    }
}

// === impl Claim ===

impl Claim<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Source(name) | Self::Consumer(name) => name,
        }
    }

    fn described(&self) -> String {
        match self {
            Self::Source(name) => format!("source `{name}`"),
            Self::Consumer(name) => format!("the agent of consumer `{name}`"),
        }
    }

    /// What rules of Kubernetes are about. That of sources is the original's.
    fn path(&self) -> String {
        match self {
            Self::Source(name) => format!("/sources/{name}"),
            Self::Consumer(name) => format!("/clusters/{name}"),
        }
    }
}

// === impl Verb ===

impl Verb {
    fn word(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Subscribe => "subscribe",
        }
    }

    fn of_rules(self) -> &'static str {
        match self {
            Self::Publish => "pub",
            Self::Subscribe => "sub",
        }
    }
}

// === impl Remembered ===

impl<K: std::hash::Hash + Eq, V: Clone> Remembered<K, V> {
    fn new() -> Self {
        Self(Mutex::default())
    }

    fn get(&self, key: &K) -> Option<V> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).filter(|(_, at)| at.elapsed() < GOOD_FOR).map(|(value, _)| value.clone())
    }

    fn put(&self, key: K, value: V) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.retain(|_, (_, at)| at.elapsed() < GOOD_FOR);
        }
        if known.len() < REMEMBERED {
            known.insert(key, (value, Instant::now()));
        }
    }
}
