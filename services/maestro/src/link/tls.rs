use std::path::{Path, PathBuf};
use std::sync::Arc;

use pilothouse_http::{CertificateSource, TlsFiles};
use pilothouse_pki::Bundle;
use pilothouse_runtime::Clock;
use rustls::client::{ResolvesClientCert, WantsClientCert};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use serde::{Deserialize, Serialize};

/// The certificates for a connection to a broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientTls {
    /// The authorities that may have certified the broker, PEM.
    pub authorities: PathBuf,
    /// What is shown to the broker, PEM, leaf first.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl ClientTls {
    /// Reads the files. Blocks.
    pub(super) fn load(&self, clock: &Clock) -> Result<ClientConfig, Failure> {
        let files = TlsFiles {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            client_authorities: None,
        };
        let identity: Arc<dyn ResolvesClientCert> = Arc::new(CertificateSource::load(files, clock.clone())?);
        Ok(trusting(&self.authorities)?.with_client_cert_resolver(identity))
    }
}

/// For a server that is shown no certificate. Blocks.
pub(super) fn anonymous(authorities: &Path) -> Result<ClientConfig, Failure> {
    Ok(trusting(authorities)?.with_no_client_auth())
}

fn trusting(authorities: &Path) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, Failure> {
    let mut roots = RootCertStore::empty();
    for authority in Bundle::load(authorities)?.der() {
        roots.add(authority.clone())?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots))
}
