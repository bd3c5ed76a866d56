//! Taking a changed configuration without stopping.
//!
//! The file is read when it changes, as certificates are. What is wrong with a new one is said once, and the old one stays.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pilothouse_http::{Health, Verdict};
use pilothouse_runtime::{Chain, FileWatch, OnExit, Tasks};
use tracing::{info, warn};

use crate::config::Config;
use crate::service::Handle;

type Load = Box<dyn Fn() -> Result<Config, String> + Send + Sync>;

/// Takes the configuration again when it has changed. A cheap handle.
#[derive(Clone)]
pub struct Reloader(Arc<Inner>);

struct Inner {
    handle: Handle,
    load: Load,
    state: Mutex<State>,
}

struct State {
    seen: Config,
    trouble: Option<String>,
}

impl Reloader {
    /// Of a gateway that was built with `config`, which `load` reads again.
    pub fn new(
        handle: Handle,
        config: Config,
        load: impl Fn() -> Result<Config, String> + Send + Sync + 'static,
    ) -> Self {
        let state = Mutex::new(State { seen: config, trouble: None });
        Self(Arc::new(Inner { handle, load: Box::new(load), state }))
    }

    /// Looks now. Blocks as long as reading takes.
    pub fn look(&self) {
        let loaded = (self.0.load)();
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.as_ref().is_ok_and(|config| *config == state.seen) && state.trouble.is_none() {
            return;
        }
        let taken = loaded.and_then(|config| {
            let later =
                self.0.handle.reconfigure(config.clone()).map_err(|error| Chain(&error).to_string())?;
            Ok((config, later))
        });
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
                *state = State { seen: config, trouble: None };
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

    /// Looks when that file changes, as a task that may be stopped anywhere, and has the health page say what is wrong.
    pub fn watch(&self, file: PathBuf, tasks: &Tasks, health: &Health) {
        let shown = self.clone();
        health.register("configuration", move || shown.verdict());
        let reloader = self.clone();
        tasks.spawn("configuration", OnExit::Expendable, async move {
            let mut file = FileWatch::new([file]);
            loop {
                // Also at first: it may have changed since it was read at the start.
                let reloader = reloader.clone();
                tokio::task::spawn_blocking(move || reloader.look()).await?;
                file.changed().await;
            }
        });
    }

    fn verdict(&self) -> Verdict {
        match &self.0.state.lock().unwrap_or_else(PoisonError::into_inner).trouble {
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
