//! Which ports a region listens on.
//!
//! All of them are known before anything is built: addresses of one part are in the configuration of others, and in files
//! that users keep. Ports that were chosen by the system are therefore written down, and a resumed region has the same ones.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;

use pilothouse_http::BindError;
use pilothouse_pki::{FileError, Visibility, write_atomically};
use serde::{Deserialize, Serialize};

/// The port of every listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ports {
    /// The resource provider's API.
    pub frontend: u16,
    /// The administrators' surface of the resource provider.
    #[serde(default = "Ports::admin")]
    pub admin: u16,
    /// Clusters Service.
    pub clusters_service: u16,
    /// Maestro's REST API.
    pub maestro: u16,
    /// Maestro's gRPC API.
    pub maestro_grpc: u16,
    /// The MQTT broker.
    pub mqtt: u16,
    /// The management cluster's API server.
    pub management: u16,
    /// Hosted API servers.
    pub gateway: u16,
    /// `hcp` to download.
    #[serde(default = "Ports::downloads")]
    pub downloads: u16,
    /// The local cloud.
    pub cloud: u16,
    /// Names of clusters, over UDP and TCP.
    #[serde(default = "Ports::dns")]
    pub dns: u16,
    /// Health, metrics and debug pages.
    pub metrics: u16,
}

/// Why the ports are not known.
#[derive(Debug, thiserror::Error)]
pub enum PortsError {
    /// The system has none to give.
    #[error("no free port on the loopback")]
    None(#[source] io::Error),
    /// The file with the ports chosen earlier cannot be read.
    #[error("the ports in `{path}` cannot be read; remove the file to have others chosen")]
    Read {
        /// The file.
        path: String,
        /// What is wrong with it.
        #[source]
        source: io::Error,
    },
    /// They cannot be written down.
    #[error("the chosen ports were not saved")]
    Save(#[from] FileError),
}

// === impl Ports ===

impl Default for Ports {
    fn default() -> Self {
        Self {
            frontend: 8443,
            admin: 8445,
            clusters_service: 8001,
            maestro: 8002,
            maestro_grpc: 8090,
            mqtt: 1883,
            management: 6443,
            gateway: 9443,
            downloads: 8446,
            cloud: 8447,
            dns: 5300,
            metrics: 9090,
        }
    }
}

impl Ports {
    /// Regions from before this surface wrote no port for it down.
    fn admin() -> u16 {
        Self::default().admin
    }

    /// Nor one for this.
    fn downloads() -> u16 {
        Self::default().downloads
    }

    /// Nor one for this.
    fn dns() -> u16 {
        Self::default().dns
    }

    /// The ports chosen for this region earlier; chosen now, and kept in `file`, if there are none.
    ///
    /// # Errors
    ///
    /// If they can neither be read nor chosen.
    pub fn ephemeral(file: &Path) -> Result<Self, PortsError> {
        match std::fs::read(file) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| PortsError::Read {
                path: file.display().to_string(),
                source: io::Error::new(io::ErrorKind::InvalidData, error),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let ports = Self::choose().map_err(PortsError::None)?;
                let text = serde_json::to_vec_pretty(&ports)
                    .map_err(|error| PortsError::None(io::Error::other(error)))?;
                write_atomically(file, &text, Visibility::Everyone)?;
                Ok(ports)
            }
            Err(source) => Err(PortsError::Read { path: file.display().to_string(), source }),
        }
    }

    /// Tells at once which port somebody else has, before anything is started that would only be stopped again. Two of the
    /// same number are in each other's way, so all are held until the last one is looked at.
    pub(crate) fn check(&self) -> Result<(), BindError> {
        let mut held = Vec::new();
        for (name, port) in self.named().into_iter().filter(|(_, port)| *port != 0) {
            let address = loopback(port);
            match TcpListener::bind(address) {
                Ok(listener) => held.push(listener),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    return Err(BindError::Taken { name: name.to_owned(), address });
                }
                // What else may be wrong with it is told by whoever needs it.
                Err(_) => {}
            }
        }
        // Names are asked for over UDP, too.
        let names = loopback(self.dns);
        match UdpSocket::bind(names) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                Err(BindError::Taken { name: "the name server".to_owned(), address: names })
            }
            _ => Ok(()),
        }
    }

    /// Each port, and what it is for.
    fn named(&self) -> [(&'static str, u16); 12] {
        [
            ("the resource provider", self.frontend),
            ("the administrators' surface", self.admin),
            ("Clusters Service", self.clusters_service),
            ("Maestro", self.maestro),
            ("Maestro's gRPC", self.maestro_grpc),
            ("the MQTT broker", self.mqtt),
            ("the management cluster", self.management),
            ("the gateway", self.gateway),
            ("downloads", self.downloads),
            ("the local cloud", self.cloud),
            ("the name server", self.dns),
            ("the region's metrics", self.metrics),
        ]
    }

    /// Free ports, all held until the last one is known so that none is given twice.
    fn choose() -> io::Result<Self> {
        let (from, to) = nobodys();
        let start = RandomState::new().hash_one(()) % u64::from(to - from).max(1);
        let start = from + u16::try_from(start).unwrap_or_default();
        let mut candidates = (start..to).chain(from..start);
        let mut held = Vec::new();
        let mut next = || -> io::Result<u16> {
            // Names are asked for over UDP, too.
            let hold =
                |port| io::Result::Ok((TcpListener::bind(loopback(port))?, UdpSocket::bind(loopback(port))?));
            let sockets = match candidates.find_map(|port| hold(port).ok()) {
                Some(sockets) => sockets,
                None => hold(0)?,
            };
            let port = sockets.0.local_addr()?.port();
            held.push(sockets);
            Ok(port)
        };
        Ok(Self {
            frontend: next()?,
            admin: next()?,
            clusters_service: next()?,
            maestro: next()?,
            maestro_grpc: next()?,
            mqtt: next()?,
            management: next()?,
            gateway: next()?,
            downloads: next()?,
            cloud: next()?,
            dns: next()?,
            metrics: next()?,
        })
    }
}

/// Ports that the system gives to nobody by itself, and Kubernetes neither. Of the others any may be taken by somebody who calls
/// somewhere while a region is down for a moment.
fn nobodys() -> (u16, u16) {
    const FIRST: u16 = 10_000;
    const NODE_PORTS: u16 = 30_000;
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let given = range.split_whitespace().next().and_then(|first| first.parse().ok());
    (FIRST, given.unwrap_or(NODE_PORTS).clamp(FIRST, NODE_PORTS))
}

/// This port on the loopback.
pub(crate) fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_ports_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ports.json");
        let chosen = Ports::ephemeral(&file).unwrap();
        assert_ne!(chosen.frontend, chosen.gateway);
        assert_eq!(Ports::ephemeral(&file).unwrap(), chosen);
    }

    #[test]
    fn chosen_ports_are_none_that_an_outgoing_connection_may_take() {
        let outgoing = TcpListener::bind(loopback(0)).unwrap().local_addr().unwrap().port();
        let (from, to) = nobodys();
        assert!(!(from..to).contains(&outgoing), "{outgoing} is in {from}..{to}");
        let chosen = Ports::choose().unwrap();
        assert!((from..to).contains(&chosen.gateway) && (from..to).contains(&chosen.dns), "{chosen:?}");
    }

    #[test]
    fn taken_port_is_told_with_who_needs_it() {
        let ports = Ports::choose().unwrap();
        ports.check().unwrap();
        for (name, port) in ports.named() {
            let holder = TcpListener::bind(loopback(port)).unwrap();
            let told = ports.check().unwrap_err().to_string();
            assert!(told.starts_with(&format!("port {port} for {name} is taken")), "{told}");
            drop(holder);
        }
        let names = UdpSocket::bind(loopback(ports.dns)).unwrap();
        assert!(ports.check().unwrap_err().to_string().contains("the name server"));
        drop(names);
        let twice = Ports { admin: ports.frontend, ..ports.clone() };
        assert!(twice.check().unwrap_err().to_string().contains("the administrators' surface"));
    }

    #[test]
    fn unreadable_file_is_an_error_and_not_a_new_choice() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ports.json");
        std::fs::write(&file, "{}").unwrap();
        assert!(matches!(Ports::ephemeral(&file), Err(PortsError::Read { .. })));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "{}");
    }
}
