//! Where a proxied request goes.

use std::net::{IpAddr, SocketAddr};

use serde_json::Value;

use super::Wanted;
use super::exchange::Link;
use crate::pods::PATIENCE;
use crate::status::Failure;

/// A name in a path: `name`, `name:port` or `scheme:name:port`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named<'a> {
    pub(super) scheme: &'a str,
    pub(super) name: &'a str,
    pub(super) port: &'a str,
}

impl<'a> Named<'a> {
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let parts: Vec<_> = text.split(':').collect();
        let (scheme, name, port) = match parts.as_slice() {
            [name] => ("", *name, ""),
            [name, port] => ("", *name, *port),
            [scheme @ ("" | "http" | "https"), name, port] => (*scheme, *name, *port),
            _ => return None,
        };
        (!name.is_empty()).then_some(Self { scheme, name, port })
    }
}

impl Wanted<'_> {
    /// A connection to what is asked for, and its name as a host.
    pub(super) async fn target(&self) -> Result<(Link, String), Failure> {
        let kind = self.address.plural.as_str();
        let named = Named::parse(self.name());
        let named = named.ok_or_else(|| {
            let singular = kind.trim_end_matches('s');
            Failure::bad_request(format!("invalid {singular} request \"{}\"", self.name()))
        })?;
        if kind == "nodes" {
            let node = self.stored("nodes", named.name).await?;
            let (stream, host) = self.server.kubelets.open(&node).await?;
            return Ok((Link::Kubelet(Box::new(stream)), host));
        }
        if named.scheme == "https" {
            return Err(Failure::bad_request("only http is proxied; use port-forward for https"));
        }
        let object = self.stored(kind, named.name).await?;
        let address = match kind {
            "services" => self.endpoint(&object, named).await?,
            _ => pod_address(&object, named)?,
        };
        let dialed = tokio::time::timeout(PATIENCE, self.server.kubelets.dial(address)).await;
        let unreachable = |why: String| {
            Failure::unavailable(format!("error trying to reach {kind} \"{}\": {why}", named.name))
        };
        let stream = dialed
            .map_err(|_| unreachable("connecting took too long".to_owned()))?
            .map_err(|error| unreachable(error.to_string()))?;
        Ok((Link::Plain(stream), address.to_string()))
    }

    /// An address that serves a port of a service.
    async fn endpoint(&self, service: &Value, named: Named<'_>) -> Result<SocketAddr, Failure> {
        let ports = service["spec"]["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
        let fits = |port: &&Value| {
            (named.port.is_empty() && ports.len() == 1)
                || port["name"].as_str().unwrap_or_default() == named.port
                || port["port"].as_u64().is_some_and(|number| number.to_string() == named.port)
        };
        let Some(port) = ports.iter().find(fits) else {
            return Err(Failure::unavailable(format!(
                "no service port \"{}\" found for service \"{}\"",
                named.port, named.name
            )));
        };
        let port_name = port["name"].as_str().unwrap_or_default();
        let namespace = self.address.namespace.as_deref().unwrap_or_default();
        let prefix = format!("endpointslices.discovery.k8s.io/{namespace}/");
        let snapshot = self.server.storage.cache().snapshot(&prefix);
        let slices =
            snapshot.objects.iter().filter_map(|(_, bytes)| serde_json::from_slice::<Value>(bytes).ok());
        let mut addresses = Vec::new();
        for slice in
            slices.filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == named.name)
        {
            let of_slice = slice["ports"].as_array().into_iter().flatten();
            let number = of_slice
                .filter(|one| one["name"].as_str().unwrap_or_default() == port_name)
                .find_map(|one| u16::try_from(one["port"].as_u64()?).ok());
            let Some(number) = number else { continue };
            let ready = slice["endpoints"].as_array().into_iter().flatten();
            let ready = ready.filter(|one| one["conditions"]["ready"] != false);
            addresses.extend(ready.filter_map(|one| {
                let address: IpAddr = one["addresses"][0].as_str()?.parse().ok()?;
                Some(SocketAddr::new(address, number))
            }));
        }
        if addresses.is_empty() {
            let why = format!("no endpoints available for service \"{}\"", self.name());
            return Err(Failure::unavailable(why));
        }
        Ok(addresses[rand::random_range(..addresses.len())])
    }
}

fn pod_address(pod: &Value, named: Named<'_>) -> Result<SocketAddr, Failure> {
    let refused = || Failure::bad_request("address not allowed");
    let address: IpAddr =
        pod["status"]["podIP"].as_str().and_then(|text| text.parse().ok()).ok_or_else(refused)?;
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let mut ports = containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    let port = match named.port {
        "" => ports.next().and_then(|port| port["containerPort"].as_u64()).unwrap_or(80),
        text => match text.parse() {
            Ok(number) => number,
            Err(_) => {
                let found =
                    ports.find(|port| port["name"] == text).and_then(|port| port["containerPort"].as_u64());
                found.ok_or_else(|| {
                    Failure::bad_request(format!("invalid pod request \"{}:{text}\"", named.name))
                })?
            }
        },
    };
    let port = u16::try_from(port).ok().filter(|port| *port > 0).ok_or_else(refused)?;
    Ok(SocketAddr::new(address, port))
}
