//! Operations reach their end whatever happens to the backend on the way.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod clusters;
mod credentials;
mod external_auths;
mod fairness;
mod interruptions;
mod node_pools;
mod notifications;
mod rig;
mod sweep;
mod waiting;
