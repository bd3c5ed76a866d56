//! Another service, as a process that runs alone is told of it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use pilothouse_http::{CertificateSource, ClientBuilder, TlsFiles};
use pilothouse_pki::Bundle;
use pilothouse_runtime::Clock;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::{Failure, Hint};

/// One call to another service.
const CALL: Duration = Duration::from_secs(20);

/// Where a service is, and how both sides know each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Peer {
    /// Its address.
    pub(crate) url: Url,
    /// The authorities that certify it, PEM; without TLS there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    authorities: Option<PathBuf>,
    /// The certificate that is shown to it, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    certificate: Option<PathBuf>,
    /// Its private key, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<PathBuf>,
}

impl Peer {
    /// One that was named on a command line.
    pub(crate) fn new(
        url: Url,
        authorities: Option<PathBuf>,
        (certificate, key): (Option<PathBuf>, Option<PathBuf>),
    ) -> Self {
        Self { url, authorities, certificate, key }
    }

    /// A client that trusts and shows what is configured. Reads the files.
    pub(crate) fn client(&self, clock: &Clock) -> Result<ClientBuilder, Failure> {
        let mut builder = ClientBuilder::new(CALL).with_clock(clock.clone());
        if let Some(file) = &self.authorities {
            builder = builder.with_authorities(Bundle::load(file)?);
        }
        match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                let files =
                    TlsFiles { certificate: certificate.clone(), key: key.clone(), client_authorities: None };
                Ok(builder.with_identity_from(CertificateSource::load(files, clock.clone())?))
            }
            (None, None) => Ok(builder),
            (Some(_), None) | (None, Some(_)) => {
                Err(anyhow!("a certificate needs its key, and a key its certificate")).hint(format!(
                    "set both `certificate` and `key` beside the `url` {} of the configuration",
                    self.url
                ))
            }
        }
    }
}
