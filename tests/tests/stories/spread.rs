//! A region whose services are processes of their own, over PostgreSQL and Mosquitto: what somebody runs who has outgrown
//! `pilothouse up`. The configurations are those of `deploy/three-machines`, with one machine in the place of three: services
//! speak mutual TLS, and know each other by the names of their certificates.

use std::fs;
use std::path::Path;

use pilothouse_pki::{Authority, AuthorityRequest, Bundle, LeafRequest, Subject, Usage};
use pilothouse_runtime::Clock;
use pilothouse_test_support::eventually;
use pilothouse_test_support::mosquitto::Mosquitto;
use pilothouse_test_support::postgres;
use pilothouse_test_support::process::free_port;
use pilothouse_test_support::requirement::Requirement;
use serde_json::{Value, json};

use crate::management::Management;
use crate::provider::{Provider, curl};
use crate::region::LIMIT;
use crate::ways::Ways;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/three-machines");

/// Where the example has its broker.
const BROKER: &str = "data.example.com:8883";

/// What the management cluster is called, and what another one may be.
pub(crate) const CONSUMER: &str = "management-1";
pub(crate) const SECOND: &str = "management-2";

/// Who has a certificate.
const NAMES: [&str; 8] =
    ["broker", "frontend", "backend", "clusters-service", "cloud", "maestro", CONSUMER, SECOND];

/// Such a region.
pub(crate) struct Spread {
    pub(crate) management: Management,
    pub(crate) provider: Provider,
    broker: Mosquitto,
    /// From each process to those it calls.
    pub(crate) ways: Ways,
    /// Where the name server is asked.
    pub(crate) names_port: u16,
}

// === impl Spread ===

impl Spread {
    /// Starts every process, and waits until the frontend is ready; `None`, and said so, where a program is missing.
    pub(crate) async fn start() -> Option<Self> {
        Requirement::new("dig", "bind9-dnsutils").find()?;
        let databases = postgres::shared()?;
        let (database, database_port) = (databases.fresh_database(), databases.port());
        let mut management = Management::ours().await?;
        let folder = management.path("etc");
        furnish(&folder);
        let broker = Mosquitto::start_with(&broker_config(&folder))?;
        let mut ways = Ways::new();
        let ports = [8443, 8001, 8002, 8090, 8447, 53].map(|port| (port, free_port()));
        let here = |configured: u16| {
            let (_, port) = ports.iter().find(|(known, _)| *known == configured).unwrap();
            format!("127.0.0.1:{port}")
        };
        let mut localized = async |verb: &'static str| {
            let text = fs::read_to_string(format!("{EXAMPLE}/{verb}.toml")).unwrap();
            let mut text = text
                .replace("postgres://pilothouse@data.example.com/region", &database)
                .replace("/etc/pilothouse/", &format!("{}/", folder.display()));
            text = ways.lead(verb, &format!("127.0.0.1:{database_port}"), database_port, text).await;
            text = ways.lead(verb, BROKER, broker.port(), text).await;
            for (known, port) in ports {
                text = ways.lead(verb, &format!("services.example.com:{known}"), port, text).await;
                text = text.replace(&format!("0.0.0.0:{known}"), &here(known));
            }
            // Pages are wherever there is room.
            let lines = text.lines().map(|line| {
                if line.starts_with("address = \"127.0.0.1:9") { "address = \"127.0.0.1:0\"" } else { line }
            });
            lines.collect::<Vec<_>>().join("\n")
        };
        let mut service = |verb: &'static str, text: &str| {
            let config = management.write_config(verb, text);
            management.add(verb, &["--config", &config], None);
        };
        service("cloud", &localized("cloud").await);
        service("dns", &localized("dns").await);
        service("maestro-server", &localized("maestro-server").await);
        // Whatever was missed while something was killed is looked for soon.
        let clusters_service = localized("clusters-service").await;
        let clusters_service =
            clusters_service.replace("[service]\n", "[service]\nlease = \"2s\"\nresync = \"20s\"\n");
        let probes = "[service.probes]\nevery = \"1s\"\nsilence = \"15s\"";
        service("clusters-service", &format!("{clusters_service}\n{probes}\n"));
        // What a killed one held is free after a moment.
        service(
            "backend",
            &format!("{}\n[service]\nlease = \"2s\"\nresync = \"20s\"\n", localized("backend").await),
        );
        // There is nobody here who would give out tokens: the frontend is for this machine.
        let frontend = localized("frontend").await;
        let (frontend, _) = frontend.split_once("# Callers show a token").unwrap();
        let listener = format!("[service.listener]\naddress = \"{}\"\n", here(8443));
        service("frontend", &format!("{frontend}\n{listener}"));
        let config = agent_config(&management, CONSUMER, &folder);
        let config = ways.lead("maestro-agent", BROKER, broker.port(), config).await;
        management.add_operator("maestro-agent", &config, &[]);
        // Whoever works on the management cluster, from now on over a way of its own.
        let admin = fs::read_to_string(management.admin()).unwrap();
        let (_, address) = admin.split_once("server: https://").unwrap();
        let (address, _) = address.split_once('\n').unwrap();
        let (_, port) = address.rsplit_once(':').unwrap();
        let callers = ["maestro-agent", "multicluster-engine", "hypershift-operator", "gateway", "kubelet"];
        for verb in callers {
            let kubeconfig = ways.lead(verb, address, port.parse().unwrap(), admin.clone()).await;
            let file = management.path(&format!("{verb}.kubeconfig"));
            fs::write(&file, kubeconfig).unwrap();
            management.kill(verb);
            management.start_as(verb, &file);
        }

        let file = |name: &str| folder.join(name).display().to_string();
        let credentials = |name: &str| {
            let [certificate, key] = ["crt", "key"].map(|kind| file(&format!("{name}.{kind}")));
            ["--cacert", &file("authority.crt"), "--cert", &certificate, "--key", &key]
                .map(str::to_owned)
                .to_vec()
        };
        let provider = Provider {
            frontend: format!("http://{}", here(8443)),
            clusters_service: format!("https://{}", here(8001)),
            maestro: format!("https://{}", here(8002)),
            cloud: format!("https://{}", here(8447)),
            domain: "clusters.example.com",
            // Each is asked as whoever asks it in the flow.
            as_backend: credentials("backend"),
            as_clusters_service: credentials("clusters-service"),
        };
        let (_, names_port) = ports[5];
        let spread = Self { management, provider, broker, ways, names_port };
        spread.listens().await;
        spread.provider.register();
        Some(spread)
    }

    /// The second management cluster, with an agent of its own, that everybody knows.
    pub(crate) async fn add_management(&self) -> Option<Management> {
        let mut management = Management::ours().await?;
        let Provider { maestro, clusters_service, as_backend, as_clusters_service, .. } = &self.provider;
        let consumers = format!("{maestro}/api/maestro/v1/consumers");
        let (status, answer) = post(&consumers, as_clusters_service, &json!({ "name": SECOND }));
        assert_eq!(status, 201, "{answer}");
        let config = agent_config(&management, SECOND, &self.management.path("etc"));
        let config = config.replace(BROKER, &format!("127.0.0.1:{}", self.broker.port()));
        management.add_operator("maestro-agent", &config, &[]);
        let shards = format!("{clusters_service}/api/aro_hcp/v1alpha1/provision_shards");
        let (status, answer) =
            post(&shards, as_backend, &json!({ "maestro_config": { "consumer_name": SECOND } }));
        assert_eq!(status, 201, "{answer}");
        Some(management)
    }

    /// Until everybody who is asked over HTTP answers.
    pub(crate) async fn listens(&self) {
        let provider = &self.provider;
        eventually("the cloud answers", LIMIT, || async { provider.resource_groups() }).await;
        eventually("Maestro answers", LIMIT, || async { provider.bundles() }).await;
        eventually("Clusters Service answers", LIMIT, || async { provider.try_clusters() }).await;
        let healthz = format!("{}/healthz", provider.frontend);
        eventually("the frontend answers", LIMIT, || async {
            match curl(&[&healthz]) {
                Ok((status, _)) if status > 0 => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    /// `kubectl` on a hosted cluster, with the kubeconfig that its `HostedCluster` names.
    pub(crate) fn kubectl_in(&self, name: &str, arguments: &[&str]) -> Result<String, String> {
        let found = self.management.kubectl(&[
            "get",
            "hostedclusters",
            "-A",
            "-o",
            "jsonpath={range .items[*]}{.metadata.namespace} {.metadata.name}{\"\\n\"}{end}",
        ])?;
        let namespace =
            found.lines().filter_map(|line| line.split_once(' ')).find(|(_, found)| *found == name);
        let (namespace, _) = namespace.ok_or_else(|| format!("no {name} in {found}"))?;
        let kubeconfig =
            self.management.hcp(&["create", "kubeconfig", "--namespace", namespace, "--name", name])?;
        let file = self.management.path(&format!("{name}.kubeconfig"));
        fs::write(&file, kubeconfig).unwrap();
        self.management.kubectl_on(&file, arguments)
    }
}

/// What the agent of a management cluster is told, with the certificates in a folder.
fn agent_config(management: &Management, consumer: &str, folder: &Path) -> String {
    let text = fs::read_to_string(format!("{EXAMPLE}/maestro-agent.toml")).unwrap();
    let (_, text) = text.split_once("[service]").unwrap();
    let text = text
        .replace(CONSUMER, consumer)
        .replace("/etc/pilothouse/", &format!("{}/", folder.display()))
        .replace("/var/lib/pilothouse/", &format!("{}/", management.path("").display()));
    format!("[service]{text}\n")
}

fn post(url: &str, credentials: &[String], body: &Value) -> (u16, Value) {
    let body = body.to_string();
    let mut arguments: Vec<_> = credentials.iter().map(String::as_str).collect();
    arguments.extend(["-X", "POST", "-H", "Content-Type: application/json", "-d", &body, url]);
    curl(&arguments).unwrap()
}

/// What administrators put into `/etc/pilothouse`: an authority, a certificate for each service, and the database's password.
fn furnish(folder: &Path) {
    fs::create_dir(folder).unwrap();
    let clock = Clock::system();
    let request = AuthorityRequest::new(Subject::try_new("region").unwrap());
    let authority = Authority::self_signed(&request, &clock).unwrap();
    Bundle::from(authority.certificate()).write(&folder.join("authority.crt")).unwrap();
    for name in NAMES {
        let names = [name, "127.0.0.1"].map(|name| name.parse().unwrap());
        let request = LeafRequest::server(Subject::try_new(name).unwrap(), names).with_usage(Usage::Client);
        let leaf = authority.issue(&request, &clock).unwrap();
        leaf.write(&folder.join(format!("{name}.crt")), &folder.join(format!("{name}.key"))).unwrap();
    }
    fs::write(folder.join("store.password"), "nobody asks for it\n").unwrap();
}

/// As in the page about agents: who has a certificate is somebody, and an agent has its own topics only.
fn broker_config(folder: &Path) -> String {
    let file = |name: &str| folder.join(name).display().to_string();
    let topics = "sources/maestro/consumers";
    let rules = format!(
        "user maestro\ntopic write {topics}/+/sourceevents\ntopic read {topics}/+/agentevents\n\
         pattern write {topics}/%u/agentevents\npattern read {topics}/%u/sourceevents\n"
    );
    fs::write(folder.join("acl"), rules).unwrap();
    format!(
        "cafile {}\ncertfile {}\nkeyfile {}\nrequire_certificate true\nuse_identity_as_username true\nacl_file {}\n",
        file("authority.crt"),
        file("broker.crt"),
        file("broker.key"),
        file("acl")
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn services_know_their_callers_by_certificates() {
    let Some(spread) = Spread::start().await else { return };
    let Provider { maestro, clusters_service, as_backend, as_clusters_service, .. } = &spread.provider;
    let (authority, _) = as_backend.split_at(2);
    let bundles = format!("{maestro}/api/maestro/v1/resource-bundles");
    let clusters = format!("{clusters_service}/api/clusters_mgmt/v1/clusters");
    let ask = |credentials: &[String], url: &str| {
        let credentials = credentials.iter().map(String::as_str);
        curl(&credentials.chain([url]).collect::<Vec<_>>()).map(|(status, _)| status)
    };
    // Without a certificate there is no connection; one of somebody else's is no way in.
    assert_eq!([ask(authority, &bundles), ask(authority, &clusters)], [Ok(0), Ok(0)]);
    assert_eq!([ask(as_backend, &bundles), ask(as_clusters_service, &clusters)], [Ok(403), Ok(403)]);
    assert_eq!([ask(as_clusters_service, &bundles), ask(as_backend, &clusters)], [Ok(200), Ok(200)]);
    spread.management.stop().await;
}
