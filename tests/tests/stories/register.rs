//! A register in a hosted cluster that one client writes and reads all the time, while something happens to the cluster.
//!
//! What was acknowledged is there at every later read. A write without an answer may have happened or not: the client reads
//! before it goes on, and writes over nothing but what it has read, so that a write which comes late is refused.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use pilothouse_runtime::{OnExit, Shutdown, Tasks};
use pilothouse_test_support::eventually;
use tokio::time::{Instant, interval, timeout};

use crate::region::LIMIT;

/// How often it is written.
const PERIOD: Duration = Duration::from_millis(100);
/// How long one call may take.
const CALL: Duration = Duration::from_secs(15);
/// How often the kubeconfig is read again: its certificate may be renewed.
const READ_AGAIN: Duration = Duration::from_secs(5);

const NAME: &str = "register";
const KEY: &str = "value";

/// The register and its client, who goes on until it is dropped.
pub(crate) struct Register {
    seen: Arc<Mutex<Seen>>,
    shutdown: Shutdown,
}

/// What the client has seen.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// The last value that it tried to write.
    attempted: u64,
    /// The last value whose write was acknowledged.
    acknowledged: u64,
    /// What is wrong with what it read.
    lost: Option<String>,
    /// Since the case began.
    case: Case,
}

/// What happened to the client in one case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Case {
    /// Calls that were answered as they should.
    pub(crate) answered: u64,
    /// Calls that were not.
    pub(crate) failed: u64,
    /// The longest time without an answer.
    pub(crate) longest: Duration,
    /// What the last of them said.
    pub(crate) error: String,
}

/// The client.
struct Writer {
    kubeconfig: PathBuf,
    api: Option<(Api<ConfigMap>, Instant)>,
    /// What is there, if the client is sure.
    known: Option<ConfigMap>,
    last_answer: Instant,
}

// === impl Register ===

impl Register {
    /// In the cluster of this kubeconfig, which is read again now and then.
    pub(crate) async fn start(kubeconfig: &Path) -> Self {
        let (seen, shutdown) = (Arc::<Mutex<Seen>>::default(), Shutdown::new());
        let tasks = Tasks::new("register", shutdown.clone());
        let mut writer =
            Writer { kubeconfig: kubeconfig.to_owned(), api: None, known: None, last_answer: Instant::now() };
        let (of_task, stopping) = (Arc::clone(&seen), shutdown.clone());
        tasks.spawn("client", OnExit::Expendable, async move {
            let mut ticks = interval(PERIOD);
            while !stopping.is_requested() {
                ticks.tick().await;
                writer.turn(&of_task).await;
            }
            Ok(())
        });
        let register = Self { seen, shutdown };
        register.works().await;
        register
    }

    /// Waits for a write that was begun after now.
    pub(crate) async fn works(&self) {
        let begun = self.look(|seen| seen.attempted);
        eventually("the register can be written", LIMIT, || {
            let seen = self.look(|seen| seen.clone());
            async move { if seen.acknowledged > begun { Ok(()) } else { Err(format!("{seen:?}")) } }
        })
        .await;
    }

    /// Forgets what happened, for another case.
    pub(crate) fn begin(&self) {
        self.look(|seen| seen.case = Case::default());
    }

    /// What happened since the case began. Nothing that was acknowledged may be lost.
    pub(crate) fn end(&self, case: &str) -> Case {
        let seen = self.look(|seen| seen.clone());
        assert_eq!(seen.lost, None, "{case}");
        let Case { answered, failed, longest, error } = &seen.case;
        // Not through the harness, which shows nothing of tests that pass.
        let _ = writeln!(
            std::io::stderr(),
            "{case}: {answered} calls answered, {failed} not, longest without an answer {} ms {error}",
            longest.as_millis()
        );
        seen.case
    }

    fn look<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.seen.lock().unwrap())
    }
}

impl Drop for Register {
    fn drop(&mut self) {
        self.shutdown.request(pilothouse_runtime::Reason::Asked("the story ends".to_owned()));
    }
}

// === impl Writer ===

impl Writer {
    /// One call: a read if the client is not sure what is there, else a write and a read.
    async fn turn(&mut self, seen: &Mutex<Seen>) {
        let outcome = match self.known.take() {
            None => self.read(seen).await,
            Some(known) => self.write(known, seen).await,
        };
        let now = Instant::now();
        let mut seen = seen.lock().unwrap();
        match outcome {
            Ok(()) => {
                seen.case.answered += 1;
                seen.case.longest = seen.case.longest.max(now - self.last_answer);
                self.last_answer = now;
            }
            Err(error) => {
                self.api = None;
                seen.case.failed += 1;
                seen.case.error = error;
            }
        }
    }

    async fn read(&mut self, seen: &Mutex<Seen>) -> Result<(), String> {
        let api = self.api().await?;
        let found = call(api.get_opt(NAME)).await?;
        let Some(found) = found else {
            assert_eq!(seen.lock().unwrap().acknowledged, 0, "the register is gone");
            let fresh = ConfigMap {
                metadata: ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() },
                data: Some(BTreeMap::from([(KEY.to_owned(), "0".to_owned())])),
                ..ConfigMap::default()
            };
            self.known = Some(call(api.create(&PostParams::default(), &fresh)).await?);
            return Ok(());
        };
        let value = value(&found);
        let mut seen = seen.lock().unwrap();
        let (acknowledged, attempted) = (seen.acknowledged, seen.attempted);
        if value < acknowledged || value > attempted {
            seen.lost
                .get_or_insert_with(|| format!("{value} was read after {acknowledged} was acknowledged"));
        }
        self.known = Some(found);
        Ok(())
    }

    async fn write(&mut self, mut known: ConfigMap, seen: &Mutex<Seen>) -> Result<(), String> {
        let api = self.api().await?;
        let next = {
            let mut seen = seen.lock().unwrap();
            seen.attempted += 1;
            seen.attempted
        };
        known.data = Some(BTreeMap::from([(KEY.to_owned(), next.to_string())]));
        call(api.replace(NAME, &PostParams::default(), &known)).await?;
        seen.lock().unwrap().acknowledged = next;
        self.read(seen).await
    }

    async fn api(&mut self) -> Result<Api<ConfigMap>, String> {
        if let Some((api, _)) = self.api.as_ref().filter(|(_, since)| since.elapsed() < READ_AGAIN) {
            return Ok(api.clone());
        }
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).map_err(|error| error.to_string())?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let mut config = config.map_err(|error| error.to_string())?;
        config.connect_timeout = Some(CALL);
        let client = Client::try_from(config).map_err(|error| error.to_string())?;
        let api = Api::default_namespaced(client);
        self.api = Some((api.clone(), Instant::now()));
        Ok(api)
    }
}

async fn call<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
    match timeout(CALL, request).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer in {} s", CALL.as_secs())),
    }
}

fn value(register: &ConfigMap) -> u64 {
    register.data.as_ref().and_then(|data| data.get(KEY)).and_then(|text| text.parse().ok()).unwrap()
}
