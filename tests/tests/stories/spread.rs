//! A region whose services are processes of their own, over PostgreSQL and Mosquitto: what somebody runs who has outgrown
//! `pilothouse up`.

use std::process::Command;

use pilothouse_test_support::eventually;
use pilothouse_test_support::mosquitto::Mosquitto;
use pilothouse_test_support::postgres;
use pilothouse_test_support::process::free_port;

use crate::management::Management;
use crate::provider::{Provider, curl};
use crate::region::{LIMIT, result};

/// What the management cluster is called at Maestro.
const CONSUMER: &str = "local-cluster";

/// Such a region.
pub(crate) struct Spread {
    pub(crate) management: Management,
    pub(crate) provider: Provider,
    maestro: String,
    cloud: String,
    _broker: Mosquitto,
}

// === impl Spread ===

impl Spread {
    /// Starts every process, and waits until the frontend is ready; `None`, and said so, where a program is missing.
    pub(crate) async fn start() -> Option<Self> {
        let database = postgres::shared()?.fresh_database();
        let broker = Mosquitto::start()?;
        let mut management = Management::ours().await?;
        let [frontend, clusters_service, maestro, grpc, cloud] = [(); 5].map(|()| free_port());
        let mut service = |verb: &'static str, text: &str| {
            let schema = verb.replace('-', "_");
            // Frontend and backend share their records.
            let schema = if verb == "backend" { "frontend".to_owned() } else { schema };
            let metrics = "[metrics]\naddress = \"127.0.0.1:0\"\n";
            let config = format!(
                "store = \"{database}?schema={schema}\"\nstore_key_file = {:?}\n{metrics}{text}",
                management.path("store.key")
            );
            let config = management.write_config(verb, &config);
            management.add(verb, &["--config", &config], None);
        };
        service("cloud", &format!("[service]\nlistener = {{ address = \"127.0.0.1:{cloud}\" }}\n"));
        service(
            "maestro-server",
            &format!(
                "[service]\nconsumers = [\"{CONSUMER}\"]\nrest = {{ address = \"127.0.0.1:{maestro}\" }}\n\
                 grpc = {{ address = \"127.0.0.1:{grpc}\" }}\n\
                 [service.broker]\nhost = \"127.0.0.1:{}\"\nclient_id = \"maestro\"\n",
                broker.port()
            ),
        );
        service(
            "clusters-service",
            &format!(
                "[maestro]\nrest = {{ url = \"http://127.0.0.1:{maestro}\" }}\ngrpc = {{ url = \"http://127.0.0.1:{grpc}\" }}\n\
                 [cloud]\nurl = \"http://127.0.0.1:{cloud}\"\n\
                 [service]\nlistener = {{ address = \"127.0.0.1:{clusters_service}\" }}\nresync = \"20s\"\n"
            ),
        );
        let below = format!("[clusters_service]\nurl = \"http://127.0.0.1:{clusters_service}\"\n[service]\n");
        // What a killed one held is free after a moment.
        service("backend", &format!("{below}lease = \"2s\"\nresync = \"20s\"\n"));
        service(
            "frontend",
            &format!(
                "{below}location = \"local\"\noperator_identities_required = false\n\
                 identity_url = \"http://127.0.0.1:{cloud}\"\nlistener = {{ address = \"127.0.0.1:{frontend}\" }}\n"
            ),
        );
        let agent = format!(
            "[service]\nconsumer = \"{CONSUMER}\"\nstore = {:?}\n\
             [service.broker]\nhost = \"127.0.0.1:{}\"\nclient_id = \"{CONSUMER}-work-agent-client\"\n",
            management.path("agent.db"),
            broker.port()
        );
        management.add_operator("maestro-agent", &agent, &[]);

        let at = |port: u16| format!("http://127.0.0.1:{port}");
        let provider = Provider { frontend: at(frontend), clusters_service: at(clusters_service) };
        let spread = Self { management, provider, maestro: at(maestro), cloud: at(cloud), _broker: broker };
        spread.listens().await;
        spread.provider.register();
        Some(spread)
    }

    /// Until everybody who is asked over HTTP answers.
    pub(crate) async fn listens(&self) {
        let Provider { frontend, clusters_service } = &self.provider;
        for (who, url) in [
            ("the cloud", format!("{}/subscriptions?api-version=2021-04-01", self.cloud)),
            ("Maestro", format!("{}/api/maestro/v1/consumers", self.maestro)),
            ("Clusters Service", format!("{clusters_service}/api/clusters_mgmt/v1/clusters")),
            ("the frontend", format!("{frontend}/healthz")),
        ] {
            eventually(&format!("{who} answers"), LIMIT, || {
                let answer = curl(&[&url]).map(|(status, _)| status);
                async move {
                    if answer.as_ref().is_ok_and(|status| *status > 0) {
                        Ok(())
                    } else {
                        Err(format!("{answer:?}"))
                    }
                }
            })
            .await;
        }
    }

    /// How many bundles Maestro keeps.
    pub(crate) fn bundles(&self) -> u64 {
        let (status, bundles) =
            curl(&[&format!("{}/api/maestro/v1/resource-bundles", self.maestro)]).unwrap();
        assert_eq!(status, 200, "{bundles}");
        bundles["total"].as_u64().unwrap()
    }

    /// The resource groups of the cloud.
    pub(crate) fn resource_groups(&self, subscription: &str) -> Vec<String> {
        let url =
            format!("{}/subscriptions/{subscription}/resourcegroups?api-version=2021-04-01", self.cloud);
        let (status, groups) = curl(&[&url]).unwrap();
        assert_eq!(status, 200, "{groups}");
        groups["value"].as_array().unwrap().iter().map(|group| group["name"].to_string()).collect()
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
        let file = self.management.kubeconfig(namespace, name);
        self.management.kubectl_on(&file, arguments)
    }
}

/// Lets a process go on that was stopped.
pub(crate) fn resume(process: u32) -> Result<String, String> {
    result(&Command::new("kill").args(["-CONT", &process.to_string()]).output().unwrap())
}
