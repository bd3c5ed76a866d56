//! The servers: `pilothouse maestro-server`, and the original's, over the same PostgreSQL and the same broker.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use pilothouse_broker::Authorizer;
use pilothouse_http::ClientBuilder;
use pilothouse_maestro_api::{Consumer, RestClient, SourceClient};
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, Tasks};
use pilothouse_test_support::maestro::Maestro;
use pilothouse_test_support::postgres;
use pilothouse_test_support::process::{Running, free_port};
use prometheus_client::registry::Registry;
use tokio::time::{Instant, sleep};

use super::CONSUMERS;
use crate::harness::{Folder, Memory, Program, Size};

/// How long a server may take to be ready.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often to look whether it is.
const LOOK: Duration = Duration::from_millis(20);
/// Between two readings of memory; and how far two may differ and be equal, as a share.
const PAUSE: Duration = Duration::from_millis(500);
const EQUAL: f64 = 0.01;
/// How many equal readings are rest: a process that has worked gives back what it does not need after some seconds of it.
const READINGS: usize = 16;

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ours,
    /// Ours, which agents dial.
    Dialled,
    Original,
}

/// What servers are started from.
pub(super) struct Site<'a> {
    pub(super) program: &'a Program,
    pub(super) original: Option<&'a Maestro>,
    pub(super) folder: &'a Folder,
    database: &'a postgres::Server,
    pub(super) broker: u16,
    shutdown: Shutdown,
}

/// A server that answers. Dropping it kills it.
pub(super) struct Server {
    pub(super) source: SourceClient,
    pub(super) rest: RestClient,
    /// Where agents dial it, if they do.
    pub(super) agents: u16,
    process: Running,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours | Self::Dialled => "ours",
            Self::Original => "the original",
        }
    }
}

/// The name of a consumer.
pub(super) fn consumer(number: usize) -> String {
    format!("cluster-{}", number % CONSUMERS)
}

impl<'a> Site<'a> {
    pub(super) async fn new(
        program: &'a Program,
        original: Option<&'a Maestro>,
        folder: &'a Folder,
        database: &'a postgres::Server,
    ) -> anyhow::Result<Self> {
        let shutdown = Shutdown::new();
        let config = pilothouse_broker::Config {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            ..pilothouse_broker::Config::default()
        };
        let deps = pilothouse_broker::Deps {
            clock: Clock::system(),
            authorizer: Authorizer::open(),
            registry: &mut Registry::default(),
        };
        let service = pilothouse_broker::Service::build(config, deps).await?;
        let broker = service.local_address().port();
        let tasks = Tasks::new("bench", shutdown.clone());
        let until = shutdown.clone();
        tasks.spawn("broker", OnExit::LogError, async move { Ok(service.run(until).await?) });
        Ok(Self { program, original, folder, database, broker, shutdown })
    }

    /// Starts a server on a database of its own, and waits until it answers and knows its consumers.
    pub(super) async fn start(&self, kind: Kind, name: &str) -> anyhow::Result<Server> {
        let home = self.folder.path().join(name);
        fs::create_dir_all(&home)?;
        let ports = [0; 5].map(|_| free_port());
        let command = match kind {
            Kind::Ours => self.ours(&home, ports, "mqtt")?,
            Kind::Dialled => self.ours(&home, ports, "grpc")?,
            Kind::Original => self.theirs(&home, ports)?,
        };
        let [rest, grpc, agents, ..] = ports;
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let client = ClientBuilder::new(Duration::from_secs(60)).build()?;
        let mut server = Server {
            source: SourceClient::try_new(&format!("http://{}", at(grpc)), "cs", Clock::system())?,
            rest: RestClient::try_new(client, &format!("http://{}", at(rest)))?,
            agents,
            process: Running::spawn(command).context("a server cannot be started")?,
        };
        let begun = Instant::now();
        while server.rest.consumer_list().await.is_err() || server.source.subscribe().await.is_err() {
            let ended = !matches!(server.process.child().try_wait(), Ok(None));
            if begun.elapsed() > PATIENCE || ended {
                bail!("{name} does not answer; it said:\n{}", said(&home));
            }
            sleep(LOOK).await;
        }
        for number in 0..CONSUMERS {
            server.ensure_consumer(&consumer(number)).await?;
        }
        Ok(server)
    }

    fn ours(&self, home: &Path, ports: [u16; 5], kind: &str) -> anyhow::Result<Command> {
        let [rest, grpc, agents, metrics, _] = ports;
        let at = |port: u16| format!("{{ address = \"127.0.0.1:{port}\" }}");
        let config = format!(
            "store = \"{}?schema=maestro\"\nstore_key_file = {:?}\nmetrics = {}\n[telemetry]\nfilter = \"warn\"\n\
             [service]\nrest = {}\ngrpc = {}\ngrpc_broker = {}\n\
             [service.broker]\nkind = \"{kind}\"\nhost = \"127.0.0.1:{}\"\nclient_id = \"{}\"\n",
            self.database.fresh_database(),
            home.join("store.key").to_str().context("the folder's name is not UTF-8")?,
            at(metrics),
            at(rest),
            at(grpc),
            at(agents),
            self.broker,
            home.file_name().and_then(|name| name.to_str()).unwrap_or("maestro"),
        );
        let file = home.join("maestro.toml");
        fs::write(&file, config)?;
        let mut command = logged(self.program.path(), home)?;
        command.arg("maestro-server").arg("--config").arg(file);
        Ok(command)
    }

    fn theirs(&self, home: &Path, ports: [u16; 5]) -> anyhow::Result<Command> {
        let maestro = self.original.context("the original is not here")?;
        let url = self.database.fresh_database();
        let (server, name) = url.rsplit_once('/').context("a database has a name")?;
        let (user, _) =
            server.rsplit_once("//").and_then(|(_, rest)| rest.split_once('@')).context("a user")?;
        let port = self.database.port().to_string();
        let values = [
            ("host", "127.0.0.1"),
            ("port", port.as_str()),
            ("name", name),
            ("user", user),
            ("password", "x"),
        ];
        let mut database = Vec::new();
        for (flag, value) in values {
            let file = home.join(flag);
            fs::write(&file, value)?;
            database.push(format!("--db-{flag}-file={}", file.display()));
        }
        let done = logged(&maestro.program(), home)?.arg("migration").args(&database).status()?;
        anyhow::ensure!(done.success(), "the original's tables were not made:\n{}", said(home));
        let file = home.join("broker.yaml");
        let topics = "topics:\n  sourceEvents: sources/maestro/consumers/+/sourceevents\n  agentEvents: sources/maestro/consumers/+/agentevents\n";
        fs::write(&file, format!("brokerHost: 127.0.0.1:{}\n{topics}", self.broker))?;
        let [rest, grpc, _, metrics, health] = ports;
        let mut command = logged(&maestro.program(), home)?;
        command
            .arg("server")
            .args(&database)
            .arg(format!("--message-broker-config-file={}", file.display()))
            .args(["--client-id=maestro-original", "--subscription-type=broadcast"])
            .arg("--server-hostname=127.0.0.1")
            .arg(format!("--http-server-bindport={rest}"))
            .arg(format!("--grpc-server-bindport={grpc}"))
            .arg(format!("--metrics-server-bindport={metrics}"))
            .arg(format!("--health-check-server-bindport={health}"));
        Ok(command)
    }
}

impl Drop for Site<'_> {
    fn drop(&mut self) {
        self.shutdown.request(Reason::Asked("the benchmark is over".into()));
    }
}

impl Server {
    pub(super) async fn ensure_consumer(&self, name: &str) -> anyhow::Result<()> {
        let consumer = Consumer { name: name.to_owned(), ..Consumer::default() };
        match self.rest.consumer_create(&consumer).await {
            Ok(_) | Err(pilothouse_maestro_api::Error::Conflict(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Its memory once it is at rest, and whether that came to be.
    pub(super) async fn memory(&self, size: Size) -> anyhow::Result<(Memory, bool)> {
        memory_of(&self.process, size).await
    }
}

/// The memory of a process once readings are equal for a while, and whether that came to be.
pub(super) async fn memory_of(process: &Running, size: Size) -> anyhow::Result<(Memory, bool)> {
    let patience = size.pick(Duration::from_secs(30), Duration::from_secs(1));
    let ids = [i32::try_from(process.id())?];
    let begun = Instant::now();
    let mut last = Memory::of(&ids)?;
    let mut equal = 1;
    loop {
        sleep(PAUSE).await;
        let now = Memory::of(&ids)?;
        let same = (now.total - last.total).abs() <= now.total * EQUAL;
        equal = if same { equal + 1 } else { 1 };
        if equal >= READINGS || begun.elapsed() > patience {
            return Ok((now, equal >= READINGS));
        }
        last = now;
    }
}

/// A program that runs in a folder, so that whatever it leaves behind is there, and writes into the file `log` of it.
pub(super) fn logged(program: &Path, home: &Path) -> anyhow::Result<Command> {
    let log = File::options().create(true).append(true).open(home.join("log"))?;
    let mut command = Command::new(program);
    command.current_dir(home).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(command)
}

/// The end of what it wrote.
pub(super) fn said(home: &Path) -> String {
    let text = fs::read_to_string(home.join("log")).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
