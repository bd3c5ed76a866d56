//! The pod's end of its network.
//!
//! What a thread does to the network happens in the namespace of that thread. So each pod is configured by a thread of
//! its own that enters the pod's namespace, talks to the kernel there, and ends: it must not be lent to anybody else.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::thread;

use nix::sched::{CloneFlags, setns};
use rtnetlink::packet_route::neighbour::NeighbourState;
use rtnetlink::packet_route::route::RouteScope;
use rtnetlink::{LinkUnspec, RouteMessageBuilder};
use tokio::sync::oneshot;

use super::{GATEWAY, LOOPBACK, done, index, node_end};
use crate::failure::{Doing as _, Failure};

/// Configures the interface `eth0` of the namespace of a process.
pub(super) async fn configure(pod: Ipv4Addr, pid: i32) -> Result<(), Failure> {
    let (finished_tx, finished_rx) = oneshot::channel();
    thread::Builder::new()
        .name("pod-network".into())
        .stack_size(256 * 1024)
        .spawn(move || {
            // Nobody listens if the pass was given up; the next one configures anew.
            let _ = finished_tx.send(configure_here(pod, pid));
        })
        .doing(|| "starting a thread for a pod's network".into())?;
    finished_rx
        .await
        .unwrap_or_else(|_| Err(Failure::other("configuring a pod's network", "the thread ended")))
}

fn configure_here(pod: Ipv4Addr, pid: i32) -> Result<(), Failure> {
    let path = format!("/proc/{pid}/ns/net");
    let namespace = File::open(&path).doing(|| format!("opening {path}"))?;
    setns(namespace.as_fd(), CloneFlags::CLONE_NEWNET).doing(|| "entering the pod's network".into())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .doing(|| "configuring the pod's network".into())?;
    runtime.block_on(async {
        let (connection, handle, _) =
            rtnetlink::new_connection().doing(|| "talking to the kernel's network".into())?;
        let work = async {
            let up = |index| handle.link().set(LinkUnspec::new_with_index(index).up().build()).execute();
            done(up(LOOPBACK).await, || "switching on the pod's loopback".into())?;
            let index = index(&handle, "eth0")
                .await?
                .ok_or_else(|| Failure::other("finding the pod's interface", "it has vanished"))?;
            let address = handle.address().add(index, pod.into(), 32).replace();
            done(address.execute().await, || format!("giving the pod {pod}"))?;
            done(up(index).await, || "switching on the pod's interface".into())?;
            let neighbour = handle.neighbours().add(index, GATEWAY.into());
            let neighbour =
                neighbour.link_layer_address(&node_end(pod)).state(NeighbourState::Permanent).replace();
            done(neighbour.execute().await, || "naming the pod's gateway".into())?;
            let near = RouteMessageBuilder::<Ipv4Addr>::new()
                .destination_prefix(GATEWAY, 32)
                .output_interface(index)
                .scope(RouteScope::Link)
                .build();
            let far = RouteMessageBuilder::<Ipv4Addr>::new().gateway(GATEWAY).output_interface(index).build();
            for route in [near, far] {
                done(handle.route().add(route).replace().execute().await, || "routing from the pod".into())?;
            }
            Ok(())
        };
        tokio::select! {
            outcome = work => outcome,
            () = connection => Err(Failure::other("configuring a pod's network", "the kernel hung up")),
        }
    })
}
