//! Stories of a whole region, told by the programs that people use: the `pilothouse` binary, `kubectl`, `curl`,
//! Azure's SDK.
//!
//! Each story starts a region of its own with `pilothouse up`, in a folder of its own and on ports of its own, so that all of
//! them may run side by side. What a story leaves behind is looked for at its end: processes, mounts, files.

#![expect(clippy::unwrap_used, reason = "a story that cannot go on should stop")]

mod access;
mod aftermath;
mod chart;
mod commands;
mod conformance;
mod creation_flow;
mod default_ports;
mod disorder;
mod document;
mod downloads;
mod faults;
mod first_light;
mod flow;
mod hosted_cluster;
mod isolation;
mod joined_node;
mod kills;
mod kubeconfig_elsewhere;
mod left_over;
mod lost_nodes;
mod management;
mod manifests;
mod names;
mod node_pools;
mod operators;
mod provider;
mod real;
mod region;
mod register;
mod resume;
mod shards;
mod sick_control_planes;
mod spread;
mod status;
mod tenancy;
mod upstream;
mod upstream_faults;
mod upstream_upgrades;
mod ways;
mod who_may_come;
