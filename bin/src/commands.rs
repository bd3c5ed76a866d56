//! The verbs, one file each: its `Args`, whose doc comment is the help text, and a `run` that carries it out.

pub mod completions;
pub mod control_plane;
pub mod down;
pub mod kubeconfig;
pub mod kubelet;
pub mod nodes;
pub mod store;
pub mod up;
pub mod version;

mod region_data;
