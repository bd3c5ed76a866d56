//! Taking a changed configuration without stopping.
//!
//! The file is read when it changes, as certificates are, and so are the kubeconfigs that it names. What is wrong with a new one
//! is said once, and the old one stays.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pilothouse_http::{Health, Verdict};
use pilothouse_runtime::{Chain, FileWatch, OnExit, Tasks};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::config::Config;
use crate::management;
use crate::service::Handle;

/// How long looking takes at most if nothing is wrong. Files are read in a moment, but a kubeconfig may name a program that says who
/// asks, and nothing ends that.
const LOOK: Duration = Duration::from_secs(30);

type Load = Box<dyn Fn() -> Result<Config, String> + Send + Sync>;

/// Takes the configuration again when it has changed. A cheap handle.
#[derive(Clone)]
pub struct Reloader(Arc<Inner>);

struct Inner {
    handle: Handle,
    load: Load,
    /// Held by whoever looks, which may take a while.
    looking: Mutex<()>,
    state: Mutex<State>,
}

struct State {
    seen: Config,
    trouble: Option<String>,
    /// The files that the configuration names, also if it was not taken: one of them may be why.
    named: Vec<PathBuf>,
    /// Since when somebody looks.
    looking: Option<Instant>,
}

impl Reloader {
    /// Of a gateway that was built with `config`, which `load` reads again.
    pub fn new(
        handle: Handle,
        config: Config,
        load: impl Fn() -> Result<Config, String> + Send + Sync + 'static,
    ) -> Self {
        let state = Mutex::new(State { seen: config, trouble: None, named: Vec::new(), looking: None });
        Self(Arc::new(Inner { handle, load: Box::new(load), looking: Mutex::default(), state }))
    }

    /// Looks now. Blocks as long as reading takes.
    pub fn look(&self) {
        let _looking = self.0.looking.lock().unwrap_or_else(PoisonError::into_inner);
        self.lock().looking = Some(Instant::now());
        self.take();
        self.lock().looking = None;
    }

    fn take(&self) {
        let loaded = (self.0.load)();
        if let Ok(config) = &loaded {
            let named = config.management_clusters.iter();
            let named = named.flat_map(|cluster| management::files(&cluster.kubeconfig)).collect();
            let as_in_files = self.0.handle.is_as_in_files(config);
            let mut state = self.lock();
            state.named = named;
            if as_in_files && *config == state.seen && state.trouble.is_none() {
                return;
            }
        }
        let taken = loaded.and_then(|config| {
            let later =
                self.0.handle.reconfigure(config.clone()).map_err(|error| Chain(&error).to_string())?;
            Ok((config, later))
        });
        let mut state = self.lock();
        match taken {
            Ok((config, later)) => {
                if later.is_empty() {
                    info!("took the changed configuration");
                } else {
                    warn!(
                        ?later,
                        "took the changed configuration, except for what takes effect at the next start"
                    );
                }
                state.seen = config;
                state.trouble = None;
            }
            Err(trouble) => {
                // Once for each thing that is wrong, not once for each look.
                if state.trouble.as_ref() != Some(&trouble) {
                    warn!(error = trouble, "kept the configuration that was");
                    self.0.handle.refused_configuration();
                }
                state.trouble = Some(trouble);
            }
        }
    }

    /// Looks when that file changes, or one that it names, as a task that may be stopped anywhere, and has the health page say
    /// what is wrong.
    pub fn watch(&self, file: PathBuf, tasks: &Tasks, health: &Health) {
        let shown = self.clone();
        health.register("configuration", move || shown.verdict());
        let reloader = self.clone();
        tasks.spawn("configuration", OnExit::Expendable, async move {
            let mut files = vec![file];
            let mut watch = FileWatch::new(files.clone());
            loop {
                // Also at first: it may have changed since it was read at the start.
                let looking = reloader.clone();
                tokio::task::spawn_blocking(move || looking.look()).await?;
                let named = reloader.named();
                if files[1..] == named {
                    watch.changed().await;
                } else {
                    // And looks again, for they may have changed before they were watched.
                    files.truncate(1);
                    files.extend(named);
                    watch = FileWatch::new(files.clone());
                }
            }
        });
    }

    fn named(&self) -> Vec<PathBuf> {
        self.lock().named.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn verdict(&self) -> Verdict {
        let state = self.lock();
        if let Some(took) = state.looking.map(|since| since.elapsed()).filter(|took| *took >= LOOK) {
            return Verdict::warning(format!(
                "as it was before the files were looked at, which has taken {} s by now: \
                 see whether a program that a kubeconfig names for credentials hangs, and end that",
                took.as_secs()
            ));
        }
        match &state.trouble {
            None => Verdict::ready("as in the file"),
            Some(trouble) => Verdict::warning(format!("as it was before the file changed: {trouble}")),
        }
    }
}

impl fmt::Debug for Reloader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Reloader").finish_non_exhaustive()
    }
}
