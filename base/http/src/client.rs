//! Calling other processes.
//!
//! A call has a deadline, always: a wait without one is how one stuck process becomes ten. Within it, a call whose method
//! may be repeated is tried again when the peer could not be reached or said that it is overloaded; anything else is
//! sent once, unless the caller marks it as safe. Answers are given back whatever their status: what a 404 means is the
//! caller's business.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use pilothouse_pki::{Bundle, Identity};
use pilothouse_runtime::{Clock, Policy};
use rustls::ClientConfig;
use rustls::client::ResolvesClientCert;
use url::Url;

use crate::certificates::{CertificateSource, provider, roots};

mod call;
mod error;
mod reach;
mod retry;

pub use self::call::{Call, Response};
pub use self::error::{CallError, ClientBuildError, Failure};

/// Calls other processes over HTTP. A cheap handle over one pool of connections.
#[derive(Clone, Debug)]
pub struct Client {
    inner: reqwest::Client,
    deadline: Duration,
    policy: Policy,
    clock: Clock,
    public_only: bool,
}

/// What a [`Client`] trusts, shows and waits for.
#[derive(Debug)]
pub struct ClientBuilder {
    deadline: Duration,
    connect_timeout: Duration,
    policy: Policy,
    clock: Clock,
    trust: Trust,
    identity: Shown,
    https_only: bool,
    public_only: bool,
}

#[derive(Debug)]
enum Trust {
    Nobody,
    Bundle(Bundle),
    System,
}

#[derive(Debug)]
enum Shown {
    Nothing,
    Fixed(Box<Identity>),
    Reloaded(CertificateSource),
}

impl ClientBuilder {
    /// A client whose calls take at most `deadline`, retries included, unless a call says otherwise.
    ///
    /// It trusts nobody yet, which is enough for plain HTTP.
    pub fn new(deadline: Duration) -> Self {
        Self {
            deadline,
            connect_timeout: Duration::from_secs(5),
            policy: Policy::CALL,
            clock: Clock::system(),
            trust: Trust::Nobody,
            identity: Shown::Nothing,
            https_only: false,
            public_only: false,
        }
    }

    /// Trusts servers certified by these authorities, and no others.
    pub fn with_authorities(mut self, authorities: Bundle) -> Self {
        self.trust = Trust::Bundle(authorities);
        self
    }

    /// Trusts whom the machine trusts: for peers on the internet.
    pub fn with_system_authorities(mut self) -> Self {
        self.trust = Trust::System;
        self
    }

    /// Shows this certificate to servers that ask for one.
    pub fn with_identity(mut self, identity: Identity) -> Self {
        self.identity = Shown::Fixed(Box::new(identity));
        self
    }

    /// Shows the certificate from these files; after a renewal, new connections show the new one.
    pub fn with_identity_from(mut self, source: CertificateSource) -> Self {
        self.identity = Shown::Reloaded(source);
        self
    }

    /// Goes nowhere without TLS.
    pub fn https_only(mut self) -> Self {
        self.https_only = true;
        self
    }

    /// Goes only to addresses on the internet: for addresses that strangers name. Loopback, link-local, private and
    /// unique-local addresses are refused, whether they are written as such or a name leads to them.
    pub fn public_addresses_only(mut self) -> Self {
        self.public_only = true;
        self
    }

    /// How long one attempt to connect may take.
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How to wait between attempts.
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The clock that dates in `Retry-After` are compared with.
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// What a connection trusts and shows, for protocols that bring a client of their own, such as gRPC. Reads the machine's
    /// authorities if they are to be trusted.
    pub fn tls(&self) -> Result<ClientConfig, ClientBuildError> {
        let provider = provider();
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let builder = match &self.trust {
            Trust::Nobody => builder.with_root_certificates(roots(&Bundle::new())),
            Trust::Bundle(bundle) => builder.with_root_certificates(roots(bundle)),
            Trust::System => builder.dangerous().with_custom_certificate_verifier(Arc::new(
                rustls_platform_verifier::Verifier::new(provider)?,
            )),
        };
        Ok(match &self.identity {
            Shown::Nothing => builder.with_no_client_auth(),
            Shown::Fixed(identity) => {
                builder.with_client_auth_cert(identity.chain_der(), identity.key().to_der())?
            }
            Shown::Reloaded(source) => {
                let source: Arc<dyn ResolvesClientCert> = Arc::new(source.clone());
                builder.with_client_cert_resolver(source)
            }
        })
    }

    /// Builds the client. Reads the machine's authorities if they are to be trusted.
    pub fn build(self) -> Result<Client, ClientBuildError> {
        let mut tls = self.tls()?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut builder = reqwest::Client::builder();
        if self.public_only {
            builder = builder.dns_resolver(reach::PublicResolver);
        }
        let inner = builder
            .https_only(self.https_only)
            .tls_backend_preconfigured(tls)
            .connect_timeout(self.connect_timeout)
            // Shorter than our servers keep an idle connection, or the two would meet half-way.
            .pool_idle_timeout(Duration::from_secs(20))
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            // Retries are decided here and counted in errors; a second place that retries would multiply them.
            .retry(reqwest::retry::never())
            .user_agent(concat!("pilothouse/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| ClientBuildError::Http(error.without_url()))?;
        Ok(Client {
            inner,
            deadline: self.deadline,
            policy: self.policy,
            clock: self.clock,
            public_only: self.public_only,
        })
    }
}

impl Client {
    /// Begins a call.
    pub fn call(&self, method: Method, url: Url) -> Call {
        Call::new(self.clone(), method, url)
    }

    /// Begins a `GET`.
    pub fn get(&self, url: Url) -> Call {
        self.call(Method::GET, url)
    }

    /// Begins a `POST`.
    pub fn post(&self, url: Url) -> Call {
        self.call(Method::POST, url)
    }

    /// Begins a `PUT`.
    pub fn put(&self, url: Url) -> Call {
        self.call(Method::PUT, url)
    }

    /// Begins a `DELETE`.
    pub fn delete(&self, url: Url) -> Call {
        self.call(Method::DELETE, url)
    }
}
