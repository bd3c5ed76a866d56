use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use pilothouse_http::{Health, Verdict};
use pilothouse_runtime::reconcile::{Handle, Options};
use pilothouse_runtime::{Clock, Controller, OnExit, Shutdown, Tasks};
use pilothouse_store::Store;
use pilothouse_work::{Engine, Hub};
use prometheus_client::registry::Registry;
use tokio::sync::Notify;
use tracing::info;

use crate::agent::held::Works;
use crate::agent::metrics::Metrics;
use crate::agent::orders::Orders;
use crate::agent::questions::Questions;
use crate::agent::saved::Saved;
use crate::agent::works::Applying;
use crate::agent::{Config, Error};
use crate::link::Link;
use crate::sequence::Sequence;
use crate::topic;

/// How long everything has to end.
const DRAIN: Duration = Duration::from_secs(25);
/// Bundles that are being applied at once.
const CONCURRENCY: usize = 16;

/// What the agent needs from outside.
pub struct Deps<'a> {
    /// The cluster.
    pub client: kube::Client,
    /// What survives a restart. Opened with [`catalog`](super::catalog).
    pub store: Store,
    /// Dates everything.
    pub clock: Clock,
    /// Says whether the broker is there.
    pub health: Health,
    /// Where the numbers go.
    pub registry: &'a mut Registry,
}

/// An agent that is ready to run.
pub struct Service {
    config: Config,
    client: kube::Client,
    saved: Saved,
    works: Works,
    sequence: Arc<Sequence>,
    clock: Clock,
    health: Health,
    metrics: Metrics,
}

impl Service {
    /// Checks the configuration, and reads what an agent before this one has left. Neither the broker nor the cluster need
    /// be there yet.
    pub fn build(config: Config, deps: Deps<'_>) -> BoxFuture<'_, Result<Self, Error>> {
        Box::pin(Self::assemble(config, deps))
    }

    async fn assemble(config: Config, deps: Deps<'_>) -> Result<Self, Error> {
        let Deps { client, store, clock, health, registry } = deps;
        for name in [&config.consumer, &config.source_id] {
            if !topic::is_name(name) {
                return Err(Error::Name(name.clone()));
            }
        }
        let metrics = Metrics::register(registry);
        let works = Works::new(metrics.clone());
        let sequence = Arc::new(Sequence::new(clock.clone()));
        let saved = Saved::try_new(store)?;
        saved.load(&works, &sequence).await?;
        Ok(Self { config, client, saved, works, sequence, clock, health, metrics })
    }

    /// Serves until shutdown; returns when everything has ended.
    pub fn run(self, shutdown: Shutdown) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(self.work(shutdown))
    }

    async fn work(self, shutdown: Shutdown) -> Result<(), Error> {
        let tasks = Tasks::new("maestro-agent", shutdown.clone());
        let Self { config, client, saved, works, sequence, clock, health, metrics } = self;
        let Config { broker, consumer, source_id, agent_id, hub, json_raw_limit, store: _ } = config;
        let agent_id = agent_id.unwrap_or_else(|| format!("{consumer}-work-agent"));
        let (link, happenings) = Link::of_agent(&broker, &source_id, &consumer, &clock, &tasks)?;
        let up = link.clone();
        health.register("maestro-agent-broker", move || {
            if up.is_up() {
                Verdict::ready("connected to the broker")
            } else {
                Verdict::warning("no connection to the broker; what was applied stays as it is")
            }
        });

        // The engine wakes the controller that drives it: the handle is there once both are.
        let handle: Arc<OnceLock<Handle<String>>> = Arc::default();
        let engine = Engine::new(pilothouse_work::Options {
            client,
            hub: Hub::new(&hub),
            clock: clock.clone(),
            tasks: tasks.clone(),
            json_raw_limit,
            wake: Arc::new({
                let (handle, works) = (handle.clone(), works.clone());
                move |name: &str| {
                    if let Some(handle) = handle.get() {
                        works.named(name).into_iter().for_each(|id| handle.wake(id));
                    }
                }
            }),
        });
        let applying = Applying {
            works: works.clone(),
            saved,
            engine: engine.clone(),
            link: link.clone(),
            sequence,
            clock: clock.clone(),
            consumer: consumer.clone(),
            source_id: source_id.clone(),
            agent_id: agent_id.clone(),
            metrics: metrics.clone(),
        };
        let options = Options { concurrency: CONCURRENCY, ..Options::default() };
        let controller = Controller::new("works", applying, options);
        let handle = handle.get_or_init(|| controller.handle()).clone();
        controller.spawn(&tasks);
        let wanted = Arc::new(Notify::new());
        let orders = Orders {
            works: works.clone(),
            handle,
            consumer: consumer.clone(),
            questions: wanted.clone(),
            metrics,
        };
        let questions = Questions { works, engine, link, clock, consumer, source_id, agent_id, wanted };
        let until = shutdown.clone();
        tasks.spawn("questions", OnExit::StopProcess, async move {
            questions.run(until).await;
            Ok(())
        });
        let until = shutdown.clone();
        tasks.spawn("orders", OnExit::StopProcess, async move {
            orders.run(happenings, until).await;
            Ok(())
        });

        shutdown.requested().await;
        tasks.drain(DRAIN).await?;
        info!("the Maestro agent has stopped");
        Ok(())
    }
}

impl fmt::Debug for Deps<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Deps").finish_non_exhaustive()
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Service").field("config", &self.config).finish_non_exhaustive()
    }
}
