//! An agent that dials the server.

use futures::StreamExt;
use pilothouse_maestro_api::proto::SubscriptionRequest;
use pilothouse_maestro_api::{CloudEvent, DATA_TYPE, Dial, Error, EventChannel};
use pilothouse_runtime::{Chain, Clock, OnExit, Policy, Tasks};
use tokio::sync::{mpsc, watch};
use tracing::{debug, info, warn};

use super::{Arrival, BrokerConfig, Happening, LinkError, LinkSetupError, Receipt, tls};

/// The connection there is, if there is one. A cheap handle.
#[derive(Clone, Debug)]
pub(super) struct Session {
    current: watch::Receiver<Option<EventChannel>>,
}

/// How a session ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("the server ended the subscription")]
    ByServer,
    #[error("nobody listens any more")]
    Unheard,
    #[error(transparent)]
    Call(#[from] Error),
}

/// Dials, and dials again, until shutdown.
pub(super) fn spawn(
    config: &BrokerConfig,
    consumer: &str,
    clock: &Clock,
    tasks: &Tasks,
    happenings: mpsc::Sender<Happening>,
) -> Result<Session, LinkSetupError> {
    let tls = match (&config.tls, &config.authorities) {
        (Some(files), _) => Some(files.load(clock)),
        (None, Some(authorities)) => Some(tls::anonymous(authorities)),
        (None, None) => None,
    };
    let tls = tls.transpose().map_err(LinkSetupError::Certificates)?;
    if config.host.rsplit_once(':').is_none_or(|(host, port)| host.is_empty() || port.parse::<u16>().is_err())
    {
        return Err(LinkSetupError::Address(config.host.clone()));
    }
    let scheme = if tls.is_some() { "https" } else { "http" };
    let dial =
        Dial { url: format!("{scheme}://{}", config.host), tls, token_file: config.token_file.clone() };
    // Once, so that settings that cannot work are told now.
    EventChannel::try_new(dial.clone()).map_err(LinkSetupError::Dial)?;
    let wanted = SubscriptionRequest {
        source: String::new(),
        cluster_name: consumer.to_owned(),
        data_type: DATA_TYPE.to_owned(),
    };
    let (current_tx, current) = watch::channel(None);
    let shutdown = tasks.shutdown().clone();
    let host = config.host.clone();
    tasks.spawn("grpc", OnExit::StopProcess, async move {
        let mut delays = Policy::RECONNECT.delays();
        let mut refusal = None;
        loop {
            let Err(ended) = tokio::select! {
                () = shutdown.requested() => return Ok(()),
                ended = session(&dial, &wanted, &current_tx, &happenings) => ended,
            };
            let said = Chain(&ended).to_string();
            // Once per connection that was lost, and once per refusal; attempts in vain are routine.
            if current_tx.send_replace(None).is_some() {
                delays.reset();
                warn!(server = host, error = said, "lost the server");
            } else if matches!(ended, Ended::Call(Error::Refused(_) | Error::Token { .. }))
                && refusal.as_ref() != Some(&said)
            {
                warn!(server = host, error = said, "the server does not let this agent in");
                refusal = Some(said);
            } else {
                debug!(server = host, error = said, "the server is not there");
            }
            let delay = delays.next().unwrap_or_default();
            tokio::select! {
                () = shutdown.requested() => return Ok(()),
                () = tokio::time::sleep(delay) => {}
            }
        }
    });
    Ok(Session { current })
}

/// One connection, to its end.
async fn session(
    dial: &Dial,
    wanted: &SubscriptionRequest,
    current: &watch::Sender<Option<EventChannel>>,
    happenings: &mpsc::Sender<Happening>,
) -> Result<std::convert::Infallible, Ended> {
    let channel = EventChannel::try_new(dial.clone())?;
    let mut events = channel.subscribe(wanted.clone()).await?;
    info!("connected to the server");
    current.send_replace(Some(channel));
    happenings.send(Happening::Connected).await.map_err(|_| Ended::Unheard)?;
    loop {
        match events.next().await {
            None => return Err(Ended::ByServer),
            Some(Ok(event)) => {
                let arrival = Box::new(Arrival { event, receipt: Receipt::None });
                happenings.send(Happening::Arrived(arrival)).await.map_err(|_| Ended::Unheard)?;
            }
            Some(Err(Error::Event(error))) => {
                warn!(error = %Chain(&error), "refused a message");
                happenings.send(Happening::Refused).await.map_err(|_| Ended::Unheard)?;
            }
            Some(Err(error)) => return Err(error.into()),
        }
    }
}

// === impl Session ===

impl Session {
    /// Sends a message and waits for the server to have dealt with it.
    pub(super) async fn publish(&self, topic: String, event: &CloudEvent) -> Result<(), LinkError> {
        let channel = self.current.borrow().clone().ok_or(LinkError::Down)?;
        channel.publish(event.clone()).await.map_err(|error| {
            debug!(error = %Chain(&error), "a message was not taken");
            match error {
                error if error.is_retryable() => LinkError::Unacknowledged { topic },
                error => LinkError::Refused { topic, reason: Chain(&error).to_string() },
            }
        })
    }

    pub(super) fn is_up(&self) -> bool {
        self.current.borrow().is_some()
    }
}
