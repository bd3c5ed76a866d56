//! How an endpoint is reached.

use std::fmt::Debug;
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use pilothouse_kubelet_api::Dialer;

use crate::stream::Stream;

/// Connects to addresses of pods.
pub trait Dial: Debug + Send + Sync + 'static {
    /// A connection to this address, or one that is being made: then the first write tells whether somebody is there.
    fn dial(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Stream>>;
}

/// The way to pods: through this socket of a node of ours, or directly.
pub fn dialer(node_socket: Option<&Path>) -> Arc<dyn Dial> {
    match node_socket {
        Some(socket) => Arc::new(Dialer::new(socket.to_owned())),
        None => Arc::new(Direct),
    }
}

/// For pods in a network that this process is part of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Direct;

impl Dial for Direct {
    fn dial(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Stream>> {
        ready(Stream::connect(address)).boxed()
    }
}

/// For pods of a node in a network of its own, which hands connections out.
impl Dial for Dialer {
    fn dial(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Stream>> {
        self.connect(address).map(|connected| connected.map(Stream::from)).boxed()
    }
}
