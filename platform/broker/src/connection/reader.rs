//! What comes from a client.

use std::time::Duration;

use futures::StreamExt;
use rumqttc::mqttbytes::v5::{
    DisconnectReasonCode, Packet, PubAckReason, Publish, SubAck, Subscribe, SubscribeReasonCode, UnsubAck,
    UnsubAckReason, Unsubscribe,
};
use rumqttc::mqttbytes::{Error as CodecError, QoS};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tracing::{debug, info};

use super::window::Window;
use super::writer::acknowledgement;
use super::{Broker, Finish, Frames};
use crate::access::{Access, Client};
use crate::metrics::End;
use crate::topics::{Filter, SessionId, Subscription};

pub(super) struct Reader<'a> {
    pub(super) broker: &'a Broker,
    pub(super) client: &'a Client,
    pub(super) session: SessionId,
    pub(super) window: &'a Window,
    pub(super) control: mpsc::Sender<Packet>,
    pub(super) patience: Duration,
}

impl Reader<'_> {
    /// Reads until the client leaves, is silent for too long, or breaks the rules.
    pub(super) async fn run<S>(self, frames: &mut Frames<S>) -> Finish
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        loop {
            let packet = match tokio::time::timeout(self.patience, frames.next()).await {
                Ok(Some(Ok(packet))) => packet,
                Ok(Some(Err(CodecError::Io(_))) | None) => return Finish::lost(),
                Ok(Some(Err(error))) => {
                    debug!(client = self.client.id, %error, "unreadable packet");
                    return Finish::violation(reason(&error));
                }
                Err(_) => {
                    let reason = Some(DisconnectReasonCode::KeepAliveTimeout);
                    return Finish { end: End::KeepAlive, reason };
                }
            };
            let answer = match self.take(packet) {
                Ok(Some(answer)) => answer,
                Ok(None) => continue,
                Err(finish) => return finish,
            };
            // The writer is there for as long as this is.
            let _ = self.control.send(answer).await;
        }
    }

    fn take(&self, packet: Packet) -> Result<Option<Packet>, Finish> {
        match packet {
            Packet::Publish(publish) => self.publish(publish),
            Packet::PubAck(answer) => {
                self.window.free(answer.pkid);
                Ok(None)
            }
            Packet::Subscribe(subscribe) => self.subscribe(&subscribe).map(Some),
            Packet::Unsubscribe(unsubscribe) => Ok(Some(self.unsubscribe(&unsubscribe))),
            Packet::PingReq => Ok(Some(Packet::PingResp)),
            Packet::Disconnect(_) => Err(Finish { end: End::Client, reason: None }),
            _ => Err(Finish::violation(DisconnectReasonCode::ProtocolError)),
        }
    }

    fn publish(&self, mut message: Publish) -> Result<Option<Packet>, Finish> {
        let violation = |reason| Err(Finish::violation(reason));
        if message.qos == QoS::ExactlyOnce {
            return violation(DisconnectReasonCode::QoSNotSupported);
        }
        if message.retain {
            return violation(DisconnectReasonCode::RetainNotSupported);
        }
        let properties = message.properties.as_ref();
        if properties.is_some_and(|properties| properties.topic_alias.is_some()) {
            return violation(DisconnectReasonCode::TopicAliasInvalid);
        }
        if properties.is_some_and(|properties| !properties.subscription_identifiers.is_empty()) {
            return violation(DisconnectReasonCode::ProtocolError);
        }
        let topic = match str::from_utf8(&message.topic) {
            Ok(topic) if !topic.is_empty() && !topic.contains(['+', '#', '\0']) => topic.to_owned(),
            _ => return violation(DisconnectReasonCode::TopicNameInvalid),
        };
        let (id, acknowledged) = (message.pkid, message.qos == QoS::AtLeastOnce);
        if !self.broker.authorizer.allows(self.client, Access::Publish(&topic)) {
            info!(client = self.client.id, topic, "refused a message");
            let answer = acknowledgement(id, PubAckReason::NotAuthorized);
            return Ok(acknowledged.then_some(answer));
        }
        message.pkid = 0;
        let heard = self.broker.router.publish(self.session, &topic, message);
        let reason = if heard { PubAckReason::Success } else { PubAckReason::NoMatchingSubscribers };
        Ok(acknowledged.then(|| acknowledgement(id, reason)))
    }

    fn subscribe(&self, subscribe: &Subscribe) -> Result<Packet, Finish> {
        if subscribe.properties.as_ref().is_some_and(|properties| properties.id.is_some()) {
            let reason = DisconnectReasonCode::SubscriptionIdentifiersNotSupported;
            return Err(Finish::violation(reason));
        }
        let mut return_codes = Vec::new();
        for filter in &subscribe.filters {
            return_codes.push(match Filter::parse(&filter.path) {
                None => SubscribeReasonCode::TopicFilterInvalid,
                Some(parsed) if parsed.group.is_some() && filter.nolocal => {
                    return Err(Finish::violation(DisconnectReasonCode::ProtocolError));
                }
                Some(parsed)
                    if !self.broker.authorizer.allows(self.client, Access::Subscribe(parsed.path)) =>
                {
                    info!(client = self.client.id, filter = filter.path, "refused a subscription");
                    SubscribeReasonCode::NotAuthorized
                }
                Some(_) => {
                    let acknowledged = filter.qos != QoS::AtMostOnce;
                    let wanted = Subscription { acknowledged, no_local: filter.nolocal };
                    if self.broker.router.subscribe(self.session, &filter.path, wanted) {
                        let granted = if acknowledged { QoS::AtLeastOnce } else { QoS::AtMostOnce };
                        SubscribeReasonCode::Success(granted)
                    } else {
                        SubscribeReasonCode::QuotaExceeded
                    }
                }
            });
        }
        Ok(Packet::SubAck(SubAck { pkid: subscribe.pkid, return_codes, properties: None }))
    }

    fn unsubscribe(&self, unsubscribe: &Unsubscribe) -> Packet {
        let reasons = unsubscribe.filters.iter().map(|filter| {
            if self.broker.router.unsubscribe(self.session, filter) {
                UnsubAckReason::Success
            } else {
                UnsubAckReason::NoSubscriptionExisted
            }
        });
        let reasons = reasons.collect();
        Packet::UnsubAck(UnsubAck { pkid: unsubscribe.pkid, reasons, properties: None })
    }
}

fn reason(error: &CodecError) -> DisconnectReasonCode {
    match error {
        CodecError::PayloadSizeLimitExceeded { .. } => DisconnectReasonCode::PacketTooLarge,
        CodecError::ProtocolError => DisconnectReasonCode::ProtocolError,
        CodecError::ProtocolViolation(reason) => *reason,
        CodecError::InvalidQoS(_) => DisconnectReasonCode::QoSNotSupported,
        _ => DisconnectReasonCode::MalformedPacket,
    }
}
