//! One client, from its CONNECT to its end.
//!
//! Reading and writing run side by side within the connection's task: a client that does not read must not keep its own
//! acknowledgements from being noticed, nor the broker from putting it out.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use pilothouse_http::PeerIdentity;
use pilothouse_runtime::Shutdown;
use rumqttc::mqttbytes::Error as CodecError;
use rumqttc::mqttbytes::v5::{
    Codec, ConnAck, ConnAckProperties, Connect, ConnectReturnCode, Disconnect, DisconnectReasonCode,
    LastWill, Packet,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio_util::codec::{FramedRead, FramedWrite};
use tracing::{debug, info, warn};

use crate::access::{Access, Authorizer, Client};
use crate::config::Limits;
use crate::metrics::{End, Metrics};
use crate::router::{Router, Seat, Stop};

mod reader;
mod window;
mod writer;

use self::reader::Reader;
use self::window::Window;
use self::writer::Writer;

/// Acknowledgements that may wait to be written before reading pauses.
const CONTROL: usize = 256;
/// How long a client that is put out is given to hear why.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Numbers clients that have no id of their own.
static NAMELESS: AtomicU64 = AtomicU64::new(1);

/// What connections share.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) router: Router,
    pub(crate) limits: Limits,
    pub(crate) authorizer: Authorizer,
    pub(crate) metrics: Metrics,
    pub(crate) shutdown: Shutdown,
}

/// How a connection ended, and what its client is told.
#[derive(Clone, Copy, Debug)]
struct Finish {
    end: End,
    reason: Option<DisconnectReasonCode>,
}

type Frames<S> = FramedRead<tokio::io::ReadHalf<S>, Codec>;
type Sink<S> = FramedWrite<tokio::io::WriteHalf<S>, Codec>;

pub(crate) async fn serve<S>(broker: &Broker, stream: S, address: SocketAddr, identity: Option<PeerIdentity>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (read, write) = tokio::io::split(stream);
    let codec = Codec { max_incoming_size: Some(broker.limits.packet_bytes), max_outgoing_size: None };
    let mut frames = FramedRead::new(read, codec.clone());
    let mut sink = FramedWrite::new(write, codec);
    sink.set_backpressure_boundary(64 << 10);
    let first = tokio::select! {
        () = broker.shutdown.requested() => return,
        first = tokio::time::timeout(broker.limits.patience(), frames.next()) => first,
    };
    let (connect, will) = match first {
        Ok(Some(Ok(Packet::Connect(connect, will, _)))) => (connect, will),
        Ok(Some(Err(CodecError::InvalidProtocol | CodecError::InvalidProtocolLevel(_)))) => {
            broker.metrics.end(End::Refused);
            return refuse(&mut sink, ConnectReturnCode::UnsupportedProtocolVersion, "MQTT 5 is spoken here")
                .await;
        }
        _ => {
            broker.metrics.end(End::Violation);
            return debug!(peer = %address, "the first packet was no CONNECT");
        }
    };
    let assigned = connect
        .client_id
        .is_empty()
        .then(|| format!("nameless-{}", NAMELESS.fetch_add(1, Ordering::Relaxed)));
    let client =
        Client { id: assigned.clone().unwrap_or_else(|| connect.client_id.clone()), address, identity };
    if let Some((code, why)) = objection(broker, &client, &connect, will.as_ref()) {
        broker.metrics.end(End::Refused);
        info!(client = client.id, peer = %address, why, "refused a client");
        return refuse(&mut sink, code, why).await;
    }

    let properties = connect.properties.as_ref();
    sink.encoder_mut().max_outgoing_size = properties.and_then(|properties| properties.max_packet_size);
    let receive_maximum = properties.and_then(|properties| properties.receive_maximum).unwrap_or(u16::MAX);
    let limit = broker.limits.keep_alive_seconds;
    let keep_alive =
        if connect.keep_alive == 0 || connect.keep_alive > limit { limit } else { connect.keep_alive };
    // Entered before the client hears of it: whoever was connected under its id is out by then.
    let mut seat = broker.router.enter(&client.id);
    let welcome = ConnAck {
        session_present: false,
        code: ConnectReturnCode::Success,
        properties: Some(ConnAckProperties {
            receive_max: Some(broker.limits.receive_maximum),
            max_qos: Some(1),
            retain_available: Some(0),
            max_packet_size: Some(broker.limits.packet_bytes),
            assigned_client_identifier: assigned,
            subscription_identifiers_available: Some(0),
            session_expiry_interval: properties
                .and_then(|properties| properties.session_expiry_interval)
                .filter(|seconds| *seconds > 0)
                .map(|_| 0),
            server_keep_alive: (keep_alive != connect.keep_alive).then_some(keep_alive),
            ..empty()
        }),
    };
    if sink.send(Packet::ConnAck(welcome)).await.is_err() {
        return broker.metrics.end(End::Lost);
    }
    info!(client = client.id, peer = %address, "client connected");
    let finish =
        converse(broker, &client, &mut frames, &mut sink, &mut seat, keep_alive, receive_maximum).await;
    // Gone before the last words: nothing more is queued for it.
    drop(seat);
    broker.metrics.end(finish.end);
    match finish.end {
        End::Slow => warn!(client = client.id, "disconnected a subscriber that did not keep up"),
        end => info!(client = client.id, ?end, "client disconnected"),
    }
    if let Some(reason) = finish.reason {
        let bye = Packet::Disconnect(Disconnect::new(reason));
        let _ = tokio::time::timeout(LAST_WORDS, async {
            let _ = sink.send(bye).await;
            let _ = sink.close().await;
        })
        .await;
    }
}

async fn converse<S>(
    broker: &Broker,
    client: &Client,
    frames: &mut Frames<S>,
    sink: &mut Sink<S>,
    seat: &mut Seat,
    keep_alive: u16,
    receive_maximum: u16,
) -> Finish
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (control_tx, control_rx) = mpsc::channel(CONTROL);
    let window = Window::new(receive_maximum);
    let mut stop = seat.stop.clone();
    let session = seat.session;
    let patience = Duration::from_secs(u64::from(keep_alive)).mul_f32(1.5);
    let reader = Reader { broker, client, session, window: &window, control: control_tx, patience };
    let writer = Writer { broker, seat, window: &window, control: control_rx };
    tokio::select! {
        finish = reader.run(frames) => finish,
        finish = writer.run(sink) => finish,
        stop = stopped(&mut stop) => Finish { end: stop.end, reason: Some(stop.reason) },
        () = broker.shutdown.requested() => {
            Finish { end: End::Shutdown, reason: Some(DisconnectReasonCode::ServerShuttingDown) }
        }
    }
}

async fn stopped(stop: &mut watch::Receiver<Option<Stop>>) -> Stop {
    match stop.wait_for(Option::is_some).await.map(|stop| *stop) {
        Ok(Some(stop)) => stop,
        // The router has let go of it.
        _ => Stop { reason: DisconnectReasonCode::ServerShuttingDown, end: End::Shutdown },
    }
}

/// Why a client is not let in.
fn objection(
    broker: &Broker,
    client: &Client,
    connect: &Connect,
    will: Option<&LastWill>,
) -> Option<(ConnectReturnCode, &'static str)> {
    let method = connect.properties.as_ref().and_then(|properties| properties.authentication_method.as_ref());
    if method.is_some() {
        return Some((
            ConnectReturnCode::BadAuthenticationMethod,
            "extended authentication is not spoken here",
        ));
    }
    if will.is_some() {
        return Some((ConnectReturnCode::ImplementationSpecificError, "wills are not kept here"));
    }
    if !broker.authorizer.allows(client, Access::Connect) {
        return Some((
            ConnectReturnCode::NotAuthorized,
            "this identity may not connect under this client id",
        ));
    }
    None
}

async fn refuse<S: AsyncWrite>(sink: &mut Sink<S>, code: ConnectReturnCode, why: &str) {
    let properties = ConnAckProperties { reason_string: Some(why.to_owned()), ..empty() };
    let answer = ConnAck { session_present: false, code, properties: Some(properties) };
    let _ = tokio::time::timeout(LAST_WORDS, async {
        let _ = sink.send(Packet::ConnAck(answer)).await;
        let _ = sink.close().await;
    })
    .await;
}

fn empty() -> ConnAckProperties {
    ConnAckProperties {
        session_expiry_interval: None,
        receive_max: None,
        max_qos: None,
        retain_available: None,
        max_packet_size: None,
        assigned_client_identifier: None,
        topic_alias_max: None,
        reason_string: None,
        user_properties: Vec::new(),
        wildcard_subscription_available: None,
        subscription_identifiers_available: None,
        shared_subscription_available: None,
        server_keep_alive: None,
        response_information: None,
        server_reference: None,
        authentication_method: None,
        authentication_data: None,
    }
}

// === impl Finish ===

impl Finish {
    fn lost() -> Self {
        Self { end: End::Lost, reason: None }
    }

    fn violation(reason: DisconnectReasonCode) -> Self {
        Self { end: End::Violation, reason: Some(reason) }
    }
}
