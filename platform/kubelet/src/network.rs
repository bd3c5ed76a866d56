//! The network of a node: a routed /32 for every pod, and the Service range as an address of its own.
//!
//! ```text
//!   pod  eth0 10.200.0.7 ── default via 169.254.1.1 ──┐
//!                                                    veth
//!   node v0ac80007  ── 10.200.0.7/32 dev v0ac80007 ───┘
//!        lo 10.200.0.1, local 10.96.0.0/16
//! ```
//!
//! No bridge, so no limit of 1,024 ports and no address resolution: both ends of a pair have addresses that follow from
//! the pod's, and know each other's from the beginning. The Service range is local to the node: whatever a pod sends
//! there arrives at a socket of the proxy.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use futures::TryStreamExt as _;
use pilothouse_runtime::{OnExit, Tasks};
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::AddressAttribute;
use rtnetlink::packet_route::link::{InfoData, InfoVeth, LinkFlags};
use rtnetlink::packet_route::neighbour::NeighbourState;
use rtnetlink::packet_route::route::{RouteScope, RouteType};
use rtnetlink::packet_route::rule::RuleAction;
use rtnetlink::{Handle, LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::config::Isolation;
use crate::failure::{Doing as _, Failure};

mod farewells;
mod inside;
mod neighbours;
mod pool;
mod range;
mod tenants;

use farewells::Farewells;
use neighbours::Neighbour;
pub(crate) use neighbours::Neighbours;
pub(crate) use pool::Pool;
pub(crate) use range::Range;
use tenants::Tenants;

/// In every network namespace.
const LOOPBACK: u32 = 1;
/// Where pods believe their gateway to be. It exists nowhere.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
/// The kernel's table of local addresses, and the one for everything else.
const LOCAL_TABLE: u32 = 255;
const MAIN_TABLE: u32 = 254;
/// Our table for what pods may not reach, and the place of its rule: after local addresses, before everything else.
const CONFINED_TABLE: u32 = 4200;
const CONFINED_PRIORITY: u32 = 4200;

/// The node's own network. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    handle: Handle,
    node: Ipv4Addr,
    services: Range,
    farewells: Arc<Farewells>,
    /// What lies behind pods that are nodes.
    behind: Arc<Mutex<HashMap<Ipv4Addr, Range>>>,
    /// The other nodes of the cluster, by their names.
    neighbours: Arc<Mutex<HashMap<String, Neighbour>>>,
    /// Unless everybody may talk to everybody.
    tenants: Option<Arc<Tenants>>,
}

// === impl Network ===

impl Network {
    /// Talks to the kernel about the network namespace this process is in. With `range`, the node's own address is the first
    /// of it; otherwise the one that is already there.
    pub(crate) async fn open(
        tasks: &Tasks,
        own_address: Option<Ipv4Addr>,
        services: Range,
        isolation: Isolation,
    ) -> Result<Self, Failure> {
        let (connection, handle, _) =
            rtnetlink::new_connection().doing(|| "talking to the kernel's network".into())?;
        tasks.spawn("netlink", OnExit::Expendable, async move {
            connection.await;
            Ok(())
        });
        let node = match own_address {
            Some(address) => address,
            None => given_address(&handle).await?,
        };
        let tenants = (isolation == Isolation::Namespace).then(Arc::default);
        Ok(Self {
            handle,
            node,
            services,
            farewells: Arc::default(),
            behind: Arc::default(),
            neighbours: Arc::default(),
            tenants,
        })
    }

    /// Cancelled when the pod of this address goes, if it is one of this node.
    pub(crate) fn gone(&self, pod: IpAddr) -> Arc<CancellationToken> {
        self.farewells.of(pod)
    }

    /// The node's own address.
    pub(crate) fn node_address(&self) -> Ipv4Addr {
        self.node
    }

    /// Makes the namespace a node's: loopback, its own address, the Service range, forwarding between pods and nowhere else.
    pub(crate) async fn prepare(&self) -> Result<(), Failure> {
        let services = self.services;
        self.link_up(LOOPBACK).await?;
        let address = self.handle.address().add(LOOPBACK, self.node.into(), 32).replace();
        done(address.execute().await, || format!("taking the address {}", self.node))?;
        let local = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(services.first(), services.prefix())
            .output_interface(LOOPBACK)
            .table_id(LOCAL_TABLE)
            .kind(RouteType::Local)
            .scope(RouteScope::Host)
            .build();
        let route = self.handle.route().add(local).replace();
        done(route.execute().await, || format!("making {services} local"))?;
        // What comes from behind a pod that is a node has sources that only its tenant's table knows the way back to.
        for setting in ["conf/all/rp_filter", "conf/default/rp_filter"] {
            let path = format!("/proc/sys/net/ipv4/{setting}");
            std::fs::write(&path, "0").doing(|| format!("writing {path}"))?;
        }
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").doing(|| "forwarding between pods".into())
    }

    /// Lets pods of this range reach one another and this node, and beyond it only other nodes of the cluster and their pods.
    pub(crate) async fn confine(&self, pods: Range) -> Result<(), Failure> {
        let table = || RouteMessageBuilder::<Ipv4Addr>::new().table_id(CONFINED_TABLE);
        let onward = table().destination_prefix(pods.first(), pods.prefix()).kind(RouteType::Throw).build();
        let end = table().kind(RouteType::Unreachable).build();
        for route in [onward, end] {
            done(self.handle.route().add(route).replace().execute().await, || "confining pods".into())?;
        }
        let rule = self.handle.rule().add().v4().source_prefix(pods.first(), pods.prefix());
        let rule = rule.table_id(CONFINED_TABLE).priority(CONFINED_PRIORITY).action(RuleAction::ToTable);
        done(rule.execute().await, || "confining pods".into())
    }

    /// Gives the network namespace of a process an interface with this address, and routes to it. What an earlier
    /// attempt left is replaced.
    pub(crate) async fn attach(&self, pod: Ipv4Addr, pid: i32, namespace: &str) -> Result<(), Failure> {
        self.detach(pod).await?;
        self.isolate(pod, namespace).await?;
        let peer = LinkMessageBuilder::<LinkUnspec>::new()
            .name("eth0")
            .address(pod_end(pod).to_vec())
            .setns_by_pid(pid.unsigned_abs())
            .build();
        let pair = LinkMessageBuilder::<LinkVeth>::new(&interface(pod), "eth0")
            .address(node_end(pod).to_vec())
            .set_info_data(InfoData::Veth(InfoVeth::Peer(peer)))
            .up()
            .build();
        done(self.handle.link().add(pair).execute().await, || format!("making an interface for {pod}"))?;
        inside::configure(pod, pid).await?;
        let index = self
            .index(&interface(pod))
            .await?
            .ok_or_else(|| Failure::other(format!("finding the interface of {pod}"), "it has vanished"))?;
        let neighbour = self.handle.neighbours().add(index, pod.into());
        let neighbour =
            neighbour.link_layer_address(&pod_end(pod)).state(NeighbourState::Permanent).replace();
        done(neighbour.execute().await, || format!("naming the neighbour {pod}"))?;
        let route = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(pod, 32)
            .output_interface(index)
            .scope(RouteScope::Link)
            .pref_source(self.node)
            .build();
        done(self.handle.route().add(route).replace().execute().await, || format!("routing to {pod}"))
    }

    /// Removes the interface of a pod; with it goes the route.
    pub(crate) async fn detach(&self, pod: Ipv4Addr) -> Result<(), Failure> {
        if let Some(index) = self.index(&interface(pod)).await? {
            match self.handle.link().del(index).execute().await {
                // It went by itself, together with the pod's namespace.
                Err(error) if code(&error) == Some(nix::libc::ENODEV) => {}
                deleted => done(deleted, || format!("removing the interface of {pod}"))?,
            }
        }
        self.behind.lock().await.remove(&pod);
        self.release(pod).await?;
        self.farewells.tell(pod);
        Ok(())
    }

    async fn link_up(&self, index: u32) -> Result<(), Failure> {
        let message = LinkUnspec::new_with_index(index).up().build();
        done(self.handle.link().set(message).execute().await, || "switching an interface on".into())
    }

    async fn index(&self, name: &str) -> Result<Option<u32>, Failure> {
        index(&self.handle, name).await
    }
}

async fn index(handle: &Handle, name: &str) -> Result<Option<u32>, Failure> {
    let mut found = std::pin::pin!(handle.link().get().match_name(name).execute());
    match found.try_next().await {
        Ok(link) => Ok(link.map(|link| link.header.index)),
        Err(error) if code(&error) == Some(nix::libc::ENODEV) => Ok(None),
        Err(error) => Err(Failure::other(format!("looking for the interface {name}"), error)),
    }
}

/// The address this namespace was given by whoever made it.
async fn given_address(handle: &Handle) -> Result<Ipv4Addr, Failure> {
    let doing = "finding the address of this node";
    let mut up = Vec::new();
    let mut links = std::pin::pin!(handle.link().get().execute());
    while let Some(link) = links.try_next().await.map_err(|error| Failure::other(doing, error))? {
        let flags = link.header.flags;
        // Pods of an earlier kubelet have interfaces here, too, but those have no addresses.
        if flags.contains(LinkFlags::Up) && !flags.contains(LinkFlags::Loopback) {
            up.push(link.header.index);
        }
    }
    let mut addresses = std::pin::pin!(handle.address().get().execute());
    while let Some(address) = addresses.try_next().await.map_err(|error| Failure::other(doing, error))? {
        if address.header.family == AddressFamily::Inet && up.contains(&address.header.index) {
            for attribute in &address.attributes {
                if let AddressAttribute::Address(IpAddr::V4(address)) = attribute {
                    return Ok(*address);
                }
            }
        }
    }
    Err(Failure::other(doing, "there is none; set `node_address`"))
}

/// A name that follows from the address, within the fifteen letters the kernel allows.
pub(crate) fn interface(pod: Ipv4Addr) -> String {
    format!("v{:08x}", u32::from(pod))
}

/// Link-layer addresses that follow from the pod's: locally administered, and different at the two ends.
fn pod_end(pod: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = pod.octets();
    [0x0a, 0x58, a, b, c, d]
}

fn node_end(pod: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = pod.octets();
    [0x0a, 0x59, a, b, c, d]
}

/// An answer of the kernel; that something is there already is as good as having made it.
fn done(outcome: Result<(), rtnetlink::Error>, doing: impl FnOnce() -> String) -> Result<(), Failure> {
    match outcome {
        Ok(()) => Ok(()),
        Err(error) if code(&error) == Some(nix::libc::EEXIST) => Ok(()),
        Err(error) => Err(Failure::other(doing(), error)),
    }
}

fn code(error: &rtnetlink::Error) -> Option<i32> {
    match error {
        rtnetlink::Error::NetlinkError(message) => message.code.map(|code| code.get().abs()),
        _ => None,
    }
}
