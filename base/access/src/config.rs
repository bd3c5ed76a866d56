//! How callers are told apart, as a configuration says it.

use std::path::PathBuf;

use pilothouse_arm::SubscriptionId;
use pilothouse_runtime::config::{ByteSize, Duration};
use serde::{Deserialize, Serialize};
use url::{Host, Url};

/// Who is let in, and who is who. Without `jwt` and `mtls` nobody is asked for credentials, and the service keeps to the
/// loopback; with both, either will do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt: Option<Jwt>,
    /// Client certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtls: Option<Mtls>,
    /// Who is Azure Resource Manager: believed about its own callers, and let into every subscription.
    pub arm: Callers,
    /// Who may use the administrators' surface.
    pub administrators: Callers,
    /// Who may act on subscriptions of other tenants than its own.
    pub roles: Vec<Role>,
}

/// Tokens that are believed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jwt {
    /// Who issues them: the claim `iss`, word for word.
    pub issuer: String,
    /// For whom they are issued: one of the values of the claim `aud`.
    pub audience: String,
    /// Where the issuer's public keys are. This or `keys_file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys_url: Option<Url>,
    /// A file with the issuer's public keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys_file: Option<PathBuf>,
    /// Authorities that certify the server of `keys_url`, PEM; without it those of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys_authorities: Option<PathBuf>,
    /// The applications that may call; all of the issuer's if there are none.
    #[serde(default)]
    pub allowed_app_ids: Vec<String>,
    /// How far the issuer's clock may be from ours.
    #[serde(default = "Jwt::clock_skew")]
    pub clock_skew: Duration,
    /// How old the keys become before they are read again, whether or not anybody misses one.
    #[serde(default = "Jwt::keys_age")]
    pub keys_age: Duration,
    /// How long to wait, at least, between two attempts to read the keys: strangers can make us want them.
    #[serde(default = "Jwt::keys_pause")]
    pub keys_pause: Duration,
}

/// Client certificates that are believed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mtls {
    /// The authorities that issue them, PEM. What a certificate is good for is decided by its subject, under `arm`,
    /// `administrators` and `roles`.
    pub client_authorities: PathBuf,
}

/// Some callers, by what their credentials say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Callers {
    /// Applications: the claim `appid` or `azp`.
    pub app_ids: Vec<String>,
    /// Users and service principals: the claim `oid`.
    pub object_ids: Vec<String>,
    /// Certificates: the common name, a DNS name or a URI.
    pub certificate_subjects: Vec<String>,
}

/// What somebody may do beyond their own tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Role {
    /// Who.
    pub callers: Callers,
    /// In which subscriptions.
    pub subscriptions: Vec<SubscriptionId>,
    /// In all of them.
    pub all_subscriptions: bool,
}

/// The record of who did what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuditConfig {
    /// The file that records are added to, beside the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// How large it becomes before a new one is begun.
    pub rotate_at: ByteSize,
    /// How many former ones are kept, as `FILE.1` (the latest) and so on.
    pub keep: u32,
}

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Without keys no token can be checked; with two places for them it is not clear which is right.
    #[error("tokens need exactly one place for the issuer's keys: set `jwt.keys_url` or `jwt.keys_file`")]
    KeysPlace,
    /// Whoever can change the keys on their way is the issuer.
    #[error("`jwt.keys_url` must begin with `https`, since `{0}` is not on this machine")]
    KeysInTheClear(String),
    /// An empty name fits a token that says nothing.
    #[error("`jwt.{0}` must not be empty")]
    Empty(&'static str),
    /// Nobody could use the role.
    #[error(
        "`roles` has an entry for nobody, or for no subscription; set its `callers` and its `subscriptions`"
    )]
    IdleRole,
    /// Nobody could have a certificate that is known.
    #[error("`mtls` is set, but nobody is known by a certificate; name some `certificate_subjects`")]
    NoSubjects,
}

// === impl Config ===

impl Config {
    /// Whether nobody is asked for credentials.
    pub fn is_none(&self) -> bool {
        self.jwt.is_none() && self.mtls.is_none()
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if let Some(jwt) = &self.jwt {
            jwt.check()?;
        }
        let idle = |role: &Role| {
            role.callers.is_empty() || (role.subscriptions.is_empty() && !role.all_subscriptions)
        };
        if self.roles.iter().any(idle) {
            return Err(ConfigError::IdleRole);
        }
        if self.mtls.is_some() && self.callers().all(|callers| callers.certificate_subjects.is_empty()) {
            return Err(ConfigError::NoSubjects);
        }
        Ok(())
    }

    fn callers(&self) -> impl Iterator<Item = &Callers> {
        [&self.arm, &self.administrators].into_iter().chain(self.roles.iter().map(|role| &role.callers))
    }
}

impl Jwt {
    fn clock_skew() -> Duration {
        Duration::from_secs(60)
    }

    fn keys_age() -> Duration {
        Duration::from_secs(60 * 60)
    }

    fn keys_pause() -> Duration {
        Duration::from_secs(10)
    }

    /// Tokens of this issuer for this audience, with its keys in a file.
    pub fn with_keys_file(issuer: &str, audience: &str, file: impl Into<PathBuf>) -> Self {
        Self {
            issuer: issuer.to_owned(),
            audience: audience.to_owned(),
            keys_url: None,
            keys_file: Some(file.into()),
            keys_authorities: None,
            allowed_app_ids: Vec::new(),
            clock_skew: Self::clock_skew(),
            keys_age: Self::keys_age(),
            keys_pause: Self::keys_pause(),
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        for (name, value) in [("issuer", &self.issuer), ("audience", &self.audience)] {
            if value.trim().is_empty() {
                return Err(ConfigError::Empty(name));
            }
        }
        match (&self.keys_url, &self.keys_file) {
            (Some(url), None) if url.scheme() == "https" || is_loopback(url) => Ok(()),
            (Some(url), None) => {
                Err(ConfigError::KeysInTheClear(url.host_str().unwrap_or_default().to_owned()))
            }
            (None, Some(_)) => Ok(()),
            (None, None) | (Some(_), Some(_)) => Err(ConfigError::KeysPlace),
        }
    }
}

fn is_loopback(url: &Url) -> bool {
    url.scheme() == "http"
        && match url.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
            // A name may lead anywhere.
            Some(Host::Domain(_)) | None => false,
        }
}

// === impl Callers ===

impl Callers {
    fn is_empty(&self) -> bool {
        let Self { app_ids, object_ids, certificate_subjects } = self;
        app_ids.is_empty() && object_ids.is_empty() && certificate_subjects.is_empty()
    }
}

// === impl AuditConfig ===

impl Default for AuditConfig {
    fn default() -> Self {
        Self { file: None, rotate_at: ByteSize(64 << 20), keep: 5 }
    }
}
