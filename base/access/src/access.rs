//! From credentials to a principal.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use pilothouse_arm::IdentityType;
use pilothouse_http::{
    AllowedCallers, BindError, CertificateError, CertificateSource, Health, Listener, ListenerConfig, Peer,
    PeerIdentity,
};
use pilothouse_pki::Bundle;
use pilothouse_runtime::{Clock, Tasks};
use prometheus_client::registry::Registry;

use crate::config::{Callers, Config, ConfigError, Jwt, Role};
use crate::denial::{Denial, Fault, Scheme};
use crate::keys::{Keys, KeysError};
use crate::metrics::Metrics;
use crate::principal::{Credential, Known, Principal, Reach, Standing};
use crate::token::{self, Claims};

/// Tells who makes a request. A cheap handle.
#[derive(Clone, Debug)]
pub struct Access(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    config: Config,
    keys: Option<Keys>,
    clock: Clock,
}

/// Why callers cannot be told apart.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration makes no sense.
    #[error("the configuration of `access` cannot be used")]
    Config(#[from] ConfigError),
    /// The issuer's keys cannot be asked for.
    #[error("the configuration of `access` cannot be used")]
    Keys(#[from] KeysError),
    /// The port cannot be had.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The listener's certificate cannot be used.
    #[error("{name} has no usable certificate")]
    Certificate {
        /// Who needs it.
        name: &'static str,
        /// What is wrong with it.
        #[source]
        source: CertificateError,
    },
    /// The clients' authorities cannot be used.
    #[error("the clients' authorities of {name} cannot be used")]
    Authorities {
        /// Who needs them.
        name: &'static str,
        /// What is wrong with them.
        #[source]
        source: pilothouse_pki::Error,
    },
    /// Off the loopback everybody is asked for credentials.
    #[error(
        "{0} asks nobody for credentials, so it may only listen on the loopback; set `access.jwt` or `access.mtls`"
    )]
    Open(&'static str),
    /// Certificates are exchanged in the handshake of TLS.
    #[error("{0} knows callers by client certificates, which needs TLS; set `tls.certificate` and `tls.key`")]
    NeedsTls(&'static str),
}

impl Access {
    /// Checks the configuration. Keys are read later, see [`Access::watch`].
    ///
    /// # Errors
    ///
    /// When the configuration makes no sense.
    pub fn build(config: Config, clock: Clock, registry: &mut Registry) -> Result<Self, Error> {
        config.check()?;
        let metrics = Metrics::register(registry);
        let keys = config.jwt.as_ref().map(|jwt| Keys::try_new(jwt, metrics)).transpose()?;
        Ok(Self(Arc::new(Inner { config, keys, clock })))
    }

    /// Takes a port for callers that are told apart so: off the loopback only if they are, and with client
    /// certificates in the handshake if those count. `name` says in errors who needs it.
    ///
    /// # Errors
    ///
    /// When the port cannot be had, or must not be.
    pub async fn bind(&self, name: &'static str, listener: &ListenerConfig) -> Result<Listener, Error> {
        let Inner { config, clock, .. } = &*self.0;
        // Also behind a proxy: it could not prove here that it has asked.
        if config.is_none() && !listener.address.ip().to_canonical().is_loopback() {
            return Err(Error::Open(name));
        }
        let Some(mtls) = &config.mtls else { return Ok(Listener::bind(name, listener, clock).await?) };
        let mut files = listener.tls.clone().ok_or(Error::NeedsTls(name))?;
        if config.jwt.is_none() {
            files.client_authorities = Some(mtls.client_authorities.clone());
            let listener = ListenerConfig { tls: Some(files), ..listener.clone() };
            return Ok(Listener::bind(name, &listener, clock).await?);
        }
        // Either will do, so a certificate is asked for and not required.
        let authorities =
            Bundle::load(&mtls.client_authorities).map_err(|source| Error::Authorities { name, source })?;
        let certificates = CertificateSource::load(files, clock.clone())
            .and_then(|certificates| certificates.inviting(authorities))
            .map_err(|source| Error::Certificate { name, source })?;
        Ok(Listener::bind_with(name, listener.address, listener.exposure.clone(), certificates).await?)
    }

    /// Keeps the issuer's keys up to date, as a task that may be stopped anywhere.
    pub fn watch(&self, tasks: &Tasks) {
        if let Some(keys) = &self.0.keys {
            keys.watch(tasks);
        }
    }

    /// Tells the readiness page about the issuer's keys.
    pub fn register(&self, name: &str, health: &Health) {
        if let Some(keys) = self.0.keys.clone() {
            health.register(name, move || keys.verdict());
        }
    }

    /// Who makes a request with these headers on a connection with this peer. A token counts before a certificate: a
    /// proxy with a certificate of its own may pass on other people's tokens.
    ///
    /// # Errors
    ///
    /// When the credentials are missing or no good.
    pub async fn identify(&self, headers: &HeaderMap, peer: Option<&Peer>) -> Result<Principal, Denial> {
        let Inner { config, keys, clock } = &*self.0;
        if config.is_none() {
            return Ok(Principal::unauthenticated());
        }
        let certificate = peer.and_then(Peer::identity).filter(|_| config.mtls.is_some());
        if let (Some(jwt), Some(keys)) = (&config.jwt, keys)
            && let Some(token) = bearer(headers)?
        {
            let claims = token::verify(token, jwt, keys, clock.now()).await?;
            return Ok(config.bearer(&claims));
        }
        match (certificate, config.scheme()) {
            (Some(certificate), _) => config.holder(certificate),
            (None, scheme) => Err(Denial::Missing(scheme)),
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }
}

/// The token, if the request has a credential at all. Two are as good as none: it is not clear which is meant.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Denial> {
    let malformed = Denial::Token(Fault::Malformed);
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(malformed);
    }
    let (scheme, token) =
        value.to_str().ok().and_then(|value| value.split_once(' ')).ok_or_else(|| malformed.clone())?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(malformed);
    }
    Ok(Some(token.trim()))
}

impl Config {
    fn scheme(&self) -> Scheme {
        match (&self.jwt, &self.mtls) {
            (_, None) => Scheme::Token,
            (None, Some(_)) => Scheme::Certificate,
            (Some(Jwt { .. }), Some(_)) => Scheme::Both,
        }
    }

    /// Who has a token with these claims.
    fn bearer(&self, claims: &Claims) -> Principal {
        let includes = |callers: &Callers| callers.include_bearer(claims);
        Principal::new(Known {
            standing: if includes(&self.arm) { Standing::Arm } else { Standing::Caller },
            administrator: includes(&self.administrators),
            credential: Credential::Token,
            name: claims.display_name().to_owned(),
            identity_type: if claims.is_user() { IdentityType::User } else { IdentityType::Application },
            tenant_id: claims.tid.clone(),
            object_id: claims.oid.clone(),
            app_id: claims.app_id().map(str::to_owned),
            roles: self.reach(includes),
        })
    }

    /// Who has this certificate.
    fn holder(&self, certificate: &PeerIdentity) -> Result<Principal, Denial> {
        let includes = |callers: &Callers| callers.include_holder(certificate);
        let (arm, administrator) = (includes(&self.arm), includes(&self.administrators));
        let roles = self.reach(includes);
        if !arm && !administrator && roles == Reach::none() {
            return Err(Denial::UnknownCertificate(certificate.to_string()));
        }
        Ok(Principal::new(Known {
            standing: if arm { Standing::Arm } else { Standing::Caller },
            administrator,
            credential: Credential::Certificate,
            name: certificate.common_name().to_owned(),
            identity_type: IdentityType::Application,
            // A certificate belongs to no tenant: its holder has what the role list gives it.
            tenant_id: None,
            object_id: None,
            app_id: None,
            roles,
        }))
    }

    fn reach(&self, includes: impl Fn(&Callers) -> bool) -> Reach {
        let mut roles = self.roles.iter().filter(|role| includes(&role.callers)).peekable();
        let mut subscriptions = std::collections::BTreeSet::new();
        for Role { subscriptions: some, all_subscriptions, .. } in &mut roles {
            if *all_subscriptions {
                return Reach::All;
            }
            subscriptions.extend(some.iter().copied());
        }
        Reach::Some(subscriptions)
    }
}

impl Callers {
    fn include_bearer(&self, claims: &Claims) -> bool {
        let among = |names: &[String], value: Option<&str>| {
            value.is_some_and(|value| names.iter().any(|name| name.eq_ignore_ascii_case(value)))
        };
        among(&self.app_ids, claims.app_id()) || among(&self.object_ids, claims.oid.as_deref())
    }

    fn include_holder(&self, certificate: &PeerIdentity) -> bool {
        AllowedCallers::new(self.certificate_subjects.iter().cloned()).admit(certificate)
    }
}
