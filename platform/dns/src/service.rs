use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::future::BoxFuture;
use hickory_proto::op::{Query, ResponseCode};
use pilothouse_http::{Health, Verdict};
use pilothouse_nameserver::{Answer, Answers, Bound};
use pilothouse_runtime::backoff::Policy;
use pilothouse_runtime::{Chain, OnExit, Shutdown, Tasks};
use prometheus_client::registry::Registry;
use tracing::{info, warn};

use crate::config::Config;
use crate::directory::Directory;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::source::{News, Source};

/// How long what was asked may take to be answered at shutdown.
const DRAIN: Duration = Duration::from_secs(5);

/// What the name server needs from outside.
pub struct Deps<'a> {
    /// Where zones and record sets come from.
    pub source: Box<dyn Source>,
    /// Where it says whether it knows the records.
    pub health: Health,
    /// Where numbers are registered; the prefix is the name server's own.
    pub registry: &'a mut Registry,
}

/// The name server, ready to run.
pub struct Service {
    bound: Bound,
    local_address: SocketAddr,
    source: Box<dyn Source>,
    names: Names,
}

/// Who answers. A cheap handle.
#[derive(Clone)]
struct Names {
    shared: Arc<Shared>,
}

struct Shared {
    directory: RwLock<Directory>,
    /// Whether all that was there at the beginning is in the directory.
    complete: AtomicBool,
    metrics: Metrics,
}

// === impl Service ===

impl Service {
    /// Takes the port, for datagrams and for connections; nothing runs yet.
    ///
    /// # Errors
    ///
    /// If the port cannot be had, or the configuration makes no sense.
    pub fn build(config: Config, deps: Deps<'_>) -> BoxFuture<'_, Result<Self, Error>> {
        Box::pin(Self::assemble(config, deps))
    }

    async fn assemble(config: Config, deps: Deps<'_>) -> Result<Self, Error> {
        let base_zone = config.base_zone()?;
        let refused = |source| Error::Bind { address: config.listen, source };
        let bound = Bound::bind(config.listen).await.map_err(refused)?;
        let local_address = bound.local_address().map_err(refused)?;
        let names = Names {
            shared: Arc::new(Shared {
                directory: RwLock::new(Directory::new(&base_zone, config.addresses)),
                complete: AtomicBool::new(false),
                metrics: Metrics::new(deps.registry),
            }),
        };
        let known = names.clone();
        deps.health.register("dns-records", move || {
            if known.is_complete() {
                Verdict::ready("the records are known")
            } else {
                Verdict::failed("the records were not read yet; names are not answered for")
            }
        });
        Ok(Self { bound, local_address, source: deps.source, names })
    }

    /// Where it listens, with the real port.
    pub fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// Answers until shutdown; returns when drained.
    ///
    /// # Errors
    ///
    /// If something would not stop.
    pub fn run(self, shutdown: Shutdown) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(self.work(shutdown))
    }

    async fn work(self, shutdown: Shutdown) -> Result<(), Error> {
        let Self { bound, local_address, source, names } = self;
        let tasks = Tasks::new("dns", shutdown.clone());
        let (following, ending) = (names.clone(), shutdown.clone());
        tasks.spawn("follow", OnExit::StopProcess, async move {
            tokio::select! {
                () = ending.requested() => {}
                () = following.follow(source) => {}
            }
            Ok(())
        });
        bound.start_for_strangers(names, &tasks);
        info!(address = %local_address, "answering for names");
        shutdown.requested().await;
        tasks.drain(DRAIN).await?;
        Ok(())
    }
}

// === impl Names ===

impl Names {
    fn is_complete(&self) -> bool {
        self.shared.complete.load(Ordering::Acquire)
    }

    async fn follow(&self, mut source: Box<dyn Source>) {
        let mut delays = Policy::RECONNECT.delays();
        loop {
            match source.next().await {
                Ok(news) => {
                    self.take(&news);
                    delays.reset();
                }
                Err(error) => {
                    warn!(error = %Chain(&*error), "the records of names cannot be followed for a moment");
                    // The policy never gives up.
                    tokio::time::sleep(delays.next().unwrap_or_default()).await;
                }
            }
        }
    }

    fn take(&self, news: &News) {
        let shared = &*self.shared;
        shared.directory.write().unwrap_or_else(PoisonError::into_inner).take(news);
        if matches!(news, News::Everything { .. }) {
            shared.complete.store(true, Ordering::Release);
        }
    }
}

impl Answers for Names {
    fn answer(&self, question: &Query, _: IpAddr) -> Answer {
        let shared = &*self.shared;
        let answer = if self.is_complete() {
            let directory = shared.directory.read().unwrap_or_else(PoisonError::into_inner);
            directory.answer(question.name(), question.query_type())
        } else {
            // It may be there all the same: the client should ask again.
            Answer::only(ResponseCode::ServFail)
        };
        shared.metrics.answered(answer.code);
        answer
    }
}
