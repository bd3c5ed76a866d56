//! The original's programs, with what each of them needs.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pilothouse_maestro::BrokerKind;
use pilothouse_maestro_api::Consumer;
use pilothouse_test_support::maestro::Maestro;
use pilothouse_test_support::process::{Running, free_port};
use pilothouse_test_support::{eventually, postgres};

use crate::cluster::{Cluster, PATIENCE};
use crate::world::{BrokerPart, CONSUMER, Part, SOURCE, Server};

/// What the original's programs are started with.
pub(super) struct Original {
    maestro: Maestro,
    folder: PathBuf,
    kind: BrokerKind,
    /// The broker's, or, without one, the server's for agents.
    broker: u16,
    /// The server's: REST, gRPC, metrics, health. The same after a restart.
    ports: [u16; 4],
}

impl Original {
    /// With this broker. `None` if the programs are not there.
    pub(super) fn find(folder: &Path, broker: &BrokerPart) -> Option<Self> {
        let maestro = Maestro::find()?;
        let BrokerPart { kind, port, .. } = *broker;
        let ports = [0; 4].map(|_| free_port());
        Some(Self { maestro, folder: folder.to_owned(), kind, broker: port, ports })
    }

    /// An empty database, with the tables in it. `None` without PostgreSQL.
    pub(super) fn prepare_database(&self) -> Option<()> {
        let url = postgres::shared()?.fresh_database();
        let (server, name) = url.rsplit_once('/')?;
        let (user, address) = server.rsplit_once("//")?.1.split_once('@')?;
        let (_, port) = address.rsplit_once(':')?;
        let values =
            [("host", "127.0.0.1"), ("port", port), ("name", name), ("user", user), ("password", "x")];
        for (file, value) in values {
            std::fs::write(self.folder.join(file), value).unwrap();
        }
        let done = self.command("migration").args(self.database()).status().unwrap();
        assert!(done.success(), "{}", self.log("migration"));
        Some(())
    }

    /// A server that answers, and knows the consumer.
    pub(super) async fn server(&self) -> Server {
        let config = format!(
            "brokerHost: 127.0.0.1:{}\ntopics:\n  sourceEvents: sources/maestro/consumers/+/sourceevents\n  agentEvents: sources/maestro/consumers/+/agentevents\n",
            self.broker
        );
        let file = self.folder.join("server.yaml");
        std::fs::write(&file, config).unwrap();
        let [rest, grpc, metrics, health] = self.ports;
        let mut command = self.command("server");
        match self.kind {
            BrokerKind::Mqtt => command.arg(format!("--message-broker-config-file={}", file.display())),
            BrokerKind::Grpc => command
                .arg("--message-broker-type=grpc")
                .arg(format!("--grpc-broker-bindport={}", self.broker)),
        };
        command
            .args(self.database())
            .args(["--client-id=maestro-original", "--subscription-type=broadcast", "--heartbeat-interval=3"])
            .arg("--server-hostname=127.0.0.1")
            .arg(format!("--http-server-bindport={rest}"))
            .arg(format!("--grpc-server-bindport={grpc}"))
            .arg(format!("--metrics-server-bindport={metrics}"))
            .arg(format!("--health-check-server-bindport={health}"));
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let server = Server::process(Running::spawn(command).unwrap(), at(rest), at(grpc));
        eventually("the original server answers", PATIENCE, || async {
            let consumers = server.rest.consumer_list().await.map_err(|error| error.to_string())?;
            if !consumers.iter().any(|consumer| consumer.name == CONSUMER) {
                let consumer = Consumer { name: CONSUMER.to_owned(), ..Consumer::default() };
                server.rest.consumer_create(&consumer).await.map_err(|error| error.to_string())?;
            }
            // A port that takes connections says little: the server may still close them, or be somebody else's.
            server.source.subscribe().await.map(drop).map_err(|error| format!("{error:?}"))
        })
        .await;
        server
    }

    /// An agent on a cluster.
    pub(super) fn agent(&self, cluster: &Cluster) -> Part {
        let topic = |events: &str| format!("sources/maestro/consumers/{CONSUMER}/{events}");
        let config = format!(
            "brokerHost: 127.0.0.1:{}\ntopics:\n  sourceEvents: {}\n  agentEvents: {}\n",
            self.broker,
            topic("sourceevents"),
            topic("agentevents")
        );
        let (driver, config) = match self.kind {
            BrokerKind::Mqtt => ("mqtt", config),
            BrokerKind::Grpc => ("grpc", format!("url: 127.0.0.1:{}\n", self.broker)),
        };
        let (file, kubeconfig) = (self.folder.join("agent.yaml"), self.folder.join("kubeconfig"));
        std::fs::write(&file, config).unwrap();
        std::fs::write(&kubeconfig, cluster.kubeconfig()).unwrap();
        let mut command = self.command("agent");
        command
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .args(["--namespace=default", "--status-sync-interval=1s"])
            .arg(format!("--workload-source-driver={driver}"))
            .arg(format!("--listen=127.0.0.1:{}", free_port()))
            .arg(format!("--consumer-name={CONSUMER}"))
            .arg(format!("--workload-source-config={}", file.display()))
            .arg(format!("--cloudevents-client-id={CONSUMER}-work-agent"));
        Part::process(Running::spawn(command).unwrap())
    }

    /// The command line of the original's source, for a server.
    pub(super) fn source(&self, server: &Server) -> Command {
        let mut command = Command::new(self.maestro.source());
        command
            .arg(format!("--source={SOURCE}"))
            .arg(format!("--maestro-server={}", server.rest_url))
            .arg(format!("--grpc-server={}", server.grpc))
            .arg(format!("--consumer-name={CONSUMER}"))
            .stdin(Stdio::null());
        command
    }

    /// What a program has written, for a test that failed.
    pub(super) fn log(&self, verb: &str) -> String {
        std::fs::read_to_string(self.folder.join(format!("{verb}.log"))).unwrap_or_default()
    }

    fn command(&self, verb: &str) -> Command {
        let log = self.folder.join(format!("{verb}.log"));
        let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(self.maestro.program());
        command
            .arg(verb)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        command
    }

    fn database(&self) -> [String; 5] {
        let file = |flag: &str, name: &str| format!("--db-{flag}-file={}", self.folder.join(name).display());
        [
            file("host", "host"),
            file("port", "port"),
            file("name", "name"),
            file("user", "user"),
            file("password", "password"),
        ]
    }
}

impl Drop for Original {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for verb in ["server", "agent"] {
                let log = self.log(verb);
                let lines: Vec<&str> = log.lines().collect();
                let end = lines[lines.len().saturating_sub(40)..].join("\n");
                #[expect(clippy::print_stderr, reason = "the test harness shows it with the failure")]
                {
                    eprintln!("the end of what the original {verb} wrote:\n{end}");
                }
            }
        }
    }
}
