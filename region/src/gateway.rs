//! A region's gateway.
//!
//! It is configured as one that runs alone is, by the part `[service]` of the same file; except for where it listens for
//! everybody, which is one of the region's ports, and for a door of the region's own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pilothouse_gateway::{Reach, Reloader};
use pilothouse_kubelet_api::Dialer;
use pilothouse_runtime::Chain;
use pilothouse_runtime::config::{Error as ConfigError, Sources};
use prometheus_client::registry::Registry;
use serde::Deserialize;

use crate::error::Error;
use crate::ports::loopback;
use crate::region::Site;

/// A file that says how the gateway of a region behaves.
#[derive(Clone, Debug)]
pub struct GatewayFile {
    path: PathBuf,
    config: pilothouse_gateway::Config,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Contents {
    service: pilothouse_gateway::Config,
}

// === impl GatewayFile ===

impl GatewayFile {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or says something else.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let Contents { service: config } = Sources::default().file(path)?.load()?;
        Ok(Self { path: path.to_owned(), config })
    }
}

impl Site {
    /// Answers where parts of the region find it.
    pub(crate) async fn start_gateway(
        &self,
        registry: &mut Registry,
        dialer: Dialer,
    ) -> Result<Option<SocketAddr>, Error> {
        let file = self.config.gateway.clone();
        let config = arranged(file.as_ref().map(|file| file.config.clone()), self.ports.gateway);
        let management = pilothouse_gateway::Management {
            name: pilothouse_gateway::MANAGEMENT.to_owned(),
            client: self.client("gateway").await?,
            dialer: Arc::new(dialer),
        };
        let deps = pilothouse_gateway::Deps {
            management: vec![management],
            clock: self.clock.clone(),
            health: self.health.clone(),
            registry,
        };
        let built = pilothouse_gateway::Service::build(config.clone(), deps).await;
        let service =
            built.map_err(|source| Error::Service { name: "the gateway", source: Box::new(source) })?;
        if let Some(GatewayFile { path, .. }) = file {
            let (read, port) = (path.clone(), self.ports.gateway);
            let load = move || match GatewayFile::read(&read) {
                Ok(file) => Ok(arranged(Some(file.config), port)),
                Err(error) => Err(Chain(&error).to_string()),
            };
            let reloader = Reloader::new(service.handle(), config, load);
            reloader.watch(path, self.parts.tasks(), &self.health);
        }
        let internal = service.internal_address();
        self.parts.run("gateway", |shutdown| async move { Ok(service.run(shutdown).await?) });
        Ok(internal)
    }
}

/// With what a region decides itself. Its own door comes first: it is the one that parts of it are told.
fn arranged(config: Option<pilothouse_gateway::Config>, port: u16) -> pilothouse_gateway::Config {
    let mut config = config.unwrap_or_default();
    config.listen = loopback(port);
    config.listeners.insert(0, pilothouse_gateway::Listener { address: loopback(0), reach: Reach::Internal });
    config
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn file_of_a_gateway_that_runs_alone_is_one_of_a_region_and_the_region_has_its_own_door() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.toml");
        fs::write(
            &path,
            "[service]\nmax_connections = 7\n[[service.listeners]]\naddress = \"127.0.0.2:0\"\nreach = \"internal\"\n",
        )
        .unwrap();
        let config = arranged(Some(GatewayFile::read(&path).unwrap().config), 1234);
        assert_eq!((config.max_connections, config.listen), (7, loopback(1234)));
        assert_eq!(config.listeners[0].address, loopback(0), "the one that parts of the region are told");
        assert_eq!(config.listeners.len(), 2);

        fs::write(&path, "[metrics]\naddress = \"127.0.0.1:0\"\n").unwrap();
        let error = Chain(&GatewayFile::read(&path).unwrap_err()).to_string();
        assert!(error.contains("`metrics`"), "{error}");
    }
}
