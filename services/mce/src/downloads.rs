//! The listener that `hcp` is downloaded from.
//!
//! Two forms of path lead to the same archive, since links of both are in people's notes: `/linux/amd64/hcp.tar.gz`, which
//! is what we link to, and `/hcp-linux-amd64.tar.gz`. The one platform there is is the one that this program was built for.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{env, io};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::{HeaderValue, StatusCode, Uri, header};
use pilothouse_http::{Listener, Metrics, Problem, Stack};
use pilothouse_runtime::{Chain, Clock, OnExit, Tasks};
use prometheus_client::registry::Registry;
use tokio::io::AsyncReadExt as _;
use tracing::warn;

use crate::archive::Archive;
use crate::config;
use crate::error::Error;

/// How long the first one may wait for the archive to be made.
const PATIENCE: Duration = Duration::from_secs(300);
/// How much of it is in memory at a time, for each who reads it.
const PIECE: usize = 64 * 1024;

/// Downloads that listen, and are not yet served.
pub(crate) struct Downloads {
    listener: Listener,
    metrics: Metrics,
    archive: Arc<Archive>,
    links: Links,
}

/// What can be downloaded, and where.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    base: String,
    archive: Arc<Archive>,
}

/// One platform that there is a program for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Platform {
    system: &'static str,
    processor: &'static str,
}

// === impl Downloads ===

impl Downloads {
    /// Takes the port.
    pub(crate) async fn bind(
        config: &config::Downloads,
        clock: &Clock,
        registry: &mut Registry,
    ) -> Result<Self, Error> {
        let listener = Listener::bind("the downloads' listener", &config.listener, clock).await?;
        let scheme = if config.listener.tls.is_some() { "https" } else { "http" };
        let base = match &config.url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => format!("{scheme}://{}", listener.local_address()),
        };
        let program = match &config.program {
            Some(program) => program.clone(),
            None => beside_this_program().map_err(Error::Program)?,
        };
        let archive = Arc::new(Archive::new(program, config.folder.clone()));
        let links = Links { base, archive: archive.clone() };
        let metrics = Metrics::new(registry.sub_registry_with_prefix("downloads"));
        Ok(Self { listener, metrics, archive, links })
    }

    pub(crate) fn links(&self) -> Links {
        self.links.clone()
    }

    /// Serves until shutdown.
    pub(crate) fn spawn(self, tasks: &Tasks) {
        let platform = Platform::this();
        let router = Router::new()
            .route(&platform.path(), get(download))
            .route(&platform.flat_path(), get(download))
            .fallback(elsewhere)
            .with_state(self.archive);
        let router = Stack::new(self.metrics.clone()).with_time_limit(PATIENCE).around(router);
        let (listener, metrics, own) = (self.listener, self.metrics, tasks.clone());
        tasks.spawn(
            "downloads",
            OnExit::StopProcess,
            async move { listener.serve(router, metrics, &own).await },
        );
    }
}

// === impl Links ===

impl Links {
    /// Address and words of each link; `Err` says why there is nothing to download.
    pub(crate) fn list(&self) -> Result<Vec<(String, String)>, String> {
        let program = self.archive.program();
        if !program.is_file() {
            let path = program.display();
            return Err(format!("`{path}` is not there; install hcp beside pilothouse"));
        }
        let platform = Platform::this();
        let words = format!("Download hcp CLI for {}", platform.words());
        Ok(vec![(format!("{}{}", self.base, platform.path()), words)])
    }
}

// === impl Platform ===

impl Platform {
    /// The one that this program was built for.
    fn this() -> Self {
        Self {
            system: match env::consts::OS {
                "macos" => "darwin",
                other => other,
            },
            processor: match env::consts::ARCH {
                "x86_64" => "amd64",
                "aarch64" => "arm64",
                "powerpc64" => "ppc64le",
                other => other,
            },
        }
    }

    fn path(self) -> String {
        format!("/{}/{}/hcp.tar.gz", self.system, self.processor)
    }

    fn flat_path(self) -> String {
        format!("/hcp-{}-{}.tar.gz", self.system, self.processor)
    }

    fn words(self) -> String {
        let system = match self.system {
            "linux" => "Linux",
            "darwin" => "Mac",
            other => other,
        };
        let processor = match self.processor {
            "amd64" => "x86_64",
            "arm64" => "ARM 64",
            other => other,
        };
        format!("{system} for {processor}")
    }
}

async fn download(State(archive): State<Arc<Archive>>) -> Response {
    let opened = async {
        let file = archive.open().await?;
        let length = file.metadata().await?.len();
        Ok::<_, io::Error>((file, length))
    };
    let (file, length) = match opened.await {
        Ok(opened) => opened,
        Err(error) => {
            let program = archive.program().display();
            warn!(%program, error = %Chain(&error), "the archive of hcp cannot be made");
            let message = "the archive of hcp cannot be made; the service's log says why";
            return Problem::new(StatusCode::SERVICE_UNAVAILABLE, "NotThere", message).into_response();
        }
    };
    let pieces = futures::stream::try_unfold(file, |mut file| async move {
        let mut piece = Vec::with_capacity(PIECE);
        let read = (&mut file).take(PIECE as u64).read_to_end(&mut piece).await?;
        Ok::<_, io::Error>((read > 0).then_some((piece, file)))
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/gzip")),
        (header::CONTENT_LENGTH, HeaderValue::from(length)),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"hcp.tar.gz\"")),
    ];
    (headers, Body::from_stream(pieces)).into_response()
}

async fn elsewhere(uri: Uri) -> Response {
    let (asked, there) = (uri.path(), Platform::this().path());
    let message = format!("there is nothing at `{asked}`; hcp for this platform is at `{there}`");
    Problem::new(StatusCode::NOT_FOUND, "NotFound", message).into_response()
}

fn beside_this_program() -> io::Result<PathBuf> {
    Ok(env::current_exe()?.with_file_name("hcp"))
}
