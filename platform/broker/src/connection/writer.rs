//! What goes to a client.

use futures::SinkExt;
use rumqttc::mqttbytes::v5::{Packet, PubAck, Publish};
use rumqttc::mqttbytes::{Error as CodecError, QoS};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tracing::debug;

use super::window::Window;
use super::{Broker, Finish, Sink};
use crate::router::{Delivery, Seat};

pub(super) struct Writer<'a> {
    pub(super) broker: &'a Broker,
    pub(super) seat: &'a mut Seat,
    pub(super) window: &'a Window,
    pub(super) control: mpsc::Receiver<Packet>,
}

impl Writer<'_> {
    /// Writes until the connection breaks.
    pub(super) async fn run<S>(mut self, sink: &mut Sink<S>) -> Finish
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        loop {
            let open = self.window.is_open();
            let packet = tokio::select! {
                // Acknowledgements first: they let the client go on.
                biased;
                packet = self.control.recv() => packet,
                delivery = self.seat.queue.recv(), if open => delivery.map(|delivery| self.packet(&delivery)),
                () = self.window.opened(), if !open => continue,
            };
            // The router, or the reader, has gone: this side is about to be dropped.
            let Some(packet) = packet else { return std::future::pending().await };
            let written = tokio::time::timeout(self.broker.limits.patience(), async {
                self.feed(sink, packet).await?;
                // Whatever else is ready goes out with it.
                while let Ok(packet) = self.control.try_recv() {
                    self.feed(sink, packet).await?;
                }
                while self.window.is_open()
                    && let Ok(delivery) = self.seat.queue.try_recv()
                {
                    let packet = self.packet(&delivery);
                    self.feed(sink, packet).await?;
                    if sink.write_buffer().len() > 64 << 10 {
                        break;
                    }
                }
                sink.flush().await
            });
            match written.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    debug!(%error, "writing failed");
                    return Finish::lost();
                }
                Err(_) => return Finish::lost(),
            }
        }
    }

    async fn feed<S>(&self, sink: &mut Sink<S>, packet: Packet) -> Result<(), CodecError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let (id, is_message) = match &packet {
            Packet::Publish(publish) => (publish.pkid, true),
            _ => (0, false),
        };
        match sink.feed(packet).await {
            // The standard wants it dropped, as if it had been delivered.
            Err(CodecError::OutgoingPacketTooLarge { .. }) if is_message => {
                self.broker.metrics.too_large.inc();
                self.window.free(id);
                Ok(())
            }
            Ok(()) => {
                if is_message {
                    self.broker.metrics.delivered.inc();
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn packet(&self, delivery: &Delivery) -> Packet {
        self.seat.taken(delivery);
        let acknowledged = delivery.acknowledged && delivery.message.qos == QoS::AtLeastOnce;
        let message = Publish {
            dup: false,
            retain: false,
            qos: if acknowledged { QoS::AtLeastOnce } else { QoS::AtMostOnce },
            pkid: if acknowledged { self.window.take() } else { 0 },
            ..(*delivery.message).clone()
        };
        Packet::Publish(message)
    }
}

/// The answer to a message.
pub(super) fn acknowledgement(id: u16, reason: rumqttc::mqttbytes::v5::PubAckReason) -> Packet {
    let mut answer = PubAck::new(id, None);
    answer.reason = reason;
    Packet::PubAck(answer)
}
