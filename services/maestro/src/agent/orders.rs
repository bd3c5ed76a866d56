//! What the server sends.

use std::sync::Arc;

use pilothouse_maestro_api::{Action, CloudEvent, StatusHashList, Subresource, extension};
use pilothouse_runtime::reconcile::Handle;
use pilothouse_runtime::{Chain, Shutdown};
use tokio::sync::{Notify, mpsc};
use tracing::{debug, warn};

use crate::agent::held::{Taken, Works};
use crate::agent::metrics::Metrics;
use crate::link::Happening;

#[derive(Debug)]
pub(super) struct Orders {
    pub(super) works: Works,
    pub(super) handle: Handle<String>,
    pub(super) consumer: String,
    /// Told when the server has to be asked for what was missed.
    pub(super) questions: Arc<Notify>,
    pub(super) metrics: Metrics,
}

impl Orders {
    /// Deals with what happens, in order, until shutdown.
    pub(super) async fn run(self, mut happenings: mpsc::Receiver<Happening>, shutdown: Shutdown) {
        loop {
            let happening = tokio::select! {
                () = shutdown.requested() => return,
                happening = happenings.recv() => happening,
            };
            match happening {
                None => return,
                // Joining is what happens to servers.
                Some(Happening::Connected | Happening::Joined(_)) => {
                    self.questions.notify_one();
                    // What could not be reported is now.
                    self.works.ids().into_iter().for_each(|id| self.handle.wake(id));
                }
                Some(Happening::Refused) => drop(self.metrics.refused.inc()),
                Some(Happening::Arrived(arrival)) => {
                    self.metrics.orders.inc();
                    let asks_back = self.take(&arrival.event);
                    arrival.acknowledge().await;
                    if asks_back {
                        self.questions.notify_one();
                    }
                }
            }
        }
    }

    /// Takes an order. Answers whether the server has to be asked: it has come by itself, and may not have been there when it
    /// was asked, or its order is doubtful.
    fn take(&self, event: &CloudEvent) -> bool {
        let kind = match event.event_type() {
            Ok(kind) if kind.is_ours() => kind,
            Ok(kind) => {
                debug!(%kind, "not for this agent");
                return false;
            }
            Err(error) => {
                self.metrics.refused.inc();
                warn!(%error, "an order cannot be read");
                return false;
            }
        };
        let cluster = event.text(extension::CLUSTER_NAME);
        if cluster.as_deref().is_some_and(|cluster| cluster != self.consumer) {
            debug!(cluster, "an order for another cluster");
            return false;
        }
        match (kind.subresource, kind.action) {
            (Subresource::Status, Action::ResyncRequest) => match event.payload::<StatusHashList>() {
                Ok(known) => {
                    let is_solicited = event.text(extension::SOLICITED).is_some();
                    let again = self.works.report_again(&known.status_hashes, is_solicited);
                    again.into_iter().for_each(|id| self.handle.wake(id));
                    return !is_solicited;
                }
                Err(error) => {
                    self.metrics.refused.inc();
                    warn!(error = %Chain(&error), "a question of the server cannot be read");
                }
            },
            (Subresource::Spec, _) => match self.works.take(event) {
                Ok(Taken::Yes(id)) => self.handle.wake(id),
                Ok(Taken::Late) => debug!("an order that is late"),
                Ok(Taken::Doubtful) => {
                    debug!(id = event.text(extension::RESOURCE_ID), "an order for a bundle that has gone");
                    return true;
                }
                // The text of an error never quotes the payload.
                Err(error) => {
                    self.metrics.refused.inc();
                    warn!(id = event.text(extension::RESOURCE_ID), %error, "an order cannot be carried out")
                }
            },
            (Subresource::Status, _) => {}
        }
        false
    }
}
