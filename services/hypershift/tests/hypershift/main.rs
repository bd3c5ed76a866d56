//! The operator against a live Kubernetes API. The test plays the kubelet, the namespace controller and the gateway; the
//! hosted cluster is a live API server too, with the certificates that the operator made for it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod access;
mod faults;
mod hosted_clusters;
mod node_pools;
mod operator;
mod secrets;
mod support;
