use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use pilothouse_runtime::Clock;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::certificates::{CertificateError, CertificateSource, TlsFiles};
use crate::exposure::{Exposure, Protection, Refusal};

/// Where a listener is and who may reach it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerConfig {
    /// Address and port. Port 0 takes a free one, see [`Listener::local_address`].
    pub address: SocketAddr,
    /// Certificate files; without them the listener speaks plain HTTP.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    /// Who may reach it.
    #[serde(default)]
    pub exposure: Exposure,
}

/// How much a listener takes, and for how long it is patient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections. Further ones wait in the kernel's queue.
    pub connections: u32,
    /// From accepting a connection to the end of its first request's headers, handshake included, and from one request
    /// on a kept connection to the headers of the next.
    pub headers: Duration,
    /// At shutdown, how long after connecting a peer may still say its first word. Clients connect ahead of need and keep such
    /// connections for later: those are closed, while somebody who came a moment ago is about to ask.
    pub silence: Duration,
    /// At shutdown, how long accepted work may take to finish.
    pub drain: Duration,
}

/// A bound port. Connections queue from the moment it exists, and are answered once it is served.
#[derive(Debug)]
pub struct Listener {
    pub(crate) name: String,
    pub(crate) socket: TcpListener,
    pub(crate) local_address: SocketAddr,
    pub(crate) exposure: Exposure,
    pub(crate) certificates: Option<CertificateSource>,
    pub(crate) limits: Limits,
}

/// Why a port could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Somebody else has it.
    #[error("port {} for {name} is taken on {}; stop whoever has it or choose another port", .address.port(), .address.ip())]
    Taken {
        /// Who needs the port.
        name: String,
        /// The address.
        address: SocketAddr,
    },
    /// It is reserved for the administrator.
    #[error("port {} for {name} needs privileges; choose one above 1023", .address.port())]
    Privileged {
        /// Who needs the port.
        name: String,
        /// The address.
        address: SocketAddr,
    },
    /// The address does not belong to this machine, or the system refused otherwise.
    #[error("{name} cannot listen on {address}")]
    Failed {
        /// Who needs the port.
        name: String,
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The configuration would expose something it must not.
    #[error("{name} may not listen on {address}")]
    Exposed {
        /// Who needs the port.
        name: String,
        /// The address.
        address: SocketAddr,
        /// The rule.
        #[source]
        refusal: Refusal,
    },
    /// Its certificate cannot be used.
    #[error("{name} has no usable certificate")]
    Certificate {
        /// Who needs the port.
        name: String,
        /// What is wrong with it.
        #[source]
        source: CertificateError,
    },
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            headers: Duration::from_secs(30),
            silence: Duration::from_secs(1),
            drain: Duration::from_secs(20),
        }
    }
}

impl ListenerConfig {
    /// Plain HTTP on the loopback.
    pub fn loopback(port: u16) -> Self {
        Self { address: ([127, 0, 0, 1], port).into(), tls: None, exposure: Exposure::Loopback }
    }
}

impl Listener {
    /// Takes the port, after checking that it may be exposed and reading the certificate. `name` says in errors and
    /// logs who needs it: "the frontend's public listener".
    pub async fn bind(
        name: impl Into<String>,
        config: &ListenerConfig,
        clock: &Clock,
    ) -> Result<Self, BindError> {
        let (name, address) = (name.into(), config.address);
        let protection = match &config.tls {
            None => Protection::Plain,
            Some(TlsFiles { client_authorities: None, .. }) => Protection::Tls,
            Some(_) => Protection::MutualTls,
        };
        // Before the certificate is read: a rule does not depend on what is on disk.
        if let Err(refusal) = config.exposure.admits(address, protection) {
            return Err(BindError::Exposed { name, address, refusal });
        }
        let certificates = match config.tls.clone() {
            None => None,
            Some(files) => match CertificateSource::load(files, clock.clone()) {
                Ok(certificates) => Some(certificates),
                Err(source) => return Err(BindError::Certificate { name, source }),
            },
        };
        Self::take(name, address, config.exposure.clone(), certificates).await
    }

    /// Takes the port for a certificate that was loaded elsewhere, such as one that
    /// [invites](CertificateSource::inviting) clients to show theirs.
    pub async fn bind_with(
        name: impl Into<String>,
        address: SocketAddr,
        exposure: Exposure,
        certificates: CertificateSource,
    ) -> Result<Self, BindError> {
        let name = name.into();
        let protection =
            if certificates.requires_clients() { Protection::MutualTls } else { Protection::Tls };
        if let Err(refusal) = exposure.admits(address, protection) {
            return Err(BindError::Exposed { name, address, refusal });
        }
        Self::take(name, address, exposure, Some(certificates)).await
    }

    async fn take(
        name: String,
        address: SocketAddr,
        exposure: Exposure,
        certificates: Option<CertificateSource>,
    ) -> Result<Self, BindError> {
        let bound = async {
            let socket = TcpListener::bind(address).await?;
            let local_address = socket.local_addr()?;
            Ok((socket, local_address))
        };
        match bound.await {
            Ok((socket, local_address)) => {
                Ok(Self { name, socket, local_address, exposure, certificates, limits: Limits::default() })
            }
            Err(source) => Err(BindError::of(name, address, source)),
        }
    }

    /// Other limits than the usual ones.
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Where it listens; with the real port if port 0 was asked for.
    pub fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// Its certificate, to be watched, reloaded and shown on the readiness page.
    pub fn certificates(&self) -> Option<&CertificateSource> {
        self.certificates.as_ref()
    }
}

impl BindError {
    fn of(name: String, address: SocketAddr, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::Taken { name, address },
            io::ErrorKind::PermissionDenied => Self::Privileged { name, address },
            _ => Self::Failed { name, address, source },
        }
    }
}
