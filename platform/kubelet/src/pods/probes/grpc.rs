//! The health check of gRPC servers: one call with one field, and an answer with one.

use bytes::Bytes;
use http::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use axum::body::Body;

/// The one status that is good.
const SERVING: [u8; 2] = [0x08, 0x01];
/// More than any answer to this question.
const LARGEST: usize = 4096;

/// Asks whether a service, or without a name the server, is serving.
pub(super) async fn check(stream: TcpStream, authority: &str, service: &str) -> Result<(), String> {
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .map_err(|error| error.to_string())?;
    let request = Request::post(format!("http://{authority}/grpc.health.v1.Health/Check"))
        .header(http::header::CONTENT_TYPE, "application/grpc")
        .header(http::header::TE, "trailers")
        .body(Body::from(question(service)?))
        .map_err(|error| error.to_string())?;
    let asking = async {
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        if response.status() != StatusCode::OK {
            return Err(format!("the answer was {}", response.status()));
        }
        let refused = refusal(response.headers());
        let body = Body::new(response.into_body());
        let bytes = axum::body::to_bytes(body, LARGEST).await.map_err(|error| error.to_string())?;
        match refused {
            Some(refused) => Err(refused),
            None => answer(&bytes),
        }
    };
    tokio::select! {
        answered = asking => answered,
        ended = connection => Err(ended.err().map_or_else(|| "it hung up".to_owned(), |error| error.to_string())),
    }
}

/// A message with the service's name as its first field, in the frame of gRPC.
fn question(service: &str) -> Result<Bytes, String> {
    let length = u8::try_from(service.len()).ok().filter(|length| *length < 126);
    let length = length.ok_or("the name of the service is too long")?;
    let message = if length == 0 { Vec::new() } else { [&[0x0a, length], service.as_bytes()].concat() };
    let size = u32::try_from(message.len()).unwrap_or_default().to_be_bytes();
    Ok([&[0], &size[..], &message].concat().into())
}

/// A server that knows nothing of the question says so at once.
fn refusal(headers: &http::HeaderMap) -> Option<String> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let code = text("grpc-status").filter(|code| *code != "0")?;
    Some(format!(
        "the health check was refused with code {code}: {}",
        text("grpc-message").unwrap_or_default()
    ))
}

fn answer(bytes: &[u8]) -> Result<(), String> {
    match bytes.get(5..) {
        Some(message) if message == SERVING => Ok(()),
        Some(_) => Err("service unhealthy (responded with another status than SERVING)".to_owned()),
        None => Err("the health check was not answered".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_serves_is_healthy() {
        assert_eq!(question("").unwrap(), &[0, 0, 0, 0, 0][..]);
        assert_eq!(question("db").unwrap(), &[0, 0, 0, 0, 4, 0x0a, 2, b'd', b'b'][..]);
        assert_eq!(answer(&[0, 0, 0, 0, 2, 8, 1]), Ok(()));
        for other in [&[0, 0, 0, 0, 2, 8, 2][..], &[0, 0, 0, 0, 0], &[]] {
            assert!(answer(other).is_err(), "{other:?}");
        }
    }
}
