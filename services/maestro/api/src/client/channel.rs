//! One connection to the gRPC interface of a server, for sources and for agents alike.

use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use tonic::client::Grpc;
use tonic::codec::Streaming;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::Error;
use crate::event::CloudEvent;
use crate::proto::{self, PublishRequest, SubscriptionRequest};

/// How long one call may take.
const DEADLINE: Duration = Duration::from_secs(30);
/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);
/// How often a connection on which nothing happens is probed, and how long an answer may take.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(10));
/// A status brings the whole bundle with it.
const MESSAGE_LIMIT: usize = 16 << 20;

/// Where a server is, and how it is told who calls.
#[derive(Clone, Debug)]
pub struct Dial {
    /// Such as `http://127.0.0.1:8090`; `https` with TLS.
    pub url: String,
    /// Whom to trust, and the certificate to show; for `https`.
    pub tls: Option<rustls::ClientConfig>,
    /// A file with a token. It is read for every call, so that it may be replaced at any time.
    pub token_file: Option<PathBuf>,
}

/// Publishes and subscribes. A cheap handle over one connection, which comes about when it is first needed and again
/// after it broke.
#[derive(Clone, Debug)]
pub struct EventChannel {
    grpc: Grpc<Channel>,
    token_file: Option<PathBuf>,
}

/// Events as they arrive, without the server's signs of life. Ends with an error when the connection breaks.
#[derive(Debug)]
pub struct Events {
    messages: Streaming<proto::CloudEvent>,
}

// === impl Dial ===

impl Dial {
    /// A server that asks nobody who calls.
    pub fn plain(url: impl Into<String>) -> Self {
        Self { url: url.into(), tls: None, token_file: None }
    }
}

// === impl EventChannel ===

impl EventChannel {
    /// To this server. Nothing is connected yet.
    pub fn try_new(dial: Dial) -> Result<Self, Error> {
        let Dial { url, tls, token_file } = dial;
        let refused = || Error::Address(url.clone());
        let endpoint = Endpoint::from_shared(url.clone()).map_err(|_| refused())?;
        let is_encrypted = endpoint.uri().scheme_str() == Some("https");
        // A token must not travel in the clear, unless it stays on this machine.
        let is_near = matches!(endpoint.uri().host(), Some("127.0.0.1" | "[::1]" | "localhost"));
        if is_encrypted != tls.is_some() || (token_file.is_some() && !is_encrypted && !is_near) {
            return Err(Error::Unprotected(url));
        }
        let endpoint = endpoint
            .connect_timeout(CONNECT)
            .http2_keep_alive_interval(KEEP_ALIVE.0)
            .keep_alive_timeout(KEEP_ALIVE.1)
            .keep_alive_while_idle(true);
        let channel = match tls {
            None => endpoint.connect_lazy(),
            Some(tls) => {
                let mut tcp = HttpConnector::new();
                tcp.enforce_http(false);
                tcp.set_nodelay(true);
                tcp.set_connect_timeout(Some(CONNECT));
                let https = HttpsConnectorBuilder::new()
                    .with_tls_config(tls)
                    .https_only()
                    .enable_http2()
                    .wrap_connector(tcp);
                endpoint.connect_with_connector_lazy(https)
            }
        };
        Ok(Self { token_file, ..Self::new(channel) })
    }

    /// Over a channel that was set up elsewhere.
    pub fn new(channel: Channel) -> Self {
        let grpc = Grpc::new(channel)
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT);
        Self { grpc, token_file: None }
    }

    /// Sends one event. When this returns, the server has taken it.
    pub async fn publish(&self, event: CloudEvent) -> Result<(), Error> {
        let mut grpc = self.grpc.clone();
        let mut request = self.request(PublishRequest { event: Some(event.into()) }).await?;
        request.set_timeout(DEADLINE);
        let call = async move {
            ready(&mut grpc).await?;
            let codec: ProstCodec<PublishRequest, ()> = ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(proto::PUBLISH);
            grpc.unary(request, path, codec).await.map(drop)
        };
        in_time(call).await
    }

    /// Subscribes. When this returns, the subscription stands: whatever happens from now on arrives.
    pub async fn subscribe(&self, wanted: SubscriptionRequest) -> Result<Events, Error> {
        let mut grpc = self.grpc.clone();
        let request = self.request(wanted).await?;
        let call = async move {
            ready(&mut grpc).await?;
            let codec: ProstCodec<SubscriptionRequest, proto::CloudEvent> = ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(proto::SUBSCRIBE);
            grpc.server_streaming(request, path, codec).await
        };
        in_time(call).await.map(|response| Events { messages: response.into_inner() })
    }

    async fn request<T>(&self, message: T) -> Result<tonic::Request<T>, Error> {
        let mut request = tonic::Request::new(message);
        if let Some(file) = &self.token_file {
            let unreadable = |problem: String| Error::Token { file: file.clone(), problem };
            let token =
                tokio::fs::read_to_string(file).await.map_err(|error| unreadable(error.to_string()))?;
            let value: MetadataValue<_> = format!("Bearer {}", token.trim())
                .parse()
                .map_err(|_| unreadable("it is not the text of a token".to_owned()))?;
            request.metadata_mut().insert("authorization", value);
        }
        Ok(request)
    }
}

async fn ready(grpc: &mut Grpc<Channel>) -> Result<(), tonic::Status> {
    grpc.ready().await.map_err(|error| tonic::Status::unavailable(error.to_string()))
}

async fn in_time<T>(call: impl Future<Output = Result<T, tonic::Status>>) -> Result<T, Error> {
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(outcome) => outcome.map_err(Error::of_status),
        Err(_) => Err(Error::of_status(tonic::Status::deadline_exceeded("no answer in time"))),
    }
}

// === impl Events ===

impl Stream for Events {
    type Item = Result<CloudEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let message = match std::task::ready!(Pin::new(&mut self.messages).poll_next(cx)) {
                Some(Ok(message)) => message,
                Some(Err(status)) => return Poll::Ready(Some(Err(Error::of_status(status)))),
                None => return Poll::Ready(None),
            };
            match CloudEvent::try_from(message) {
                Ok(event) if event.is_heartbeat() => {}
                event => return Poll::Ready(Some(event.map_err(Error::from))),
            }
        }
    }
}
