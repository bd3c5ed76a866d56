use std::path::PathBuf;
use std::sync::Arc;

use pilothouse_http::{CertificateSource, TlsFiles};
use pilothouse_pki::Bundle;
use pilothouse_runtime::Clock;
use rustls::client::ResolvesClientCert;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;

/// The certificates for a connection to a broker.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientTls {
    /// The authorities that may have certified the broker, PEM.
    pub authorities: PathBuf,
    /// What is shown to the broker, PEM, leaf first.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}

impl ClientTls {
    /// Reads the files. Blocks.
    pub(super) fn load(
        &self,
        clock: &Clock,
    ) -> Result<ClientConfig, Box<dyn std::error::Error + Send + Sync>> {
        let files = TlsFiles {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            client_authorities: None,
        };
        let identity: Arc<dyn ResolvesClientCert> = Arc::new(CertificateSource::load(files, clock.clone())?);
        let mut roots = RootCertStore::empty();
        for authority in Bundle::load(&self.authorities)?.der() {
            roots.add(authority.clone())?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_cert_resolver(identity);
        Ok(config)
    }
}
