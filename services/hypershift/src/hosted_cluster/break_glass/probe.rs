//! Showing a certificate to one replica of an API server.
//!
//! Not through the published address: behind that is whichever replica the gateway chooses.

use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{Either, select};
use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use pilothouse_kubelet_api::Dialer;
use pilothouse_pki::{Bundle, Identity};
use pilothouse_runtime::Chain;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::Config;
use crate::names::API_PORT;

/// How long one replica may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Every API server has this name, however it is published.
const NAME: &str = "kubernetes.default.svc";
/// Everybody who is let in may read this; who is not is told so, and not that it is forbidden.
const PAGE: &str = "/api";

/// What a replica makes of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    LetIn,
    Refused,
}

/// Shows a certificate to the API server in this pod. A server that says nothing has given no verdict.
pub(super) async fn show(
    config: &Config,
    pod: IpAddr,
    authorities: &Bundle,
    identity: &Identity,
) -> Result<Verdict, String> {
    match timeout(PATIENCE, ask(config, pod, authorities, identity)).await {
        Ok(verdict) => verdict,
        Err(_) => Err(format!("it gave no answer within {} s", PATIENCE.as_secs())),
    }
}

async fn ask(
    config: &Config,
    pod: IpAddr,
    authorities: &Bundle,
    identity: &Identity,
) -> Result<Verdict, String> {
    let unusable = |error: rustls::Error| format!("TLS cannot be set up: {error}");
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.der().cloned());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_root_certificates(roots)
        .with_client_auth_cert(identity.chain_der(), identity.key().to_der())
        .map_err(unusable)?;
    let name = ServerName::try_from(NAME).map_err(|error| error.to_string())?;
    let stream = dial(config, SocketAddr::new(pod, API_PORT))
        .await
        .map_err(|error| format!("it cannot be reached: {error}"))?;
    let stream = match TlsConnector::from(Arc::new(tls)).connect(name, stream).await {
        Ok(stream) => stream,
        Err(error) => return verdict_of(&error),
    };
    let (mut sender, connection) =
        match hyper::client::conn::http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await {
            Ok(connected) => connected,
            Err(error) => return verdict_of(&error),
        };
    let request = Request::get(PAGE).header(http::header::HOST, NAME).body(Empty::new());
    let request = request.map_err(|error| error.to_string())?;
    let asked = std::pin::pin!(sender.send_request(request));
    match select(asked, std::pin::pin!(connection)).await {
        Either::Left((Ok(answer), _)) => verdict_on(answer.status()),
        // The one who asked is told that nobody answers; why, is told to the connection.
        Either::Left((Err(error), connection)) => match (verdict_of(&error), connection.await) {
            (Err(_), Err(why)) => verdict_of(&why),
            (verdict, _) => verdict,
        },
        Either::Right((Err(error), _)) => verdict_of(&error),
        Either::Right((Ok(()), asked)) => match asked.await {
            Ok(answer) => verdict_on(answer.status()),
            Err(error) => verdict_of(&error),
        },
    }
}

async fn dial(config: &Config, address: SocketAddr) -> io::Result<TcpStream> {
    match &config.node_socket {
        Some(socket) => Dialer::new(socket.clone()).connect(address).await,
        None => TcpStream::connect(address).await,
    }
}

/// What an answer means.
fn verdict_on(status: StatusCode) -> Result<Verdict, String> {
    match status {
        StatusCode::UNAUTHORIZED => Ok(Verdict::Refused),
        StatusCode::OK | StatusCode::FORBIDDEN => Ok(Verdict::LetIn),
        other => Err(format!("it answered {other}")),
    }
}

/// What a failure means: only that the server objects to the certificate is a verdict.
fn verdict_of(error: &(dyn Error + 'static)) -> Result<Verdict, String> {
    let objects = |error: &(dyn Error + 'static)| {
        let of_io = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let of_io = of_io.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        matches!(
            error.downcast_ref::<rustls::Error>().or(of_io),
            Some(rustls::Error::AlertReceived(
                AlertDescription::UnknownCA
                    | AlertDescription::BadCertificate
                    | AlertDescription::CertificateUnknown
                    | AlertDescription::CertificateRevoked
                    | AlertDescription::DecryptError
                    | AlertDescription::AccessDenied
            ))
        )
    };
    let mut cause = Some(error);
    while let Some(known) = cause {
        if objects(known) {
            return Ok(Verdict::Refused);
        }
        cause = known.source();
    }
    Err(format!("it cannot be asked: {}", Chain(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_objection_to_the_certificate_is_a_refusal() {
        let alert = |alert| io::Error::new(io::ErrorKind::InvalidData, rustls::Error::AlertReceived(alert));
        assert_eq!(verdict_of(&alert(AlertDescription::UnknownCA)), Ok(Verdict::Refused));
        assert_eq!(verdict_of(&alert(AlertDescription::DecryptError)), Ok(Verdict::Refused));
        assert!(verdict_of(&alert(AlertDescription::InternalError)).is_err());
        assert!(verdict_of(&io::Error::from(io::ErrorKind::ConnectionReset)).is_err());
        assert!(verdict_of(&io::Error::from(io::ErrorKind::UnexpectedEof)).is_err());
        for (status, verdict) in [
            (200, Some(Verdict::LetIn)),
            (403, Some(Verdict::LetIn)),
            (401, Some(Verdict::Refused)),
            (500, None),
        ] {
            assert_eq!(verdict_on(StatusCode::from_u16(status).unwrap()).ok(), verdict, "{status}");
        }
    }
}
