//! The two proxies: `pilothouse gateway` with a Kubernetes API that has its routes, and HAProxy.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::{Endpoints, Namespace};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use pilothouse_crds::Route;
use pilothouse_test_support::haproxy::Haproxy;
use pilothouse_test_support::process::{Running, free_port};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use super::servers::{END, Server, Servers};
use crate::harness::{Folder, Program};

/// How long a proxy may take until every server answers through it.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often to look.
const LOOK: Duration = Duration::from_millis(20);
/// What the route and the endpoints of every server are called.
const NAME: &str = "kube-apiserver";

/// A proxy through which every server answers. Dropping it ends it.
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    _running: Processes,
}

enum Processes {
    Ours { _gateway: Running, _cluster: Running },
    Theirs { _haproxy: Haproxy },
}

/// HAProxy, if there is one.
pub(super) async fn haproxy(servers: &Servers) -> anyhow::Result<Option<Proxy>> {
    let address = free_address();
    let mut sections = format!(
        "frontend clients
    bind {address}
    tcp-request inspect-delay 5s
    tcp-request content accept if {{ req.ssl_hello_type 1 }}
"
    );
    for (number, Server { host, .. }) in servers.all.iter().enumerate() {
        writeln!(sections, "    use_backend server-{number} if {{ req.ssl_sni -i {host} }}")?;
    }
    for (number, Server { address, .. }) in servers.all.iter().enumerate() {
        writeln!(sections, "backend server-{number}\n    server only {address}")?;
    }
    let Some(haproxy) = Haproxy::start(&sections) else { return Ok(None) };
    let proxy = Proxy { address, _running: Processes::Theirs { _haproxy: haproxy } };
    proxy.until_all_answer(servers).await.context("HAProxy does not serve")?;
    Ok(Some(proxy))
}

/// What HAProxy says that it is.
pub(super) async fn haproxy_version() -> anyhow::Result<String> {
    let output = tokio::process::Command::new("/usr/sbin/haproxy").arg("-v").output().await?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Ours, with a client of the Kubernetes API that has its routes.
pub(super) async fn gateway(
    program: &Program,
    folder: &Folder,
    servers: &Servers,
) -> anyhow::Result<(Proxy, Client)> {
    let home = folder.path().join("gateway");
    let data = home.join("cluster");
    fs::create_dir_all(&home)?;
    let mut command = logged(program.path(), &home.join("cluster.log"))?;
    command.arg("kube-apiserver").arg("--data-dir").arg(&data);
    // Endpoints are ours: there are no pods whose they could be.
    command.args(["--listen", &free_address().to_string(), "--with-controllers=false"]);
    let cluster = Running::spawn(command)?;
    let kubeconfig = data.join("kubeconfig");
    let begun = Instant::now();
    while !kubeconfig.exists() {
        anyhow::ensure!(
            begun.elapsed() < PATIENCE,
            "the Kubernetes API does not start; see {}",
            home.display()
        );
        sleep(LOOK).await;
    }

    let address = free_address();
    let config = home.join("gateway.toml");
    let metrics = free_address();
    fs::write(
        &config,
        format!(
            "[metrics]\naddress = \"{metrics}\"\n[service]\nlisten = \"{address}\"\nmax_connections_per_cluster = 10000\n"
        ),
    )?;
    let mut command = logged(program.path(), &home.join("gateway.log"))?;
    command.arg("gateway").arg("--kubeconfig").arg(&kubeconfig).arg("--config").arg(&config);
    // As HAProxy, which logs nothing unless it is told where to.
    command.args(["--log", "warn"]);
    let gateway = Running::spawn(command)?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(Kubeconfig::read_from(&kubeconfig)?, &options).await?;
    let client = Client::try_from(config)?;
    for (number, server) in servers.all.iter().enumerate() {
        let namespace = format!("cluster-{number}");
        endpoints(&client, &namespace, server).await?;
        route(&client, &namespace, server).await?;
    }
    let proxy = Proxy { address, _running: Processes::Ours { _gateway: gateway, _cluster: cluster } };
    proxy.until_all_answer(servers).await.with_context(|| {
        format!(
            "the gateway does not serve; it said:\n{}",
            fs::read_to_string(home.join("gateway.log")).unwrap_or_default()
        )
    })?;
    Ok((proxy, client))
}

/// Where a server is, in a namespace of its own.
pub(super) async fn endpoints(client: &Client, namespace: &str, server: &Server) -> anyhow::Result<()> {
    let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
    create::<Namespace>(&Api::all(client.clone()), object).await?;
    let (ip, port) = (server.address.ip(), server.address.port());
    let endpoints = json!({
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": { "name": NAME },
        "subsets": [{ "addresses": [{ "ip": ip }], "ports": [{ "port": port }] }],
    });
    create::<Endpoints>(&Api::namespaced(client.clone(), namespace), endpoints).await
}

/// A route to a server, as an operator would make it.
pub(super) async fn route(client: &Client, namespace: &str, server: &Server) -> anyhow::Result<()> {
    let route = json!({
        "apiVersion": "route.openshift.io/v1",
        "kind": "Route",
        "metadata": { "name": NAME },
        "spec": {
            "host": server.host,
            "to": { "kind": "Service", "name": NAME },
            "tls": { "termination": "passthrough" },
        },
    });
    create::<Route>(&Api::namespaced(client.clone(), namespace), route).await
}

/// Creates an object; again as long as its kind is not known yet.
async fn create<K>(api: &Api<K>, object: serde_json::Value) -> anyhow::Result<()>
where
    K: kube::Resource + Clone + serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object)?;
    let begun = Instant::now();
    loop {
        match api.create(&kube::api::PostParams::default(), &object).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.code != 404 => bail!("{status}"),
            Err(error) if begun.elapsed() > PATIENCE => return Err(error.into()),
            Err(_) => sleep(LOOK).await,
        }
    }
}

impl Proxy {
    async fn until_all_answer(&self, servers: &Servers) -> anyhow::Result<()> {
        let begun = Instant::now();
        for server in &servers.all {
            while !self.answers(server).await.unwrap_or(false) {
                anyhow::ensure!(begun.elapsed() < PATIENCE, "{} does not answer", server.host);
                sleep(LOOK).await;
            }
        }
        Ok(())
    }

    /// Asks without pause until a server answers. Whoever is refused is told so at once.
    pub(super) async fn until_answering(&self, server: &Server) -> anyhow::Result<()> {
        let begun = Instant::now();
        while !self.answers(server).await.unwrap_or(false) {
            anyhow::ensure!(begun.elapsed() < PATIENCE, "{} does not answer", server.host);
        }
        Ok(())
    }

    async fn answers(&self, server: &Server) -> anyhow::Result<bool> {
        let mut stream = TcpStream::connect(self.address).await?;
        let mut words = server.hello.clone();
        words.push(END);
        stream.write_all(&words).await?;
        Ok(stream.read_u8().await? == END)
    }
}

fn free_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()))
}

fn logged(program: &Path, log: &Path) -> anyhow::Result<Command> {
    let log = File::options().create(true).append(true).open(log)?;
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(command)
}
