//! Certificates from files, replaced while connections are open.
//!
//! What is swapped is the whole TLS configuration, not only the certificate in it: the authorities of clients change by
//! the same rotation, and session tickets issued under the old configuration die with it, so that nobody resumes a
//! session that a full handshake would now refuse. A connection keeps the configuration it began with.
//!
//! They are read when the system tells of a change. They are compared by content, not by time stamp: a secret mounted by
//! Kubernetes changes through a symbolic link, and a clock may step back.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use pilothouse_pki::{Bundle, Identity};
use pilothouse_runtime::{Chain, Clock, FileWatch, OnExit, TaskError, Tasks};
use rustls::client::ResolvesClientCert;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig, SignatureScheme};
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use crate::anonymous_sessions::AnonymousSessions;
use crate::health::Verdict;

/// How often the files are looked at where nobody is told of changes. They are small.
const PERIOD: Duration = Duration::from_secs(30);

/// Where the parts of a TLS configuration are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The certificate and those above it, PEM, leaf first.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
    /// The authorities whose clients are let in, PEM. With it every client has to show a certificate.
    #[serde(default)]
    pub client_authorities: Option<PathBuf>,
}

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A file is missing, malformed, or does not fit the others.
    #[error("the certificate in `{}` cannot be used", .path.display())]
    Unusable {
        /// The certificate's file.
        path: PathBuf,
        /// What is wrong; it names the file at fault where that is another one.
        #[source]
        source: pilothouse_pki::Error,
    },
    /// The TLS library does not take them.
    #[error("the certificate in `{}` was refused by TLS", .path.display())]
    Refused {
        /// The certificate's file.
        path: PathBuf,
        /// What it objected to.
        #[source]
        source: rustls::Error,
    },
    /// There are no authorities to verify clients with.
    #[error("the authorities in `{}` cannot verify clients: {reason}", .path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// What the verifier objected to.
        reason: String,
    },
}

/// What a look at the files found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reloaded {
    /// The same as before.
    Unchanged,
    /// New ones, in use from now on.
    Changed,
}

/// A certificate that is read again when its files change. A cheap handle.
#[derive(Clone, Debug)]
pub struct CertificateSource(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    files: TlsFiles,
    /// Whose clients may show a certificate, without having to.
    invited: Option<Bundle>,
    clock: Clock,
    current: ArcSwap<Loaded>,
    /// Held while files are read, so that two reloads do not overtake each other. What is inside is the last failure.
    last_failure: Mutex<Option<String>>,
}

#[derive(Debug)]
struct Loaded {
    content: u64,
    server: Arc<ServerConfig>,
    certified: Arc<CertifiedKey>,
    not_after: Timestamp,
}

impl CertificateSource {
    /// Reads the files. Unlike later changes, a first certificate that cannot be used is an error. Blocks.
    pub fn load(files: TlsFiles, clock: Clock) -> Result<Self, CertificateError> {
        Self::load_inviting(files, None, clock)
    }

    fn load_inviting(
        files: TlsFiles,
        invited: Option<Bundle>,
        clock: Clock,
    ) -> Result<Self, CertificateError> {
        let current = ArcSwap::from_pointee(Loaded::read(&files, invited.as_ref())?);
        Ok(Self(Arc::new(Inner { files, invited, clock, current, last_failure: Mutex::new(None) })))
    }

    /// The clock that its end is judged by.
    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// The same files for a listener that asks clients for a certificate of these authorities and also lets those in
    /// that show none. One that is shown and not signed by them ends the handshake. Replaces the files' own client
    /// authorities. The new source is reloaded and watched on its own. Blocks.
    pub fn inviting(&self, authorities: Bundle) -> Result<Self, CertificateError> {
        Self::load_inviting(self.0.files.clone(), Some(authorities), self.0.clock.clone())
    }

    /// Reads the files again now. On failure the certificate in use stays. Blocks.
    pub fn reload(&self) -> Result<Reloaded, CertificateError> {
        let mut last_failure = self.0.last_failure.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.0.files.certificate.display();
        match Loaded::read(&self.0.files, self.0.invited.as_ref()) {
            Ok(new) => {
                *last_failure = None;
                if new.content == self.0.current.load().content {
                    return Ok(Reloaded::Unchanged);
                }
                info!(certificate = %path, not_after = %new.not_after, "replaced the certificate");
                self.0.current.store(Arc::new(new));
                Ok(Reloaded::Changed)
            }
            Err(error) => {
                let failure = Chain(&error).to_string();
                // Once per failure, not once per look.
                if last_failure.as_ref() != Some(&failure) {
                    warn!(certificate = %path, error = failure, "kept the old certificate");
                }
                *last_failure = Some(failure);
                Err(error)
            }
        }
    }

    /// Reads the files again when they change, as a task that may be stopped anywhere.
    pub fn watch(&self, tasks: &Tasks) {
        let source = self.clone();
        tasks.spawn("certificates", OnExit::Expendable, async move {
            let TlsFiles { certificate, key, client_authorities } = source.0.files.clone();
            let mut files = FileWatch::new([certificate, key].into_iter().chain(client_authorities));
            loop {
                // Also at first: they may have changed since they were loaded.
                source.look().await?;
                files.changed().await;
            }
        });
    }

    /// Looks at the files every half minute, as a task that may be stopped anywhere: for processes that there is one of for
    /// each cluster or node, since not as many can be told of changes.
    pub fn look_regularly(&self, tasks: &Tasks) {
        let source = self.clone();
        tasks.spawn("certificates", OnExit::Expendable, async move {
            loop {
                tokio::time::sleep(PERIOD).await;
                source.look().await?;
            }
        });
    }

    async fn look(&self) -> Result<(), TaskError> {
        let source = self.clone();
        // A failure is on record in the source; the next look is the retry.
        let _ = tokio::task::spawn_blocking(move || source.reload()).await?;
        Ok(())
    }

    /// What the readiness page says: until when the certificate is good, and whether newer files could not be used.
    pub fn verdict(&self) -> Verdict {
        let not_after = self.0.current.load().not_after;
        if not_after < self.0.clock.now() {
            return Verdict::failed(format!("the certificate expired at {not_after}"));
        }
        let last_failure = self.0.last_failure.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last_failure {
            Some(failure) => Verdict::warning(format!("good until {not_after}, but not replaced: {failure}")),
            None => Verdict::ready(format!("good until {not_after}")),
        }
    }

    /// Until when the certificate in use is good.
    pub fn not_after(&self) -> Timestamp {
        self.0.current.load().not_after
    }

    pub(crate) fn requires_clients(&self) -> bool {
        self.0.invited.is_none() && self.0.files.client_authorities.is_some()
    }

    /// The configuration for connections that begin now: for listeners that do not speak HTTP.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.current.load().server)
    }
}

/// The same certificate when calling others.
impl ResolvesClientCert for CertificateSource {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.current.load().certified))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl Loaded {
    fn read(files: &TlsFiles, invited: Option<&Bundle>) -> Result<Self, CertificateError> {
        let unusable = |source| CertificateError::Unusable { path: files.certificate.clone(), source };
        let refused = |source| CertificateError::Refused { path: files.certificate.clone(), source };
        let identity = Identity::load(&files.certificate, &files.key).map_err(unusable)?;
        let authorities = match invited {
            Some(invited) => Some(invited.clone()),
            None => files.client_authorities.as_deref().map(Bundle::load).transpose().map_err(unusable)?,
        };

        let mut hasher = DefaultHasher::new();
        identity.chain_pem().hash(&mut hasher);
        authorities.as_ref().map(Bundle::to_pem).hash(&mut hasher);

        let provider = provider();
        let certified = CertifiedKey::from_der(identity.chain_der(), identity.key().to_der(), &provider)
            .map_err(refused)?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(refused)?;
        let builder = match authorities {
            Some(authorities) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(roots(&authorities), provider);
                let verifier = if invited.is_some() { verifier.allow_unauthenticated() } else { verifier };
                let verifier = verifier.build().map_err(|error| CertificateError::Authorities {
                    path: files.client_authorities.clone().unwrap_or_else(|| files.certificate.clone()),
                    reason: error.to_string(),
                })?;
                builder.with_client_cert_verifier(verifier)
            }
            None => builder.with_no_client_auth(),
        };
        let mut server =
            builder.with_single_cert(identity.chain_der(), identity.key().to_der()).map_err(refused)?;
        if invited.is_some() || files.client_authorities.is_some() {
            server.session_storage = AnonymousSessions::new();
        }
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            content: hasher.finish(),
            server: Arc::new(server),
            certified: Arc::new(certified),
            not_after: identity.certificate().not_after(),
        })
    }
}

/// The one crypto provider of the build, passed explicitly so that nothing depends on who installed a default when.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// A trust store of these authorities. One that TLS cannot use is left out: with none left, the builder refuses.
pub(crate) fn roots(bundle: &Bundle) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(bundle.der().cloned());
    Arc::new(roots)
}
