//! A clock that stands still, ready-made authorities, and a TLS handshake between two ends of a buffer.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use pilothouse_pki::{Authority, AuthorityRequest, Bundle, Certificate, Identity, LeafRequest, Subject};
use pilothouse_runtime::{Clock, ManualClock};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection};

pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) fn clock() -> (Clock, ManualClock) {
    Clock::manual("2026-03-01T12:00:00Z".parse::<Timestamp>().unwrap())
}

pub(crate) fn subject(common_name: &str) -> Subject {
    Subject::try_new(common_name).unwrap()
}

pub(crate) fn authority(name: &str, clock: &Clock) -> Authority {
    Authority::self_signed(&AuthorityRequest::new(subject(name)), clock).unwrap()
}

pub(crate) fn server_request() -> LeafRequest {
    let names = ["api.first.pilothouse.test", "127.0.0.1", "::1", "spiffe://region/frontend"];
    LeafRequest::server(subject("frontend"), names.map(|name| name.parse().unwrap()))
}

pub(crate) fn client_request() -> LeafRequest {
    LeafRequest::client(subject("ada").with_organizations(["system:masters", "ops", "dev"]).unwrap())
}

/// What one side of a handshake has and trusts.
pub(crate) struct Side<'a> {
    pub(crate) identity: &'a Identity,
    pub(crate) trusts: &'a Bundle,
}

#[derive(Debug)]
struct At(Clock);

impl TimeProvider for At {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.now().as_second()).unwrap();
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn roots(bundle: &Bundle) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    bundle.der().for_each(|der| roots.add(der.clone()).unwrap());
    Arc::new(roots)
}

/// Shakes hands for `name` at the clock's time. Answers with the client's certificate as the server saw it.
pub(crate) fn handshake(
    client: &Side<'_>,
    server: &Side<'_>,
    name: &str,
    clock: &Clock,
) -> Result<Certificate, rustls::Error> {
    let time: Arc<dyn TimeProvider> = Arc::new(At(clock.clone()));
    let verifier =
        WebPkiClientVerifier::builder_with_provider(roots(server.trusts), provider()).build().unwrap();
    let server_config = ServerConfig::builder_with_details(provider(), Arc::clone(&time))
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(server.identity.chain_der(), server.identity.key().to_der())?;
    let client_config = ClientConfig::builder_with_details(provider(), time)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots(client.trusts))
        .with_client_auth_cert(client.identity.chain_der(), client.identity.key().to_der())?;
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client: Connection = ClientConnection::new(Arc::new(client_config), name)?.into();
    let mut server: Connection = ServerConnection::new(Arc::new(server_config))?.into();
    while client.wants_write() || server.wants_write() {
        carry(&mut client, &mut server)?;
        carry(&mut server, &mut client)?;
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok(Certificate::from_der(server.peer_certificates().unwrap()[0].clone().into_owned()).unwrap())
}

fn carry(from: &mut Connection, to: &mut Connection) -> Result<(), rustls::Error> {
    let mut wire = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut wire).unwrap();
    }
    let mut wire = wire.as_slice();
    while !wire.is_empty() {
        to.read_tls(&mut wire).unwrap();
        to.process_new_packets()?;
    }
    Ok(())
}

/// Runs it and answers with what it wrote to both streams.
pub(crate) fn output(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}
