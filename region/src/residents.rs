//! The region's services as the management cluster shows them.
//!
//! Architecture documents say where each service is: in which namespace, as which Deployment, behind which Service. Here all
//! of them are parts of one process, and this makes them visible there all the same, as static pods would be:
//! `kubectl logs -n maestro deployment/maestro-agent` is what that part of the process prints, and
//! `kubectl port-forward -n aro-hcp svc/aro-hcp-frontend 8443:8443` leads to where the frontend listens. The pods are on a node
//! of their own, see [`pilothouse_kubelet::residents`].

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use pilothouse_http::{Health, Verdict};
use pilothouse_kubelet::residents::{Config, Deps, Resident, Service};
use pilothouse_pki::AlternativeName;
use prometheus_client::registry::Registry;

use crate::config::Authentication;
use crate::error::Error;
use crate::ports::{Ports, loopback};
use crate::region::{KUBERNETES_VERSION, Site};

mod journal;
mod objects;

use journal::Sorter;
use objects::Objects;

/// The node of the residents.
pub(crate) const NODE_NAME: &str = "region";
/// Whether the operators' requests are answered: what of the region's health is theirs.
pub(crate) const HYPERSHIFT_MANAGEMENT: &str = "hypershift management";
pub(crate) const ENGINE_MANAGEMENT: &str = "mce management";
/// Maestro's task, by which its lines are found. Its store has another name.
pub(crate) const MAESTRO_SERVER: &str = "maestro-server";

/// A service, and where people look for it.
#[derive(Default)]
pub(crate) struct Part {
    /// Its name in this process: that of its task, and the owner of its further tasks.
    owner: &'static str,
    /// Its code.
    module: &'static str,
    namespace: &'static str,
    /// Whether people make the namespace themselves, and there is nothing to show before they have.
    namespace_is_theirs: bool,
    /// The Deployment, and the Service if it has ports.
    app: &'static str,
    container: &'static str,
    /// The verb that runs it alone.
    verb: &'static str,
    ports: Vec<Port>,
    /// What of the region's health is its own.
    checks: &'static [&'static str],
}

/// A port as documents have it, and where it is.
struct Port {
    name: &'static str,
    number: u16,
    address: SocketAddr,
}

/// Where the node of residents is asked, once that is known.
pub(crate) type Address = Arc<OnceLock<SocketAddr>>;

/// The services that documents name.
fn parts(ports: &Ports, authentication: Authentication) -> Vec<Part> {
    let port = |name, number, real| Port { name, number, address: loopback(real) };
    vec![
        Part {
            owner: "frontend",
            module: "pilothouse_frontend",
            namespace: "aro-hcp",
            app: "aro-hcp-frontend",
            container: "aro-hcp-frontend",
            verb: "frontend",
            ports: vec![port("http", 8443, ports.frontend)],
            checks: match authentication {
                // It needs nobody to answer.
                Authentication::None => &[],
                Authentication::LocalTokens => &["frontend-issuer-keys", "admin-issuer-keys"],
            },
            ..Part::default()
        },
        Part {
            owner: "backend",
            module: "pilothouse_backend",
            namespace: "aro-hcp",
            app: "aro-hcp-backend",
            container: "aro-hcp-backend",
            verb: "backend",
            checks: &["clusters-service-watch"],
            ..Part::default()
        },
        Part {
            owner: "clusters-service",
            module: "pilothouse_clusters_service",
            namespace: "cluster-service",
            app: "clusters-service",
            container: "service",
            verb: "clusters-service",
            ports: vec![port("api", 8000, ports.clusters_service)],
            checks: &["clusters-service maestro"],
            ..Part::default()
        },
        Part {
            owner: MAESTRO_SERVER,
            module: "pilothouse_maestro::server",
            namespace: "maestro",
            app: "maestro",
            container: "service",
            verb: "maestro-server",
            ports: vec![port("api", 8000, ports.maestro), port("grpc", 8090, ports.maestro_grpc)],
            checks: &["maestro-broker"],
            ..Part::default()
        },
        Part {
            owner: "maestro-agent",
            module: "pilothouse_maestro::agent",
            namespace: "maestro",
            app: "maestro-agent",
            container: "maestro-agent",
            verb: "maestro-agent",
            checks: &["maestro-agent-broker"],
            ..Part::default()
        },
        Part {
            owner: "hypershift",
            module: "pilothouse_hypershift",
            namespace: "hypershift",
            app: "operator",
            container: "operator",
            verb: "hypershift-operator",
            checks: &[HYPERSHIFT_MANAGEMENT],
            ..Part::default()
        },
        Part {
            owner: "dns",
            module: "pilothouse_dns",
            namespace: "dns",
            app: "dns",
            container: "dns",
            verb: "dns",
            ports: vec![port("dns-tcp", 5300, ports.dns)],
            checks: &["dns-records"],
            ..Part::default()
        },
        Part {
            owner: "mce",
            module: "pilothouse_mce",
            namespace: "multicluster-engine",
            namespace_is_theirs: true,
            app: "multicluster-engine-operator",
            container: "backplane-operator",
            verb: "multicluster-engine",
            checks: &[ENGINE_MANAGEMENT],
            ..Part::default()
        },
    ]
}

// === impl Part ===

impl Part {
    fn resident(&self, health: Health) -> Resident {
        let checks = self.checks;
        Resident {
            namespace: self.namespace.to_owned(),
            app: self.app.to_owned(),
            container: self.container.to_owned(),
            ports: self.ports.iter().map(|port| (port.number, port.address)).collect::<BTreeMap<_, _>>(),
            health: Arc::new(move || {
                let found = checks.iter().map(|name| {
                    let absent = || Verdict::failed(format!("`{name}` is not known yet"));
                    health.verdict(name).unwrap_or_else(absent)
                });
                // A part that ends takes the process with it: being asked is running.
                found
                    .into_iter()
                    .find(|verdict| !verdict.is_ready())
                    .unwrap_or_else(|| Verdict::ready("it runs"))
            }),
        }
    }
}

// === impl Site ===

impl Site {
    /// Opens the logs of the services, which begin to be kept with that.
    pub(crate) async fn prepare_residents(
        &self,
        registry: &mut Registry,
        address: &Address,
    ) -> Result<Residents, Error> {
        let failed = |error: pilothouse_kubelet::Error| Error::Service {
            name: "the node of the services",
            source: Box::new(error),
        };
        let serving = self.credentials.server("residents-serving", [AlternativeName::dns(NODE_NAME)?])?;
        let config = Config {
            node_name: NODE_NAME.to_owned(),
            root: self.data_dir().residents(),
            version: KUBERNETES_VERSION.to_owned(),
            tls: pilothouse_kubelet::Tls {
                certificate: serving.certificate,
                key: serving.key,
                client_authorities: self.credentials.authority_file(),
            },
        };
        let client = self.client("residents").await?;
        let parts: Arc<[Part]> = parts(&self.ports, self.config.authentication).into();
        let residents = parts.iter().map(|part| part.resident(self.health.clone())).collect();
        let deps = Deps {
            client: client.clone(),
            clock: self.clock.clone(),
            registry: registry.sub_registry_with_prefix("residents"),
        };
        let service = Service::build(config, residents, deps).await.map_err(failed)?;
        // Told once, to a region that has not asked before.
        let _ = address.set(service.address());
        self.config.journal.begin(Sorter::new(&parts, &service));
        Ok(Residents { service, objects: Objects::new(client, parts) })
    }
}

/// The node of the services, and what leads to it.
pub(crate) struct Residents {
    service: Service,
    objects: Objects,
}

// === impl Residents ===

impl Residents {
    /// Shows them from now on.
    pub(crate) fn start(self, site: &Site) {
        let Self { service, objects } = self;
        objects.spawn(site.parts.tasks());
        site.parts.run("residents", |shutdown| async move { Ok(service.run(shutdown).await?) });
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_runtime::Shutdown;

    use super::*;

    #[test]
    fn a_service_is_ready_when_all_of_its_own_checks_are() {
        let health = Health::new(Shutdown::new());
        let parts = parts(&Ports::default(), Authentication::LocalTokens);
        let residents: Vec<_> = parts.iter().map(|part| part.resident(health.clone())).collect();
        // What nobody has said yet is not taken for granted, of none of them.
        for resident in &residents {
            assert!(!(resident.health)().is_ready(), "{}", resident.app);
        }
        let ready = || -> Vec<_> {
            let ready = residents.iter().filter(|resident| (resident.health)().is_ready());
            ready.map(|resident| resident.app.as_str()).collect()
        };
        for check in ["frontend-issuer-keys", HYPERSHIFT_MANAGEMENT, ENGINE_MANAGEMENT] {
            health.register(check, || Verdict::ready("it is well"));
        }
        assert_eq!(ready(), ["operator", "multicluster-engine-operator"]);
        health.register("admin-issuer-keys", || Verdict::warning("they are old"));
        health.register(HYPERSHIFT_MANAGEMENT, || Verdict::failed("nobody answers"));
        assert_eq!(ready(), ["aro-hcp-frontend", "multicluster-engine-operator"]);
    }

    #[test]
    fn frontend_that_asks_nobody_for_tokens_needs_no_keys() {
        let health = Health::new(Shutdown::new());
        let parts = parts(&Ports::default(), Authentication::None);
        let frontend = parts.iter().find(|part| part.owner == "frontend").unwrap();
        assert!((frontend.resident(health).health)().is_ready());
    }
}
