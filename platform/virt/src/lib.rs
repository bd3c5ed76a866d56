//! Virtual machines of a cluster that has no hypervisor.
//!
//! Where KubeVirt runs, a `VirtualMachine` becomes a machine. Here it becomes a process: a `VirtualMachineInstance` and one
//! pod, whose program is a node that reads the user data of the machine and joins the cluster that it says. The machine's cores and memory
//! are what that node offers, and the most that its pod gets.
//!
//! * **The same objects.** Names, labels, phases and conditions are those of KubeVirt, so whoever wrote the machine sees no
//!   difference, apart from there being no disks and no networks besides the pod's.
//! * **One instance at a time.** A machine that is started again waits until nothing of the last instance runs: two nodes of one name
//!   would be worse than none.
//! * **It knows its place.** Where a real KubeVirt is, this must not run; a region says so in its configuration.
//!
//! # Tasks
//!
//! One watch per kind, and one controller of virtual machines.

mod config;
mod error;
mod manifests;
mod order;
mod plan;
mod service;
mod status;
mod virtual_machine;

pub use self::config::Config;
pub use self::error::Error;
pub use self::service::{Deps, Service};
