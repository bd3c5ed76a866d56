//! The agents that have dialled this server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pilothouse_maestro_api::{CloudEvent, extension};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::{Arrival, Declined, Happening, LinkError, Receipt};

/// Messages on their way to one agent.
const QUEUE: usize = 256;
/// How long an agent may take to make room for a message.
const PATIENCE: Duration = Duration::from_secs(10);

/// All of them. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Agents {
    standing: Arc<Mutex<HashMap<String, Vec<Standing>>>>,
    happenings: mpsc::Sender<Happening>,
}

#[derive(Clone, Debug)]
struct Standing {
    id: Uuid,
    queue: mpsc::Sender<CloudEvent>,
}

/// An agent's place; given up when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) id: Uuid,
    pub(crate) consumer: String,
    pub(crate) queue: mpsc::Receiver<CloudEvent>,
    agents: Agents,
}

// === impl Agents ===

impl Agents {
    pub(super) fn new(happenings: mpsc::Sender<Happening>) -> Self {
        Self { standing: Arc::default(), happenings }
    }

    /// Takes an agent in. Whatever is sent to its consumer from now on arrives.
    pub(crate) async fn join(&self, consumer: String) -> Seat {
        let id = Uuid::new_v4();
        let (queue_tx, queue) = mpsc::channel(QUEUE);
        self.lock().entry(consumer.clone()).or_default().push(Standing { id, queue: queue_tx });
        let seat = Seat { id, consumer: consumer.clone(), queue, agents: self.clone() };
        // Nobody listens only at the end.
        let _ = self.happenings.send(Happening::Joined(consumer)).await;
        seat
    }

    /// A message of an agent's. Returns when it was dealt with.
    pub(crate) async fn arrived(&self, event: CloudEvent) -> Result<(), Declined> {
        let stopping = || Declined::NotNow("the server is stopping".to_owned());
        let (answer, answered) = oneshot::channel();
        let arrival = Box::new(Arrival { event, receipt: Receipt::Call(answer) });
        self.happenings.send(Happening::Arrived(arrival)).await.map_err(|_| stopping())?;
        answered.await.unwrap_or_else(|_| Err(stopping()))
    }

    pub(super) fn has(&self, consumer: &str) -> bool {
        self.lock().contains_key(consumer)
    }

    pub(super) async fn publish(&self, topic: String, event: &CloudEvent) -> Result<(), LinkError> {
        let consumer = event.text(extension::CLUSTER_NAME).unwrap_or_default();
        let queues: Vec<_> = {
            let standing = self.lock();
            let standing = standing.get(&consumer).into_iter().flatten();
            standing.map(|standing| standing.queue.clone()).collect()
        };
        // One that has just gone asks again when it is back, one that is away does not take anything.
        let mut taken = false;
        for queue in queues {
            match queue.send_timeout(event.clone(), PATIENCE).await {
                Ok(()) => taken = true,
                Err(mpsc::error::SendTimeoutError::Closed(_)) => {}
                Err(mpsc::error::SendTimeoutError::Timeout(_)) => {
                    return Err(LinkError::Unacknowledged { topic });
                }
            }
        }
        if taken { Ok(()) } else { Err(LinkError::Down) }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Standing>>> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Seat ===

impl Drop for Seat {
    fn drop(&mut self) {
        let mut all = self.agents.lock();
        if let Some(standing) = all.get_mut(&self.consumer) {
            standing.retain(|standing| standing.id != self.id);
            if standing.is_empty() {
                all.remove(&self.consumer);
            }
        }
    }
}
