use std::io;
use std::net::SocketAddr;

use pilothouse_http::CertificateError;
use pilothouse_runtime::StillRunning;

/// Why the broker does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Somebody else has the port, or the address is not this machine's.
    #[error("the MQTT broker cannot listen on {address}; stop whoever does or choose another port")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Anybody could connect, and read everything.
    #[error(
        "off the loopback ({0}) the MQTT broker needs client certificates; set `tls` with `client_authorities`, or listen \
         on 127.0.0.1"
    )]
    Exposed(SocketAddr),
    /// Nobody could do anything.
    #[error("clients show certificates, and no rule says what they may do: add `rules`")]
    NoRules,
    /// No rule could be about anybody.
    #[error(
        "`rules` go by the names in clients' certificates, and none are asked for: set `tls` with `client_authorities`, or leave the \
         rules out"
    )]
    NobodyIsKnown,
    /// A rule makes no sense.
    #[error("the rule about `{identity}`: {problem}")]
    Rule {
        /// Whom it is about.
        identity: String,
        /// What is wrong.
        problem: String,
    },
    /// The certificate cannot be used.
    #[error("the MQTT broker has no usable certificate")]
    Certificate(#[from] CertificateError),
    /// Connections did not end in time.
    #[error("the MQTT broker was stopped before all connections had ended")]
    Drain(#[from] StillRunning),
}
