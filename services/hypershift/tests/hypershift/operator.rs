//! The operator under test, and the ways to cut it off.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use http::{Method, Request};
use kube::Client;
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use pilothouse_hypershift::{Config, Deps, Service};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::reconcile::Handle;
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, TaskError, Tasks};
use prometheus_client::registry::Registry;
use tokio::sync::Notify;
use tower::{Layer, Service as TowerService};

/// What an operator is started with, as often as it has to be.
#[derive(Clone)]
pub(crate) struct OperatorStart {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) kubeconfig: String,
    pub(crate) writes: Arc<AtomicUsize>,
    pub(crate) faults: Arc<Faults>,
}

/// At which write the operator that runs is cut off: from then on none of its requests arrives or is answered.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// How many writes are still to be let through, plus one; nought for all of them.
    countdown: AtomicUsize,
    /// The last one arrives, and only its answer is lost.
    arrives: AtomicBool,
    /// The management cluster is gone for everybody.
    pub(crate) outage: AtomicBool,
    cut: Notify,
    cuts: AtomicUsize,
}

#[derive(Clone)]
struct Faulty<S> {
    inner: S,
    writes: Arc<AtomicUsize>,
    faults: Arc<Faults>,
    /// This operator is cut off.
    dead: Arc<AtomicBool>,
}

#[derive(Clone)]
struct FaultyLayer {
    writes: Arc<AtomicUsize>,
    faults: Arc<Faults>,
    dead: Arc<AtomicBool>,
}

impl Faults {
    /// The n-th write from now on, counted from one, is the last thing the operator does.
    pub(crate) fn arm(&self, write: usize, arrives: bool) {
        self.arrives.store(arrives, Ordering::SeqCst);
        self.countdown.store(write, Ordering::SeqCst);
    }

    /// Nothing is cut off any more. Says how many operators were since the start.
    pub(crate) fn disarm(&self) -> usize {
        self.countdown.store(0, Ordering::SeqCst);
        self.cuts.load(Ordering::SeqCst)
    }

    /// Whether this write is the one.
    fn is_last(&self) -> bool {
        let counted =
            self.countdown.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        counted == Ok(1)
    }
}

impl OperatorStart {
    /// Starts one.
    pub(crate) async fn start(&self) -> (Tasks, [Handle<ObjectKey>; 2], Registry) {
        let mut registry = Registry::default();
        let deps = Deps { client: self.connect().await, clock: self.clock.clone(), registry: &mut registry };
        let service = Service::build(self.config.clone(), deps).await.unwrap();
        let handles = service.handles();
        let operator = Tasks::new("operator", Shutdown::new());
        let shutdown = operator.shutdown().clone();
        operator.spawn("hypershift", OnExit::StopProcess, async move { Ok(service.run(shutdown).await?) });
        (operator, handles, registry)
    }

    /// Starts the next one whenever one was cut off.
    pub(crate) async fn supervise(self, mut operator: Tasks) -> Result<(), TaskError> {
        loop {
            self.faults.cut.notified().await;
            // Its watches end; its passes wait for ever, as those of a dead process do.
            operator.shutdown().request(Reason::Asked("it was cut off".to_owned()));
            (operator, ..) = self.start().await;
        }
    }

    async fn connect(&self) -> Client {
        let config = Kubeconfig::from_yaml(&self.kubeconfig).unwrap();
        let config =
            kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
        let layer =
            FaultyLayer { writes: self.writes.clone(), faults: self.faults.clone(), dead: Arc::default() };
        ClientBuilder::try_from(config).unwrap().with_layer(&layer).build()
    }
}

impl<S> Layer<S> for FaultyLayer {
    type Service = Faulty<S>;

    fn layer(&self, inner: S) -> Faulty<S> {
        let Self { writes, faults, dead } = self.clone();
        Faulty { inner, writes, faults, dead }
    }
}

impl<S> TowerService<Request<Body>> for Faulty<S>
where
    S: TowerService<Request<Body>, Error: From<std::io::Error>>,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let faults = self.faults.clone();
        if self.dead.load(Ordering::SeqCst) {
            return Box::pin(pending());
        }
        if faults.outage.load(Ordering::SeqCst) {
            return Box::pin(async { Err(std::io::Error::other("the management cluster is gone").into()) });
        }
        // Events are written beside the passes, at any time.
        let writes = request.method() != Method::GET && !request.uri().path().contains("/events");
        if writes {
            self.writes.fetch_add(1, Ordering::SeqCst);
        }
        if !writes || !faults.is_last() {
            return Box::pin(self.inner.call(request));
        }
        self.dead.store(true, Ordering::SeqCst);
        let arriving = faults.arrives.load(Ordering::SeqCst).then(|| self.inner.call(request));
        Box::pin(async move {
            if let Some(arriving) = arriving {
                let _ = arriving.await;
            }
            faults.cuts.fetch_add(1, Ordering::SeqCst);
            faults.cut.notify_one();
            pending().await
        })
    }
}
