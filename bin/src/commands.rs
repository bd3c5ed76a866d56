//! The verbs, one file each: its `Args`, whose doc comment is the help text, and a `run` that carries it out.

pub mod backend;
pub mod broker;
pub mod cloud;
pub mod clusters_service;
pub mod completions;
pub mod control_plane;
pub mod dns;
pub mod down;
pub mod frontend;
pub mod gateway;
pub mod hold;
pub mod hypershift_operator;
pub mod kube_apiserver;
pub mod kubeconfig;
pub mod kubelet;
pub mod maestro_agent;
pub mod maestro_server;
pub mod multicluster_engine;
pub mod nodes;
pub mod operations;
pub mod status;
pub mod store;
pub mod token;
pub mod up;
pub mod upstream;
pub mod version;
pub mod virt_controller;

mod admin_surface;
mod alone;
mod images;
mod location;
mod operator;
mod peer;
mod region_data;
mod resource_provider;
mod stored;

use std::io::{self, IsTerminal as _, Write as _};

/// A line of progress.
fn say(line: &str) {
    let mut stderr = io::stderr();
    let mark = if stderr.is_terminal() { "·" } else { "-" };
    // Whoever closed standard error does not want to know.
    let _ = writeln!(stderr, "{mark} {line}");
}
