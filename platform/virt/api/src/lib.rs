//! A worker node as a process: what it reads, and the pod that runs it.
//!
//! Whoever wants a node writes one Secret, its user data, with the files that `pilothouse kubelet` reads. A machine that boots with
//! it joins its cluster; where machines are processes, a pod mounts it. The two sides that have to agree on this, the operator
//! who writes the Secret and whoever runs a virtual machine, find it here.

mod process;
mod user_data;

pub use self::process::{NodeProcess, Resources};
pub use self::user_data::{
    BOOTSTRAP_KUBECONFIG, CLIENT_AUTHORITIES, FOLDER, ROOT, SETTINGS, UserData, VALUE,
};
