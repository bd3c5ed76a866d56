//! The services of a region, from the bottom of the flow to its top.
//!
//! Each is built, which takes its port, before the next one, whose configuration names that port. They speak to one another
//! over their protocols only, as they would in processes of their own.

use std::error::Error as StdError;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_access::LocalIssuer;
use pilothouse_broker::Authorizer;
use pilothouse_http::{Client as HttpClient, ClientBuilder, ListenerConfig, Verdict};
use pilothouse_informer::Reachability;
use pilothouse_kubelet_api::Dialer;
use pilothouse_maestro::BrokerConfig;
use pilothouse_maestro_api::{RestClient, SourceClient};
use pilothouse_mce::Presence;
use pilothouse_records::Records;
use prometheus_client::registry::Registry;
use tokio::sync::Notify;
use url::Url;

use crate::config::Authentication;
use crate::error::Error;
use crate::kubeconfig_files::KubeconfigFiles;
use crate::names::CloudNames;
use crate::ports::loopback;
use crate::reachability;
use crate::region::Site;
use crate::residents;

/// One call between services of one machine.
const CALL: Duration = Duration::from_secs(20);
/// What the management cluster is called at Maestro, and the namespace of the works that it carries out on itself.
const CONSUMER: &str = "local-cluster";
/// What services call themselves that others may run several of. Whoever holds the data directory is the only one here.
const REPLICA: &str = "region";

impl Site {
    /// Builds every service, which takes its port, and runs it. Answers what the resource provider writes down.
    pub(crate) async fn start_services(
        &self,
        registry: &mut Registry,
        dialer: Dialer,
    ) -> Result<Records, Error> {
        let internal = self.start_gateway(registry, dialer).await?;
        self.start_hypershift(registry, internal).await?;
        self.start_virt().await?;
        self.start_mce(registry).await?;
        self.start_broker(registry).await?;
        self.start_maestro_server(registry).await?;
        self.start_maestro_agent(registry).await?;
        let names = self.start_cloud(registry).await?;
        self.start_dns(registry, names).await?;
        self.start_clusters_service(registry).await?;
        self.start_resource_provider(registry).await
    }

    async fn start_hypershift(
        &self,
        registry: &mut Registry,
        ask_address: Option<SocketAddr>,
    ) -> Result<(), Error> {
        let client = self.reporting_client("hypershift", residents::HYPERSHIFT_MANAGEMENT).await?;
        let config = pilothouse_hypershift::Config {
            publish_address: loopback(self.ports.gateway),
            ask_address,
            base_domain: self.config.base_domain.clone(),
            upstream: self.config.upstream.clone(),
            payload: self.config.payload,
            node_socket: Some(self.files().node_socket()),
            ..pilothouse_hypershift::Config::default()
        };
        let deps =
            pilothouse_hypershift::Deps { client: client.clone(), clock: self.clock.clone(), registry };
        let built = pilothouse_hypershift::Service::build(config, deps).await;
        let service = built.map_err(failed("the hosted cluster operator"))?;
        self.parts.run("hypershift", |shutdown| async move { Ok(service.run(shutdown).await?) });
        let presence = Presence::of_hypershift(client, self.clock.clone());
        self.parts.run("hypershift-presence", |shutdown| async move {
            presence.keep(shutdown).await;
            Ok(())
        });
        Ok(())
    }

    /// Virtual machines as processes, unless somebody else runs them.
    async fn start_virt(&self) -> Result<(), Error> {
        if !self.config.virtual_machines {
            return Ok(());
        }
        let deps = pilothouse_virt::Deps { client: self.client("virt").await?, clock: self.clock.clone() };
        let service = pilothouse_virt::Service::new(pilothouse_virt::Config::default(), deps);
        self.parts.run("virt", |shutdown| async move { Ok(service.run(shutdown).await?) });
        Ok(())
    }

    async fn start_mce(&self, registry: &mut Registry) -> Result<(), Error> {
        let listener = ListenerConfig::loopback(self.ports.downloads);
        let config = pilothouse_mce::Config {
            namespace: CONSUMER.to_owned(),
            api_url: Some(self.management_url()),
            downloads: Some(pilothouse_mce::Downloads {
                program: Some(hcp_of(&self.config.program)),
                ..pilothouse_mce::Downloads::new(listener, self.data_dir().downloads())
            }),
            ..pilothouse_mce::Config::default()
        };
        let client = self.reporting_client("mce", residents::ENGINE_MANAGEMENT).await?;
        let deps = pilothouse_mce::Deps { client, clock: self.clock.clone(), registry };
        let built = pilothouse_mce::Service::build(config, deps).await;
        let service = built.map_err(failed("the multicluster engine"))?;
        self.parts.run("mce", |shutdown| async move { Ok(service.run(shutdown).await?) });
        Ok(())
    }

    async fn start_broker(&self, registry: &mut Registry) -> Result<(), Error> {
        let config = pilothouse_broker::Config {
            listen: loopback(self.ports.mqtt),
            ..pilothouse_broker::Config::default()
        };
        // Plain on the loopback, where everybody is the same user.
        let deps =
            pilothouse_broker::Deps { clock: self.clock.clone(), authorizer: Authorizer::open(), registry };
        let built = pilothouse_broker::Service::build(config, deps).await;
        let service = built.map_err(failed("the MQTT broker"))?;
        self.parts.run("broker", |shutdown| async move { Ok(service.run(shutdown).await?) });
        Ok(())
    }

    async fn start_maestro_server(&self, registry: &mut Registry) -> Result<(), Error> {
        use pilothouse_maestro::server::{Config, Deps, Service, catalog};
        let config = Config {
            rest: ListenerConfig::loopback(self.ports.maestro),
            grpc: ListenerConfig::loopback(self.ports.maestro_grpc),
            broker: self.broker("maestro"),
            consumers: vec![CONSUMER.to_owned()],
            ..Config::default()
        };
        let deps = Deps {
            store: self.store("maestro", catalog()).await?,
            clock: self.clock.clone(),
            health: self.health.clone(),
            registry,
        };
        let service = Service::build(config, deps).await.map_err(failed("Maestro"))?;
        self.parts.run(residents::MAESTRO_SERVER, |shutdown| async move { Ok(service.run(shutdown).await?) });
        Ok(())
    }

    async fn start_maestro_agent(&self, registry: &mut Registry) -> Result<(), Error> {
        use pilothouse_maestro::agent::{Config, Deps, Service, catalog};
        let config = Config {
            broker: self.broker("local-cluster-work-agent-client"),
            consumer: CONSUMER.to_owned(),
            ..Config::default()
        };
        let deps = Deps {
            client: self.client("maestro-agent").await?,
            store: self.store("maestro-agent", catalog()).await?,
            clock: self.clock.clone(),
            health: self.health.clone(),
            registry,
        };
        let service = Service::build(config, deps).await.map_err(failed("Maestro's agent"))?;
        self.parts.run("maestro-agent", |shutdown| async move { Ok(service.run(shutdown).await?) });
        Ok(())
    }

    /// Answers what the names of clusters are known by.
    async fn start_cloud(&self, registry: &mut Registry) -> Result<CloudNames, Error> {
        let config = pilothouse_cloud::Config {
            listener: ListenerConfig::loopback(self.ports.cloud),
            gateway: loopback(self.ports.gateway).ip(),
            base_zone: self.base_zone(),
            ..pilothouse_cloud::Config::default()
        };
        let store = self.store("cloud", pilothouse_cloud::catalog()).await?;
        let deps = pilothouse_cloud::Deps {
            store: store.clone(),
            clock: self.clock.clone(),
            health: self.health.clone(),
            registry,
        };
        let built = pilothouse_cloud::Service::build(config, deps).await;
        let service = built.map_err(failed("the local cloud"))?;
        self.parts.run("cloud", |shutdown| async move { Ok(service.run(shutdown).await?) });
        Ok(CloudNames::new(store))
    }

    async fn start_dns(&self, registry: &mut Registry, names: CloudNames) -> Result<(), Error> {
        let listen = loopback(self.ports.dns);
        let config =
            pilothouse_dns::Config { listen, base_zone: self.base_zone(), addresses: vec![listen.ip()] };
        let deps = pilothouse_dns::Deps { source: Box::new(names), health: self.health.clone(), registry };
        let built = pilothouse_dns::Service::build(config, deps).await;
        let service = built.map_err(failed("the name server"))?;
        self.parts.run("dns", |shutdown| async move { Ok(service.run(shutdown).await?) });
        Ok(())
    }

    /// A client of the management cluster that has the region's health say whether it is answered.
    async fn reporting_client(&self, part: &str, check: &str) -> Result<kube::Client, Error> {
        let reachability = Reachability::default();
        reachability::report(&reachability, &self.health, check, Verdict::failed);
        Ok(reachability.of_part(self.client(part).await?))
    }

    /// The region's own zone, which the cloud makes, Clusters Service delegates in, and names are looked up from.
    fn base_zone(&self) -> String {
        pilothouse_arm::dns::region_zone(&self.config.base_domain).into()
    }

    async fn start_clusters_service(&self, registry: &mut Registry) -> Result<(), Error> {
        use pilothouse_clusters_service::{Config, Deps, SOURCE_ID, Service, Shard, catalog};
        const NAME: &str = "Clusters Service";
        let (maestro, grpc) = (url(self.ports.maestro), url(self.ports.maestro_grpc));
        let config = Config {
            listener: ListenerConfig::loopback(self.ports.clusters_service),
            cloud: url(self.ports.cloud),
            environment: self.config.environment.clone(),
            region: self.config.location.clone(),
            base_domain: self.config.base_domain.clone(),
            base_zone: Some(self.base_zone()),
            replica: Some(REPLICA.to_owned()),
            shards: vec![Shard {
                consumer: CONSUMER.to_owned(),
                work_namespace: CONSUMER.to_owned(),
                maestro_rest_url: maestro.clone(),
                maestro_grpc_url: grpc.clone(),
                ..Shard::default()
            }],
            ..Config::default()
        };
        let deps = Deps {
            store: self.store("clusters-service", catalog()).await?,
            clock: self.clock.clone(),
            http: http_client(NAME)?,
            maestro: RestClient::try_new(http_client(NAME)?, &maestro).map_err(failed(NAME))?,
            source: SourceClient::try_new(&grpc, SOURCE_ID, self.clock.clone()).map_err(failed(NAME))?,
            health: self.health.clone(),
            registry,
        };
        let service = Service::build(config, deps).await.map_err(failed(NAME))?;
        self.parts.run("clusters-service", |shutdown| async move { Ok(service.run(shutdown).await?) });
        Ok(())
    }

    /// Frontend and backend, which share their records.
    async fn start_resource_provider(&self, registry: &mut Registry) -> Result<Records, Error> {
        use pilothouse_clusters_service_api::Client;
        const NAME: &str = "the resource provider";
        let catalog = pilothouse_records::catalog().map_err(failed(NAME))?;
        let store = self.store("resource-provider", catalog).await?;
        let address = Url::parse(&url(self.ports.clusters_service)).map_err(failed(NAME))?;
        let client = |name| Client::try_new(http_client(name)?, &address).map_err(failed(name));

        let config = pilothouse_backend::Config {
            replica: Some(REPLICA.to_owned()),
            ..pilothouse_backend::Config::default()
        };
        let deps = pilothouse_backend::Deps {
            store: store.clone(),
            clusters_service: client("the backend")?,
            clock: self.clock.clone(),
            health: self.health.clone(),
            registry,
        };
        let built = pilothouse_backend::Service::build(config, deps).await;
        let service = built.map_err(failed("the backend"))?;
        self.parts.run("backend", |shutdown| async move { Ok(service.run(shutdown).await?) });

        let config = self.frontend()?;
        let deps = pilothouse_frontend::Deps {
            store: store.clone(),
            clusters_service: client("the frontend")?,
            clock: self.clock.clone(),
            health: self.health.clone(),
            registry,
        };
        let built = pilothouse_frontend::Service::build(config, deps).await;
        let service = built.map_err(failed("the frontend"))?;
        self.parts.run("frontend", |shutdown| async move { Ok(service.run(shutdown).await?) });
        Ok(Records::new(store))
    }

    /// Removes the kubeconfig files of clusters that are gone.
    pub(crate) fn start_kubeconfig_files(&self, written: Arc<Notify>) -> Result<(), Error> {
        use pilothouse_clusters_service_api::Client;
        const NAME: &str = "the kubeconfig files of clusters";
        let address = Url::parse(&url(self.ports.clusters_service)).map_err(failed(NAME))?;
        let client = Client::try_new(http_client(NAME)?, &address).map_err(failed(NAME))?;
        let files = KubeconfigFiles::new(self.data_dir().clone(), client, written);
        self.parts.run("kubeconfig-files", |shutdown| async move {
            files.run(shutdown).await;
            Ok(())
        });
        Ok(())
    }

    /// The frontend of a region on the local cloud, whose identities are what anybody says they are.
    fn frontend(&self) -> Result<pilothouse_frontend::Config, Error> {
        let access = match self.config.authentication {
            Authentication::None => pilothouse_access::Config::default(),
            Authentication::LocalTokens => {
                LocalIssuer::open(&self.data_dir().issuer()).map_err(failed("the issuer of tokens"))?.config()
            }
        };
        Ok(pilothouse_frontend::Config {
            listener: ListenerConfig::loopback(self.ports.frontend),
            location: self.config.location.clone(),
            operator_identities_required: false,
            identity_url: Some(url(self.ports.cloud)),
            admin: Some(pilothouse_frontend::Admin {
                listener: ListenerConfig::loopback(self.ports.admin),
                access: access.clone(),
            }),
            access,
            ..pilothouse_frontend::Config::default()
        })
    }

    fn broker(&self, client_id: &str) -> BrokerConfig {
        BrokerConfig {
            host: loopback(self.ports.mqtt).to_string(),
            client_id: client_id.to_owned(),
            ..BrokerConfig::default()
        }
    }
}

/// What users download: `hcp` beside this program, and where it was installed or built alone this program itself, which is `hcp`
/// when it is called so.
fn hcp_of(program: &Path) -> PathBuf {
    let beside = program.with_file_name("hcp");
    if beside.is_file() { beside } else { program.to_owned() }
}

fn url(port: u16) -> String {
    format!("http://{}", loopback(port))
}

fn http_client(name: &'static str) -> Result<HttpClient, Error> {
    ClientBuilder::new(CALL).build().map_err(failed(name))
}

fn failed<E: StdError + Send + Sync + 'static>(name: &'static str) -> impl Fn(E) -> Error {
    move |source| Error::Service { name, source: Box::new(source) }
}
